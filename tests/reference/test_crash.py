"""A job that ends its process: counted at the claim, so it is run three times and no more, and the queue goes on."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from auditor.reference.jobs import NewJob
from tests.reference.harness import Queue, process

if TYPE_CHECKING:
    from pathlib import Path

STEPS = [
    "after the claim",
    "in the handler",
    "in a transaction",
    "between transactions",
    "in the last transaction",
    "before the commit",
    "before the failure is counted",
]


@pytest.mark.parametrize("mode", ["exit", "wait"], ids=["os._exit", "SIGKILL"])
@pytest.mark.parametrize("step", STEPS)
def test_a_job_that_ends_its_process_is_dead_after_three(queue: Queue, tmp_path: Path, step: str, mode: str) -> None:
    ran = tmp_path / "ran"
    poison, behind = queue.enqueue(NewJob("step", {"step": step, "ran": str(ran)}), NewJob("effect"))
    for attempt in (1, 2, 3):
        with process(queue, mode, concurrency=1) as worker:
            assert worker.read() == "started"
            if mode == "wait":
                assert worker.read() == step
                worker.signal(signal.SIGKILL)
            assert worker.ended() == (1 if mode == "exit" else -signal.SIGKILL)
        assert queue.state(poison) == ("running", attempt)
        queue.expire()
    with process(queue, mode, concurrency=1) as worker:
        queue.until_ended(poison, behind)
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0

    assert queue.state(poison) == ("dead", 3)
    assert queue.outcomes(poison) == ["lost", "lost", "lost"]
    assert queue.state(behind) == ("done", 1)
    assert queue.outcomes(behind) == ["done"]
    runs = ran.read_text().split() if ran.exists() else []
    assert runs == ([] if step == "after the claim" else ["1", "2", "3"])
    assert queue.one("SELECT count(*) FROM app.invoices WHERE number = %s", str(poison)) == 0


def test_a_process_that_ends_after_the_last_commit_has_done_its_job(queue: Queue, tmp_path: Path) -> None:
    words = {"step": "after the last transaction", "ran": str(tmp_path / "ran")}
    (job,) = queue.enqueue(NewJob("step", words))
    with process(queue, "exit") as worker:
        assert worker.ended() == 1
    assert queue.state(job) == ("done", 1)
    assert queue.outcomes(job) == ["done"]
    assert queue.reap() == 0


def test_a_process_that_ends_while_it_claims_has_claimed_nothing(queue: Queue) -> None:
    """The claim is a transaction: it is there, with its count and its run, or it is not."""
    (job,) = queue.enqueue(NewJob("effect"))
    queue.admin.execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN new; END';"
        "CREATE TRIGGER wait BEFORE INSERT ON app.job_runs FOR EACH ROW EXECUTE FUNCTION wait()"
    )
    with queue.holding("SELECT pg_advisory_xact_lock(1)"), process(queue) as worker:
        queue.backend("work", waiting="Lock")
        worker.signal(signal.SIGKILL)
        assert worker.ended() == -signal.SIGKILL
    assert queue.state(job) == ("queued", 0)
    assert queue.outcomes(job) == []
