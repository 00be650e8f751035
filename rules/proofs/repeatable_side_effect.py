"""TA504: what a receiver can tell of two requests for one job."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from auditor.lab.stage import ONE_JOB, Proof, Stage

_TOLD = "charges that the receiver takes for different ones, of one job"


def scene(stage: Stage) -> dict[str, Any]:
    charges: list[str] = []
    requests = ModuleType("requests")  # instead of a request: a receiver that knows keys where it is given any
    sys.modules["requests"] = requests

    def post(*words: object, headers: dict[str, str] | None = None, **more: object) -> None:
        charges.append((headers or {}).get("Idempotency-Key", f"charge {len(charges)}"))
        if len(charges) == 1:
            # The request takes longer than the lease: the job is handed on.
            stage.expire()
            worker.reap()
            stage.due()
            worker.run_one()

    requests.post = post  # type: ignore[attr-defined]
    worker = stage.module("jobs.worker")
    worker.run_one()
    return {"requests": len(charges), _TOLD: len(set(charges))}


PROOF = Proof(
    bad="A payment without a key",
    good="The job's id goes with it",
    scene=scene,
    schema=ONE_JOB,
    bad_shows={"requests": 2, _TOLD: 2},
    good_shows={"requests": 2, _TOLD: 1},
)
