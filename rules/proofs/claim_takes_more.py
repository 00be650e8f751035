"""TA412: how many jobs a claim of one takes."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import JOBS, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    for other in ("hashjoin", "mergejoin", "hashagg", "sort", "material"):
        stage.admin.execute(f"SET enable_{other} = off".encode())  # a plan that the server may choose at any time
    stage.value(stage.module("jobs.queries").CLAIM)
    return {"jobs taken, of 200": stage.value("SELECT count(*) FROM jobs WHERE status = 'running'")}


PROOF = Proof(
    bad="UPDATE … IN",
    good="One job, by =",
    scene=scene,
    schema=JOBS
    + "INSERT INTO jobs (tenant_id) SELECT 1 FROM generate_series(1, 198); CREATE INDEX ON jobs (run_at, id)",
    bad_shows={"jobs taken, of 200": 200},
    good_shows={"jobs taken, of 200": 1},
)
