"""TA308: how often a job is tried whose worker always dies."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import ONE_JOB, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    worker, claimed = stage.module("jobs.worker"), 0
    for _ in range(8):
        claimed += stage.value(stage.module("jobs.queries").CLAIM) is not None  # and then its process is gone
        stage.expire()
        worker.reap()
        stage.due()
    return {"times tried, of at most five": claimed, "status": stage.value("SELECT status FROM jobs")}


PROOF = Proof(
    bad="Counted by the claim, bounded by nothing on the way",
    good="Buried at the maximum",
    scene=scene,
    schema=ONE_JOB,
    bad_shows={"times tried, of at most five": 8, "status": "queued"},
    good_shows={"times tried, of at most five": 5, "status": "dead"},
)
