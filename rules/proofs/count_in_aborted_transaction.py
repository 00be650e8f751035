"""TA303: what the count itself fails with."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import INVOICES, JOBS, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    stage.break_work()
    return _seen(stage, stage.error(stage.module("jobs.worker").run_one))


def good_scene(stage: Stage) -> dict[str, Any]:
    stage.break_work()
    return _seen(stage, stage.error(stage.module("jobs.worker").Worker(stage.dsn).run_one))


def _seen(stage: Stage, error: str) -> dict[str, Any]:
    return {"the job ends with": error, "attempts": stage.value("SELECT attempts FROM jobs WHERE id = 1")}


PROOF = Proof(
    bad="The handler stands inside the block",
    good="Rolled back first",
    scene=scene,
    good_scene=good_scene,
    schema=INVOICES + JOBS,
    bad_shows={"the job ends with": "25P02", "attempts": 0},
    good_shows={"the job ends with": "42501", "attempts": 1},
)
