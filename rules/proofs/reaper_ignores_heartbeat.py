"""TA413: how often a long job is run whose worker is well."""

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
        for _ in range(20):
            stage.passes(seconds=30)
            worker.beat(job)
        worker.reap()
        stage.due()
        worker.run_one(handle)  # another worker, while this one works

    worker.run_one(handle)
    return {"times that a job of ten minutes is run, with a heartbeat": handled}


PROOF = Proof(
    bad="Told by the start",
    good="One column for both",
    scene=scene,
    schema=JOBS + "DELETE FROM jobs WHERE id > 1",
    bad_shows={"times that a job of ten minutes is run, with a heartbeat": 2},
    good_shows={"times that a job of ten minutes is run, with a heartbeat": 1},
)
