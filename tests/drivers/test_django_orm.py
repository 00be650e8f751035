"""The SQL that Django's ORM sends, and what the audit takes its calls for: the same tables, locks and columns."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

import django
import psycopg
import pytest
from django.conf import settings
from django.db import connection, connections, models, transaction
from django.db.models import F, Q

from auditor.timeline.model.events import Ran
from tests.drivers.test_django import database_settings
from tests.timeline.world import walked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if not settings.configured:
    settings.configure(DATABASES={"default": {}})
django.setup()


class Job(models.Model):  # type: ignore[misc]
    status = models.CharField(max_length=10, default="ready")
    attempts = models.IntegerField(default=0)
    run_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "queue"


HEAD = """\
from django.db import connection, models, transaction
from django.db.models import F, Q


class Job(models.Model):
    status = models.CharField(max_length=10, default="ready")
    attempts = models.IntegerField(default=0)
    run_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "queue"


@shared_task
def work():
    never_sent = Job.objects.select_for_update()
    with transaction.atomic():
"""

CALLS = {
    "a claim": "Job.objects.filter(status='ready').select_for_update(skip_locked=True).order_by('run_at').first()",
    "a claim that waits": "Job.objects.select_for_update().get(pk=1000)",
    "a claim of several": "list(Job.objects.filter(status='ready').select_for_update(skip_locked=True)[:5])",
    "a weaker lock": "list(Job.objects.select_for_update(no_key=True, nowait=True).filter(attempts__lt=3))",
    "a lookup of states": "list(Job.objects.filter(status__in=['ready', 'failed'], run_at__isnull=True))",
    "an exclusion": "list(Job.objects.exclude(status='done').filter(attempts__gte=1))",
    "alternatives": "list(Job.objects.filter(Q(status='ready') | Q(attempts__lt=F('id'))))",
    "an update": "Job.objects.filter(pk=1000).update(status='done')",
    "a count": "Job.objects.filter(pk=1000).update(attempts=F('attempts') + 1)",
    "a count in a query": "Job.objects.filter(status='ready', attempts__lt=5).update(attempts=F('attempts') + 1)",
    "a deletion": "Job.objects.filter(status='done').delete()",
    "an insertion": "Job.objects.create(status='ready')",
    "an object saved in part": (
        "job = Job.objects.get(pk=1000); job.status = 'done'; job.save(update_fields=['status'])"
    ),
    "an object counted": (
        "job = Job.objects.get(pk=1000); job.attempts = F('attempts') + 1; job.save(update_fields=['attempts'])"
    ),
    "an object deleted": "job = Job.objects.get(pk=1000); job.delete()",
    "raw rows": "list(Job.objects.raw('SELECT * FROM queue_job WHERE status = %s FOR UPDATE', ['ready']))",
    "a subquery": (
        "Job.objects.filter(pk__in=Job.objects.filter(status='ready').select_for_update(skip_locked=True))"
        ".update(status='run')"
    ),
}


@pytest.fixture
def jobs(database: str) -> Iterator[None]:
    from django.db.utils import ConnectionHandler

    connections["default"] = ConnectionHandler({"default": database_settings(database)})["default"]
    with connection.schema_editor() as editor:
        editor.create_model(Job)
    Job.objects.create(pk=1000)
    yield
    connection.close()


def sent(call: str) -> list[str]:
    """What Django sends, savepoints aside."""
    texts: list[str] = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        texts.append(sql)
        return execute(sql, *rest)

    with transaction.atomic(), connection.execute_wrapper(note):
        exec(call, {"Job": Job, "F": F, "Q": Q})
    return texts


def told(call: str, folder: Path) -> list[str]:
    """What the audit takes the call for."""
    body = textwrap.indent("\n".join(call.split("; ")), " " * 8)
    timeline = walked(folder, {"worker.py": HEAD + body + "\n"})
    return [ran.statement.text or ran.text for ran in timeline.of(Ran)]


def essence(text: str) -> tuple[str, str, str, frozenset[str], bool]:
    """The kind of a statement, its table, its lock, what it sets, and whether it is limited."""
    plain = text.replace('"', "")
    kind = plain.split()[0].upper()
    table = re.search(r"(?:FROM|UPDATE|INTO) (\w+)", plain)
    lock = re.findall(r"FOR (?:NO KEY )?UPDATE(?: SKIP LOCKED| NOWAIT)?", plain)
    sets = re.search(r" SET (.*?)(?: WHERE|$)", plain)
    columns = frozenset(re.findall(r"(\w+) = ", sets[1])) if sets else frozenset()
    return kind, table[1] if table else "", lock[-1] if lock else "", columns, " LIMIT " in plain


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_what_is_told_is_what_is_sent(jobs: None, tmp_path: Path, call: str) -> None:
    real = {essence(text) for text in sent(call)}
    foretold = {essence(text) for text in told(call, tmp_path)}
    # get() asks for one row more than it wants, so as to know that there is but one.
    real = {(*one[:4], one[4] and ".get(" not in call) for one in real}
    assert foretold == real


def test_a_lock_outside_of_a_transaction_is_refused(jobs: None, tmp_path: Path) -> None:
    with pytest.raises(transaction.TransactionManagementError):
        list(Job.objects.select_for_update())
    source = HEAD.replace("    with transaction.atomic():\n", "    list(Job.objects.select_for_update())\n")
    assert not list(walked(tmp_path, {"worker.py": source}).of(Ran))


def test_a_count_is_read_as_one(jobs: None, tmp_path: Path) -> None:
    call = "job = Job.objects.select_for_update(skip_locked=True).first(); job.attempts += 1; job.save()"
    assert any("attempts = attempts + 1" in text for text in told(call, tmp_path))


def test_who_is_told_of_a_deletion_is_told_before_it_is_committed(jobs: None, database: str) -> None:
    from django.db.models.signals import post_delete, post_save

    told: list[tuple[str, bool, int]] = []

    def note(signal: Any, **_: Any) -> None:
        with psycopg.connect(database) as other:
            row = other.execute("SELECT count(*) FROM queue_job").fetchone()
        assert row is not None
        told.append(("deleted" if signal is post_delete else "saved", connection.in_atomic_block, row[0]))

    for signal in (post_delete, post_save):
        signal.connect(note, sender=Job)
    try:
        Job.objects.create(pk=1001)
        Job.objects.get(pk=1001).delete()
        Job.objects.filter(pk=1000).delete()
    finally:
        for signal in (post_delete, post_save):
            signal.disconnect(note, sender=Job)
    # What was saved is there for everybody by then; what was deleted still is.
    assert told == [("saved", False, 2), ("deleted", True, 2), ("deleted", True, 1)]
