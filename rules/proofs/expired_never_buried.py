"""TA401: what becomes of a job whose worker is gone."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import ONE_JOB, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    worker, queries = stage.module("jobs.worker"), stage.module("jobs.queries")
    stage.value(queries.CLAIM)  # and then its process is gone
    stage.expire()
    if hasattr(worker, "reap"):
        worker.reap()
    return {"status, long after the lease": stage.value("SELECT status FROM jobs")}


PROOF = Proof(
    bad="Nothing takes it back",
    good="Taken back, or buried",
    scene=scene,
    schema=ONE_JOB,
    bad_shows={"status, long after the lease": "running"},
    good_shows={"status, long after the lease": "queued"},
)
