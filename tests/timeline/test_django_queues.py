"""Queues that are worked off through Django: how they are written, and what is told of them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.timeline.world import find

if TYPE_CHECKING:
    from pathlib import Path

MODELS = """
from django.db import models


class JobQuerySet(models.QuerySet):
    def waiting(self):
        return self.filter(in_queue=True)

    def take(self):
        return self.select_for_update(skip_locked=True).order_by("id").first()


class JobManager(models.Manager):
    def get_queryset(self):
        return JobQuerySet(self.model, using=self._db)

    def waiting(self):
        return self.get_queryset().waiting()


class Job(models.Model):
    in_queue = models.BooleanField(default=True)
    objects = {manager}
"""

WORKER = """
from django.db import transaction
from app.models import Job


def work():
    with transaction.atomic():
        job = Job.objects.waiting().take()
        if job is not None:
            run_handler(job)
            job.delete()
"""

MANAGERS = {
    "a query set as a manager": "JobQuerySet.as_manager()",
    "a manager that makes its query set": "JobManager()",
    "a manager with the methods of a query set": "models.Manager.from_queryset(JobQuerySet)()",
    "a manager of the project's with those of a query set": "JobManager.from_queryset(JobQuerySet)()",
}


@pytest.mark.parametrize("manager", MANAGERS.values(), ids=MANAGERS.keys())
def test_a_claim_is_followed_through(tmp_path: Path, manager: str) -> None:
    files = {"app/models.py": MODELS.format(manager=manager), "app/worker.py": WORKER}
    assert codes(tmp_path, files) == ["TA302 at app/models.py:10"]


def test_a_method_that_is_inherited_is_followed_from_where_only_the_heir_is_imported(tmp_path: Path) -> None:
    files = {
        "app/base.py": """
            from django.db import connection, models


            class Base(models.Model):
                class Meta:
                    abstract = True

                @classmethod
                def take(cls):
                    return list(cls.objects.raw(
                        "DELETE FROM {table} WHERE id = (SELECT id FROM {table} ORDER BY id "
                        "FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING *".format(table=cls._meta.db_table)
                    ))
            """,
        "app/models.py": """
            from app.base import Base


            class Job(Base):
                pass
            """,
        "app/worker.py": """
            from django.db import transaction
            from app.models import Job


            class Queue:
                job_model = Job

                def run_job(self, job):
                    task = self.tasks[job.name]
                    return task(self, job)

                def run_once(self):
                    with transaction.atomic():
                        jobs = self.job_model.take()
                        if jobs:
                            return self.run_job(jobs[0])
            """,
    }
    found = [one for one in find(tmp_path, files) if one.code == "TA302"]
    assert [(one.place.path, [(way.place.path, way.place.line) for way in one.related]) for one in found] == [
        ("app/base.py", [("app/worker.py", 15), ("app/worker.py", 11), ("app/worker.py", 14)])
    ]


FLAGGED = """
from django.db import transaction
from app.models import Job


def take():
    with transaction.atomic():
        job = Job.objects.waiting().take()
        job.in_queue = False
        job.save()
    return job


def work():
    job = take()
    handler = HANDLERS.get(job.name)
    try:
        handler.handle(job)
    except Exception:
        job.in_queue = True
        job.save()
    else:
        job.delete()
"""


def test_a_column_of_truth_values_tells_the_state_of_a_job(tmp_path: Path) -> None:
    models = MODELS.format(manager="JobQuerySet.as_manager()")
    files = {"app/models.py": models, "app/worker.py": FLAGGED}
    assert codes(tmp_path, files) == ["TA401 at app/worker.py:10"]
    # What takes back those that nobody works on any more is enough.
    swept = models + "\n\ndef sweep():\n    Job.objects.filter(in_queue=False).update(in_queue=True)\n"
    assert codes(tmp_path, {**files, "app/models.py": swept}) == []


def codes(folder: Path, files: dict[str, str]) -> list[str]:
    texts = {name: textwrap.dedent(text) for name, text in files.items()}
    return [f"{one.code} at {one.place.path}:{one.place.line}" for one in find(folder, texts)]


OWN_METHODS = """
from django.db import models


class Task(models.Model):
    status = models.CharField(default="created", max_length=20)

    def take(self):
        self.status = "running"

    def end(self):
        self.status = "done"

    def put_aside(self):
        self.status = "failed"
"""

UNDER_ITS_LOCK = """
from django.db import transaction
from app.models import Task


def work():
    with transaction.atomic():
        task = Task.objects.select_for_update(skip_locked=True).filter(status="created").first()
        if task is None:
            return
        try:
            with transaction.atomic():
                run_handler(task)
        except Exception:
            task.put_aside()
            task.save()
        else:
            task.delete()
"""

MARKED = """
from django.db import transaction
from app.models import Task


def work():
    with transaction.atomic():
        task = Task.objects.select_for_update(skip_locked=True).filter(status="created").first()
        if task is None:
            return
        task.take()
        task.save()
    run_handler(task)
    task.end()
    task.save()
"""


@pytest.mark.parametrize(("worker", "codes"), [(UNDER_ITS_LOCK, []), (MARKED, ["TA401"])], ids=["failed", "taken"])
def test_what_a_row_does_to_itself_is_saved_with_it(tmp_path: Path, worker: str, codes: list[str]) -> None:
    """A method of the model that only sets attributes is followed: it is no work, and what it sets is what is saved."""
    files = {"app/__init__.py": "", "app/models.py": OWN_METHODS, "app/worker.py": worker}
    assert [one.code for one in find(tmp_path, files)] == codes


OUTBOX = """
    from datetime import timedelta

    from django.db import connection, models, transaction
    from django.db.models import Q
    from django.utils import timezone


    class Event(models.Model):
        class Status(models.TextChoices):
            PENDING = "pending"
            DISPATCHING = "dispatching"
            PUBLISHED = "published"

        status = models.CharField(max_length=20, choices=Status.choices)
        attempts = models.IntegerField(default=0)
        started_at = models.DateTimeField(null=True)


    def claim(limit):
        stale = Q(status=Event.Status.DISPATCHING, started_at__lte=timezone.now() - timedelta(minutes=5))
        with transaction.atomic():
            found = Event.objects.filter(Q(status=Event.Status.PENDING) | stale, attempts__lt=5).order_by("id")
            {locks}
            events = list(found[:limit])
            for event in events:
                event.status = Event.Status.DISPATCHING
                event.attempts += 1
                event.started_at = timezone.now()
                event.save()
        return events


    def publish(send, limit):
        for event in claim(limit):
            send(event)
            Event.objects.filter(pk=event.pk).update(status=Event.Status.PUBLISHED)
"""
LOCKS = {
    "where the database can": """if connection.features.has_select_for_update:
                found = found.select_for_update(skip_locked=connection.features.has_select_for_update_skip_locked)""",
    "always": "found = found.select_for_update(skip_locked=True)",
}


@pytest.mark.parametrize("locks", LOCKS.values(), ids=LOCKS.keys())
def test_a_part_of_a_query_that_is_locked_in_a_branch(tmp_path: Path, locks: str) -> None:
    found = find(tmp_path, {"outbox.py": textwrap.dedent(OUTBOX.replace("{locks}", locks))})
    assert {one.code for one in found if one.code in ("TA402", "TA409")} == {"TA402"}
