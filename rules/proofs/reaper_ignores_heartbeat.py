"""TA413: how often a long job is run whose worker is well."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import ONE_JOB, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    worker = stage.module("jobs.worker")

    def ten_minutes() -> None:
        job = stage.row("SELECT id, lock_token FROM jobs")
        for _ in range(20):
            stage.passes(seconds=30)
            worker.beat(job)
        worker.reap()
        stage.due()

    return {"times that a job of ten minutes is run, with a heartbeat": stage.times_run(worker, ten_minutes)}


PROOF = Proof(
    bad="Told by the start",
    good="One column for both",
    scene=scene,
    schema=ONE_JOB,
    bad_shows={"times that a job of ten minutes is run, with a heartbeat": 2},
    good_shows={"times that a job of ten minutes is run, with a heartbeat": 1},
)
