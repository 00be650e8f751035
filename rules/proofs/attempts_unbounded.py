"""TA305: how often a job is tried that never ends well."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import JOBS, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    worker = stage.module("jobs.worker")
    for _ in range(6):
        stage.error(worker.run_one, _fail)
        stage.expire()
    return {"attempts, of at most three": stage.value("SELECT attempts FROM jobs WHERE id = 1")}


def _fail(conn: object, payload: object) -> None:
    raise RuntimeError


PROOF = Proof(
    bad="Counted, never compared",
    good="Bounded in the claim",
    scene=scene,
    schema=JOBS,
    bad_shows={"attempts, of at most three": 6},
    good_shows={"attempts, of at most three": 3},
)
