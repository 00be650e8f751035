"""TA405: what others see of a heartbeat."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import ONE_JOB, Proof, Stage

_TOLD = "others see the lease prolonged while the work runs"
_PROLONGED = "SELECT locked_until > clock_timestamp() + interval '30 s' FROM jobs"


def scene(stage: Stage) -> dict[str, Any]:
    seen: list[bool] = []

    def handle(conn: object, step: object) -> None:
        if not seen:
            stage.passes(seconds=50)
        seen.append(stage.value(_PROLONGED))

    stage.module("jobs.worker").run_one(handle)
    return {_TOLD: any(seen[1:])}


def on_its_own(stage: Stage) -> dict[str, Any]:
    worker, seen = stage.module("jobs.worker"), []

    def handle(conn: object, payload: object) -> None:
        stage.passes(seconds=50)
        worker.beat(stage.row("SELECT id, lock_token FROM jobs"))
        seen.append(stage.value(_PROLONGED))

    worker.run_one(handle)
    return {_TOLD: all(seen)}


PROOF = Proof(
    bad="Between two steps of the work",
    good="On a connection of its own",
    scene=scene,
    good_scene=on_its_own,
    schema=ONE_JOB,
    bad_shows={_TOLD: False},
    good_shows={_TOLD: True},
)
