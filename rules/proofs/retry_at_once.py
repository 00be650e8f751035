"""TA306: how soon a job that fails is tried again."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import ONE_JOB, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    worker = stage.module("jobs.worker")

    def fails(*words: object) -> None:
        raise ConnectionError

    for _ in range(5):
        worker.run_one(fails)
    attempts, status = stage.row("SELECT attempts, status FROM jobs")
    return {"attempts used up at once": attempts, "status": status}


PROOF = Proof(
    bad="Back to queued, with an error",
    good="Later, and later still",
    scene=scene,
    schema=ONE_JOB,
    bad_shows={"attempts used up at once": 5, "status": "dead"},
    good_shows={"attempts used up at once": 1, "status": "queued"},
)
