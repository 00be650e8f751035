"""TA201: what a statement fails with that was prepared before."""

from __future__ import annotations

from typing import Any

from auditor.lab.place import COUNT
from auditor.lab.stage import Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    return {"fails with": stage.error(_jobs, stage.module("app.db").pool)}


def _jobs(pool: Any) -> None:
    for _ in range(60):  # each connection of the pool prepares for itself
        with pool.connection() as conn:
            conn.execute(COUNT)


PROOF = Proof(
    bad="In the reset callback",
    good="The parts of DISCARD ALL that keep plans",
    scene=scene,
    bad_shows={"fails with": "26000"},
    good_shows={"fails with": ""},
)
