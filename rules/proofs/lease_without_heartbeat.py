"""TA404: how often a job is run that takes longer than its lease."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import ONE_JOB, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    worker = stage.module("jobs.worker")

    def two_minutes() -> None:
        job = stage.row("SELECT id, lock_token FROM jobs")
        for _ in range(4):
            stage.passes(seconds=30)
            if hasattr(worker, "beat"):
                worker.beat(job)
        worker.reap()
        stage.due()

    return {"times that a job of two minutes is run, on a lease of one": stage.times_run(worker, two_minutes)}


PROOF = Proof(
    bad="A limit, and nothing that moves it",
    good="Prolonged while the work runs",
    scene=scene,
    schema=ONE_JOB,
    bad_shows={"times that a job of two minutes is run, on a lease of one": 2},
    good_shows={"times that a job of two minutes is run, on a lease of one": 1},
)
