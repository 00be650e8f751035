"""What does it cost to fetch a job while somebody holds a transaction open?"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from auditor.lab.chart import Lines
from auditor.lab.experiment import Experiment, Outcome, Row, judged
from auditor.lab.holders import HOLDERS, NOBODY, READER, Holder, holding, prepare
from auditor.lab.plans import buffers

if TYPE_CHECKING:
    import psycopg

    from auditor.lab.place import Place

#: The shortest fetches there are: of a queue whose jobs are deleted, and of one where they stay and are marked.
_DELETE = """
    DELETE FROM fetched
     WHERE id = (SELECT id FROM fetched ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id
"""
_MARK = """
    UPDATE fetched SET status = 'done'
     WHERE id = (SELECT id FROM fetched WHERE status = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id
"""
_FIND = "SELECT id FROM fetched{where} ORDER BY id LIMIT 1"


class Way(NamedTuple):
    """A way of fetching, beside a holder."""

    holder: Holder
    marks: bool = False
    article: str = ""

    @property
    def name(self) -> str:
        return self.holder.name + (", jobs stay and are marked" if self.marks else "")


class Series(NamedTuple):
    """By block of jobs: the median of a fetch in milliseconds, and the buffers that finding the next one reads."""

    milliseconds: list[float]
    buffers: list[int]
    after: int  #: buffers when the holder has gone, and some more were fetched


WAYS = (
    Way(NOBODY, article="flat; 42 buffers after 50,000"),
    Way(READER, article="flat"),
    Way(HOLDERS[0], article="a straight line, 0.7 to 8.3 ms; 654 buffers after 50,000"),
    Way(HOLDERS[1], article="the same line"),
    Way(HOLDERS[2], article="the same line"),
    Way(HOLDERS[0], marks=True, article="the same line, 8.34 ms at its end"),
)


def run(place: Place) -> Outcome:
    block = place.size(1_000, 10_000)
    blocks = place.size(6, 10)
    found = {}
    for way in WAYS:
        place.say(way.name)
        found[way] = series(place, way, block, blocks)
    flat = found[WAYS[0]].buffers[-1]
    rows = [_row(way, seen, flat) for way, seen in found.items()]
    steps = [f"{block * (number + 1) // 1000}k" for number in range(blocks)]
    lines = {way.name: seen.milliseconds for way, seen in found.items()}
    picture = Lines(f"A fetch by block of {block:,} jobs: median", "ms", steps, lines)
    outcome = judged(
        rows, "each fetch reads past every job that was fetched since the transaction began, until it ends"
    )
    return Outcome(outcome.rows, outcome.verdict, (picture,))


def _row(way: Way, seen: Series, flat: int) -> Row:
    grows = (
        seen.buffers[-1] > 2 * flat and seen.buffers == sorted(seen.buffers) and seen.after <= 0.75 * seen.buffers[-1]
    )
    holds = grows if way.holder.holds else seen.buffers[-1] <= 2 * flat
    told = f"{seen.buffers[0]} to {seen.buffers[-1]} buffers, {seen.milliseconds[0]:.2f} to"
    told += f" {seen.milliseconds[-1]:.2f} ms"
    if way.holder.holds:
        told += f"; {seen.after} buffers when it has ended"
    times = [round(one, 3) for one in seen.milliseconds]
    figures = {"buffers": seen.buffers, "after": seen.after, "milliseconds": times}
    return Row(way.name, way.article, told, holds, figures)


def series(place: Place, way: Way, block: int, blocks: int) -> Series:
    """Fetch so many blocks of jobs one by one beside the holder; then one more without it."""
    import psycopg

    find = _FIND.format(where=" WHERE status = 'queued'" if way.marks else "")
    times, read = [], []
    with place.admin() as admin, psycopg.connect(place.worker_dsn, autocommit=True) as conn:
        _fill(admin, way, block * (blocks + 2))
        conn.execute("SET synchronous_commit = off; SET enable_seqscan = off; SET enable_sort = off; SET jit = off")
        with holding(place, way.holder):
            for _ in range(blocks):
                times.append(statistics.median(_fetch(conn, way) for _ in range(block)))
                read.append(_settled(conn, way, find))
        for _ in range(block):
            _fetch(conn, way)
        return Series(times, read, _settled(conn, way, find))


def _settled(conn: psycopg.Connection[Any], way: Way, find: str) -> int:
    """The buffers that finding the next job reads, once the log is on disk as far as it goes.

    Of a commit that is still on its way there no reader notes that what it deleted is dead, so that how many pages are
    read past depends on when the server last wrote its log. One fetch waits for it, and one reader then marks what
    is dead to all: the next one reads past what a transaction keeps, and past nothing else.
    """
    conn.execute("SET synchronous_commit = on")
    _fetch(conn, way)
    conn.execute("SET synchronous_commit = off")
    conn.execute(find)
    return buffers(conn, find)


def _fill(admin: psycopg.Connection[Any], way: Way, jobs: int) -> None:
    prepare(admin)
    admin.execute("DROP TABLE IF EXISTS fetched")
    columns = "id bigint PRIMARY KEY, status text NOT NULL, payload text NOT NULL"
    admin.execute(f"CREATE TABLE fetched ({columns}) WITH (autovacuum_enabled = false)")
    made = "SELECT n, 'queued', repeat('x', 100) FROM generate_series(1, %s) AS n"
    admin.execute(f"INSERT INTO fetched {made}", (jobs,))
    if way.marks:
        admin.execute("CREATE INDEX ON fetched (id) WHERE status = 'queued'")
    admin.execute("GRANT ALL ON fetched TO PUBLIC")
    admin.execute("VACUUM ANALYZE fetched")


def _fetch(conn: psycopg.Connection[Any], way: Way) -> float:
    """Milliseconds that one fetch takes."""
    began = time.perf_counter()
    found = conn.execute(_MARK if way.marks else _DELETE).fetchone()
    assert found is not None
    return 1000 * (time.perf_counter() - began)


EXPERIMENT = Experiment(
    "drift",
    "What does it cost to fetch a job while somebody holds a transaction open?",
    "Keep transactions that write short, long reports elsewhere, and idle_in_transaction_session_timeout set. TA501",
    run,
)
