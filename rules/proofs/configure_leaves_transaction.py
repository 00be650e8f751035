"""TA203: whether the pool hands out a connection."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    return {"the pool says": stage.error(_borrow, stage.module("app.db").pool)}


def _borrow(pool: Any) -> None:
    with pool.connection(timeout=5) as conn:
        conn.execute("SELECT 1")


PROOF = Proof(
    bad="Settings for the session, not committed",
    good="Committed",
    scene=scene,
    bad_shows={"the pool says": "PoolTimeout"},
    good_shows={"the pool says": ""},
)
