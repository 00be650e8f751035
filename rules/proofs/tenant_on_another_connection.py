"""TA112: how many rows the work reaches."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    stage.module("app.jobs").close_month(stage.job(tenant="1", month="2026-01"))
    return {"invoices of the tenant that were closed": stage.value("SELECT count(*) FROM invoices WHERE closed")}


PROOF = Proof(
    bad="A helper that borrows a connection of its own",
    good="The connection is handed to the helper",
    scene=scene,
    bad_shows={"invoices of the tenant that were closed": 0},
    good_shows={"invoices of the tenant that were closed": 3},
)
