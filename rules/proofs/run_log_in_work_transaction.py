"""TA307: what is left of the record when the work fails."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import JOBS, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    stage.error(stage.module("jobs.worker").run_one, "worker", _fail)
    return {"runs on record": stage.value("SELECT count(*) FROM job_runs")}


def _fail(conn: object, payload: object) -> None:
    raise RuntimeError


PROOF = Proof(
    bad="Claim, record, work",
    good="Committed with the claim",
    scene=scene,
    schema=JOBS,
    bad_shows={"runs on record": 0},
    good_shows={"runs on record": 1},
)
