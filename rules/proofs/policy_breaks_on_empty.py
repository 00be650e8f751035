"""TA602: what a query does after the tenant's transaction."""

from __future__ import annotations

from typing import Any

from auditor.lab.place import COUNT
from auditor.lab.stage import Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    return {"the next query without a tenant fails with": stage.error(_query, stage.dsn)}


def _query(dsn: str) -> None:
    import psycopg

    with psycopg.connect(dsn) as conn:
        conn.execute("SELECT set_config('app.tenant', '1', true)")
        conn.commit()
        conn.execute(COUNT)


PROOF = Proof(
    bad="A cast without nullif",
    good="nullif inside the cast",
    scene=scene,
    schema="",
    bad_shows={"the next query without a tenant fails with": "22P02"},
    good_shows={"the next query without a tenant fails with": ""},
)
