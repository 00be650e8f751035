"""TA301: what is left of the count when the work fails."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import INVOICES, JOBS, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    stage.break_work()
    error = stage.error(stage.module("jobs.worker").run_one)
    return {"the work fails with": error, "attempts counted": stage.value("SELECT attempts FROM jobs WHERE id = 1")}


PROOF = Proof(
    bad="Counted in the claim, and no commit before the work",
    good="Claimed and counted, committed, then worked on",
    scene=scene,
    schema=INVOICES + JOBS,
    bad_shows={"the work fails with": "42501", "attempts counted": 0},
    good_shows={"the work fails with": "42501", "attempts counted": 1},
)
