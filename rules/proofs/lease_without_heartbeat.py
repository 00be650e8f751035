"""TA404: how often a job is run that takes longer than its lease."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import JOBS, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    worker, handled = stage.module("jobs.worker"), 0

    def handle(*words: object) -> None:
        nonlocal handled
        handled += 1
        if handled > 1:
            return
        job = stage.row("SELECT id, lock_token FROM jobs")
        for _ in range(4):
            stage.passes(seconds=30)
            if hasattr(worker, "beat"):
                worker.beat(job)
        worker.reap()
        stage.due()
        worker.run_one(handle)  # another worker, while this one works

    worker.run_one(handle)
    return {"times that a job of two minutes is run, on a lease of one": handled}


PROOF = Proof(
    bad="A limit, and nothing that moves it",
    good="Prolonged while the work runs",
    scene=scene,
    schema=JOBS + "DELETE FROM jobs WHERE id > 1",
    bad_shows={"times that a job of two minutes is run, on a lease of one": 2},
    good_shows={"times that a job of two minutes is run, on a lease of one": 1},
)
