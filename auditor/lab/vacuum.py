"""What does a job that keeps its transaction open cost the queue? What VACUUM has to leave behind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from auditor.lab.chart import Bars
from auditor.lab.experiment import Experiment, Outcome, Row, judged
from auditor.lab.holders import HOLDERS, READER, Holder, holding, prepare
from auditor.lab.workers import CLAIM, DONE, LEASE

if TYPE_CHECKING:
    import psycopg

    from auditor.lab.place import Place

#: As PostgreSQL 15 and newer say it, and as 14 does.
_LEFT = re.compile(r"(\d+) (?:are dead but not yet removable|dead row versions cannot be removed yet)")
#: The long job of a worker that claims, works and finishes in one transaction, and of one that has a lease.
_SINGLE = Holder("one transaction: the job is locked FOR UPDATE", (CLAIM,), True)
_CLAIMED = (LEASE.replace("%s", "60"), "COMMIT")
_WRITES = Holder(
    "a lease, the long part in a transaction that writes", (*_CLAIMED, "INSERT INTO held VALUES (1)"), True
)
_OUTSIDE = Holder("a lease, the long part outside of any transaction", _CLAIMED, False)
#: With what was found before.
_WAYS = (
    (_SINGLE, "not removable"),
    (_WRITES, "not removable"),
    (_OUTSIDE, "all removed"),
    (READER, "all removed"),
    *((holder, "") for holder in HOLDERS[1:]),
)


def run(place: Place) -> Outcome:
    rows, bars = [], {}
    for holder, article in _WAYS:
        place.say(holder.name)
        jobs = place.size(500, 5_000)
        left = _left(place, holder, jobs)
        told = f"{left:,} row versions not removable after {jobs:,} jobs"
        rows.append(Row(holder.name, article, told, (left > 0) == holder.holds, {"left": left, "jobs": jobs}))
        bars[holder.name] = left
    outcome = judged(
        rows, "what has written, locked or taken a snapshot keeps what died since; a lease helps outside of it"
    )
    return Outcome(outcome.rows, outcome.verdict, (Bars("Dead, and not removable", "row versions", bars),))


def _left(place: Place, holder: Holder, jobs: int) -> int:
    """How many dead row versions VACUUM leaves while the long job lasts, and a worker has done so many short ones."""
    import psycopg

    told: list[str] = []
    with place.admin() as admin:
        prepare(admin)
        admin.execute("TRUNCATE jobs RESTART IDENTITY")
        admin.execute("ALTER TABLE jobs SET (autovacuum_enabled = false)")
        admin.execute("INSERT INTO jobs (kind) SELECT 'plain' FROM generate_series(0, %s)", (jobs,))
        with holding(place, holder), psycopg.connect(place.worker_dsn, autocommit=True) as conn:
            conn.execute("SET synchronous_commit = off")
            for _ in range(jobs):
                _short(conn)
            admin.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
            told.clear()
            admin.execute("VACUUM (VERBOSE) jobs")
    found = _LEFT.search("\n".join(told))
    assert found is not None, told
    return int(found[1])


def _short(conn: psycopg.Connection[Any]) -> None:
    with conn.transaction():
        job = conn.execute(CLAIM).fetchone()
        assert job is not None
        conn.execute(DONE, (job[0],))


EXPERIMENT = Experiment(
    "vacuum",
    "What does a job that keeps its transaction open cost the queue? What VACUUM has to leave behind meanwhile",
    "Do what takes long outside of any transaction that has written: SELECT … FOR UPDATE is a write. TA501, TA502",
    run,
)
