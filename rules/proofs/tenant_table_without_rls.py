"""TA606: what a tenant sees of the table that was left out."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import Proof, Stage

_TOLD = "notes that a worker sees with one tenant of three set"


def scene(stage: Stage) -> dict[str, Any]:
    import psycopg

    stage.admin.execute("INSERT INTO notes SELECT n, n FROM generate_series(1, 3) AS n")
    with psycopg.connect(stage.dsn) as conn:
        conn.execute("SELECT set_config('app.tenant', '1', true)")
        row = conn.execute("SELECT count(*) FROM notes").fetchone()
    return {_TOLD: row[0] if row else None}


PROOF = Proof(
    bad="The table that came later",
    good="All of them",
    scene=scene,
    schema="",
    bad_shows={_TOLD: 3},
    good_shows={_TOLD: 1},
)
