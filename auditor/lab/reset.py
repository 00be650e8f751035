"""What does it cost to clean a pooled connection after each job, and what does it break?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from auditor.lab.chart import Bars
from auditor.lab.experiment import Experiment, Outcome, Row, judged
from auditor.lab.place import COUNT, number

if TYPE_CHECKING:
    import psycopg

    from auditor.lab.place import Place

#: Jobs of a way that is not timed: it fails by then, or never does.
_FEW = 60
_PARTS = (
    "RESET ALL",
    "CLOSE ALL",
    "UNLISTEN *",
    "SELECT pg_advisory_unlock_all()",
    "DISCARD TEMP",
    "DISCARD SEQUENCES",
)
Reset = Callable[["psycopg.Connection[Any]"], None]


class Way(NamedTuple):
    """How a connection is cleaned, and what is expected: the job at which it fails (0 for none), and one connection."""

    name: str
    reset: Reset | None = None
    local: bool = False
    prepare: int | None = 5  #: psycopg's threshold
    statements: int = 1  #: of one text in each job, beside the setting
    fails_at: int = 0
    one_connection: bool = True
    leaks: bool = False
    article: str = ""
    since: tuple[int, ...] = ()  #: holds for psycopg from that version on
    timed: bool = True  #: one of the article's variants; the others only show when it fails


def _committed(conn: psycopg.Connection[Any]) -> None:
    conn.execute("RESET app.tenant")
    conn.commit()


def _uncommitted(conn: psycopg.Connection[Any]) -> None:
    conn.execute("RESET app.tenant")


def _in_autocommit(*statements: str, **words: Any) -> Reset:
    def reset(conn: psycopg.Connection[Any]) -> None:
        conn.autocommit = True
        for statement in statements:
            conn.execute(statement.encode(), **words)
        conn.autocommit = False

    return reset


_DISCARD = _in_autocommit("DISCARD ALL")
_WAYS = (
    Way("nothing, set for the session", leaks=True, article="leaks, 0.33 ms"),
    Way("nothing, set locally", local=True, article="0.35 ms"),
    Way("RESET, then commit", _committed),
    Way("RESET in autocommit", _in_autocommit("RESET app.tenant")),
    Way("RESET ALL in autocommit", _in_autocommit("RESET ALL")),
    Way("DISCARD ALL", _DISCARD, fails_at=7, article="fails at job 7"),
    Way("DISCARD ALL, prepare_threshold=None", _DISCARD, prepare=None, article="works"),
    Way(
        "RESET without commit",
        _uncommitted,
        one_connection=False,
        article="301 connections for 300 jobs, 8.9 ms for 0.6",
    ),
    Way("DISCARD ALL, threshold 1", _DISCARD, prepare=1, fails_at=3, timed=False),
    Way("DISCARD ALL, threshold 10", _DISCARD, prepare=10, fails_at=12, timed=False),
    Way("DISCARD ALL, never prepared itself", _in_autocommit("DISCARD ALL", prepare=False), fails_at=7, timed=False),
    Way("DISCARD ALL, six executions in each job", _DISCARD, statements=6, since=(3, 3, 5), timed=False),
    Way("the parts of DISCARD ALL that keep plans", _in_autocommit(*_PARTS), timed=False),
)


class Seen(NamedTuple):
    """What became of a series of jobs."""

    failed: tuple[int, ...]  #: the numbers of the jobs that did
    error: str  #: of the first of them
    connections: int
    jobs: int
    left: int  #: invoices that the next user sees
    milliseconds: float


def run(place: Place) -> Outcome:
    place.with_invoices()
    rows, bars = [], {}
    for way in _WAYS:
        place.say(way.name)
        jobs = place.size(300, 2000 if way.one_connection else 300) if way.timed and not way.fails_at else _FEW
        seen = series(place.worker_dsn, way, jobs)
        rows.append(_row(way, seen))
        if way.timed and not seen.failed:
            bars[way.name] = seen.milliseconds
    outcome = judged(rows, "a local setting needs no cleaning; DISCARD ALL takes psycopg's plans, RESET the connection")
    return Outcome(outcome.rows, outcome.verdict, (Bars("A job, cleaning included: median", "ms", bars),))


def series(dsn: str, way: Way, jobs: int) -> Seen:
    """So many jobs on a pool of one connection that is cleaned in this way."""
    import psycopg
    from psycopg_pool import ConnectionPool

    connections, times, errors = set(), [], dict[int, str]()
    words = {"prepare_threshold": way.prepare}
    with ConnectionPool(dsn, min_size=1, max_size=1, kwargs=words, reset=way.reset, reconnect_timeout=5) as pool:
        for job in range(1, jobs + 1):
            began = time.perf_counter()
            try:
                with pool.connection() as conn:
                    connections.add(conn.info.backend_pid)
                    _job(conn, way, job)
            except psycopg.Error as error:
                errors[job] = error.diag.message_primary or str(error)
            times.append(time.perf_counter() - began)
        left = 0
        if not errors:
            with pool.connection() as conn:
                connections.add(conn.info.backend_pid)
                left = number(conn.execute(COUNT, prepare=False).fetchone())
    warm = times[len(times) // 10 :] or [0.0]  # the first tenth is not counted, as plans are made then
    first = next(iter(errors.values()), "")
    return Seen(tuple(errors), first, len(connections), jobs, left, 1000 * statistics.median(warm))


def _job(conn: psycopg.Connection[Any], way: Way, number: int) -> None:
    """A short one, of tenants that have 200 invoices or little more: it is the cleaning that is looked at."""
    scope = "true" if way.local else "false"
    conn.execute(f"SELECT set_config('app.tenant', %s, {scope})".encode(), (str(100 - number % 3),))
    for _ in range(way.statements):
        conn.execute(COUNT)


def _row(way: Way, seen: Seen) -> Row:
    failed_at = next(iter(seen.failed), 0)
    holds: bool | None = failed_at == way.fails_at
    if failed_at:
        again = ", ".join(str(number) for number in seen.failed[1:3])
        told = f"fails at job {failed_at}: {seen.error}" + (f"; again at {again}" if again else "")
    else:
        told = f"{seen.connections} connections for {seen.jobs} jobs" if seen.connections > 1 else "one connection"
        told += f", {seen.milliseconds:.2f} ms" + (f", leaks {seen.left:,} invoices" if seen.left else "")
        holds = holds and bool(seen.left) == way.leaks
        holds = holds and (seen.connections == 1 if way.one_connection else seen.connections >= seen.jobs)
    if version() < way.since:
        holds = None
    figures = {"failed": seen.failed, "connections": seen.connections, "jobs": seen.jobs, "left": seen.left}
    return Row(way.name, way.article, told, holds, {**figures, "milliseconds": round(seen.milliseconds, 3)})


def version() -> tuple[int, ...]:
    """Of psycopg, as far as it is numbers."""
    import psycopg

    return tuple(int(part) for part in psycopg.__version__.split(".")[:3] if part.isdecimal())


EXPERIMENT = Experiment(
    "reset",
    "What does it cost to clean a pooled connection after each job, and what does it break?",
    "Set the tenant locally and clean nothing; or RESET ALL and commit, which keeps plans and connection. TA201, TA202",
    run,
)
