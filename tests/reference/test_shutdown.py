"""A deploy: a worker that is told to stop lets its jobs end, or gives them back with their attempt."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from auditor.reference.jobs import NewJob
from auditor.reference.worker import Handlers, Job
from tests.reference.harness import Gate, Queue, process, working

SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)


@SIGNALS
def test_jobs_that_run_may_end(queue: Queue, number: signal.Signals) -> None:
    (job,) = queue.enqueue(NewJob("gate"))
    with process(queue, concurrency=2) as worker:
        assert worker.read() == "started"
        with queue.holding("SELECT pg_advisory_xact_lock(1)"):
            assert worker.read() == "at the gate"
            worker.signal(number)
            assert worker.read() == "stopping"
            (behind,) = queue.enqueue(NewJob("effect"))
        assert worker.ended() == 0
    assert queue.state(job) == ("done", 1)
    assert queue.outcomes(job) == ["done"]
    assert queue.state(behind) == ("queued", 0)  # it claimed nothing more
    assert queue.all("SELECT number FROM app.invoices") == [str(job)]


@SIGNALS
def test_jobs_that_do_not_end_are_given_back_with_their_attempt(queue: Queue, number: signal.Signals) -> None:
    jobs = queue.enqueue(NewJob("sleep"), NewJob("sleep"))
    with process(queue, concurrency=2, grace=0.3) as worker:
        assert [worker.read() for _ in range(3)] == ["started", "asleep", "asleep"]
        worker.signal(number)
        assert worker.ended() == 0
    for job in jobs:
        assert queue.state(job) == ("queued", 0)
        assert queue.outcomes(job) == ["released"]
    assert queue.one("SELECT count(*) FROM app.invoices") == 0
    assert queue.all("SELECT DISTINCT fence FROM app.jobs") == [1]  # the fence is not given back


def test_a_second_signal_does_not_wait(queue: Queue) -> None:
    (job,) = queue.enqueue(NewJob("sleep"))
    with process(queue, grace=3600) as worker:
        assert [worker.read() for _ in range(2)] == ["started", "asleep"]
        worker.signal(signal.SIGTERM)
        assert worker.read() == "stopping"
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
    assert queue.state(job) == ("queued", 0)
    assert queue.outcomes(job) == ["released"]
    assert queue.one("SELECT count(*) FROM app.invoices") == 0


def test_a_third_signal_ends_the_process_whatever_it_does(queue: Queue) -> None:
    """Where even giving back hangs: its leases end, and nothing is lost."""
    (job,) = queue.enqueue(NewJob("sleep"))
    with process(queue, grace=3600) as worker:
        assert [worker.read() for _ in range(2)] == ["started", "asleep"]
        with queue.holding("LOCK TABLE app.jobs"):
            worker.signal(signal.SIGTERM)
            assert worker.read() == "stopping"
            worker.signal(signal.SIGTERM)
            queue.backend("work", waiting="Lock")
            worker.signal(signal.SIGTERM)
            assert worker.ended() == -signal.SIGTERM
    # What the server was asked to do before, it does as soon as it can.
    queue.until("SELECT status = 'queued' FROM app.jobs")
    assert queue.state(job) == ("queued", 0)


def test_a_released_job_is_out_of_reach_for_the_run_that_had_it(queue: Queue) -> None:
    """Its handler runs on for a moment. The attempt is given back, and the fence is not."""
    handlers, gate, refused = Handlers(), Gate(), []

    @handlers.on("late", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        gate.wait()
        try:
            with job.finish() as conn:
                conn.execute("INSERT INTO app.invoices (number) VALUES ('late')")
        except BaseException as error:
            refused.append(type(error).__name__)
            raise

    (job,) = queue.enqueue(NewJob("late"))
    with working(queue, handlers, grace=0) as (worker, seen):
        gate.reached()
        worker.stop()
        seen.until("released", job)
    gate.open()
    assert queue.state(job) == ("queued", 0)
    assert queue.outcomes(job) == ["released"]
    assert queue.one("SELECT count(*) FROM app.invoices") == 0
