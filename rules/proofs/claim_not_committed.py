"""TA407: what others see of a claim."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import ONE_JOB, Proof, Stage

_TOLD = "status that others see while the job is worked on"


def scene(stage: Stage) -> dict[str, Any]:
    seen: list[str] = []

    def handle(*words: object) -> None:
        seen.append(stage.value("SELECT status FROM jobs"))

    run_one = stage.module("jobs.worker").run_one
    words = ("worker-1", handle) if run_one.__code__.co_argcount == 2 else (handle,)
    run_one(*words)
    return {_TOLD: seen[0]}


PROOF = Proof(
    bad="Claim, work and finish in one block",
    good="Committed before the work",
    scene=scene,
    schema=ONE_JOB,
    bad_shows={_TOLD: "queued"},
    good_shows={_TOLD: "running"},
)
