"""Many jobs, many tenants, many workers."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from typing import Any

import pytest

from auditor.reference.jobs import NewJob
from auditor.reference.worker import Handlers, Job
from tests.reference.harness import Gate, Queue, note, process, working

TENANTS = 20
#: The most runs of one tenant that there were at any one time.
MOST_AT_ONCE = """
    SELECT max(running) FROM (
        SELECT sum(step) OVER (PARTITION BY tenant_id ORDER BY at, step) AS running
          FROM app.job_runs JOIN app.jobs ON job_id = id
         CROSS JOIN LATERAL (VALUES (job_runs.started_at, 1), (job_runs.ended_at, -1)) AS change (at, step)
    ) AS counted
"""


@pytest.mark.parametrize("limit", [None, 2], ids=lambda limit: f"tenant_limit={limit}")
def test_six_processes_run_each_job_once(queue: Queue, limit: int | None) -> None:
    for tenant in range(1, TENANTS + 1):
        queue.enqueue(*[NewJob("effect") for _ in range(2000 // TENANTS)], tenant=tenant)
    with ExitStack() as stack:
        workers = [
            stack.enter_context(process(queue, concurrency=4, tenant_limit=limit, lease=30, backoff=5))
            for _ in range(6)
        ]
        queue.until("SELECT count(*) = 2000 FROM app.jobs WHERE status = 'done'", patience=120)
        left: list[tuple[str | None, str]] = []
        for worker in workers:
            worker.signal(signal.SIGTERM)
            assert [worker.read() for _ in range(2)] == ["started", "stopping"]
            left += worker.read()
            assert worker.ended() == 0

    # Each job's effect exactly once, and as the job's tenant.
    assert queue.one("SELECT count(*) FROM app.invoices") == 2000
    assert (
        queue.one(
            "SELECT count(*) FROM app.invoices JOIN app.jobs ON number = jobs.id::text"
            " AND jobs.tenant_id = invoices.tenant_id"
        )
        == 2000
    )
    assert queue.all("SELECT DISTINCT status, attempts, fence FROM app.jobs") == [("done", 1, 1)]
    assert queue.all("SELECT outcome, count(*) FROM app.job_runs GROUP BY outcome") == [("done", 2000)]
    assert queue.one("SELECT count(DISTINCT worker) FROM app.job_runs") == 6
    # No connection is left with a tenant or with a role.
    assert len(left) >= 6
    assert {tuple(row) for row in left} <= {("", "app_worker"), (None, "app_worker")}
    assert ("", "app_worker") in {tuple(row) for row in left}
    if limit is not None:
        assert queue.one(MOST_AT_ONCE) == limit


def test_a_noisy_tenant_does_not_hold_back_the_others(queue: Queue) -> None:
    """It came first, with a thousand jobs that do not end, and has its two places; the others have the rest."""
    handlers, gate = Handlers(), Gate()
    note(handlers)

    @handlers.on("noisy", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        gate.wait()

    noisy = queue.enqueue(*[NewJob("noisy", priority=3) for _ in range(1000)], tenant=1)
    with working(queue, handlers, tenant_limit=2, grace=0), working(queue, handlers, tenant_limit=2, grace=0):
        gate.reached(2)
        others = [
            job for tenant in range(2, 21) for job in queue.enqueue(NewJob("note"), NewJob("note"), tenant=tenant)
        ]
        queue.until_ended(*others)
        assert queue.one("SELECT count(*) FROM app.jobs WHERE status = 'running' AND tenant_id = 1") == 2
        assert queue.one("SELECT max(attempts) FROM app.jobs WHERE id = ANY (%s)", noisy) == 1
        assert queue.one("SELECT sum(attempts) FROM app.jobs WHERE id = ANY (%s)", noisy) == 2
    gate.open()
    assert queue.one(MOST_AT_ONCE) == 2


def test_without_a_bound_first_come_is_first_served(queue: Queue) -> None:
    """What the bound is there for: the noisy tenant has every place."""
    handlers, gate = Handlers(), Gate()
    note(handlers)

    @handlers.on("noisy", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        gate.wait()

    queue.enqueue(*[NewJob("noisy") for _ in range(10)], tenant=1)
    (other,) = queue.enqueue(NewJob("note"), tenant=2)
    with working(queue, handlers, concurrency=4, grace=0):
        gate.reached(4)
        assert queue.state(other) == ("queued", 0)
    gate.open()
