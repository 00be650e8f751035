"""TA109: what a value does that is more than a value."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import Proof, Stage

_TOLD = "invoices of another tenant that were closed"


def scene(stage: Stage) -> dict[str, Any]:
    job = stage.job(tenant="1'; SET LOCAL app.tenant = '2", month="2026-01")
    stage.error(stage.module("jobs.worker").close_month, job)
    return {_TOLD: stage.value("SELECT count(*) FROM invoices WHERE closed AND tenant_id = 2")}


PROOF = Proof(
    bad="An f-string",
    good="A parameter of set_config",
    scene=scene,
    bad_shows={_TOLD: 2},
    good_shows={_TOLD: 0},
)
