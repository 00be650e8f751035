"""TA603: what the owner of a table sees of it."""

from __future__ import annotations

from typing import Any

from auditor.lab.place import COUNT, WORKER
from auditor.lab.stage import Proof, Stage

_TOLD = "invoices that a worker sees as the owner of the table, with one tenant of three set"


def scene(stage: Stage) -> dict[str, Any]:
    import psycopg

    stage.admin.execute("INSERT INTO invoices SELECT n, n, 10 FROM generate_series(1, 3) AS n")
    stage.admin.execute(f"ALTER TABLE invoices OWNER TO {WORKER}")
    with psycopg.connect(stage.dsn) as conn:
        conn.execute("SELECT set_config('app.tenant', '1', true)")
        row = conn.execute(COUNT).fetchone()
    return {_TOLD: row[0] if row else None}


PROOF = Proof(
    bad="Enabled, and never forced",
    good="Forced",
    scene=scene,
    schema="",
    bad_shows={_TOLD: 3},
    good_shows={_TOLD: 1},
)
