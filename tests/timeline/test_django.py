"""Django's connections on the timeline: which transaction is open where, and who comes next."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.timeline.world import codes, find

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
from django.db import connection, connections, transaction


def set_tenant(tenant, local=True):
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('app.tenant', %s, %s)", [tenant, local])


"""
LOCAL = "TA102 at worker.py:6"
SESSION = "TA101 at worker.py:6"
SETTINGS = 'DATABASES = {{"default": {{"ENGINE": "django.db.backends.postgresql", {}}}}}'

KINDS = {
    "a middleware stands outside of any transaction": (
        """
        class TenantMiddleware:
            def __call__(self, request):
                set_tenant(request.tenant)
                return self.get_response(request)
        """,
        [LOCAL],
    ),
    "unless it opens one": (
        """
        class TenantMiddleware:
            def __call__(self, request):
                with transaction.atomic():
                    set_tenant(request.tenant)
                    return self.get_response(request)
        """,
        [],
    ),
    "also with a decorator": (
        """
        class TenantMiddleware:
            @transaction.atomic
            def __call__(self, request):
                set_tenant(request.tenant)
                return self.get_response(request)
        """,
        [],
    ),
    "also on the database of that name": (
        """
        @shared_task
        @transaction.atomic(using="default")
        def work(tenant):
            set_tenant(tenant)
        """,
        [],
    ),
    "but not on another": (
        """
        @shared_task
        @transaction.atomic(using="other")
        def work(tenant):
            set_tenant(tenant)
        """,
        [LOCAL],
    ),
    "a database whose name is not known may be the default": (
        """
        @shared_task
        def work(tenant, alias):
            with transaction.atomic(using=alias):
                set_tenant(tenant)
        """,
        [],
    ),
    "a function that anybody may call stands nobody knows where": ("def work(tenant): set_tenant(tenant)", []),
    "what is deferred to the commit is outside": (
        """
        @shared_task
        def work(tenant):
            with transaction.atomic():
                transaction.on_commit(lambda: set_tenant(tenant))
        """,
        [LOCAL],
    ),
    "what a check of the transaction rules out does not happen": (
        """
        @shared_task
        def work(tenant):
            if not connection.in_atomic_block:
                raise RuntimeError("no transaction")
            set_tenant(tenant)

        @shared_task
        @transaction.atomic
        def other(tenant):
            set_tenant(tenant)
        """,
        [],
    ),
    "the connection of a task is there for the next one": (
        """
        @shared_task
        def work(tenant):
            set_tenant(tenant, False)
        """,
        [SESSION],
    ),
    "unless it is closed": (
        """
        @shared_task
        def work(tenant):
            set_tenant(tenant, False)
            connection.close()
        """,
        [],
    ),
    "or cleared, in process_response": (
        """
        class TenantMiddleware(MiddlewareMixin):
            def process_request(self, request):
                set_tenant(request.tenant, False)

            def process_response(self, request, response):
                with connection.cursor() as cursor:
                    cursor.execute("RESET app.tenant")
                return response
        """,
        [],
    ),
    "a process_response that clears something else does not": (
        """
        class TenantMiddleware(MiddlewareMixin):
            def process_request(self, request):
                set_tenant(request.tenant, False)

            def process_response(self, request, response):
                clear_context()
                return response
        """,
        [SESSION],
    ),
    "what is put back as it was found is nothing of this job's": (
        """
        @shared_task
        def work(tenant):
            with connection.cursor() as cursor:
                cursor.execute("SELECT current_setting('app.tenant', true)")
                before = cursor.fetchone()[0] or ""
            set_tenant(tenant, False)
            try:
                handle(tenant)
            finally:
                set_tenant(before, False)
        """,
        [],
    ),
    "a command that ends serves nobody else": (
        """
        from django.core.management.base import BaseCommand

        class Command(BaseCommand):
            def handle(self, *args, **options):
                set_tenant("1", False)
        """,
        [],
    ),
    "a command that turns serves the next tenant on the same connection": (
        """
        from django.core.management.base import BaseCommand

        class Command(BaseCommand):
            def handle(self, *args, **options):
                while True:
                    with connection.cursor() as cursor:
                        cursor.execute("SELECT id FROM work WHERE id = %s", [wait()])
                    set_tenant("1", False)
        """,
        [SESSION],
    ),
    "what comes behind a loop is none of its turns": (
        """
        def main():
            for tenant in tenants():
                set_tenant(tenant, False)
                handle(tenant)
            with connection.cursor() as cursor:
                cursor.execute("SELECT id FROM work")
        """,
        [],
    ),
    "a parameter in SET is put in by the client": (
        """
        @shared_task
        @transaction.atomic
        def work(tenant):
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL app.tenant = %s", [tenant])
            set_tenant(tenant)
        """,
        [],
    ),
}


@pytest.mark.parametrize(("source", "expected"), KINDS.values(), ids=KINDS.keys())
def test_kinds(tmp_path: Path, source: str, expected: list[str]) -> None:
    assert codes(tmp_path, HEAD + textwrap.dedent(source)) == expected


TASK = HEAD + "@shared_task\ndef work(tenant):\n    set_tenant(tenant, False)\n"
VIEW = HEAD + "def view(request):\n    set_tenant(request.tenant)\n"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", []),
        ('"CONN_MAX_AGE": 0', []),
        ('"CONN_MAX_AGE": 600', [SESSION]),
        ('"CONN_MAX_AGE": None', [SESSION]),
        ('"OPTIONS": {"pool": True}', [SESSION]),
        ('"OPTIONS": {"pool": {"reset": clear}}', []),
    ],
)
def test_what_keeps_a_connection_beyond_its_task(tmp_path: Path, settings: str, expected: list[str]) -> None:
    assert codes(tmp_path, TASK, settings=SETTINGS.format(settings)) == expected


@pytest.mark.parametrize(("settings", "expected"), [("", [LOCAL]), ('"ATOMIC_REQUESTS": True', [])])
def test_a_view_stands_in_a_transaction_where_settings_say_so(
    tmp_path: Path, settings: str, expected: list[str]
) -> None:
    assert codes(tmp_path, VIEW, settings=SETTINGS.format(settings)) == expected


def test_the_server_binds_where_an_option_says_so(tmp_path: Path) -> None:
    source = HEAD.replace("SELECT set_config('app.tenant', %s, %s)", "SET app.tenant = %s") + (
        "@shared_task\ndef work(tenant):\n    set_tenant(tenant)\n    connection.close()\n"
    )
    options = SETTINGS.format('"OPTIONS": {"server_side_binding": True}')
    assert [one.code for one in find(tmp_path, {"worker.py": source, "settings.py": options})] == ["TA110"]


MODELS = """
from django.db import models


class Status(models.TextChoices):
    READY = "ready", "Ready"
    DONE = "done", "Done"


class Jobs(models.QuerySet):
    def claim(self):
        return self.filter(status=Status.READY).select_for_update(skip_locked=True).order_by("run_at").first()


class Job(models.Model):
    status = models.CharField(max_length=10)
    attempts = models.IntegerField(default=0)
    run_at = models.DateTimeField()
    objects = Jobs.as_manager()
"""
COUNTED = """
from django.db import transaction
from models import Job, Status


def run():
    with transaction.atomic():
        job = Job.objects.claim()
        if job is None:
            return
        job.attempts += 1
        job.save(update_fields=["attempts"])
        handle(job)
        job.status = Status.DONE
        job.save()
"""


def test_an_attempt_that_is_counted_on_an_object_is_lost_with_its_transaction(tmp_path: Path) -> None:
    found = codes(tmp_path, COUNTED, models=MODELS)
    assert "TA301 at worker.py:12" in found
    # Counted and committed before the work, it lasts.
    good = COUNTED.replace("        handle(job)\n", "    with transaction.atomic():\n        handle(job)\n")
    assert "TA301 at worker.py:12" not in codes(tmp_path, good, models=MODELS)


def test_row_locks_that_are_no_queue_are_left_alone(tmp_path: Path) -> None:
    source = """
from django.db import transaction
from models import Job


@transaction.atomic
def pay(request, pk):
    account = Job.objects.select_for_update().get(pk=pk)
    account.attempts += 1
    account.save()
    charge(account)
"""
    claims = MODELS[MODELS.index("class Jobs") : MODELS.index("class Job(")]
    models = MODELS.replace(claims, "").replace("Jobs.as_manager", "models.Manager")
    assert codes(tmp_path, source, models=models) == []


GIVEN_TOGETHER = """
from django.db import connection


def put(name, value):
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config(%s, %s, false)", [f"app.{name}", value])


class TenantMiddleware:
    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        values = {}
        values["user_id"] = request.user.id
        values["tenant_id"] = request.tenant.id
        for name, value in values.items():
            [first]
            if value is not None:
                put(name, value)
        try:
            return self.get_response(request)
        finally:
            put("user_id", "")
            put("tenant_id", "")
"""


@pytest.mark.parametrize(
    ("first", "told"),
    [("pass", False), ("connection.cursor().execute('SELECT count(*) FROM invoices')", True)],
)
def test_what_only_sets_meets_no_row_as_somebody_else(tmp_path: Path, first: str, told: bool) -> None:
    """The first setting is there when the second is set, and no row is asked for."""
    found = find(tmp_path, {"worker.py": GIVEN_TOGETHER.replace("[first]", first)})
    assert any("next turn" in related.message for one in found for related in one.related) is told
