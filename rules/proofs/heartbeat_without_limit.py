"""TA406: how long a job is kept that hangs."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import ONE_JOB, Proof, Stage

_TOLD = "a job that hangs is still kept after 100 minutes"


def scene(stage: Stage) -> dict[str, Any]:
    worker, kept = stage.module("jobs.worker"), True
    stage.value(stage.module("jobs.queries").CLAIM)
    job = stage.row("SELECT id, lock_token FROM jobs")
    for _ in range(200):
        stage.passes(seconds=30)
        kept = worker.beat(job)
    return {_TOLD: kept}


PROOF = Proof(
    bad="The lease, again and again",
    good="Down to a deadline",
    scene=scene,
    schema=ONE_JOB,
    bad_shows={_TOLD: True},
    good_shows={_TOLD: False},
)
