"""TA103: how many rows the work reaches after the commit."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    stage.module("jobs.invoices").close_month(stage.job(tenant="1", month="2026-02"))
    archived = stage.value("SELECT count(*) FROM invoices WHERE archived")
    return {"invoices that were archived after the commit": archived}


PROOF = Proof(
    bad="Set once, committed in between",
    good="Set again in each transaction",
    scene=scene,
    bad_shows={"invoices that were archived after the commit": 0},
    good_shows={"invoices that were archived after the commit": 3},
)
