"""A database with the reference's schema, and workers that are run on it: in a thread, or in a process of their own."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row, scalar_row

from auditor import reference
from auditor.reference.jobs import REAP, Event, NewJob, Options
from auditor.reference.worker import Handlers, Job, Worker, enqueue

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator
    from types import ModuleType

FOLDER = Path(reference.__file__).parent
SCHEMA = (FOLDER / "schema.sql").read_text(encoding="utf-8")
#: Seconds after which what has not happened never will.
PATIENCE = 30.0
#: A worker that looks at once, and whose leases outlast any test: nothing happens by the clock unless a test says so.
QUICK: dict[str, Any] = {"poll": 0.05, "lease": 600, "backoff": 0, "grace": 20, "tenant_limit": None}
#: Forks them off one that has imported what they need and has no threads.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.reference.process"])


class Queue:
    """The queue of one database, as who owns the server sees it."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.admin = psycopg.connect(dsn, autocommit=True)
        self.admin.execute(SCHEMA)

    def login(self, role: str) -> str:
        """The connection string of another role."""
        return self.dsn.replace("user=lab", f"user={role}")

    @property
    def worker_dsn(self) -> str:
        return self.login("app_worker")

    def enqueue(self, *jobs: NewJob, tenant: int = 1, wake: bool = False) -> list[int]:
        """Add jobs as the tenants' role; all of them are new."""
        with psycopg.connect(self.dsn) as conn:
            conn.execute("SET LOCAL ROLE app_tenant")
            conn.execute("SELECT set_config('app.tenant', %s, true)", (str(tenant),))
            ids = enqueue(conn, *jobs, wake=wake)
        assert None not in ids
        return [one for one in ids if one is not None]

    def one(self, query: str, *words: object) -> Any:
        """The value of a query that has one."""
        with self.admin.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(query, words).fetchone()

    def all(self, query: str, *words: object) -> list[Any]:
        """The rows of a query, as values where there is but one column."""
        rows = self.admin.execute(query, words).fetchall()
        return [row[0] if len(row) == 1 else row for row in rows]

    def job(self, job: int) -> dict[str, Any]:
        with self.admin.cursor(row_factory=dict_row) as cursor:
            row = cursor.execute("SELECT * FROM app.jobs WHERE id = %s", (job,)).fetchone()
        assert row is not None
        return row

    def state(self, job: int) -> tuple[str, int]:
        """The status and the attempts of a job."""
        row = self.job(job)
        return row["status"], row["attempts"]

    def outcomes(self, job: int) -> list[str | None]:
        """The outcomes of a job's runs, in order."""
        return self.all("SELECT outcome FROM app.job_runs WHERE job_id = %s ORDER BY fence", job)

    def expire(self, job: int | None = None) -> None:
        """Let the leases of the running jobs end now, instead of waiting for it."""
        self.admin.execute(
            "UPDATE app.jobs SET locked_until = clock_timestamp() - interval '1 second'"
            " WHERE status = 'running' AND id = coalesce(%s, id)",
            (job,),
        )

    def reap(self) -> int:
        """What any worker does now and then. How many it took back."""
        with psycopg.connect(self.worker_dsn, autocommit=True) as conn:
            return len(conn.execute(REAP, {"base": 0, "cap": 0}).fetchall())

    def until(self, condition: str, *words: object, patience: float = PATIENCE) -> None:
        """Wait until a query says true."""
        eventually(lambda: self.one(condition, *words) is True, condition, patience)

    def until_ended(self, *jobs: int) -> None:
        self.until("SELECT bool_and(status IN ('done', 'dead')) FROM app.jobs WHERE id = ANY (%s)", list(jobs))

    def backend(self, purpose: str, waiting: str = "") -> int:
        """The server's process for a worker's connection, once there is one that waits for such a thing."""
        query = (
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE %s"
            " AND (%s = '' OR wait_event_type = %s AND state = 'active') ORDER BY backend_start DESC LIMIT 1"
        )
        found: list[int] = []

        def look() -> bool:
            found.extend(self.all(query, f"% {purpose}", waiting, waiting))
            return bool(found)

        eventually(look, f"a {purpose} connection that waits for {waiting}")
        return found[0]

    def terminate(self, pid: int) -> None:
        assert self.one("SELECT pg_terminate_backend(%s)", pid)

    @contextlib.contextmanager
    def holding(self, statement: str, *words: object) -> Iterator[None]:
        """What a statement locks stays locked for as long as the block lasts."""
        with psycopg.connect(self.dsn) as conn:
            conn.execute(statement, words)
            yield

    def reconnect(self) -> None:
        self.admin.close()
        self.admin = psycopg.connect(self.dsn, autocommit=True)

    def close(self) -> None:
        self.admin.close()


def load_written(name: str) -> ModuleType:
    """A module of what the command has written; see the fixture `written`."""
    importlib.invalidate_caches()
    return importlib.import_module(f"written.{name}")


def eventually(what: Callable[[], bool], told: str = "it", patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not what():
        assert time.monotonic() < deadline, f"{told}: not within {patience} seconds"
        time.sleep(0.01)


class Gate:
    """A handler waits here until the test lets it go, and the test until a handler has come."""

    def __init__(self) -> None:
        self._come = threading.Semaphore(0)
        self._open = threading.Event()

    def wait(self) -> None:
        self._come.release()
        assert self._open.wait(PATIENCE), "nobody opened the gate"

    def reached(self, times: int = 1) -> None:
        for _ in range(times):
            assert self._come.acquire(timeout=PATIENCE), "nobody came to the gate"

    def open(self) -> None:
        self._open.set()


class Seen(list[Event]):
    """The events of a worker."""

    def names(self, job: int | None = None) -> list[str]:
        return [event.name for event in self if job in (None, event.job)]

    def until(self, name: str, job: int | None = None) -> Event:
        eventually(lambda: name in self.names(job), f"event {name}")
        return next(event for event in self if event.name == name and job in (None, event.job))


@contextlib.contextmanager
def working(queue: Queue, handlers: Handlers, **options: Any) -> Iterator[tuple[Worker, Seen]]:
    """A worker in a thread of this process, for as long as the block lasts."""
    seen = Seen()
    worker = Worker(queue.worker_dsn, handlers, Options(**{**QUICK, **options}), observe=seen.append)
    failed: list[BaseException] = []

    def run() -> None:
        try:
            worker.run()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield worker, seen
    finally:
        worker.stop()
        thread.join(PATIENCE)
    assert not thread.is_alive()
    assert not failed, failed


class Process:
    """A worker in a process of its own: tests/reference/process.py."""

    def __init__(self, queue: Queue, mode: str = "", **options: Any) -> None:
        from tests.reference.process import main

        self._lines, told = _processes.Pipe(duplex=False)
        self.process = _processes.Process(target=main, args=(queue.worker_dsn, mode, {**QUICK, **options}, told))
        self.process.start()
        told.close()

    def read(self) -> Any:
        """The next thing that it tells, such as the step that it has reached."""
        assert self._lines.poll(PATIENCE), "nothing more is heard of it"
        return self._lines.recv()

    def signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def ended(self) -> int | None:
        """Its exit code, once it has ended."""
        self.process.join(PATIENCE)
        return self.process.exitcode


@contextlib.contextmanager
def process(queue: Queue, mode: str = "", **options: Any) -> Iterator[Process]:
    """A worker process that does not outlive the block."""
    running = Process(queue, mode, **options)
    try:
        yield running
    finally:
        running.process.kill()
        running.ended()


def note(handlers: Handlers) -> list[int]:
    """A handler of the kind `note`, which does nothing: the jobs that it has run."""
    ran: list[int] = []

    @handlers.on("note", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        ran.append(job.id)

    return ran
