"""TA105: whom a later job runs as."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import Proof, Stage

_TOLD = "a later job runs as the role"


def scene(stage: Stage) -> dict[str, Any]:
    with stage.role("reporting"):
        reports = stage.module("jobs.reports")
        reports.totals()
        users = set()
        for _ in range(12):
            with reports.pool.connection() as conn:
                users.add(conn.execute("SELECT current_user").fetchone()[0])
        reports.pool.close()
    return {_TOLD: "reporting" in users}


PROOF = Proof(
    bad="SET ROLE on a pooled connection",
    good="For the transaction only",
    scene=scene,
    bad_shows={_TOLD: True},
    good_shows={_TOLD: False},
)
