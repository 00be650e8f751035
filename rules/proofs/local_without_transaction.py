"""TA102: how many rows the work reaches."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    stage.module("jobs.worker").send_reminders(stage.job(tenant="1"))
    return {"invoices of the tenant that were reminded": stage.value("SELECT count(reminded) FROM invoices")}


PROOF = Proof(
    bad="A pool in autocommit",
    good="A transaction around the setting and the work",
    scene=scene,
    bad_shows={"invoices of the tenant that were reminded": 0},
    good_shows={"invoices of the tenant that were reminded": 3},
)
