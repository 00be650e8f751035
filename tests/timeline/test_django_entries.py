"""Where Django and its queues of tasks begin to run a project's code, and what they run after it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.timeline.world import codes

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
from django.db import connection, transaction


def set_tenant(tenant, local=False):
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('app.tenant', %s, %s)", [tenant, local])


def clear():
    with connection.cursor() as cursor:
        cursor.execute("RESET app.tenant")


"""
SETTINGS = 'DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "CONN_MAX_AGE": 600}}'
LEAKS = {
    "a middleware that is a function": """
        def tenants(get_response):
            def middleware(request):
                set_tenant(request.tenant)
                return get_response(request)
            return middleware
        """,
    "one for both kinds of requests": """
        @sync_and_async_middleware
        def tenants(get_response):
            if iscoroutinefunction(get_response):
                async def middleware(request):
                    await sync_to_async(set_tenant)(request.tenant)
                    return await get_response(request)
            else:
                def middleware(request):
                    set_tenant(request.tenant)
                    return get_response(request)
            return middleware
        """,
    "a class of another name that is given get_response": """
        class Tenants:
            def __init__(self, get_response):
                self.get_response = get_response

            def __call__(self, request):
                set_tenant(request.tenant)
                return self.get_response(request)
        """,
    "a listener to each task": """
        @task_prerun.connect
        def before(task_id, task, *args, **kwargs):
            set_tenant(kwargs["kwargs"]["tenant"])
        """,
    "one that is connected by a call": """
        def before(task_id, task, *args, **kwargs):
            set_tenant(kwargs["kwargs"]["tenant"])

        task_prerun.connect(before)
        """,
    "a class of tasks": """
        from celery import Task

        class TenantTask(Task):
            def __call__(self, *args, **kwargs):
                set_tenant(kwargs["tenant"])
                return self.run(*args, **kwargs)
        """,
    "a middleware of actors": """
        import dramatiq

        class Tenants(dramatiq.Middleware):
            def before_process_message(self, broker, message):
                set_tenant(message.options["tenant"])
        """,
    "a view of the REST framework": """
        from rest_framework import viewsets

        class Invoices(viewsets.ModelViewSet):
            def initial(self, request, *args, **kwargs):
                super().initial(request, *args, **kwargs)
                set_tenant(request.user.tenant)
        """,
    "a connection that is opened": """
        from django.db.backends.signals import connection_created
        from django.dispatch import receiver

        @receiver(connection_created)
        def opened(sender, connection, **kwargs):
            with connection.cursor() as cursor:
                cursor.execute("SET app.tenant = %s", [current_tenant()])
        """,
}
CLEARED = {
    "by a listener to the end of each task": """
        @task_prerun.connect
        def before(task_id, task, *args, **kwargs):
            set_tenant(kwargs["kwargs"]["tenant"])

        @task_postrun.connect
        def after(task_id, task, *args, **kwargs):
            clear()
        """,
    "by one that is connected by a call, whatever sets it": """
        @shared_task
        def bill(tenant):
            set_tenant(tenant)

        def after(**kwargs):
            clear()

        task_postrun.connect(after)
        """,
    "by the same middleware of actors": """
        import dramatiq

        class Tenants(dramatiq.Middleware):
            def before_process_message(self, broker, message):
                set_tenant(message.options["tenant"])

            def after_process_message(self, broker, message, *, result=None, exception=None):
                clear()
        """,
    "once the request is over": """
        class TenantMiddleware:
            def __call__(self, request):
                set_tenant(request.tenant)
                return self.get_response(request)

        @receiver(request_finished)
        def over(sender, **kwargs):
            clear()
        """,
    "around what process_view belongs to": """
        class TenantMiddleware:
            def __call__(self, request):
                try:
                    return self.get_response(request)
                finally:
                    clear()

            def process_view(self, request, view, args, kwargs):
                set_tenant(request.tenant)
        """,
    "by a middleware that is a function": """
        def tenants(get_response):
            def middleware(request):
                set_tenant(request.tenant)
                try:
                    return get_response(request)
                finally:
                    clear()
            return middleware
        """,
    "where all connections are given the same": """
        from django.db.backends.signals import connection_created
        from django.dispatch import receiver

        @receiver(connection_created)
        def opened(sender, connection, **kwargs):
            with connection.cursor() as cursor:
                cursor.execute("SET app.tenant = 'nobody'")
        """,
}


@pytest.mark.parametrize("source", LEAKS.values(), ids=LEAKS.keys())
def test_it_leaks_from(tmp_path: Path, source: str) -> None:
    found = {one.partition(" ")[0] for one in codes(tmp_path, HEAD + textwrap.dedent(source), settings=SETTINGS)}
    # Where nobody calls set_tenant() its scope is not known.
    assert found - {"TA104"} == {"TA101"}


@pytest.mark.parametrize("source", CLEARED.values(), ids=CLEARED.keys())
def test_it_is_cleared(tmp_path: Path, source: str) -> None:
    found = codes(tmp_path, HEAD + textwrap.dedent(source), settings=SETTINGS)
    assert [one for one in found if "TA104" not in one] == []


def test_a_listener_to_each_task_stands_in_no_transaction(tmp_path: Path) -> None:
    source = """
        @task_prerun.connect
        def before(task_id, task, *args, **kwargs):
            set_tenant(kwargs["kwargs"]["tenant"], True)
        """
    assert codes(tmp_path, HEAD + textwrap.dedent(source), settings=SETTINGS) == ["TA102 at worker.py:6"]
