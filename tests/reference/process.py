"""A worker as a process, for tests that end it.

A job of the kind `step` names the step at which it is to end: with the mode `exit` it ends its process there, with
`wait` it says so and waits to be killed. The file that its payload names gets a line for each time it is run.
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from auditor.reference import worker as module
from auditor.reference.jobs import Options, P
from auditor.reference.worker import Handlers, Job, Worker

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

handlers = Handlers()
_mode = ""
_told: Connection | None = None


def tell(what: object) -> None:
    assert _told is not None
    _told.send(what)


def end(step: str) -> None:
    if _mode == "exit":
        os._exit(1)
    tell(step)
    threading.Event().wait()


@dataclass
class Step:
    step: str
    ran: str = ""


@handlers.on("step", Step)
def take_steps(job: Job[Step]) -> None:
    step = job.payload.step

    def reach(here: str) -> None:
        if here == step:
            end(here)

    with open(job.payload.ran, "a", encoding="utf-8") as file:
        file.write(f"{job.attempt}\n")
    reach("in the handler")
    with job.transaction() as conn:
        conn.execute("INSERT INTO app.invoices (number) VALUES (%s)", (f"{job.id} draft {job.attempt}",))
        reach("in a transaction")
    reach("between transactions")
    if step == "before the failure is counted":
        raise ValueError(step)
    with job.finish() as conn:
        conn.execute("INSERT INTO app.invoices (number) VALUES (%s)", (f"{job.id}",))
        reach("in the last transaction")
    reach("after the last transaction")


@handlers.on("effect", dict[str, Any])
def have_effect(job: Job[dict[str, Any]]) -> None:
    with job.finish() as conn:
        conn.execute("INSERT INTO app.invoices (number) VALUES (%s)", (f"{job.id}",))


@handlers.on("sleep", dict[str, Any])
def sleep(job: Job[dict[str, Any]]) -> None:
    with job.finish() as conn:
        conn.execute("INSERT INTO app.invoices (number) VALUES (%s)", (f"{job.id}",))
        tell("asleep")
        conn.execute("SELECT pg_sleep(600)")


@handlers.on("gate", dict[str, Any])
def wait_for_lock(job: Job[dict[str, Any]]) -> None:
    """Ends when the test lets go of an advisory lock."""
    with job.finish() as conn:
        conn.execute("INSERT INTO app.invoices (number) VALUES (%s)", (f"{job.id}",))
        conn.execute("SET LOCAL lock_timeout = 0")
        tell("at the gate")
        conn.execute("SELECT pg_advisory_xact_lock(1)")


class Ending(Job[P]):
    """A job whose process may end between what the worker asks of the database and what it does next."""

    def _insist(self, row: tuple[Any, ...] | None) -> None:
        if isinstance(self.payload, Step) and self.payload.step == "before the commit":
            assert self._conn is not None
            query = "SELECT FROM app.invoices WHERE number = %s"
            if self._conn.execute(query, (str(self.id),)).fetchone() is not None:
                end("before the commit")
        super()._insist(row)


class Told(Worker):
    """Tells when it has stopped claiming, and what its connections are left with."""

    def _tell(self, name: str, job: Job[Any], seconds: float) -> None:
        super()._tell(name, job, seconds)
        if name == "claimed" and isinstance(job.payload, dict) and job.payload.get("step") == "after the claim":
            end("after the claim")

    def _drain(self) -> None:
        tell("stopping")
        super()._drain()
        conns = [self._pool.getconn() for _ in range(self._pool.get_stats()["pool_size"])]
        rows = [conn.execute("SELECT current_setting('app.tenant', true), current_user").fetchone() for conn in conns]
        for conn in conns:
            self._pool.putconn(conn)
        tell(rows)


def describe_or_end(error: BaseException, stopped: str = "") -> str:
    if isinstance(error, ValueError) and str(error) == "before the failure is counted":
        end("before the failure is counted")
    return str(error)


def main(dsn: str, mode: str, options: dict[str, Any], told: Connection) -> None:
    """What runs in the process."""
    global _mode, _told
    _mode, _told = mode, told
    vars(module).update(describe=describe_or_end, Job=Ending)
    worker = Told(dsn, handlers, Options(**options))
    tell("started")
    sys.exit(worker.run())
