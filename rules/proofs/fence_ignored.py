"""TA403: what is kept of the work of one who has lost the job."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import ONE_JOB, Proof, Stage

_TOLD = "writes that are kept of the worker that lost the job"


def scene(stage: Stage) -> dict[str, Any]:
    worker, queries = stage.module("jobs.worker"), stage.module("jobs.queries")

    def loses_its_lease(conn: Any, payload: object) -> None:
        conn.execute("INSERT INTO job_runs (job_id) VALUES (1)")
        stage.expire()
        worker.reap()
        stage.due()
        stage.value(queries.CLAIM)  # another worker has it now

    worker.run_one(loses_its_lease)
    return {_TOLD: stage.value("SELECT count(*) FROM job_runs")}


PROOF = Proof(
    bad="Dropped",
    good="Read, and raised",
    scene=scene,
    schema=ONE_JOB,
    bad_shows={_TOLD: 1},
    good_shows={_TOLD: 0},
)
