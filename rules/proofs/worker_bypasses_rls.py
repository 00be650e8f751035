"""TA604: what a worker sees with one tenant set, in the role that it takes on."""

from __future__ import annotations

from typing import Any

from auditor.lab.place import WORKER
from auditor.lab.stage import Proof, Stage

_TOLD = "letters that a worker sees with one tenant of three set"


def scene(stage: Stage) -> dict[str, Any]:
    stage.admin.execute("INSERT INTO letters SELECT n, n FROM generate_series(1, 3) AS n")
    stage.admin.execute(f"GRANT letters_jobs TO {WORKER}")
    try:
        schema = stage.value("SELECT current_schema()")
        stage.admin.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO letters_jobs')
        return {_TOLD: stage.module("jobs.worker").count(stage.dsn, "1")}
    finally:
        stage.admin.execute("DROP OWNED BY letters_jobs")
        stage.admin.execute("DROP ROLE letters_jobs")


PROOF = Proof(
    bad="The worker takes on the role that may see everything",
    good="A role that the policies bind",
    scene=scene,
    schema="",
    bad_shows={_TOLD: 3},
    good_shows={_TOLD: 1},
)
