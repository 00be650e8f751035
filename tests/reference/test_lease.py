"""Who has lost the lease: nothing of what comes too late is kept, and what hangs is stopped."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from auditor.reference.jobs import HEARTBEAT, LeaseLostError, NewJob
from auditor.reference.worker import Handlers, Job
from tests.reference.harness import PATIENCE, Gate, Queue, eventually, working

INSERT = "INSERT INTO app.invoices (number) VALUES (%s)"


def late_and_next(queue: Queue, handlers: Handlers, gate: Gate) -> list[str]:
    """Let one worker come to the gate, take its job, let another run it, and only then open the gate to the first."""
    (job,) = queue.enqueue(NewJob("late"))
    with working(queue, handlers, concurrency=1) as (_, first):
        gate.reached()
        queue.expire()
        assert queue.reap() == 1
        with working(queue, handlers) as (_, second):
            second.until("done", job)
        gate.open()
        first.until("lost", job)
    assert queue.state(job) == ("done", 2)
    assert queue.outcomes(job) == ["lost", "done"]
    assert queue.job(job)["last_error"].startswith("nothing was heard of ")
    return queue.all("SELECT number FROM app.invoices ORDER BY id")


def test_a_late_finish_is_refused_and_its_writes_are_not_there(queue: Queue) -> None:
    handlers, gate = Handlers(), Gate()

    @handlers.on("late", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        with job.finish() as conn:
            conn.execute(INSERT, (f"attempt {job.attempt}",))
            if job.attempt == 1:
                gate.wait()

    # The second worker waits for no lock of the first: both write, and one of them commits.
    assert late_and_next(queue, handlers, gate) == ["attempt 2"]


def test_a_late_transaction_before_the_last_is_refused_too(queue: Queue) -> None:
    handlers, gate = Handlers(), Gate()
    refused: list[LeaseLostError] = []

    @handlers.on("late", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        try:
            with job.transaction() as conn:
                conn.execute(INSERT, (f"attempt {job.attempt}",))
                if job.attempt == 1:
                    gate.wait()
        except LeaseLostError as error:
            refused.append(error)
            raise

    assert late_and_next(queue, handlers, gate) == ["attempt 2"]
    assert len(refused) == 1


def test_a_handler_that_swallows_the_refusal_does_not_finish(queue: Queue) -> None:
    handlers, gate = Handlers(), Gate()

    @handlers.on("late", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        try:
            with job.transaction() as conn:
                conn.execute(INSERT, (f"attempt {job.attempt}",))
                if job.attempt == 1:
                    gate.wait()
        except LeaseLostError:
            pass

    assert late_and_next(queue, handlers, gate) == ["attempt 2"]


def test_a_late_failure_is_refused(queue: Queue) -> None:
    handlers, gate = Handlers(), Gate()

    @handlers.on("late", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        if job.attempt == 1:
            gate.wait()
            raise ValueError("of no interest any more")

    assert late_and_next(queue, handlers, gate) == []


def test_a_late_heartbeat_is_refused_and_stops_the_job(queue: Queue) -> None:
    """The statement that runs is ended, so the job does not even come to its finish."""
    handlers, begun = Handlers(), Gate()

    @handlers.on("long", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        with job.finish() as conn:
            conn.execute(INSERT, (str(job.attempt),))
            begun.open()
            begun.wait()
            conn.execute("SELECT pg_sleep(600)")

    (job,) = queue.enqueue(NewJob("long", max_attempts=1))
    with working(queue, handlers, lease=3) as (worker, seen):
        begun.reached()
        (run_of_it,) = worker._running()  # noqa: SLF001
        # What a reaper elsewhere does, between two heartbeats.
        queue.admin.execute("UPDATE app.jobs SET locked_until = clock_timestamp() - interval '1 second'")
        assert queue.reap() == 1
        seen.until("lost", job)
        assert run_of_it.stopped == "its lease was lost"
    assert queue.state(job) == ("dead", 1)
    assert queue.outcomes(job) == ["lost"]
    assert queue.one("SELECT count(*) FROM app.invoices") == 0


def test_no_heartbeat_revives_a_lease_that_has_ended(queue: Queue) -> None:
    handlers, gate = Handlers(), Gate()

    @handlers.on("gate", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        gate.wait()

    (job,) = queue.enqueue(NewJob("gate"))
    with working(queue, handlers):
        gate.reached()
        fence, beat = queue.job(job)["fence"], {"lease": 60, "ids": [job]}
        assert queue.admin.execute(HEARTBEAT, {**beat, "fences": [fence]}).fetchall() == [(job, fence)]
        assert queue.admin.execute(HEARTBEAT, {**beat, "fences": [fence - 1]}).fetchall() == []
        queue.expire()
        assert queue.admin.execute(HEARTBEAT, {**beat, "fences": [fence]}).fetchall() == []
        gate.open()


def test_a_hung_job_loses_its_lease_at_its_deadline(queue: Queue) -> None:
    """Its worker lives, and sends heartbeats all the time; they do not take the lease beyond."""
    handlers, hung = Handlers(), Gate()

    @handlers.on("hang", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        if job.attempt == 1:
            hung.wait()

    (job,) = queue.enqueue(NewJob("hang", time_limit=2))
    with working(queue, handlers, lease=0.9) as (worker, first):
        hung.reached()
        (run_of_it,) = worker._running()  # noqa: SLF001
        extended = (
            "SELECT locked_until > started_at + interval '1 second' FROM app.jobs, app.job_runs WHERE job_id = id"
        )
        queue.until(extended)
        assert queue.one("SELECT locked_until <= deadline FROM app.jobs")
        with working(queue, handlers, lease=0.9) as (_, second):
            eventually(lambda: "done" in first.names(job) + second.names(job))
        assert run_of_it.stopped == "its time limit is reached"
        hung.open()
        first.until("lost", job)
    assert queue.state(job) == ("done", 2)
    assert queue.outcomes(job) == ["lost", "done"]
    assert queue.one(
        "SELECT bool_and(ended_at >= started_at + interval '2 seconds') FROM app.job_runs WHERE attempt = 1"
    )


def test_the_server_ends_a_statement_at_the_deadline(queue: Queue) -> None:
    handlers = Handlers()

    @handlers.on("long", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        with job.finish() as conn:
            conn.execute(INSERT, (str(job.attempt),))
            conn.execute("SELECT pg_sleep(600)")

    (job,) = queue.enqueue(NewJob("long", max_attempts=1, time_limit=1))
    with working(queue, handlers):
        queue.until_ended(job)
    assert queue.state(job) == ("dead", 1)
    assert queue.one("SELECT count(*) FROM app.invoices") == 0
    assert "canceling statement" in queue.job(job)["last_error"]


def test_a_stalled_heartbeat_stops_its_job(queue: Queue) -> None:
    """The network answers nothing, so the worker goes by its own clock."""
    handlers, begun = Handlers(), Gate()

    @handlers.on("long", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        with job.finish() as conn:
            conn.execute(INSERT, (str(job.attempt),))
            begun.open()
            begun.wait()
            conn.execute("SELECT pg_sleep(600)")

    (job,) = queue.enqueue(NewJob("long", max_attempts=1))
    with working(queue, handlers, lease=1.5) as (worker, seen):
        begun.reached()
        (run_of_it,) = worker._running()  # noqa: SLF001
        stalled = queue.backend("heartbeat")
        os.kill(stalled, signal.SIGSTOP)
        try:
            eventually(lambda: seen.names(job)[-1] in ("dead", "lost", "reaped"), "the end of the job")
            assert run_of_it.stopped == "its lease was not extended"
        finally:
            os.kill(stalled, signal.SIGCONT)
        # A worker that only lost its job leaves it to whoever takes back what is past its lease.
        queue.until_ended(job)
    assert queue.state(job) == ("dead", 1)
    assert queue.one("SELECT count(*) FROM app.invoices") == 0


def test_a_long_job_keeps_its_lease_by_heartbeats(queue: Queue) -> None:
    """Three leases long, beside another worker that looks all the time, and run once."""
    handlers, gate = Handlers(), Gate()

    @handlers.on("long", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        gate.wait()

    (job,) = queue.enqueue(NewJob("long"))
    with working(queue, handlers, lease=0.9), working(queue, handlers, lease=0.9):
        gate.reached()
        queue.until("SELECT locked_until > started_at + interval '2.7 seconds' FROM app.jobs, app.job_runs")
        gate.open()
        queue.until_ended(job)
    assert queue.state(job) == ("done", 1)
    assert queue.outcomes(job) == ["done"]


def test_of_many_that_reap_one_reaps(queue: Queue) -> None:
    """Each lost run is taken back once, whoever looks at the same time; the fence says so."""
    jobs = queue.enqueue(*[NewJob("note") for _ in range(50)])
    queue.admin.execute(
        "UPDATE app.jobs SET status = 'running', attempts = 1, fence = 1, worker = 'w', deadline = clock_timestamp(),"
        " locked_until = clock_timestamp() - interval '1 second'"
    )
    start, reaped = threading.Barrier(4), []

    def reap() -> None:
        start.wait(PATIENCE)
        reaped.append(queue.reap())

    threads = [threading.Thread(target=reap) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sum(reaped) == len(jobs)
    assert queue.all("SELECT DISTINCT status, attempts, fence FROM app.jobs") == [("queued", 1, 2)]


@pytest.mark.parametrize("status", ["queued", "done", "dead"])
def test_the_reaper_takes_nothing_that_does_not_run(queue: Queue, status: str) -> None:
    queue.enqueue(NewJob("note"))
    queue.admin.execute(
        "UPDATE app.jobs SET status = %s, ended_at = CASE WHEN %s <> 'queued' THEN clock_timestamp() END",
        (status, status),
    )
    assert queue.reap() == 0
