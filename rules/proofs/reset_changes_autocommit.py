"""TA206: how a later job gets its connection."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    found = set()
    for _ in range(12):
        with stage.module("app.db").pool.connection() as conn:
            found.add(conn.autocommit)
    return {"a later job is in autocommit": True in found}


PROOF = Proof(
    bad="Switched on, never off",
    good="Switched back in finally",
    scene=scene,
    bad_shows={"a later job is in autocommit": True},
    good_shows={"a later job is in autocommit": False},
)
