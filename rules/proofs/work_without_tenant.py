"""TA108: how many rows a job reaches that sets no tenant."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import INVOICES, JOBS, Proof, Stage

_TOLD = "invoices that a job has changed for its tenant, of three"


def scene(stage: Stage) -> dict[str, Any]:
    return {_TOLD: stage.module("jobs.worker").remind(), "jobs left": stage.value("SELECT count(*) FROM jobs")}


PROOF = Proof(
    bad="One job of two",
    good="Both jobs",
    scene=scene,
    schema=INVOICES
    + JOBS
    + "DELETE FROM jobs; INSERT INTO jobs (id, tenant_id) OVERRIDING SYSTEM VALUE VALUES (0, 1), (1, 2)",
    bad_shows={_TOLD: 0, "jobs left": 1},
    good_shows={_TOLD: 3, "jobs left": 1},
)
