"""TA302: what becomes of a job that always fails."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import INVOICES, JOBS, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    stage.break_work()
    worker = stage.module("jobs.worker")
    for _ in range(3):
        stage.error(worker.run_one)
    status, attempts = stage.row("SELECT status, attempts FROM jobs WHERE id = 1")
    return {"status after three failures": status, "attempts": attempts}


PROOF = Proof(
    bad="One transaction, no handler",
    good="The failure is counted in a new transaction",
    scene=scene,
    schema=INVOICES + JOBS,
    bad_shows={"status after three failures": "queued", "attempts": 0},
    good_shows={"status after three failures": "dead", "attempts": 3},
)
