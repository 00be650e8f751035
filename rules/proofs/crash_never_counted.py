"""TA304: how many workers die of one job."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from auditor.lab.stage import INVOICES, ONE_JOB, Proof, Stage


def scene(stage: Stage) -> dict[str, Any]:
    return _workers(stage, "jobs", lambda: stage.module("jobs.worker").run_one(lambda conn, payload: os._exit(1)))


def good_scene(stage: Stage) -> dict[str, Any]:
    async def handle(payload: object) -> None:
        os._exit(1)

    async def run() -> None:
        await stage.module("app.worker").run_one(handle)
        os._exit(0)  # the pool of the example has nobody who closes it

    return _workers(stage, "tasks", lambda: asyncio.run(run()))


def _workers(stage: Stage, table: str, work: Any) -> dict[str, Any]:
    died = 0
    for _ in range(5):
        stage.value(f"UPDATE {table} SET locked_until = now() - interval '1 s' WHERE locked_until > now() RETURNING 1")
        died += stage.dies(work)
    return {"workers that die, of five": died, "attempts": stage.value(f"SELECT attempts FROM {table}")}


_TASKS = "; CREATE TABLE tasks (LIKE jobs INCLUDING ALL); INSERT INTO tasks DEFAULT VALUES"

PROOF = Proof(
    bad="Counted where the error is caught",
    good="Counted in the claim, and committed before the work",
    scene=scene,
    good_scene=good_scene,
    schema=INVOICES + ONE_JOB + _TASKS,
    bad_shows={"workers that die, of five": 5, "attempts": 0},
    good_shows={"workers that die, of five": 3, "attempts": 3},
)
