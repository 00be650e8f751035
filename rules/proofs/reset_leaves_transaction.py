"""TA202: how many connections twenty jobs take."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    return {"every job takes a connection of its own": stage.takes_new_connections(stage.module("app.db").pool)}


PROOF = Proof(
    bad="RESET without a commit",
    good="Committed",
    scene=scene,
    bad_shows={"every job takes a connection of its own": True},
    good_shows={"every job takes a connection of its own": False},
)
