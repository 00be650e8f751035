"""TA205: what becomes of the connection that was to be cleaned."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    return {"every job takes a connection of its own": stage.takes_new_connections(stage.module("app.db").pool)}


def good_scene(stage: Stage) -> dict[str, Any]:
    db, backends = stage.module("app.db"), set()
    for _ in range(5):
        conn = db.pool.getconn()
        backends.add(conn.info.backend_pid)
        db.give_back(conn)
    return {"every job takes a connection of its own": len(backends) == 5}


PROOF = Proof(
    bad="The driver begins a transaction first",
    good="In autocommit",
    scene=scene,
    good_scene=good_scene,
    bad_shows={"every job takes a connection of its own": True},
    good_shows={"every job takes a connection of its own": False},
)
