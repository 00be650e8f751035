"""TA411: how often two workers run one job."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import ONE_JOB, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    return {"times that one job is run": stage.times_run(stage.module("jobs.worker"))}


PROOF = Proof(
    bad="Committed before the work",
    good="Marked in the statement that locks",
    scene=scene,
    schema=ONE_JOB,
    bad_shows={"times that one job is run": 2},
    good_shows={"times that one job is run": 1},
)
