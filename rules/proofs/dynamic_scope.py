"""TA104: what one caller that says False does to all later jobs."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import LATER, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    return _later(stage, "1", False)


def good_scene(stage: Stage) -> dict[str, Any]:
    return _later(stage, "1")


def _later(stage: Stage, *words: object) -> dict[str, Any]:
    from psycopg_pool import ConnectionPool

    with ConnectionPool(stage.dsn, min_size=1, max_size=1) as pool:
        with pool.connection() as conn:
            stage.module("app.tenancy").set_tenant(conn, *words)
        return {LATER: stage.seen(pool)}


PROOF = Proof(
    bad="The scope is a parameter",
    good="Written out",
    scene=scene,
    good_scene=good_scene,
    bad_shows={LATER: 3},
    good_shows={LATER: 0},
)
