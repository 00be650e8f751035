"""The article's two workers, as small as they can be: one transaction a job, and a lease that counts at the claim."""

from __future__ import annotations

import enum
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

#: The exit code of a process that its job has ended, and of no other.
CRASHED = 99
CLAIM = "SELECT id, tenant_id, kind FROM jobs WHERE status = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
LEASE = """
    UPDATE jobs
       SET status = 'running', attempts = attempts + 1, locked_until = clock_timestamp() + %s * interval '1 second'
     WHERE id = (SELECT id FROM jobs
                  WHERE (status = 'queued' OR (status = 'running' AND locked_until < clock_timestamp()))
                    AND attempts < max_attempts
                  ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, tenant_id, kind, attempts
"""
RUN = "INSERT INTO job_runs (job_id, worker, attempt) VALUES (%s, %s, %s)"
DONE = "UPDATE jobs SET status = 'done' WHERE id = %s"
COUNT = """
    UPDATE jobs SET attempts = attempts + 1, last_error = 'failed',
           status = CASE WHEN attempts + 1 < max_attempts THEN 'queued' ELSE 'dead' END
     WHERE id = %s
"""
#: What the article proposes, and every reference worker does: with it a job whose worker dies for good is told dead.
REAP = """
    WITH gone AS (
        UPDATE jobs SET status = 'dead', locked_until = NULL
         WHERE status = 'running' AND locked_until < clock_timestamp() AND attempts >= max_attempts
        RETURNING id
    )
    UPDATE job_runs SET outcome = 'lost' FROM gone WHERE job_id = gone.id AND finished IS NULL
"""


class Handling(enum.Enum):
    """What becomes of a failure."""

    NONE = "no handler"
    SAME = "a handler that counts in the same transaction"
    NEW = "a handler that counts in a new transaction"


def work(conn: psycopg.Connection[Any], tenant: int, kind: str) -> None:
    """The work of a job: as its tenant, one statement, and what its kind says goes wrong with it."""
    conn.execute("SELECT set_config('app.tenant', %s, true)", (str(tenant),))
    if kind == "poison":
        conn.execute("SELECT 1 / 0")
    if kind == "crash":
        os._exit(CRASHED)
    conn.execute("SELECT 1")


def single(conn: psycopg.Connection[Any], worker: str, handling: Handling) -> int | None:
    """One transaction for claim, work and finish. The job that was taken, whatever became of it."""
    import psycopg

    job = None
    try:
        with conn.transaction():
            job = conn.execute(CLAIM).fetchone()
            if job is None:
                return None
            conn.execute(RUN, (job[0], worker, 1))
            try:
                work(conn, job[1], job[2])
            except psycopg.Error:
                if handling is Handling.SAME:
                    conn.execute(COUNT, (job[0],))  # refused: the transaction is aborted
                raise
            conn.execute(DONE, (job[0],))
    except psycopg.Error:
        assert job is not None
        if handling is Handling.NEW:
            with conn.transaction():
                conn.execute(COUNT, (job[0],))
    return int(job[0])


def leased(conn: psycopg.Connection[Any], worker: str, seconds: float) -> int | None:
    """The claim is committed with its count before the work begins."""
    with conn.transaction():
        job = conn.execute(LEASE, (seconds,)).fetchone()
        if job is None:
            return None
        conn.execute(RUN, (job[0], worker, job[3]))
    with conn.transaction():
        work(conn, job[1], job[2])
        conn.execute(DONE, (job[0],))
        finished = "UPDATE job_runs SET finished = clock_timestamp() WHERE job_id = %s AND attempt = %s"
        conn.execute(finished, (job[0], job[3]))
    return int(job[0])
