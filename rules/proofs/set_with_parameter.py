"""TA110: what the server says to it."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    job = stage.job(tenant="1", month="2026-01")
    error = stage.error(stage.module("jobs.worker").close_month, job)
    return {"fails with": error, "invoices closed": stage.value("SELECT count(*) FROM invoices WHERE closed")}


PROOF = Proof(
    bad="SET LOCAL with a placeholder",
    good="set_config takes parameters",
    scene=scene,
    bad_shows={"fails with": "42601", "invoices closed": 0},
    good_shows={"fails with": "", "invoices closed": 3},
)
