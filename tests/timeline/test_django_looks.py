"""Jobs that are looked for through a mapper without a lock, and what only looks like that."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.timeline.world import codes

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
from django.db import models, transaction
from django.shortcuts import render


class Job(models.Model):
    status = models.CharField(max_length=10)
    reference = models.CharField(max_length=40)
    owner = models.ForeignKey("auth.User", models.CASCADE)


class EmailMessage(models.Model):
    sent = models.BooleanField(default=False)


class Invoice(models.Model):
    sent = models.BooleanField(default=False)


"""
TAKEN_TWICE = {
    "one at a time": """
        def work():
            job = Job.objects.filter(status="pending").order_by("id").first()
            handle(job)
            job.status = "done"
            job.save()
        """,
    "several, by the name of a state": """
        class Status(models.TextChoices):
            PENDING = "pending", "Pending"
            DONE = "done", "Done"


        @shared_task
        def work():
            for job in Job.objects.filter(status=Status.PENDING)[:10]:
                handle(job)
                job.status = Status.DONE
                job.save(update_fields=["status"])
        """,
    "marked before the work": """
        def work():
            job = Job.objects.filter(status="pending").first()
            job.status = "running"
            job.save()
            handle(job)
        """,
    "mails, by whether they were sent": """
        @shared_task
        def work():
            for mail in EmailMessage.objects.filter(sent=False)[:10]:
                handle(mail)
                EmailMessage.objects.filter(pk=mail.pk).update(sent=True)
        """,
}
SILENT = {
    "mails under a lock": """
        @shared_task
        def work():
            with transaction.atomic():
                for mail in EmailMessage.objects.select_for_update(skip_locked=True).filter(sent=False)[:10]:
                    EmailMessage.objects.filter(pk=mail.pk).update(sent=True)
        """,
    "what something is sent about": """
        @shared_task
        def work():
            for invoice in Invoice.objects.filter(sent=False)[:10]:
                handle(invoice)
                Invoice.objects.filter(pk=invoice.pk).update(sent=True)
        """,
    "a mail that is sent again by hand": """
        def again(request, number):
            EmailMessage.objects.filter(pk=number).update(sent=True)
        """,
    "one that is named": """
        def paid(request, reference):
            job = Job.objects.filter(status="pending", reference=reference).first()
            job.status = "done"
            job.save()
        """,
    "somebody's": """
        def clear(request):
            for job in Job.objects.filter(status="pending", owner=request.user)[:10]:
                job.status = "done"
                job.save()
        """,
    "how many there are": """
        def done(job_id):
            left = Job.objects.filter(status="pending").count()
            Job.objects.filter(pk=job_id).update(status="done")
            return left
        """,
    "whether there is one": """
        def done(job_id):
            if Job.objects.filter(status="pending").exists():
                Job.objects.filter(pk=job_id).update(status="done")
        """,
    "a list of them": """
        def waiting(request):
            return render(request, "jobs.html", {"jobs": Job.objects.filter(status="pending")[:50]})
        """,
    "asked once more whether it is free": """
        def work():
            job = Job.objects.filter(status="pending").first()
            if Job.objects.filter(pk=job.pk, status="pending").update(status="running"):
                handle(job)
        """,
}


@pytest.mark.parametrize("source", TAKEN_TWICE.values(), ids=TAKEN_TWICE.keys())
def test_two_workers_take(tmp_path: Path, source: str) -> None:
    assert "TA409" in {one.partition(" ")[0] for one in codes(tmp_path, HEAD + textwrap.dedent(source))}


@pytest.mark.parametrize("source", SILENT.values(), ids=SILENT.keys())
def test_left_alone(tmp_path: Path, source: str) -> None:
    assert codes(tmp_path, HEAD + textwrap.dedent(source)) == []
