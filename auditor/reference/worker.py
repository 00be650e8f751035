"""A worker for the jobs of many tenants in one PostgreSQL database. It goes with schema.sql and jobs.py beside it.

    @dataclass
    class SendInvoice:
        invoice: int

    handlers = Handlers()

    @handlers.on("invoice.send", SendInvoice)
    def send_invoice(job: Job[SendInvoice]) -> None:
        with job.transaction() as conn:                           # as the job's tenant, who sees its own rows
            invoice = conn.execute(INVOICE, (job.payload.invoice,)).fetchone()
        mail(invoice, idempotency_key=job.idempotency_key)        # outside of any transaction
        with job.finish() as conn:                                # the last one: its writes, and the job is done
            conn.execute(SENT, (job.payload.invoice,))

    sys.exit(Worker("dbname=app user=app_worker", handlers).run())

What holds, whatever dies when:

- A job is run at most max_attempts times. The claim counts, and is committed before the work begins.
- Of several runs of a job at most one commits its last transaction. Each claim is given a fence, and a transaction of
  the work commits only while the fence is still the job's. So a worker that comes too late leaves nothing behind in
  the database. It may have left something in the world outside, which is what the idempotency key is for.
- A job whose worker falls silent is taken back when its lease ends, and one that hangs when its time limit does.

So a job may be run more than once: what is done before `finish` has to bear being done again.
"""

from __future__ import annotations

import os
import queue
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from logging import CRITICAL, ERROR, INFO, WARNING
from typing import Any

import psycopg
from psycopg import IsolationLevel
from psycopg.rows import kwargs_row
from psycopg_pool import ConnectionPool

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


def enqueue(conn: psycopg.Connection[Any], *jobs: NewJob, wake: bool = False) -> list[int | None]:
    """Add jobs in the caller's transaction, for the tenant that it is set to: they are there when it commits.

    Their ids, in order; None where a job with that key is queued or running. `wake` sends one notification at the
    commit, which takes a lock that all notifying commits share: for jobs that somebody waits for.
    """
    return [row[0] for row in conn.execute(ENQUEUE, arguments(jobs, wake))]


@dataclass(eq=False)
class Job(Run[P]):
    """One run of a job: a handler's way into the database."""

    pool: ConnectionPool = field(kw_only=True, repr=False)
    _conn: psycopg.Connection[Any] | None = field(default=None, init=False, repr=False)
    _guard: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @contextmanager
    def transaction(self, isolation: IsolationLevel | None = None) -> Iterator[psycopg.Connection[Any]]:
        """A transaction as the job's tenant. It commits only while the job is this run's."""
        with self._as_tenant(isolation) as conn:
            yield conn
            self._insist(conn.execute(HOLD, self.key()).fetchone())

    @contextmanager
    def finish(self, isolation: IsolationLevel | None = None) -> Iterator[psycopg.Connection[Any]]:
        """The last transaction of the work, as the job's tenant: what it writes and "done" are committed together."""
        with self._as_tenant(isolation) as conn:
            yield conn
            self._insist(conn.execute(FINISH, self.key()).fetchone())
        self.finished = True

    @contextmanager
    def _as_tenant(self, isolation: IsolationLevel | None) -> Iterator[psycopg.Connection[Any]]:
        if self._conn is not None:
            raise RuntimeError("a job has one transaction at a time")
        with self.pool.connection() as conn:
            with self._guard:
                self._conn = conn
            try:
                self.check()  # a stop from here on finds the connection
                conn.isolation_level = isolation
                with conn.transaction():
                    conn.execute(BECOME, self.become())
                    yield conn
            finally:
                with self._guard:
                    self._conn = None
                if self.stopped:
                    conn.close()  # a cancel that is still under way must not meet the next user

    def _insist(self, row: tuple[Any, ...] | None) -> None:
        self.check()
        if row is None or not row[0]:
            raise LeaseLostError("it is another run's now, or its tenant is no longer set")

    def stop(self, why: str) -> None:
        """End the statement that runs, and let no other transaction begin. The handler's own code runs on."""
        self.stopped = self.stopped or why
        with self._guard:
            if self._conn is not None:
                with suppress(psycopg.Error):
                    self._conn.cancel_safe(timeout=1)


Handler = Callable[[Job[P]], None]


class Handlers(dict[str, tuple[Callable[[Any], None], Callable[..., Any]]]):
    """Which function runs which kind of job. A worker claims no other kinds."""

    def on(self, kind: str, payload: Callable[..., P]) -> Callable[[Handler[P]], Handler[P]]:
        """Register a handler. `payload` is called with the payload's fields: a dataclass, a model, `dict`."""

        def register(handler: Handler[P]) -> Handler[P]:
            if kind in self:
                raise ValueError(f"{kind} has a handler already")
            self[kind] = handler, payload
            return handler

        return register


class Worker:
    """Claims jobs, runs each in a thread, and takes back what others have lost."""

    def __init__(
        self,
        dsn: str,
        handlers: Handlers,
        options: Options | None = None,
        *,
        observe: Callable[[Event], object] = lambda event: None,
    ) -> None:
        self.name = f"{socket.gethostname()}/{os.getpid()}/{random.randrange(16**6):06x}"
        self.options = options or Options()
        self._dsn, self._handlers, self._observe = dsn, handlers, observe
        self._backoff = {"base": self.options.backoff, "cap": self.options.backoff_cap}
        self._jobs: set[Job[Any]] = set()
        self._changed = threading.Condition()  # guards the jobs
        self._mail: queue.SimpleQueue[None] = queue.SimpleQueue()  # wakes the loop; a signal handler may write to it
        self._stopping = self._hurry = False
        self._ended = threading.Event()
        self._status = 0
        self._pool = ConnectionPool(
            dsn,
            min_size=1,
            max_size=self.options.concurrency + 1,
            timeout=10,
            reconnect_timeout=10,
            kwargs={"autocommit": True, "application_name": f"{self.name} work", **KEEPALIVES},
            configure=configure,
            check=ConnectionPool.check_connection,
            open=False,
        )

    def run(self) -> int:
        """Work until SIGTERM, SIGINT or `stop`; then the exit code. A second signal does not wait for the jobs."""
        with self._connect("probe") as conn:
            probe(conn)
        logger.info("%s starts", self.name)
        helpers = [self._beat, self._watch, self._listen] if self.options.listen else [self._beat, self._watch]
        threads = [threading.Thread(target=helper, daemon=True) for helper in helpers]
        with self._signals(), self._pool:
            for thread in threads:
                thread.start()
            try:
                self._loop()
            finally:
                self._drain()
                self._ended.set()
                with self._changed:
                    self._changed.notify_all()
                for thread in threads:
                    thread.join(2)
        logger.info("%s has ended", self.name)
        return self._status

    def stop(self) -> None:
        """Claim nothing more, and end when the jobs have. A second call does not wait for them."""
        self._hurry = self._stopping
        self._stopping = True
        self._mail.put(None)

    # The loop: in the thread that called `run`

    def _loop(self) -> None:
        reap_at, failures = 0.0, 0
        while not self._stopping:
            wait = self.options.poll * random.uniform(0.5, 1.5)
            try:
                if time.monotonic() >= reap_at:
                    reap_at = time.monotonic() + self.options.lease / 3 * random.uniform(0.5, 1.5)
                    self._reap()
                self._claim()
                failures = 0
            except PASSING as error:
                failures = min(failures + 1, 7)
                wait = random.uniform(0, 0.1 * 2**failures)
                logger.warning("%s cannot reach the queue, and tries again: %s", self.name, error)
            self._give_up_on_stuck()
            self._sleep(wait)

    def _sleep(self, seconds: float) -> None:
        """Until the time is over or there is news: a job has ended, one was enqueued, a signal came."""
        with suppress(queue.Empty):
            self._mail.get(timeout=max(0.0, seconds))
            while True:
                self._mail.get_nowait()

    def _claim(self) -> None:
        free = self.options.concurrency - len(self._running())
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
        make = kwargs_row(partial(Job[Any], started=started, lease=options.lease, pool=self._pool))
        jobs: list[Job[Any]] = []
        with self._pool.connection() as conn, conn.transaction(), conn.cursor(row_factory=make) as cursor:
            if options.tenant_limit is not None:
                cursor.execute(TAKE_TURNS)
            while len(jobs) < free and (found := cursor.execute(CLAIM, wanted).fetchall()):
                jobs += found
        for job in jobs:
            with self._changed:
                self._jobs.add(job)
                self._changed.notify_all()
            self._tell("claimed", job, job.waited)
            threading.Thread(target=self._run, args=(job,), name=job.idempotency_key, daemon=True).start()

    def _reap(self) -> None:
        with self._pool.connection() as conn:
            rows = conn.execute(REAP, self._backoff).fetchall()
            if self.options.keep_done is not None:
                conn.execute(PRUNE, (self.options.keep_done,))
        for job, tenant, kind, attempt, status, error in rows:
            extra = {"job": job, "tenant": tenant, "kind": kind, "attempt": attempt}
            logger.warning("%s job %s of tenant %s is %s: %s", kind, job, tenant, status, error, extra=extra)
            self._notify(Event("reaped", kind, tenant, job, attempt, 0.0))

    def _give_up_on_stuck(self) -> None:
        """A thread that does not end when its job is stopped cannot be ended. Only a new process has its place back."""
        for job in self._running():
            if job.stopped and time.monotonic() > job.ends + self.options.grace and not self._stopping:
                job.log(CRITICAL, "its handler does not end; this worker does, for another to be started")
                self._status = 1
                self.stop()

    def _drain(self) -> None:
        """Let the jobs end; give back those that do not, with their attempt."""
        self._stopping = True
        until = time.monotonic() + self.options.grace
        while self._running() and time.monotonic() < until and not self._hurry:
            self._sleep(until - time.monotonic())
        left = self._running()
        for job in left:
            job.stop(SHUTDOWN)
        if not left:
            return
        try:
            with self._pool.connection(timeout=5) as conn:
                released = set(conn.execute(RELEASE, keys(left)))
        except PASSING as error:
            self._status = 1
            logger.error("%s could not give its jobs back; they are when their leases end: %s", self.name, error)
            return
        for job in left:
            if (job.id, job.fence) in released:
                job.log(INFO, "given back")
                self._tell("released", job, time.monotonic() - job.started)

    # A job: in a thread of its own

    def _run(self, job: Job[Any]) -> None:
        try:
            handler, payload = self._handlers[job.kind]
            job.payload = payload(**job.payload)
            handler(job)
            if not job.finished:
                with job.finish():
                    pass
        except BaseException as error:
            outcome = self._failed(job, error)
        else:
            outcome = "done"
            job.log(INFO, "done")
        with self._changed:
            self._jobs.discard(job)
        self._mail.put(None)
        if outcome:
            self._tell(outcome, job, time.monotonic() - job.started)

    def _failed(self, job: Job[Any], error: BaseException) -> str:
        """Count the failure in a transaction of its own. What became of the job, or "" where it is not ours to say."""
        if job.finished:
            job.log(ERROR, "it is done, and its handler failed after that", exc_info=error)
            return "done"
        if job.stopped == SHUTDOWN:
            return ""
        give_up, told = isinstance(error, GiveUpError), describe(error, job.stopped)
        try:
            with self._pool.connection() as conn:
                row = conn.execute(FAIL, {**job.key(), **self._backoff, "give_up": give_up, "error": told}).fetchone()
        except PASSING as trouble:
            job.log(ERROR, "failed, which could not be written; its lease will end: %s", trouble, exc_info=error)
            return "lost"
        if row is None:
            job.log(WARNING, "it was no longer this run's, and nothing was kept of it: %s", told)
            return "lost"
        job.log(ERROR, "dead: %s" if row[0] == "dead" else "failed: %s", told, exc_info=error)
        return "dead" if row[0] == "dead" else "failed"

    # Beside the jobs: each in a thread of its own

    def _beat(self) -> None:
        """Extend the leases of all jobs, on a connection of its own; a job whose lease is gone is stopped."""
        conn: psycopg.Connection[Any] | None = None
        while not self._ended.wait(self.options.lease / 3 * random.uniform(0.8, 1)):
            jobs = [job for job in self._running() if not job.stopped]  # what hangs is not kept from others
            if not jobs:
                continue
            asked = time.monotonic()
            try:
                conn = conn or self._connect("heartbeat")
                kept = set(conn.execute(HEARTBEAT, {**keys(jobs), "lease": self.options.lease}))
            except psycopg.Error as error:
                logger.warning("%s could not send its heartbeat: %s", self.name, error)
                if conn is not None:
                    conn.close()
                conn = None
                continue
            for job in jobs:
                if (job.id, job.fence) in kept:
                    job.extend(asked)
                elif job in self._running() and not job.finished:
                    job.stop("its lease was lost")
        if conn is not None:
            conn.close()

    def _watch(self) -> None:
        """Stop each job when its lease or its time ends by this machine's clock, whether or not the network answers."""
        while not self._ended.is_set():
            now = time.monotonic()
            late = [job for job in self._running() if job.ends <= now and not job.stopped]
            for job in late:  # all are told before the first is waited for
                job.stopped = "its time limit is reached" if job.ends >= job.deadline else "its lease was not extended"
            for job in late:
                job.log(ERROR, "stopped: %s", job.stopped)
                job.stop(job.stopped)
            with self._changed:
                ends = [job.ends for job in self._jobs if not job.stopped]
                if not self._ended.is_set():
                    self._changed.wait(max(0.0, min(ends) - time.monotonic()) if ends else None)

    def _listen(self) -> None:
        """Wake the loop when jobs are enqueued that ask for it."""
        pause = 0.0
        while not self._ended.wait(pause):
            pause = 0.0
            try:
                with self._connect("listen") as conn:
                    conn.execute("LISTEN app_jobs")
                    self._mail.put(None)  # for what was sent before
                    while not self._ended.is_set():
                        for _ in conn.notifies(timeout=1, stop_after=1):
                            self._mail.put(None)
            except psycopg.Error as error:
                logger.warning("%s cannot listen, and polls: %s", self.name, error)
                pause = random.uniform(0, 3)

    # Small parts

    def _connect(self, purpose: str) -> psycopg.Connection[Any]:
        name = f"{self.name} {purpose}"
        conn = psycopg.connect(self._dsn, autocommit=True, application_name=name, **KEEPALIVES)
        configure(conn)
        return conn

    def _running(self) -> list[Job[Any]]:
        with self._changed:
            return list(self._jobs)

    def _tell(self, name: str, job: Job[Any], seconds: float) -> None:
        self._notify(Event(name, job.kind, job.tenant, job.id, job.attempt, seconds))

    def _notify(self, event: Event) -> None:
        try:
            self._observe(event)
        except Exception:
            logger.exception("a metric was lost: %s", event)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """The first signal stops, the second one hurries, a third one does what it does without us."""
        numbers = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()

        def received(number: int, _frame: object) -> None:
            if self._stopping:
                signal.signal(number, signal.SIG_DFL)
            self.stop()

        before = {number: signal.signal(number, received) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def configure(conn: psycopg.Connection[Any]) -> None:
    """The settings of a session of ours, which is in autocommit."""
    conn.execute(SETTINGS)
    if conn.info.server_version >= 170000:
        conn.execute(TRANSACTION_TIMEOUT)
