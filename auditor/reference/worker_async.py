"""The worker of worker.py for handlers that are coroutines. It goes with schema.sql and jobs.py beside it.

    handlers = AsyncHandlers()

    @handlers.on("invoice.send", SendInvoice)
    async def send_invoice(job: AsyncJob[SendInvoice]) -> None:
        async with job.transaction() as conn:                      # as the job's tenant, who sees its own rows
            invoice = await (await conn.execute(INVOICE, (job.payload.invoice,))).fetchone()
        await mail(invoice, idempotency_key=job.idempotency_key)   # outside of any transaction
        async with job.finish() as conn:                           # the last one: its writes, and the job is done
            await conn.execute(SENT, (job.payload.invoice,))

    sys.exit(asyncio.run(AsyncWorker("dbname=app user=app_worker", handlers).run()))

What holds is what holds there, and by the same statements. What differs: all jobs share one thread, so a handler that
blocks the event loop holds up the heartbeat and loses every job of this worker; and a job that is stopped is cancelled,
wherever it waits, so that one which hangs gives its place back.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from logging import ERROR, INFO, WARNING
from typing import Any

import psycopg
from psycopg import IsolationLevel
from psycopg.rows import kwargs_row
from psycopg_pool import AsyncConnectionPool

from .jobs import (
    BECOME,
    CLAIM,
    ENQUEUE,
    FAIL,
    FINISH,
    HEARTBEAT,
    HOLD,
    KEEPALIVES,
    PASSING,
    PRUNE,
    REAP,
    RELEASE,
    SETTINGS,
    SHUTDOWN,
    TAKE_TURNS,
    TRANSACTION_TIMEOUT,
    Event,
    GiveUpError,
    LeaseLostError,
    NewJob,
    Options,
    P,
    Run,
    arguments,
    describe,
    keys,
    logger,
    probe,
)

AsyncConnection = psycopg.AsyncConnection[Any]


async def enqueue(conn: AsyncConnection, *jobs: NewJob, wake: bool = False) -> list[int | None]:
    """Add jobs in the caller's transaction, for the tenant that it is set to: they are there when it commits.

    Their ids, in order; None where a job with that key is queued or running. `wake` sends one notification at the
    commit, which takes a lock that all notifying commits share: for jobs that somebody waits for.
    """
    cursor = await conn.execute(ENQUEUE, arguments(jobs, wake))
    return [row[0] for row in await cursor.fetchall()]


@dataclass(eq=False)
class AsyncJob(Run[P]):
    """One run of a job: a handler's way into the database."""

    pool: AsyncConnectionPool = field(kw_only=True, repr=False)
    task: asyncio.Task[None] | None = field(default=None, init=False, repr=False)
    _conn: AsyncConnection | None = field(default=None, init=False, repr=False)

    @asynccontextmanager
    async def transaction(self, isolation: IsolationLevel | None = None) -> AsyncIterator[AsyncConnection]:
        """A transaction as the job's tenant. It commits only while the job is this run's."""
        async with self._as_tenant(isolation) as conn:
            yield conn
            await self._insist(conn, HOLD)

    @asynccontextmanager
    async def finish(self, isolation: IsolationLevel | None = None) -> AsyncIterator[AsyncConnection]:
        """The last transaction of the work, as the job's tenant: what it writes and "done" are committed together."""
        async with self._as_tenant(isolation) as conn:
            yield conn
            await self._insist(conn, FINISH)
        self.finished = True

    @asynccontextmanager
    async def _as_tenant(self, isolation: IsolationLevel | None) -> AsyncIterator[AsyncConnection]:
        if self._conn is not None:
            raise RuntimeError("a job has one transaction at a time")
        async with self.pool.connection() as self._conn:
            try:
                self.check()
                await self._conn.set_isolation_level(isolation)
                async with self._conn.transaction():
                    await self._conn.execute(BECOME, self.become())
                    yield self._conn
            finally:
                self._conn = None

    async def _insist(self, conn: AsyncConnection, statement: str) -> None:
        row = await (await conn.execute(statement, self.key())).fetchone()
        self.check()
        if row is None or not row[0]:
            raise LeaseLostError("it is another run's now, or its tenant is no longer set")

    def stop(self, why: str) -> None:
        """Cancel the job where it waits; psycopg then ends the statement that runs. No other transaction begins."""
        self.stopped = self.stopped or why
        if self.task is not None:
            self.task.cancel()


Handler = Callable[[AsyncJob[P]], Awaitable[None]]


class AsyncHandlers(dict[str, tuple[Callable[[Any], Awaitable[None]], Callable[..., Any]]]):
    """Which coroutine runs which kind of job. A worker claims no other kinds."""

    def on(self, kind: str, payload: Callable[..., P]) -> Callable[[Handler[P]], Handler[P]]:
        """Register a handler. `payload` is called with the payload's fields: a dataclass, a model, `dict`."""

        def register(handler: Handler[P]) -> Handler[P]:
            if kind in self:
                raise ValueError(f"{kind} has a handler already")
            self[kind] = handler, payload
            return handler

        return register


class AsyncWorker:
    """Claims jobs, runs each in a task, and takes back what others have lost."""

    def __init__(
        self,
        dsn: str,
        handlers: AsyncHandlers,
        options: Options | None = None,
        *,
        observe: Callable[[Event], object] = lambda event: None,
    ) -> None:
        self.name = f"{socket.gethostname()}/{os.getpid()}/{random.randrange(16**6):06x}"
        self.options = options or Options()
        self._dsn, self._handlers, self._observe = dsn, handlers, observe
        self._backoff = {"base": self.options.backoff, "cap": self.options.backoff_cap}
        self._jobs: set[AsyncJob[Any]] = set()
        self._stopping = self._hurry = False
        self._status = 0

    async def run(self) -> int:
        """Work until SIGTERM, SIGINT or `stop`; then the exit code. A second signal does not wait for the jobs."""
        await asyncio.to_thread(self._probe)
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._pool = AsyncConnectionPool(
            self._dsn,
            min_size=1,
            max_size=self.options.concurrency + 1,
            timeout=10,
            reconnect_timeout=10,
            kwargs={"autocommit": True, "application_name": f"{self.name} work", **KEEPALIVES},
            configure=configure,
            check=AsyncConnectionPool.check_connection,
            open=False,
        )
        logger.info("%s starts", self.name)
        async with self._pool:
            helpers = [self._beat(), self._watch()] + ([self._listen()] if self.options.listen else [])
            tasks = [asyncio.create_task(helper) for helper in helpers]
            with self._signals():
                try:
                    await self._work()
                finally:
                    await self._drain()
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
        logger.info("%s has ended", self.name)
        return self._status

    def stop(self) -> None:
        """Claim nothing more, and end when the jobs have. A second call does not wait for them."""
        self._hurry = self._stopping
        self._stopping = True
        self._news.set()

    def _probe(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True, application_name=f"{self.name} probe", **KEEPALIVES) as conn:
            probe(conn)

    # The loop

    async def _work(self) -> None:
        reap_at, failures = 0.0, 0
        while not self._stopping:
            wait = self.options.poll * random.uniform(0.5, 1.5)
            try:
                if time.monotonic() >= reap_at:
                    reap_at = time.monotonic() + self.options.lease / 3 * random.uniform(0.5, 1.5)
                    await self._reap()
                await self._claim()
                failures = 0
            except PASSING as error:
                failures = min(failures + 1, 7)
                wait = random.uniform(0, 0.1 * 2**failures)
                logger.warning("%s cannot reach the queue, and tries again: %s", self.name, error)
            await self._sleep(wait)

    async def _sleep(self, seconds: float) -> None:
        """Until the time is over or there is news: a job has ended, one was enqueued, a signal came."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._news.wait(), max(0.0, seconds))
        self._news.clear()

    async def _claim(self) -> None:
        free = self.options.concurrency - len(self._jobs)
        if free <= 0:
            return
        options, started = self.options, time.monotonic()
        wanted = {
            "tenant_limit": options.tenant_limit,
            "kinds": list(self._handlers),
            "worker": self.name,
            "lease": options.lease,
            "most": free if options.tenant_limit is None else 1,  # one by one, so that each counts those before it
        }
        make = kwargs_row(partial(AsyncJob[Any], started=started, lease=options.lease, pool=self._pool))
        jobs: list[AsyncJob[Any]] = []
        async with self._pool.connection() as conn, conn.transaction(), conn.cursor(row_factory=make) as cursor:
            if options.tenant_limit is not None:
                await cursor.execute(TAKE_TURNS)
            while len(jobs) < free:
                await cursor.execute(CLAIM, wanted)
                found = await cursor.fetchall()
                if not found:
                    break
                jobs += found
        for job in jobs:
            self._jobs.add(job)
            self._tell("claimed", job, job.waited)
            job.task = asyncio.create_task(self._run(job), name=job.idempotency_key)

    async def _reap(self) -> None:
        async with self._pool.connection() as conn:
            rows = await (await conn.execute(REAP, self._backoff)).fetchall()
            if self.options.keep_done is not None:
                await conn.execute(PRUNE, (self.options.keep_done,))
        for job, tenant, kind, attempt, status, error in rows:
            extra = {"job": job, "tenant": tenant, "kind": kind, "attempt": attempt}
            logger.warning("%s job %s of tenant %s is %s: %s", kind, job, tenant, status, error, extra=extra)
            self._notify(Event("reaped", kind, tenant, job, attempt, 0.0))

    async def _drain(self) -> None:
        """Let the jobs end; give back those that do not, with their attempt."""
        self._stopping = True
        until = time.monotonic() + self.options.grace
        while self._jobs and time.monotonic() < until and not self._hurry:
            await self._sleep(until - time.monotonic())
        left = list(self._jobs)
        for job in left:
            job.stop(SHUTDOWN)
        if not left:
            return
        try:
            async with self._pool.connection(timeout=5) as conn:
                released = set(await (await conn.execute(RELEASE, keys(left))).fetchall())
        except PASSING as error:
            self._status = 1
            logger.error("%s could not give its jobs back; they are when their leases end: %s", self.name, error)
            return
        for job in left:
            if (job.id, job.fence) in released:
                job.log(INFO, "given back")
                self._tell("released", job, time.monotonic() - job.started)
        await asyncio.wait([job.task for job in left if job.task is not None], timeout=5)

    # A job: in a task of its own

    async def _run(self, job: AsyncJob[Any]) -> None:
        try:
            handler, payload = self._handlers[job.kind]
            job.payload = payload(**job.payload)
            await handler(job)
            if not job.finished:
                async with job.finish():
                    pass
        except BaseException as error:
            outcome = await self._failed(job, error)
        else:
            outcome = "done"
            job.log(INFO, "done")
        self._jobs.discard(job)
        self._news.set()
        if outcome:
            self._tell(outcome, job, time.monotonic() - job.started)

    async def _failed(self, job: AsyncJob[Any], error: BaseException) -> str:
        """Count the failure in a transaction of its own. What became of the job, or "" where it is not ours to say."""
        if job.finished:
            job.log(ERROR, "it is done, and its handler failed after that", exc_info=error)
            return "done"
        if job.stopped == SHUTDOWN:
            return ""
        give_up, told = isinstance(error, GiveUpError), describe(error, job.stopped)
        written = {**job.key(), **self._backoff, "give_up": give_up, "error": told}
        try:
            async with self._pool.connection() as conn:
                row = await (await conn.execute(FAIL, written)).fetchone()
        except (*PASSING, asyncio.CancelledError) as trouble:
            job.log(ERROR, "failed, which could not be written; its lease will end: %s", trouble, exc_info=error)
            return "lost"
        if row is None:
            job.log(WARNING, "it was no longer this run's, and nothing was kept of it: %s", told)
            return "lost"
        job.log(ERROR, "dead: %s" if row[0] == "dead" else "failed: %s", told, exc_info=error)
        return "dead" if row[0] == "dead" else "failed"

    # Beside the jobs: each in a task of its own

    async def _beat(self) -> None:
        """Extend the leases of all jobs, on a connection of its own; a job whose lease is gone is stopped."""
        conn: AsyncConnection | None = None
        try:
            while True:
                await asyncio.sleep(self.options.lease / 3 * random.uniform(0.8, 1))
                jobs = [job for job in self._jobs if not job.stopped]  # what hangs is not kept from others
                if not jobs:
                    continue
                asked = time.monotonic()
                try:
                    conn = conn or await self._connect("heartbeat")
                    cursor = await conn.execute(HEARTBEAT, {**keys(jobs), "lease": self.options.lease})
                    kept = set(await cursor.fetchall())
                except psycopg.Error as error:
                    logger.warning("%s could not send its heartbeat: %s", self.name, error)
                    if conn is not None:
                        await conn.close()
                    conn = None
                    continue
                for job in jobs:
                    if (job.id, job.fence) in kept:
                        job.extend(asked)
                    elif job in self._jobs and not job.finished:
                        job.stop("its lease was lost")
        finally:
            if conn is not None:
                await conn.close()

    async def _watch(self) -> None:
        """Stop each job when its lease or its time ends by this machine's clock, whether or not the network answers."""
        while True:
            now = time.monotonic()
            for job in [job for job in self._jobs if job.ends <= now and not job.stopped]:
                job.stop("its time limit is reached" if job.ends >= job.deadline else "its lease was not extended")
                job.log(ERROR, "stopped: %s", job.stopped)
            ends = [job.ends - now for job in self._jobs if not job.stopped]
            await asyncio.sleep(max(0.0, min([*ends, self.options.lease / 10, 1.0])))

    async def _listen(self) -> None:
        """Wake the loop when jobs are enqueued that ask for it."""
        while True:
            try:
                async with await self._connect("listen") as conn:
                    await conn.execute("LISTEN app_jobs")
                    self._news.set()  # for what was sent before
                    async for _ in conn.notifies():
                        self._news.set()
            except psycopg.Error as error:
                logger.warning("%s cannot listen, and polls: %s", self.name, error)
            await asyncio.sleep(random.uniform(0, 3))

    # Small parts

    async def _connect(self, purpose: str) -> AsyncConnection:
        name = f"{self.name} {purpose}"
        conn = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True, application_name=name, **KEEPALIVES)
        await configure(conn)
        return conn

    def _tell(self, name: str, job: AsyncJob[Any], seconds: float) -> None:
        self._notify(Event(name, job.kind, job.tenant, job.id, job.attempt, seconds))

    def _notify(self, event: Event) -> None:
        try:
            self._observe(event)
        except Exception:
            logger.exception("a metric was lost: %s", event)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """The first signal stops, the second one hurries, a third one does what it does without us."""

        def received(number: signal.Signals) -> None:
            if self._stopping:
                self._loop.remove_signal_handler(number)
            self.stop()

        numbers = (signal.SIGTERM, signal.SIGINT)
        with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
            for number in numbers:
                self._loop.add_signal_handler(number, received, number)
        try:
            yield
        finally:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                for number in numbers:
                    self._loop.remove_signal_handler(number)


async def configure(conn: AsyncConnection) -> None:
    """The settings of a session of ours, which is in autocommit."""
    await conn.execute(SETTINGS)
    if conn.info.server_version >= 170000:
        await conn.execute(TRANSACTION_TIMEOUT)
