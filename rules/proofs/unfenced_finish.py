"""TA402: what a worker does that has lost its job."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import ONE_JOB, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    worker, queries = stage.module("jobs.worker"), stage.module("jobs.queries")

    def loses_its_lease(conn: object, payload: object) -> None:
        stage.expire()
        worker.reap()
        stage.due()
        stage.value(queries.CLAIM)  # another worker has it now

    worker.run_one(loses_its_lease)
    return {"status, while another worker has the job": stage.value("SELECT status FROM jobs WHERE id = 1")}


PROOF = Proof(
    bad="By its id alone",
    good="With the token of the claim",
    scene=scene,
    schema=ONE_JOB,
    bad_shows={"status, while another worker has the job": "done"},
    good_shows={"status, while another worker has the job": "running"},
)
