"""Where an example of a rule's page is run for real: its modules, its schema, and a session that looks on.

A proof stands in `proofs/` beside the rule, in a file of the rule's name, as `PROOF`. It is our own code and runs ours:
the examples are part of the product. Each scene is a process of its own (`python -m auditor.lab.stage`), so that pools,
modules and what an example breaks go with it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from auditor.lab.place import COUNT, WORKER, number
from auditor.lab.server import MARKER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    import psycopg

#: What most scenes look at.
LATER = "invoices that a later job sees, having set nothing"
#: Three tenants with three, two and one invoices, under row security.
INVOICES = """
    CREATE TABLE invoices (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant_id int NOT NULL, total numeric NOT NULL DEFAULT 10,
        month text NOT NULL DEFAULT '2026-01', day date NOT NULL DEFAULT current_date,
        due date NOT NULL DEFAULT '2026-01-01', closed boolean NOT NULL DEFAULT false,
        archived boolean NOT NULL DEFAULT false, reminded timestamptz, sent timestamptz
    );
    INSERT INTO invoices (tenant_id) VALUES (1), (1), (1), (2), (2), (3);
    ALTER TABLE invoices ENABLE ROW LEVEL SECURITY;
    ALTER TABLE invoices FORCE ROW LEVEL SECURITY;
    CREATE POLICY own ON invoices USING (tenant_id = nullif(current_setting('app.tenant', true), '')::int);
"""
#: Two jobs, with the columns that examples use.
JOBS = """
    CREATE TABLE jobs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant_id int NOT NULL DEFAULT 1,
        status text NOT NULL DEFAULT 'queued', attempts int NOT NULL DEFAULT 0, max_attempts int NOT NULL DEFAULT 3,
        failures int NOT NULL DEFAULT 0, payload text NOT NULL DEFAULT 'pay', last_error text,
        run_at timestamptz NOT NULL DEFAULT now(), started_at timestamptz, locked_until timestamptz,
        deadline timestamptz, lock_token uuid, locked_by text, heartbeat_at timestamptz
    );
    INSERT INTO jobs (tenant_id) VALUES (1), (2);
    CREATE TABLE job_runs (job_id bigint, attempt int, worker text, started timestamptz NOT NULL DEFAULT now());
"""
#: The same with the first of them alone.
ONE_JOB = JOBS + "DELETE FROM jobs WHERE id > 1"


@dataclass(frozen=True)
class Proof:
    """Which examples are run, by their headings; what is done with them; and what each shows."""

    bad: str
    good: str
    scene: Callable[[Stage], Mapping[str, Any]]
    bad_shows: Mapping[str, Any]
    good_shows: Mapping[str, Any]
    schema: str = INVOICES  #: run before the example's own SQL files
    good_scene: Callable[[Stage], Mapping[str, Any]] | None = None  #: where the good example is called otherwise
    good_schema: str | None = None  #: where it does not define what the bad one does


class Stage:
    """What a scene may use."""

    def __init__(self, admin: psycopg.Connection[Any], dsn: str) -> None:
        self.admin = admin
        self.dsn = dsn  #: connects as the worker

    def module(self, name: str) -> ModuleType:
        """A module of the example."""
        return importlib.import_module(name)

    def value(self, query: str, *words: object) -> Any:
        """The first value of a query, as who sees everything."""
        row = self.row(query, *words)
        return row[0] if row else None

    def row(self, query: str, *words: object) -> tuple[Any, ...]:
        """The first row of a query, as who sees everything."""
        return self.admin.execute(query.encode(), words or None).fetchone() or ()

    def break_work(self) -> None:
        """From now on whatever touches an invoice fails, with 42501."""
        self.admin.execute(f"REVOKE ALL ON invoices FROM {WORKER}")

    def expire(self) -> None:
        """Let all leases end."""
        self.admin.execute("UPDATE jobs SET locked_until = now() - interval '1 s' WHERE locked_until IS NOT NULL")

    def passes(self, seconds: int) -> None:
        """Let time pass for all jobs: what they note of the clock lies so much further back."""
        columns = ("started_at", "heartbeat_at", "locked_until", "deadline")
        moved = ", ".join(f"{column} = {column} - interval '{seconds} s'" for column in columns)
        self.admin.execute(f"UPDATE jobs SET {moved}".encode())

    def due(self) -> None:
        """Let all jobs be due that are to run later."""
        self.admin.execute("UPDATE jobs SET run_at = now() - interval '1 s'")

    def takes_new_connections(self, pool: Any) -> bool:
        """Whether each of some jobs is given another connection of the server."""
        backends = set()
        for _ in range(20):
            with pool.connection() as conn:
                backends.add(conn.info.backend_pid)
                conn.execute("SELECT 1")
        return len(backends) == 20

    def times_run(self, worker: ModuleType, meanwhile: Callable[[], object] | None = None) -> int:
        """How often the job is run when another worker looks for one while it is; `meanwhile` comes before that."""
        handled = 0

        def handle(*words: object) -> None:
            nonlocal handled
            handled += 1
            if handled == 1:
                if meanwhile is not None:
                    meanwhile()
                worker.run_one(handle)

        worker.run_one(handle)
        return handled

    @contextlib.contextmanager
    def role(self, name: str) -> Iterator[None]:
        """A role that the example takes, for as long as the block lasts."""
        self.admin.execute(f"CREATE ROLE {name}")
        try:
            self.admin.execute(f"GRANT {name} TO {WORKER}; GRANT ALL ON ALL TABLES IN SCHEMA {MARKER} TO {name}")
            self.admin.execute(f"GRANT USAGE ON SCHEMA {MARKER} TO {name}")
            yield
        finally:
            self.admin.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")

    @staticmethod
    def dies(work: Callable[[], object]) -> bool:
        """Whether a process of its own that does the work ends otherwise than by itself."""
        child = os.fork()
        if child == 0:
            work()
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0

    def seen(self, pool: Any) -> int:
        """How many invoices a later borrower sees, who sets nothing: the most of any connection of the pool."""
        found = []
        for _ in range(12):  # a pool hands out its connections in turn
            with pool.connection() as conn:
                found.append(number(conn.execute(COUNT, prepare=False).fetchone()))
                conn.rollback()
        return max(found)

    @staticmethod
    def job(**fields: Any) -> Any:
        """A job as examples have them: an object with these attributes."""
        return SimpleNamespace(**fields)

    @staticmethod
    def error(call: Callable[..., object], *words: object) -> str:
        """What a call fails with: a SQLSTATE, or the name of the error; nothing where it does not."""
        try:
            call(*words)
        except Exception as error:
            return str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or type(error).__name__)
        return ""


def load(path: Path) -> Proof:
    """The proof that a file holds."""
    spec = importlib.util.spec_from_file_location(f"_proof_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.PROOF
    assert isinstance(found, Proof), f"{path}: PROOF is no Proof"
    return found


def main(file: str, which: str) -> None:
    """Play a scene in the working directory, which holds the example. Standard input says where the database is."""
    import logging
    import warnings

    import psycopg

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(Path.cwd()))
    sys.modules["auditor.lab.stage"] = sys.modules["__main__"]
    proof, words = load(Path(file)), json.loads(sys.stdin.read())
    scene = proof.good_scene if which == "good" and proof.good_scene is not None else proof.scene
    with psycopg.connect(words["admin"], autocommit=True) as admin:
        print(json.dumps(dict(scene(Stage(admin, words["worker"])))), flush=True)
    os._exit(0)  # threads of pools that an example leaves open do not matter any more


if __name__ == "__main__":
    main(*sys.argv[1:])
