"""TA106: where a later job looks for its tables."""

from __future__ import annotations

from typing import Any

from auditor.lab.place import WORKER
from auditor.lab.stage import Proof, Stage

_TOLD = "a later job looks in the tenant's schema"


def scene(stage: Stage) -> dict[str, Any]:
    stage.admin.execute("CREATE SCHEMA tenant_1")
    try:
        stage.admin.execute("CREATE TABLE tenant_1.invoices (month text, closed boolean)")
        stage.admin.execute(f"GRANT USAGE ON SCHEMA tenant_1 TO {WORKER}".encode())
        stage.admin.execute(f"GRANT ALL ON tenant_1.invoices TO {WORKER}".encode())
        worker, paths = stage.module("jobs.worker"), set()
        worker.close_month(1, "2026-01")
        for _ in range(12):
            with worker.pool.connection() as conn:
                paths.add(conn.execute("SHOW search_path").fetchone()[0])
        worker.pool.close()
    finally:
        stage.admin.execute("DROP SCHEMA tenant_1 CASCADE")
    return {_TOLD: any("tenant_1" in path for path in paths)}


PROOF = Proof(
    bad="On a pooled connection",
    good="Local to the transaction of the work",
    scene=scene,
    bad_shows={_TOLD: True},
    good_shows={_TOLD: False},
)
