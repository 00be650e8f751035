"""How long does the job of a machine stay locked that has vanished from the network?"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from auditor.lab import network
from auditor.lab.experiment import Experiment, Outcome, Row, Skipped, judged
from auditor.lab.installations import installations
from auditor.lab.place import Place
from auditor.lab.server import own_server
from auditor.lab.workers import CLAIM, LEASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from auditor.lab.server import OwnServer

_LEASE = 2.0
#: Seconds after which a job that is not free is told locked.
_PATIENCE = 8.0


class Way(NamedTuple):
    """How the worker holds its job, what the server asks of the network, and whether the job is free soon."""

    name: str
    leased: bool
    settings: tuple[str, ...]
    frees: bool


_OFF = ("tcp_keepalives_idle=0", "tcp_keepalives_interval=0", "tcp_keepalives_count=0")
#: tcp_user_timeout too: what was sent and is not acknowledged keeps the keepalives from being sent.
_ON = ("tcp_keepalives_idle=1", "tcp_keepalives_interval=1", "tcp_keepalives_count=2", "tcp_user_timeout=3000")
_WAYS = (
    Way("one transaction, keepalives of the system (two hours as a rule)", False, _OFF, False),
    Way("one transaction, keepalives and tcp_user_timeout of 3 s", False, _ON, True),
    Way(f"a lease of {_LEASE:.0f} s, keepalives of the system", True, _OFF, True),
)


def run(place: Place) -> Outcome:
    try:
        rows = [_row(way, place) for way in _WAYS]
    except network.RefusedError as error:
        rows = [Skipped("a machine that vanishes", str(error)).row()]
        return Outcome(tuple(rows), f"skipped: {error}")
    return judged(rows, "its row lock lasts until the server notices, a lease until it ends")


def _row(way: Way, place: Place) -> Row:
    place.say(way.name)
    found = next(iter(installations()), None)
    if found is None:
        return Skipped(way.name, "it takes a server of our own, and there is none to start").row()
    with network.machine() as machine:
        settings = {"listen_addresses": machine.here, **dict(one.split("=") for one in way.settings)}
        with own_server(found, settings) as running, _prepared(running, machine, place) as here:
            free_after = _free_after(machine, way, here)
    told = f"free after {free_after:.1f} s" if free_after is not None else f"locked after {_PATIENCE:.0f} s"
    figures = {"frees": free_after is not None, "seconds": free_after}
    return Row(way.name, "", told, (free_after is not None) == way.frees, figures)


@contextlib.contextmanager
def _prepared(running: OwnServer, machine: network.Machine, place: Place) -> Iterator[Place]:
    """A place on that server, which lets the other machine in."""
    here = Place(running.dsn, place.full, place.seed)
    here.prepare()
    with here.admin() as admin:
        admin.execute("INSERT INTO jobs DEFAULT VALUES")
        with open(running.folder / "data" / "pg_hba.conf", "a", encoding="utf-8") as rules:
            rules.write(f"host all all {machine.there}/32 trust\n")
        admin.execute("SELECT pg_reload_conf()")
    yield here


def _free_after(machine: network.Machine, way: Way, here: Place) -> float | None:
    """Seconds from when the machine has vanished to when another worker gets its job; None where it does not."""
    import psycopg
    from psycopg.conninfo import make_conninfo

    statement = LEASE if way.leased else CLAIM
    dsn = make_conninfo(here.worker_dsn, host=machine.here)
    words = [sys.executable, "-m", "auditor.lab.vanish", "lease" if way.leased else "lock"]
    worker = machine.start(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(f"{dsn}\n")
        worker.stdin.flush()
        assert worker.stdout.readline() == "claimed\n", "the worker beyond the network did not get the job"
        machine.vanish()
        gone = time.monotonic()
        with psycopg.connect(here.worker_dsn, autocommit=True) as conn:
            while time.monotonic() < gone + _PATIENCE:
                if _gets(conn, statement, way):
                    return time.monotonic() - gone
                time.sleep(0.1)
    finally:
        worker.kill()
        worker.communicate()
    return None


def _gets(conn: psycopg.Connection[Any], statement: str, way: Way) -> bool:
    with conn.transaction():
        return conn.execute(statement.encode(), (_LEASE,) if way.leased else ()).fetchone() is not None


def main(how: str) -> None:
    """The worker on the other machine: it claims a job, says so, and works for ever."""
    import psycopg

    with contextlib.closing(psycopg.connect(sys.stdin.readline().strip())) as conn:
        conn.execute((LEASE if how == "lease" else CLAIM).encode(), (_LEASE,) if how == "lease" else ())
        if how == "lease":
            conn.commit()
        print("claimed", flush=True)
        time.sleep(3600)


EXPERIMENT = Experiment(
    "vanish",
    "How long does the job of a machine stay locked that has vanished from the network?",
    "Leases for what matters; tcp_keepalives_* and tcp_user_timeout on both sides, as the reference sets them",
    run,
)

if __name__ == "__main__":
    main(sys.argv[1])
