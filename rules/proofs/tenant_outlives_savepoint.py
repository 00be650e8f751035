"""TA113: as which tenant the line after the block is written."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import INVOICES, Proof, Stage

_AUDIT = """
    CREATE TABLE audit (
        what text, at timestamptz, tenant text NOT NULL DEFAULT coalesce(current_setting('app.tenant', true), '')
    )
"""
_TOLD = "the tenant of the line that belongs to none"


def scene(stage: Stage) -> dict[str, Any]:
    stage.module("jobs.nightly").close_day(["1"])
    return {_TOLD: stage.value("SELECT tenant FROM audit")}


PROOF = Proof(
    bad="A block for each tenant inside one transaction",
    good="A transaction of its own for each tenant",
    scene=scene,
    schema=INVOICES + _AUDIT,
    bad_shows={_TOLD: "1"},
    good_shows={_TOLD: ""},
)
