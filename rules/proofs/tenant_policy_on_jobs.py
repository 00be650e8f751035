"""TA601: what a worker finds in its queue."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import JOBS, Proof, Stage

_TOLD = "jobs that were found, of two"


def scene(stage: Stage) -> dict[str, Any]:
    stage.admin.execute("INSERT INTO jobs (tenant_id) VALUES (1), (2)")
    handled: list[object] = []
    stage.module("jobs.worker").run_one(lambda *words: handled.append(words))
    return {_TOLD: len(handled)}


def good_scene(stage: Stage) -> dict[str, Any]:
    claim = stage.module("jobs.worker").claim
    return {_TOLD: sum(claim(tenant) is not None for tenant in ("1", "2"))}


PROOF = Proof(
    bad="The tenants' policy on every table, the queue too",
    good="A worker for each tenant, which sets it first",
    scene=scene,
    good_scene=good_scene,
    schema="",
    good_schema=JOBS,
    bad_shows={_TOLD: 0},
    good_shows={_TOLD: 2},
)
