"""Does the queue belong under the tenants' row security?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.lab.experiment import Experiment, Outcome, Row, judged
from auditor.lab.place import WORKER, number

if TYPE_CHECKING:
    from typing import Any

    import psycopg

    from auditor.lab.place import Place

_JOBS = 100
_CLAIM = """
    SELECT id, tenant_id FROM jobs WHERE status = 'queued' AND attempts < max_attempts
     ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_POLICY = """
    ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON jobs USING (tenant_id = nullif(current_setting('app.tenant', true), '')::int)
"""


def run(place: Place) -> Outcome:
    import psycopg

    with place.admin() as admin, psycopg.connect(place.worker_dsn, autocommit=True) as worker:
        admin.execute("INSERT INTO jobs (tenant_id) SELECT 1 + n %% 100 FROM generate_series(1, %s) AS n", (_JOBS,))
        open_ = _row("no policy", "", worker, _JOBS, claims=True)
        admin.execute(_POLICY)
        rows = [
            open_,
            _row("the tenants' policy, no tenant set", "0 of 100, no error", worker, 0, claims=False),
            _as_tenant(worker),
            _enqueue(worker),
            _loud(worker),
        ]
        admin.execute(f"CREATE POLICY worker ON jobs TO {WORKER} USING (true)")
        rows.append(_row("and a policy for the worker's role", "", worker, _JOBS, claims=True))
    return judged(rows, "under the tenants' policy the queue is empty for its worker, and nothing says so")


def _row(what: str, article: str, worker: psycopg.Connection[Any], expected: int, *, claims: bool) -> Row:
    seen = _count(worker)
    claimed = worker.execute(_CLAIM).fetchone() is not None
    told = f"{seen} of {_JOBS}, no error, {'claims' if claimed else 'claims nothing'}"
    return Row(what, article, told, (seen, claimed) == (expected, claims), {"seen": seen, "claimed": claimed})


def _count(worker: psycopg.Connection[Any]) -> int:
    return number(worker.execute("SELECT count(*) FROM jobs").fetchone())


def _as_tenant(worker: psycopg.Connection[Any]) -> Row:
    with worker.transaction():
        worker.execute("SELECT set_config('app.tenant', '7', true)")
        seen = _count(worker)
    return Row("the same, as one tenant", "", f"{seen} of {_JOBS}: its own", seen == 1, {"seen": seen})


def _enqueue(worker: psycopg.Connection[Any]) -> Row:
    """A policy without WITH CHECK holds what is written against USING."""
    state = _refused(worker, "INSERT INTO jobs (tenant_id) VALUES (7)")
    told = f"refused: {state}" if state else "taken"
    return Row("the same, a job is enqueued with no tenant set", "", told, state == "42501", {"sqlstate": state})


def _loud(worker: psycopg.Connection[Any]) -> Row:
    """Row security that may not hide anything is an error instead of silence: what a worker can ask at its start."""
    with worker.transaction():
        worker.execute("SET LOCAL row_security = off")
        state = _refused(worker, "SELECT count(*) FROM jobs")
    told = f"refused: {state}" if state else "silence"
    return Row("the same, with row_security = off", "", told, state == "42501", {"sqlstate": state})


def _refused(worker: psycopg.Connection[Any], statement: str) -> str:
    """The SQLSTATE of a statement that fails, or nothing."""
    import psycopg

    try:
        with worker.transaction():
            worker.execute(statement)
    except psycopg.Error as error:
        return error.sqlstate or "?"
    return ""


EXPERIMENT = Experiment(
    "policy",
    "Does the queue belong under the tenants' row security? Jobs that a worker sees which has set no tenant yet",
    "Keep the queue out of the tenants' policy, or give the worker's role a policy of its own for it. TA601",
    run,
)
