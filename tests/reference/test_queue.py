"""How jobs are enqueued, found and handed to their handlers, and what is told about them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import psycopg
import pytest

from auditor.reference.jobs import Event, NewJob, Options
from auditor.reference.worker import Handlers, Job, Worker, enqueue
from tests.reference.harness import Gate, Queue, eventually, note, working


@pytest.fixture
def tenant(queue: Queue) -> Any:
    """A connection of an application, in a transaction of tenant 1."""
    with psycopg.connect(queue.dsn) as conn:
        conn.execute("SET LOCAL ROLE app_tenant")
        conn.execute("SELECT set_config('app.tenant', '1', true)")
        yield conn


def test_jobs_are_there_when_the_callers_transaction_commits(queue: Queue, tenant: psycopg.Connection[Any]) -> None:
    tenant.execute("INSERT INTO app.invoices (number) VALUES ('1')")
    enqueue(tenant, NewJob("note"))
    assert queue.one("SELECT count(*) FROM app.jobs") == 0
    tenant.commit()
    assert queue.one("SELECT count(*) FROM app.jobs") == 1


def test_jobs_are_not_there_when_it_does_not(queue: Queue, tenant: psycopg.Connection[Any]) -> None:
    enqueue(tenant, NewJob("note"))
    tenant.rollback()
    assert queue.one("SELECT count(*) FROM app.jobs") == 0


def test_a_job_is_its_transactions_tenants(queue: Queue, tenant: psycopg.Connection[Any]) -> None:
    enqueue(tenant, NewJob("note"))
    tenant.commit()
    assert queue.all("SELECT tenant_id FROM app.jobs") == [1]
    tenant.execute("SET LOCAL ROLE app_tenant")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="none is set"):
        enqueue(tenant, NewJob("note"))


def test_what_a_job_is_made_of(queue: Queue, tenant: psycopg.Connection[Any]) -> None:
    @dataclass
    class Payload:
        invoice: int
        why: str

    at = datetime(2040, 1, 1, 12, tzinfo=timezone.utc)
    plain, full, delayed = enqueue(
        tenant,
        NewJob("plain"),
        NewJob("full", Payload(7, "ünï"), key="k", priority=3, max_attempts=9, run_at=at, time_limit=0.5),
        NewJob("delayed", {"a": [1, None]}, run_at=at, delay=90),
    )
    tenant.commit()
    assert plain is not None
    assert full is not None
    assert delayed is not None
    job = queue.job(plain)
    assert (job["payload"], job["key"], job["priority"], job["max_attempts"]) == ({}, None, 1, 3)
    assert (job["status"], job["attempts"], job["time_limit"]) == ("queued", 0, timedelta(minutes=5))
    assert queue.one("SELECT run_at <= clock_timestamp() FROM app.jobs WHERE id = %s", plain)
    job = queue.job(full)
    assert (job["payload"], job["key"], job["priority"]) == ({"invoice": 7, "why": "ünï"}, "k", 3)
    assert (job["max_attempts"], job["run_at"], job["time_limit"]) == (9, at, timedelta(seconds=0.5))
    assert queue.job(delayed)["run_at"] == at + timedelta(seconds=90)
    assert queue.job(delayed)["payload"] == {"a": [1, None]}


def test_a_key_is_taken_while_its_job_is_queued_or_runs(queue: Queue) -> None:
    handlers, gate = Handlers(), Gate()

    @handlers.on("gate", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        gate.wait()

    def add(tenant: int, *jobs: NewJob) -> list[int | None]:
        with psycopg.connect(queue.dsn) as conn:
            conn.execute("SELECT set_config('app.tenant', %s, true)", (str(tenant),))
            return enqueue(conn, *jobs)

    once = NewJob("gate", key="once")
    first, again, other = add(1, once, once, NewJob("note", key="once"))
    assert (first is None, again is None, other is None) == (False, True, False)
    assert add(1, once) == [None]
    assert add(2, once) != [None]
    with working(queue, handlers):
        gate.reached(2)
        assert add(1, once) == [None]
        gate.open()
        queue.until("SELECT count(*) = 2 FROM app.jobs WHERE status = 'done'")
    assert add(1, once) != [None]


def test_a_job_enqueued_by_a_job_is_its_tenants(queue: Queue) -> None:
    handlers = Handlers()
    ran = note(handlers)

    @handlers.on("parent", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        with job.finish() as conn:
            enqueue(conn, NewJob("note"), NewJob("note"))

    queue.enqueue(NewJob("parent"), tenant=5)
    with working(queue, handlers):
        queue.until("SELECT count(*) = 3 FROM app.jobs WHERE status = 'done'")
    assert len(ran) == 2
    assert queue.all("SELECT DISTINCT tenant_id FROM app.jobs") == [5]


def test_the_order_is_by_priority_and_then_by_time(queue: Queue) -> None:
    handlers = Handlers()
    ran = note(handlers)
    jobs = queue.enqueue(*[NewJob("note", priority=priority) for priority in (0, 1, 3, 2, 3, 0)])
    with working(queue, handlers, concurrency=1):
        queue.until_ended(*jobs)
    assert ran == [jobs[at] for at in (2, 4, 3, 1, 0, 5)]


def test_a_delayed_job_is_run_when_it_is_due(queue: Queue) -> None:
    handlers = Handlers()
    ran = note(handlers)
    later, now = queue.enqueue(NewJob("note", delay=3600), NewJob("note"))
    with working(queue, handlers):
        queue.until_ended(now)
        assert queue.state(later) == ("queued", 0)
        queue.admin.execute("UPDATE app.jobs SET run_at = clock_timestamp() WHERE id = %s", (later,))
        queue.until_ended(later)
    assert ran == [now, later]


def test_kinds_without_a_handler_are_left_to_other_workers(queue: Queue) -> None:
    """During a roll-out the old workers do not know the new kinds."""
    handlers = Handlers()
    note(handlers)
    new, old = queue.enqueue(NewJob("new"), NewJob("note"))
    with working(queue, handlers):
        queue.until_ended(old)
    assert queue.state(new) == ("queued", 0)


def test_a_notification_wakes_an_idle_worker(queue: Queue) -> None:
    handlers = Handlers()
    note(handlers)
    with working(queue, handlers, poll=600, listen=True) as (_, seen):
        queue.backend("listen", waiting="")
        queue.until("SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%%' AND state = 'idle'")
        first, second = queue.enqueue(NewJob("note"), NewJob("note"), wake=True)
        seen.until("done", first)
        seen.until("done", second)
        queue.terminate(queue.backend("listen"))
        (third,) = queue.enqueue(NewJob("note"), wake=True)
        seen.until("done", third)  # it looks when it listens again


class Point(NamedTuple):
    x: int
    y: int = 0


def test_a_payload_is_what_its_handler_says(queue: Queue) -> None:
    handlers, points = Handlers(), []

    @handlers.on("point", Point)
    def run(job: Job[Point]) -> None:
        points.append(job.payload)

    jobs = queue.enqueue(NewJob("point", {"x": 1}), NewJob("point", {"z": 1}, max_attempts=1))
    with working(queue, handlers):
        queue.until_ended(*jobs)
    assert points == [Point(1)]
    assert queue.state(jobs[1]) == ("dead", 1)
    assert "unexpected keyword argument 'z'" in queue.job(jobs[1])["last_error"]


def test_two_handlers_of_one_kind_are_refused() -> None:
    handlers = Handlers()
    note(handlers)
    with pytest.raises(ValueError, match="note has a handler already"):
        note(handlers)


def test_what_a_handler_may_not_do(queue: Queue) -> None:
    handlers, told = Handlers(), []

    @handlers.on("odd", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        with job.finish():
            with pytest.raises(RuntimeError) as nested, job.transaction():
                pass
            told.append(str(nested.value))
        with pytest.raises(RuntimeError) as later, job.transaction():
            pass
        told.append(str(later.value))

    (job,) = queue.enqueue(NewJob("odd"))
    with working(queue, handlers):
        queue.until_ended(job)
        eventually(lambda: len(told) == 2)
    assert told == [
        "a job has one transaction at a time",
        "the job is finished: there is no transaction of its work after the last one",
    ]


def test_the_idempotency_key_is_the_jobs_and_not_the_attempts(queue: Queue) -> None:
    handlers, keys = Handlers(), []

    @handlers.on("pay", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        keys.append(job.idempotency_key)
        if job.attempt == 1:
            raise ValueError

    first, second = queue.enqueue(NewJob("pay"), NewJob("pay"))
    with working(queue, handlers):
        queue.until_ended(first, second)
    assert sorted(keys) == [f"pay/{first}"] * 2 + [f"pay/{second}"] * 2


def test_a_log_record_carries_the_job_the_tenant_and_the_attempt(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "app.worker")
    handlers = Handlers()

    @handlers.on("fail", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        raise ValueError("no")

    (job,) = queue.enqueue(NewJob("fail", max_attempts=2), tenant=9)
    with working(queue, handlers):
        queue.until_ended(job)
    records = [record for record in caplog.records if hasattr(record, "job")]
    found = [(vars(one)["job"], vars(one)["tenant"], vars(one)["attempt"], one.getMessage()) for one in records]
    assert found == [
        (job, "9", 1, f"fail job {job} of tenant 9, attempt 1: failed: ValueError: no"),
        (job, "9", 2, f"fail job {job} of tenant 9, attempt 2: dead: ValueError: no"),
    ]


def test_a_metric_that_fails_does_no_harm(queue: Queue) -> None:
    handlers = Handlers()
    note(handlers)

    def observe(event: Event) -> None:
        if event.name == "done":
            worker.stop()
        raise ValueError

    (job,) = queue.enqueue(NewJob("note"))
    worker = Worker(queue.worker_dsn, handlers, Options(poll=0.05), observe=observe)
    assert worker.run() == 0
    assert queue.state(job) == ("done", 1)


def test_jobs_that_are_done_are_kept_as_long_as_wanted(queue: Queue) -> None:
    """The dead are kept until somebody has looked."""
    handlers = Handlers()
    note(handlers)
    jobs = queue.enqueue(*[NewJob("note") for _ in range(5)])
    with working(queue, handlers):
        queue.until_ended(*jobs)
    queue.admin.execute("UPDATE app.jobs SET ended_at = ended_at - interval '2 days' WHERE id <> %s", (jobs[0],))
    queue.admin.execute("UPDATE app.jobs SET status = 'dead' WHERE id = %s", (jobs[1],))
    with working(queue, handlers, keep_done=86400):
        queue.until("SELECT count(*) = 2 FROM app.jobs")
    assert queue.all("SELECT id FROM app.jobs ORDER BY id") == jobs[:2]
    assert queue.all("SELECT job_id FROM app.job_runs ORDER BY job_id") == jobs[:2]
