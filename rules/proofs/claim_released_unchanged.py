"""TA411: how often two workers run one job."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import JOBS, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    worker, handled = stage.module("jobs.worker"), 0

    def handle(*words: object) -> None:
        nonlocal handled
        handled += 1
        if handled == 1:
            worker.run_one(handle)  # another worker, while this one works

    worker.run_one(handle)
    return {"times that one job is run": handled}


PROOF = Proof(
    bad="Committed before the work",
    good="Marked in the statement that locks",
    scene=scene,
    schema=JOBS + "DELETE FROM jobs WHERE id > 1",
    bad_shows={"times that one job is run": 2},
    good_shows={"times that one job is run": 1},
)
