"""Workers as teams have them, before the reference: each audited as text, and run against the migration."""

from __future__ import annotations

from typing import NamedTuple


class Old(NamedTuple):
    """A team's code. The worker module has `run_one(conn)`, which is false where there is no job, and `enqueue`."""

    schema: str
    worker: str
    table: str
    column: str
    tenant: str  #: a tenant, as text
    kind: str  #: what the migration calls the kind of its jobs
    states: tuple[str, str, str, str]


#: One transaction, the same names, and what the job is about in a column of its own.
ARTICLE = Old(
    """
    CREATE TABLE jobs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        tenant_id integer NOT NULL,
        number integer NOT NULL,
        status text NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'done', 'failed')),
        attempts integer NOT NULL DEFAULT 0
    );
    """,
    '''
"""One transaction a job."""
import psycopg

CLAIM = """
    SELECT id, tenant_id, number FROM jobs WHERE status = 'queued' AND attempts < 4
     ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
"""

def run_one(conn: psycopg.Connection) -> bool:
    with conn.transaction():
        job = conn.execute(CLAIM).fetchone()
        if job is None:
            return False
        conn.execute("INSERT INTO effects VALUES (%s, %s, 'old')", (job[0], job[2]))
        conn.execute("UPDATE jobs SET status = 'done' WHERE id = %s", (job[0],))
    return True

def failed(conn: psycopg.Connection, job: int) -> None:
    conn.execute("UPDATE jobs SET attempts = attempts + 1 WHERE id = %s", (job,))
    conn.execute("UPDATE jobs SET status = 'failed' WHERE id = %s AND attempts >= 4", (job,))

def enqueue(conn: psycopg.Connection, tenant: str, number: int) -> int:
    new = "INSERT INTO jobs (tenant_id, number) VALUES (%s, %s) RETURNING id"
    return conn.execute(new, (tenant, number)).fetchone()[0]
''',
    "jobs",
    "tenant_id",
    "7",
    "job",
    ("queued", "running", "done", "failed"),
)

#: A lease, and hardly a name that is the same.
RENAMED = Old(
    """
    CREATE TABLE work_items (
        id serial PRIMARY KEY,
        org_id uuid NOT NULL,
        job_type varchar(40) NOT NULL,
        args json NOT NULL,
        state varchar(20) NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'processing', 'completed', 'failed')),
        retries integer NOT NULL DEFAULT 0,
        run_after timestamptz NOT NULL DEFAULT now(),
        lease_expires_at timestamptz,
        claimed_by text,
        error text,
        finished_at timestamptz
    );
    """,
    '''
"""A lease."""
import psycopg
from psycopg.types.json import Jsonb

CLAIM = """
    UPDATE work_items
       SET state = 'processing', retries = retries + 1, claimed_by = %s,
           lease_expires_at = clock_timestamp() + interval '5 minutes'
     WHERE id = (SELECT id FROM work_items
                  WHERE state = 'pending' AND run_after <= now() AND retries < 6
                  ORDER BY run_after, id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, org_id, job_type, args, retries
"""

def run_one(conn: psycopg.Connection) -> bool:
    job = conn.execute(CLAIM, ("w",)).fetchone()
    if job is None:
        return False
    with conn.transaction():
        conn.execute("INSERT INTO effects VALUES (%s, %s, 'old')", (job[0], job[3]["number"]))
        done = "UPDATE work_items SET state = 'completed', finished_at = now() WHERE id = %s AND retries = %s"
        conn.execute(done, (job[0], job[4]))
    return True

def failed(conn: psycopg.Connection, job: int) -> None:
    conn.execute("UPDATE work_items SET state = 'failed', error = 'no' WHERE id = %s AND retries >= 6", (job,))
    conn.execute("UPDATE work_items SET state = 'pending' WHERE id = %s AND state = 'processing'", (job,))

def enqueue(conn: psycopg.Connection, tenant: str, number: int) -> int:
    new = "INSERT INTO work_items (org_id, job_type, args) VALUES (%s, 'count', %s) RETURNING id"
    return conn.execute(new, (tenant, Jsonb({"number": number}))).fetchone()[0]
''',
    "work_items",
    "org_id",
    "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
    "count",
    ("queued", "running", "done", "dead"),
)

#: The same column for the status, with other words in it, two of them for one state.
WORDS = Old(
    """
    CREATE TABLE tasks (
        id bigserial PRIMARY KEY,
        tenant_id bigint NOT NULL,
        kind text NOT NULL,
        payload jsonb NOT NULL,
        status text NOT NULL DEFAULT 'pending',
        attempts smallint NOT NULL DEFAULT 0,
        created_at timestamptz NOT NULL DEFAULT now()
    );
    """,
    '''
"""Two words for what waits."""
import psycopg
from psycopg.types.json import Jsonb

CLAIM = """
    SELECT id, payload FROM tasks WHERE status IN ('pending', 'retry') ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
"""

def run_one(conn: psycopg.Connection) -> bool:
    with conn.transaction():
        job = conn.execute(CLAIM).fetchone()
        if job is None:
            return False
        conn.execute("INSERT INTO effects VALUES (%s, %s, 'old')", (job[0], job[1]["number"]))
        conn.execute("UPDATE tasks SET status = 'completed' WHERE id = %s", (job[0],))
    return True

def failed(conn: psycopg.Connection, job: int) -> None:
    conn.execute("UPDATE tasks SET status = 'retry', attempts = attempts + 1 WHERE id = %s", (job,))

def enqueue(conn: psycopg.Connection, tenant: str, number: int) -> int:
    new = "INSERT INTO tasks (tenant_id, kind, payload) VALUES (%s, 'count', %s) RETURNING id"
    return conn.execute(new, (tenant, Jsonb({"number": number}))).fetchone()[0]
''',
    "tasks",
    "tenant_id",
    "7",
    "count",
    ("pending", "running", "completed", "dead"),
)

OLD = {"article": ARTICLE, "renamed": RENAMED, "words": WORDS}
