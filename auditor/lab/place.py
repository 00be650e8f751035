"""Where an experiment is made: a schema of its own in the database, with the article's tenants, invoices and queue.

All that is made has the laboratory's name, and goes with the place: the schema, and the role that the worker is. So a
database that was given is as empty afterwards as it was before. Sessions are the given login's that take the worker's
role when they begin, since nobody can tell how a role of ours would be let in.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from auditor.lab.server import MARKER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

#: The ordinary role that workers are: it owns nothing, and row security binds it.
WORKER = f"{MARKER}_worker"

#: What a session sees of the article's 103,707 invoices: 20,000 of the first tenant, 10,000 of the second, and so on.
COUNT = "SELECT count(*) FROM invoices"

_SCHEMA = f"""
    CREATE SCHEMA {MARKER};
    SET search_path = {MARKER};
    CREATE TABLE invoices (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant_id int NOT NULL, total int NOT NULL
    );
    CREATE TABLE jobs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        tenant_id int NOT NULL DEFAULT 1,
        kind text NOT NULL DEFAULT 'plain',
        status text NOT NULL DEFAULT 'queued',
        attempts int NOT NULL DEFAULT 0,
        max_attempts int NOT NULL DEFAULT 3,
        locked_until timestamptz,
        last_error text
    );
    CREATE TABLE job_runs (
        job_id bigint NOT NULL, worker text NOT NULL, attempt int NOT NULL,
        started timestamptz NOT NULL DEFAULT clock_timestamp(), finished timestamptz, outcome text
    );
    GRANT USAGE ON SCHEMA {MARKER} TO {WORKER};
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {MARKER} TO {WORKER};
"""
_INVOICES = """
    INSERT INTO invoices (tenant_id, total)
    SELECT tenant, number FROM generate_series(1, 100) AS tenant, generate_series(1, 20000 / tenant) AS number;
    CREATE INDEX ON invoices (tenant_id);
    ALTER TABLE invoices ENABLE ROW LEVEL SECURITY;
    ALTER TABLE invoices FORCE ROW LEVEL SECURITY;
    CREATE POLICY own ON invoices USING (tenant_id = nullif(current_setting('app.tenant', true), '')::int);
    ANALYZE invoices
"""


@dataclass
class Place:
    """A place for one experiment. `seed` makes what is random the same again; `full` asks for the article's sizes."""

    dsn: str
    full: bool
    seed: int
    say: Callable[[str], None] = field(default=lambda told: None)

    @property
    def random(self) -> random.Random:
        return random.Random(self.seed)

    def size(self, quick: int, full: int) -> int:
        """How many: the article's number, or one that takes seconds."""
        return full if self.full else quick

    @property
    def worker_dsn(self) -> str:
        """The connection string of a session that is the worker from its beginning."""
        return self.session(f"-c role={WORKER}")

    def session(self, *options: str) -> str:
        """The connection string of a session in the place's schema, with more options of the server."""
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        given = conninfo_to_dict(self.dsn).get("options")
        words = [str(given)] if given else []
        return make_conninfo(self.dsn, options=" ".join([*words, f"-c search_path={MARKER}", *options]))

    @contextlib.contextmanager
    def admin(self) -> Iterator[psycopg.Connection[Any]]:
        """A session of the login itself, in autocommit."""
        import psycopg

        with psycopg.connect(self.session(), autocommit=True) as conn:
            yield conn

    def prepare(self) -> None:
        """Make what experiments share, anew."""
        with self.admin() as conn:
            _remove(conn)
            conn.execute(f"CREATE ROLE {WORKER}")
            conn.execute(f"GRANT {WORKER} TO CURRENT_USER")
            conn.execute(_SCHEMA)

    def with_invoices(self) -> None:
        """The article's tenants and invoices, under forced row security."""
        with self.admin() as conn:
            conn.execute(_INVOICES)

    def remove(self) -> None:
        """Take everything away again."""
        with self.admin() as conn:
            _remove(conn)


def _remove(conn: psycopg.Connection[Any]) -> None:
    conn.execute("SET client_min_messages = warning")
    conn.execute(f"DROP SCHEMA IF EXISTS {MARKER} CASCADE")
    if conn.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (WORKER,)).fetchone():
        conn.execute(f"DROP OWNED BY {WORKER}")
        conn.execute(f"DROP ROLE {WORKER}")


def number(row: tuple[Any, ...] | None) -> int:
    """The one number of a row."""
    assert row is not None
    return int(row[0])
