"""The worker for coroutines: what is its own in it, and that the rest holds there too."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import IsolationLevel

from auditor.reference.jobs import GiveUpError, NewJob, Options, RefusedError
from auditor.reference.worker_async import AsyncHandlers, AsyncJob, AsyncWorker, enqueue
from tests.reference.harness import PATIENCE, QUICK, Gate, Queue, Seen, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from auditor.lab.server import OwnServer

INSERT = "INSERT INTO app.invoices (number) VALUES (%s)"
NUMBERS = "SELECT number FROM app.invoices ORDER BY number"
Fields = dict[str, Any]


@contextlib.contextmanager
def working(queue: Queue, handlers: AsyncHandlers, **options: Any) -> Iterator[tuple[AsyncWorker, Seen]]:
    """A worker in an event loop in a thread, for as long as the block lasts."""
    seen, ended = Seen(), []
    worker = AsyncWorker(queue.worker_dsn, handlers, Options(**{**QUICK, **options}), observe=seen.append)

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        ended.append(await worker.run())

    loops: list[asyncio.AbstractEventLoop] = []
    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        yield worker, seen
    finally:
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            loops[0].call_soon_threadsafe(worker.stop)
        thread.join(PATIENCE)
    assert not thread.is_alive()
    assert ended == [0]


class AsyncGate(Gate):
    async def come(self) -> None:
        await asyncio.to_thread(self.wait)


def writing() -> AsyncHandlers:
    handlers = AsyncHandlers()

    @handlers.on("write", Fields)
    async def write(job: AsyncJob[Fields]) -> None:
        async with job.finish() as conn:
            await conn.execute(INSERT, (str(job.id),))

    @handlers.on("fail", Fields)
    async def fail(job: AsyncJob[Fields]) -> None:
        async with job.finish() as conn:
            await conn.execute(INSERT, ("never",))
            await conn.execute("SELECT 1 / 0")

    @handlers.on("give up", Fields)
    async def give_up(job: AsyncJob[Fields]) -> None:
        raise GiveUpError("no")

    @handlers.on("nothing", Fields)
    async def do_nothing(job: AsyncJob[Fields]) -> None:
        pass

    return handlers


def test_jobs_end_as_they_should(queue: Queue) -> None:
    jobs = queue.enqueue(NewJob("fail"), NewJob("write"), NewJob("nothing"), NewJob("give up"), tenant=4)
    with working(queue, writing()) as (_, seen):
        queue.until_ended(*jobs)
        eventually(lambda: len(seen.names()) == 12)
    assert [queue.state(job) for job in jobs] == [("dead", 3), ("done", 1), ("done", 1), ("dead", 1)]
    assert queue.outcomes(jobs[0]) == ["failed"] * 3
    assert seen.names(jobs[0]) == ["claimed", "failed"] * 2 + ["claimed", "dead"]
    assert queue.all("SELECT tenant_id, number FROM app.invoices") == [(4, str(jobs[1]))]


def test_each_transaction_of_the_work_has_the_tenant_and_its_role(queue: Queue) -> None:
    handlers, seen = AsyncHandlers(), []
    look = "SELECT current_user::text, session_user::text, current_setting('app.tenant', true)"

    @handlers.on("look", Fields)
    async def run(job: AsyncJob[Fields]) -> None:
        for block in (job.transaction, job.finish):
            async with block() as conn:
                seen.append(await (await conn.execute(look)).fetchone())
        async with job.pool.connection() as conn:
            seen.append(await (await conn.execute(look)).fetchone())

    (job,) = queue.enqueue(NewJob("look"), tenant=7)
    with working(queue, handlers, concurrency=1):
        queue.until_ended(job)
        eventually(lambda: len(seen) == 3)
    assert seen == [("app_tenant", "app_worker", "7")] * 2 + [("app_worker", "app_worker", "")]


def test_a_job_enqueued_by_a_job_is_its_tenants(queue: Queue) -> None:
    handlers = writing()

    @handlers.on("parent", Fields)
    async def run(job: AsyncJob[Fields]) -> None:
        async with job.finish() as conn:
            assert len(await enqueue(conn, NewJob("nothing"), NewJob("nothing"))) == 2

    queue.enqueue(NewJob("parent"), tenant=5)
    with working(queue, handlers):
        queue.until("SELECT count(*) = 3 FROM app.jobs WHERE status = 'done'")
    assert queue.all("SELECT DISTINCT tenant_id FROM app.jobs") == [5]


@pytest.mark.parametrize("last", [True, False], ids=["last transaction", "before the last"])
def test_what_comes_too_late_is_refused(queue: Queue, last: bool) -> None:
    handlers, gate = AsyncHandlers(), AsyncGate()

    @handlers.on("late", Fields)
    async def run(job: AsyncJob[Fields]) -> None:
        async with (job.finish if last else job.transaction)() as conn:
            await conn.execute(INSERT, (f"attempt {job.attempt}",))
            if job.attempt == 1:
                await gate.come()

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
    assert queue.all(NUMBERS) == ["attempt 2"]


def test_a_hung_job_is_cancelled_at_its_deadline_and_gives_its_place_back(queue: Queue) -> None:
    handlers = writing()

    @handlers.on("hang", Fields)
    async def hang(job: AsyncJob[Fields]) -> None:
        await asyncio.Event().wait()

    hung, behind = queue.enqueue(NewJob("hang", max_attempts=1, time_limit=1), NewJob("write"))
    with working(queue, handlers, concurrency=1, lease=0.9):
        queue.until_ended(hung, behind)
    assert queue.state(hung) == ("dead", 1)
    assert queue.state(behind) == ("done", 1)
    assert queue.one("SELECT deadline IS NULL AND locked_until IS NULL FROM app.jobs WHERE id = %s", hung)


def test_a_heartbeat_that_is_refused_cancels_the_statement_that_runs(queue: Queue) -> None:
    handlers, begun = AsyncHandlers(), AsyncGate()

    @handlers.on("long", Fields)
    async def run(job: AsyncJob[Fields]) -> None:
        async with job.finish() as conn:
            await conn.execute(INSERT, (str(job.attempt),))
            begun.open()
            begun.wait()
            await conn.execute("SELECT pg_sleep(600)")

    (job,) = queue.enqueue(NewJob("long", max_attempts=1))
    with working(queue, handlers, lease=3) as (_, seen):
        begun.reached()
        queue.expire()
        assert queue.reap() == 1
        seen.until("lost", job)
        queue.until("SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
    assert queue.state(job) == ("dead", 1)
    assert queue.all(NUMBERS) == []


def test_a_stalled_heartbeat_stops_its_job(queue: Queue) -> None:
    handlers, begun = AsyncHandlers(), AsyncGate()

    @handlers.on("long", Fields)
    async def run(job: AsyncJob[Fields]) -> None:
        async with job.finish() as conn:
            await conn.execute(INSERT, (str(job.attempt),))
            begun.open()
            begun.wait()
            await conn.execute("SELECT pg_sleep(600)")

    (job,) = queue.enqueue(NewJob("long", max_attempts=1))
    with working(queue, handlers, lease=1.5) as (_, seen):
        begun.reached()
        stalled = queue.backend("heartbeat")
        os.kill(stalled, signal.SIGSTOP)
        try:
            eventually(lambda: seen.names(job)[-1] in ("dead", "lost", "reaped"), "the end of the job")
        finally:
            os.kill(stalled, signal.SIGCONT)
    assert queue.state(job) == ("dead", 1)
    assert queue.all(NUMBERS) == []


def test_a_long_job_keeps_its_lease_by_heartbeats(queue: Queue) -> None:
    handlers, gate = AsyncHandlers(), AsyncGate()

    @handlers.on("long", Fields)
    async def run(job: AsyncJob[Fields]) -> None:
        await gate.come()

    (job,) = queue.enqueue(NewJob("long"))
    with working(queue, handlers, lease=0.9), working(queue, handlers, lease=0.9):
        gate.reached()
        queue.until("SELECT locked_until > started_at + interval '2.7 seconds' FROM app.jobs, app.job_runs")
        gate.open()
        queue.until_ended(job)
    assert queue.outcomes(job) == ["done"]


def test_failures_of_the_database_are_counted_and_tried_again(queue: Queue) -> None:
    handlers, both = AsyncHandlers(), []

    @handlers.on("sum", Fields)
    async def total(job: AsyncJob[Fields]) -> None:
        async with job.finish(IsolationLevel.SERIALIZABLE) as conn:
            row = await (await conn.execute("SELECT count(*) FROM app.invoices")).fetchone()
            both.append(job.id)
            while len(both) < 2:
                await asyncio.sleep(0.01)
            assert row is not None
            await conn.execute(INSERT, (f"after {row[0]}",))

    @handlers.on("killed", Fields)
    async def die(job: AsyncJob[Fields]) -> None:
        async with job.finish() as conn:
            await conn.execute(INSERT, (f"killed {job.attempt}",))
            if job.attempt == 1:
                await asyncio.to_thread(queue.terminate, conn.info.backend_pid)
            await conn.execute("SELECT 1")

    jobs = queue.enqueue(NewJob("sum"), NewJob("sum"))
    with working(queue, handlers):
        queue.until_ended(*jobs)
        (killed,) = queue.enqueue(NewJob("killed"))
        queue.until("SELECT status = 'done' FROM app.jobs WHERE kind = 'killed'")
    assert sorted(queue.state(job) for job in jobs) == [("done", 1), ("done", 2)]
    assert queue.all(
        "SELECT error LIKE 'SerializationFailure%%' FROM app.job_runs WHERE job_id = ANY (%s) AND outcome = 'failed'",
        jobs,
    ) == [True]
    assert queue.state(killed) == ("done", 2)
    assert queue.all(NUMBERS) == ["after 0", "after 1", "killed 2"]


def test_a_server_that_is_restarted_while_the_worker_is_busy(queue: Queue, postgres: OwnServer) -> None:
    handlers, gate = writing(), AsyncGate()

    @handlers.on("outside", Fields)
    async def call(job: AsyncJob[Fields]) -> None:
        await gate.come()
        async with job.finish() as conn:
            await conn.execute(INSERT, (f"outside {job.attempt}",))

    (job,) = queue.enqueue(NewJob("outside"))
    with working(queue, handlers, concurrency=2):
        gate.reached()
        postgres.restart()
        queue.reconnect()
        later = queue.enqueue(*[NewJob("write") for _ in range(20)])
        gate.open()
        queue.until_ended(job, *later)
    assert queue.state(job) == ("done", 1)
    assert queue.all("SELECT DISTINCT attempts, status FROM app.jobs") == [(1, "done")]


def test_the_bound_of_a_tenant_holds(queue: Queue) -> None:
    handlers, gate = writing(), AsyncGate()

    @handlers.on("noisy", Fields)
    async def run(job: AsyncJob[Fields]) -> None:
        await gate.come()

    queue.enqueue(*[NewJob("noisy", priority=3) for _ in range(100)], tenant=1)
    with working(queue, handlers, tenant_limit=2, grace=0), working(queue, handlers, tenant_limit=2, grace=0):
        gate.reached(2)
        others = [job for tenant in range(2, 12) for job in queue.enqueue(NewJob("write"), tenant=tenant)]
        queue.until_ended(*others)
        assert queue.one("SELECT sum(attempts) FROM app.jobs WHERE tenant_id = 1") == 2
        gate.open()


def test_a_notification_wakes_an_idle_worker(queue: Queue) -> None:
    with working(queue, writing(), poll=600, listen=True) as (_, seen):
        queue.until("SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%%' AND state = 'idle'")
        (job,) = queue.enqueue(NewJob("write"), wake=True)
        seen.until("done", job)


def test_it_refuses_to_start_as_the_other_does(queue: Queue) -> None:
    with pytest.raises(RefusedError, match="lab is a superuser"):
        asyncio.run(AsyncWorker(queue.dsn, AsyncHandlers()).run())


# Signals, in a process of its own


def main(dsn: str, options: dict[str, Any], told: Connection) -> None:
    handlers = AsyncHandlers()

    @handlers.on("sleep", Fields)
    async def sleep(job: AsyncJob[Fields]) -> None:
        async with job.finish() as conn:
            await conn.execute(INSERT, (str(job.id),))
            told.send("asleep")
            await conn.execute("SELECT pg_sleep(600)")

    @handlers.on("gate", Fields)
    async def wait(job: AsyncJob[Fields]) -> None:
        async with job.finish() as conn:
            await conn.execute(INSERT, (str(job.id),))
            told.send("at the gate")
            await conn.execute("SELECT pg_advisory_xact_lock(1)")

    raise SystemExit(asyncio.run(AsyncWorker(dsn, handlers, Options(**{**QUICK, **options})).run()))


@contextlib.contextmanager
def process(queue: Queue, **options: Any) -> Iterator[tuple[multiprocessing.process.BaseProcess, Connection]]:
    context = multiprocessing.get_context("forkserver")
    lines, told = context.Pipe(duplex=False)
    running = context.Process(target=main, args=(queue.worker_dsn, options, told))
    running.start()
    told.close()
    try:
        yield running, lines
    finally:
        running.kill()
        running.join(PATIENCE)


def send(running: multiprocessing.process.BaseProcess, number: signal.Signals) -> None:
    assert running.pid is not None
    os.kill(running.pid, number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_jobs_that_do_not_end_are_given_back_with_their_attempt(queue: Queue, number: signal.Signals) -> None:
    (job,) = queue.enqueue(NewJob("sleep"))
    with process(queue, grace=0.3) as (running, lines):
        assert lines.recv() == "asleep"
        send(running, number)
        running.join(PATIENCE)
        assert running.exitcode == 0
    assert queue.state(job) == ("queued", 0)
    assert queue.outcomes(job) == ["released"]
    assert queue.all(NUMBERS) == []


def test_jobs_that_run_may_end_and_a_second_signal_does_not_wait(queue: Queue) -> None:
    first, second = queue.enqueue(NewJob("gate"), NewJob("sleep"))
    with process(queue, grace=3600) as (running, lines):
        with queue.holding("SELECT pg_advisory_xact_lock(1)"):
            assert {lines.recv(), lines.recv()} == {"at the gate", "asleep"}
            send(running, signal.SIGTERM)
        queue.until_ended(first)
        assert queue.state(second) == ("running", 1)
        send(running, signal.SIGTERM)
        running.join(PATIENCE)
        assert running.exitcode == 0
    assert queue.state(first) == ("done", 1)
    assert queue.state(second) == ("queued", 0)
    assert queue.outcomes(second) == ["released"]
    assert queue.all(NUMBERS) == [str(first)]
