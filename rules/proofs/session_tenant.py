"""TA101: what a later job sees, which has set nothing."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import LATER, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    worker = stage.module("jobs.worker")
    worker.send_reminders(stage.job(tenant="1"))
    return {LATER: stage.seen(worker.pool)}


PROOF = Proof(
    bad="For the session, on a pooled connection",
    good="Local to the transaction of the work",
    scene=scene,
    bad_shows={LATER: 3},
    good_shows={LATER: 0},
)
