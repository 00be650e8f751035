"""Which way of claiming takes what it should, and reads what it must?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.lab.experiment import Experiment, Outcome, Row, judged
from auditor.lab.plans import buffers

if TYPE_CHECKING:
    from typing import Any

    import psycopg

    from auditor.lab.place import Place

_JOBS = 200
_PICK = "SELECT id FROM jobs WHERE status = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
#: Ways to claim one job, and how many each takes under a nested loop.
_WAYS = {
    "id IN (SELECT … LIMIT 1 …)": (f"WHERE id IN ({_PICK})", _JOBS),
    "id = (SELECT … LIMIT 1 …)": (f"WHERE id = ({_PICK})", 1),
    "id = ANY (ARRAY(SELECT … LIMIT 1 …))": (f"WHERE id = ANY (ARRAY({_PICK}))", 1),
}
_CTE = f"WITH next AS MATERIALIZED ({_PICK}) UPDATE jobs SET status = 'running' FROM next WHERE jobs.id = next.id"
#: What the planner chooses depends on what it knows of the table; here it is left with a nested loop.
_NESTED = "; ".join(f"SET LOCAL enable_{way} = off" for way in ("hashjoin", "mergejoin", "material", "hashagg", "sort"))


def run(place: Place) -> Outcome:
    import psycopg

    with place.admin() as admin, psycopg.connect(place.worker_dsn, autocommit=True) as worker:
        admin.execute("INSERT INTO jobs (tenant_id) SELECT 1 FROM generate_series(1, %s)", (_JOBS,))
        rows = [*_taken(worker), *_beside_foreign_keys(place, admin, worker)]
        rows += _polls(place, admin, worker)
    return judged(rows, "IN takes every job, FOR UPDATE misses jobs, and a bare clock reads all that is to run later")


def _taken(worker: psycopg.Connection[Any]) -> list[Row]:
    rows = []
    statements = {
        name: (f"UPDATE jobs SET status = 'running' {where}", takes) for name, (where, takes) in _WAYS.items()
    }
    for name, (statement, expected) in {**statements, "a MATERIALIZED CTE": (_CTE, 1)}.items():
        with worker.transaction(force_rollback=True):
            worker.execute(_NESTED)
            taken = worker.execute(statement).rowcount
        told = f"{taken} of {_JOBS} jobs"
        rows.append(Row(f"one is asked for, {name}", "", told, taken == expected, {"taken": taken}))
    return rows


def _beside_foreign_keys(place: Place, admin: psycopg.Connection[Any], worker: psycopg.Connection[Any]) -> list[Row]:
    """A row that refers to a job locks it FOR KEY SHARE until its transaction ends."""
    import psycopg

    admin.execute("CREATE TABLE notes (job_id bigint REFERENCES jobs); GRANT INSERT ON notes TO PUBLIC")
    rows = []
    with psycopg.connect(place.session()) as other:
        other.execute("INSERT INTO notes SELECT id FROM jobs")
        for strength, expected in (("UPDATE", 0), ("NO KEY UPDATE", _JOBS)):
            pick = f"SELECT id FROM jobs WHERE status = 'queued' FOR {strength} SKIP LOCKED"
            with worker.transaction():
                seen = len(worker.execute(pick).fetchall())
            what = f"FOR {strength} SKIP LOCKED, beside an open insert that refers to the jobs"
            rows.append(Row(what, "", f"finds {seen} of {_JOBS}", seen == expected, {"found": seen}))
        other.rollback()
    return rows


def _polls(place: Place, admin: psycopg.Connection[Any], worker: psycopg.Connection[Any]) -> list[Row]:
    """An empty queue that has jobs for later. A volatile function is no condition of an index."""
    later = place.size(20_000, 50_000)
    admin.execute("TRUNCATE jobs CASCADE; ALTER TABLE jobs ADD run_at timestamptz NOT NULL DEFAULT now()")
    admin.execute(
        "INSERT INTO jobs (run_at) SELECT now() + interval '1 day' + n * interval '1 second'"
        " FROM generate_series(1, %s) AS n",
        (later,),
    )
    admin.execute("CREATE INDEX ON jobs (run_at, id) WHERE status = 'queued'")
    admin.execute("VACUUM ANALYZE jobs")
    read = {}
    for clock in ("clock_timestamp()", "(SELECT clock_timestamp())"):
        read[clock] = buffers(
            worker, f"SELECT id FROM jobs WHERE status = 'queued' AND run_at <= {clock} ORDER BY run_at, id LIMIT 1"
        )
    bare, once = read.values()
    return [
        Row(
            f"empty poll beside {later:,} later jobs, run_at <= clock_timestamp()",
            "",
            f"{bare} buffers",
            bare > 20 * once,
            {"buffers": bare},
        ),
        Row("the same, run_at <= (SELECT clock_timestamp())", "", f"{once} buffers", once <= 5, {"buffers": once}),
    ]


EXPERIMENT = Experiment(
    "claim",
    "Which way of claiming takes what it should, and reads what it must?",
    "One job by = (SELECT …) or a MATERIALIZED CTE, FOR NO KEY UPDATE, ready by (SELECT clock_timestamp()). TA412",
    run,
)
