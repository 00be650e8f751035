"""TA408: how much is left of a lease when its job begins."""

from __future__ import annotations

from typing import Any

from auditor.lab.stage import JOBS, Proof, Stage

_TOLD = "the lease of the second job is short by what the first one took"
_SHORT = "SELECT deadline - locked_until >= interval '59 minutes 1 second' FROM jobs WHERE id = 2"


def scene(stage: Stage) -> dict[str, Any]:
    seen: list[bool] = []

    def handle(conn: Any, payload: object) -> None:
        if not seen:
            conn.execute("SELECT pg_sleep(1)")
        seen.append(stage.value(_SHORT))

    stage.module("jobs.worker").run(handle)
    return {_TOLD: seen[1]}


PROOF = Proof(
    bad="The next job is claimed with the end of the last",
    good="By the clock on the wall",
    scene=scene,
    schema=JOBS,
    bad_shows={_TOLD: True},
    good_shows={_TOLD: False},
)
