"""TA204: in which state a job gets its connection."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    with stage.module("app.db").pool.connection() as conn:
        return {"the job begins in a transaction": conn.info.transaction_status.name == "INTRANS"}


PROOF = Proof(
    bad="SELECT 1",
    good="Ended by the callback itself",
    scene=scene,
    bad_shows={"the job begins in a transaction": True},
    good_shows={"the job begins in a transaction": False},
)
