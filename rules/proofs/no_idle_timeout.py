"""TA503: how long a worker that stands still in a transaction keeps its job from others."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from auditor.lab.server import MARKER
from auditor.lab.stage import ONE_JOB, Proof, Stage

_TOLD = "the job of a worker that stands still is free for others"
_FREE = "SELECT count(*) FROM (SELECT FROM jobs FOR UPDATE SKIP LOCKED) AS free"


def scene(stage: Stage) -> dict[str, Any]:
    free = stood = False

    def stands_still(*words: object) -> None:
        nonlocal free, stood
        stood, end = True, time.monotonic() + 1.5
        while not free and time.monotonic() < end:
            time.sleep(0.05)
            free = bool(stage.value(_FREE))

    # The example gives the server options of its own, in the place of those that lead to the stage's tables.
    stage.admin.execute(f"ALTER ROLE CURRENT_USER SET search_path = {MARKER}")
    try:
        with contextlib.suppress(Exception):
            stage.module("jobs.worker").run_one(stands_still)
    finally:
        stage.admin.execute("ALTER ROLE CURRENT_USER RESET search_path")
    return {"it stood still": stood, _TOLD: free}


PROOF = Proof(
    bad="Other limits are set, and not this one",
    good="Where the connections are made",
    scene=scene,
    schema=ONE_JOB,
    bad_shows={"it stood still": True, _TOLD: False},
    good_shows={"it stood still": True, _TOLD: True},
)
