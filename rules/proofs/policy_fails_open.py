"""TA605: what a session sees that has set no tenant."""

from __future__ import annotations

from typing import Any

from auditor.lab.place import COUNT
from auditor.lab.stage import Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    import psycopg

    stage.admin.execute("INSERT INTO invoices SELECT n, 1 + n % 3 FROM generate_series(1, 6) AS n")
    with psycopg.connect(stage.dsn) as conn:
        row = conn.execute(COUNT).fetchone()
    return {"invoices that a session sees without a tenant": row[0] if row else None}


PROOF = Proof(
    bad="OR … IS NULL",
    good="Closed without a tenant",
    scene=scene,
    schema="",
    bad_shows={"invoices that a session sees without a tenant": 6},
    good_shows={"invoices that a session sees without a tenant": 0},
)
