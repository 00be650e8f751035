"""TA111: what a later job sees, whose connection was cleaned."""

from __future__ import annotations

from typing import Any

from auditor.lab.place import COUNT
from auditor.lab.stage import LATER, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    worker = stage.module("jobs.worker")
    worker.close_month(stage.job(tenant="1", month="2026-01"))
    conn = worker.pool.getconn()
    with conn.cursor() as cursor:
        cursor.execute(COUNT)
        return {LATER: cursor.fetchone()[0]}


PROOF = Proof(
    bad="SET, commit, RESET, back to the pool",
    good="A local setting, which needs no cleanup",
    scene=scene,
    bad_shows={LATER: 3},
    good_shows={LATER: 0},
)
