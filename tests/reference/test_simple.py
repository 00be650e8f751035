"""The simple worker: one transaction for lock, work and finish, with the count committed before it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from auditor.reference.jobs import NewJob, Options, RefusedError
from auditor.reference.simple_worker import SimpleHandlers, SimpleWorker
from tests.reference.harness import PATIENCE, Gate, Queue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.process import BaseProcess

INSERT = "INSERT INTO app.invoices (number) VALUES (%s)"
Connection = psycopg.Connection[Any]


@contextlib.contextmanager
def working(queue: Queue, handlers: SimpleHandlers, **options: Any) -> Iterator[SimpleWorker]:
    worker = SimpleWorker(queue.worker_dsn, handlers, Options(**{"poll": 0.05, "backoff": 0, **options}))
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def writing() -> SimpleHandlers:
    """A handler that writes, and one that writes and fails."""
    handlers = SimpleHandlers()

    @handlers.on("write", dict[str, Any])
    def write(conn: Connection, payload: dict[str, Any]) -> None:
        conn.execute(INSERT, (payload["number"],))

    @handlers.on("fail", dict[str, Any])
    def fail(conn: Connection, payload: dict[str, Any]) -> None:
        conn.execute(INSERT, ("never",))
        conn.execute("SELECT 1 / 0")

    return handlers


def test_the_work_is_done_as_the_jobs_tenant_and_leaves_nothing_behind(queue: Queue) -> None:
    handlers, seen = writing(), []
    look = "SELECT current_user::text, session_user::text, current_setting('app.tenant', true)"

    @handlers.on("look", dict[str, Any])
    def watch(conn: Connection, payload: dict[str, Any]) -> None:
        seen.append(conn.execute(look).fetchone())

    jobs = queue.enqueue(NewJob("write", {"number": "1"}), NewJob("look"), tenant=3)
    with working(queue, handlers) as worker:
        queue.until_ended(*jobs)
        with worker._pool.connection() as conn:  # noqa: SLF001
            seen.append(conn.execute(look).fetchone())
    assert queue.all("SELECT tenant_id FROM app.invoices") == [3]
    assert seen == [("app_tenant", "app_worker", "3"), ("app_worker", "app_worker", "")]
    assert [queue.state(job) for job in jobs] == [("done", 1)] * 2


def test_a_job_that_always_fails_is_dead_after_three_and_the_next_runs(queue: Queue) -> None:
    poison, behind = queue.enqueue(NewJob("fail"), NewJob("write", {"number": "1"}))
    with working(queue, writing()):
        queue.until_ended(poison, behind)
    assert queue.state(poison) == ("dead", 3)
    assert queue.job(poison)["last_error"] == "DivisionByZero: division by zero"
    assert queue.state(behind) == ("done", 1)
    assert queue.all("SELECT number FROM app.invoices") == ["1"]


def test_a_failed_job_is_not_first_again_at_once(queue: Queue) -> None:
    poison, behind = queue.enqueue(NewJob("fail"), NewJob("write", {"number": "1"}))
    with working(queue, writing(), backoff=3600):
        queue.until_ended(behind)
    assert queue.state(poison) == ("queued", 1)
    assert queue.one("SELECT run_at > clock_timestamp() + interval '25 minutes' FROM app.jobs WHERE id = %s", poison)


def die(dsn: str) -> None:
    """A worker that runs one job which ends the process."""
    handlers = writing()

    @handlers.on("die", dict[str, Any])
    def end(conn: Connection, payload: dict[str, Any]) -> None:
        conn.execute(INSERT, ("never",))
        os._exit(1)

    SimpleWorker(dsn, handlers, Options(poll=0.05, backoff=0)).run()


def dying(queue: Queue) -> BaseProcess:
    process = multiprocessing.get_context("forkserver").Process(target=die, args=(queue.worker_dsn,))
    process.start()
    return process


def test_a_job_that_ends_its_process_kills_three_workers_and_no_more(queue: Queue) -> None:
    poison, behind = queue.enqueue(NewJob("die", priority=3), NewJob("write", {"number": "1"}))
    for attempt in (1, 2, 3):
        process = dying(queue)
        process.join(PATIENCE)
        assert process.exitcode == 1
        assert queue.state(poison) == ("queued", attempt)
    fourth = dying(queue)
    try:
        queue.until_ended(poison, behind)
    finally:
        fourth.terminate()
        fourth.join(PATIENCE)
    assert fourth.exitcode == 0
    assert queue.state(poison) == ("dead", 3)
    assert queue.state(behind) == ("done", 1)
    assert queue.all("SELECT number FROM app.invoices") == ["1"]


def test_a_job_that_outlasts_its_delay_is_run_once(queue: Queue) -> None:
    """It is due again while it runs. The lock on its row is what keeps the others away."""
    handlers, gate, runs = writing(), Gate(), []

    @handlers.on("long", dict[str, Any])
    def run(conn: Connection, payload: dict[str, Any]) -> None:
        runs.append(conn.info.backend_pid)
        gate.wait()

    job, other = queue.enqueue(NewJob("long"), NewJob("write", {"number": "1"}))
    # Between the claim's commit and the lock there is nothing but the delay: a slow machine needs more than none.
    with working(queue, handlers, backoff=2), working(queue, handlers, backoff=2):
        gate.reached()
        queue.until("SELECT run_at < clock_timestamp() FROM app.jobs WHERE id = %s", job)
        queue.until_ended(other)
        gate.open()
        queue.until_ended(job)
    assert len(runs) == 1
    assert queue.state(job) == ("done", 1)


def test_a_killed_connection_is_a_failure_and_the_worker_goes_on(queue: Queue) -> None:
    handlers, runs = writing(), []

    @handlers.on("killed", dict[str, Any])
    def run(conn: Connection, payload: dict[str, Any]) -> None:
        runs.append(conn.info.backend_pid)
        conn.execute(INSERT, (str(len(runs)),))
        if len(runs) == 1:
            queue.terminate(conn.info.backend_pid)
            conn.execute("SELECT 1")

    (job,) = queue.enqueue(NewJob("killed"))
    with working(queue, handlers):
        queue.until_ended(job)
    assert queue.state(job) == ("done", 2)
    assert queue.all("SELECT number FROM app.invoices") == ["2"]


def test_several_workers_run_each_job_once(queue: Queue) -> None:
    for tenant in range(1, 6):
        queue.enqueue(*[NewJob("write", {"number": str(number)}) for number in range(60)], tenant=tenant)
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(working(queue, writing(), backoff=60))
        queue.until("SELECT count(*) = 300 FROM app.jobs WHERE status = 'done'")
    assert queue.all("SELECT DISTINCT attempts FROM app.jobs") == [1]
    assert queue.all("SELECT tenant_id, count(DISTINCT number), count(*) FROM app.invoices GROUP BY 1 ORDER BY 1") == [
        (tenant, 60, 60) for tenant in range(1, 6)
    ]


def test_it_refuses_to_start_as_the_other_does(queue: Queue) -> None:
    with pytest.raises(RefusedError, match="lab is a superuser"):
        SimpleWorker(queue.dsn, writing()).run()
