"""TA107: what a job sees on a connection that was opened for another's."""

from __future__ import annotations

import os
from typing import Any

from auditor.lab.stage import Proof, Stage

_TOLD = "invoices that a job sees for the first of three tenants, and for the second"


def scene(stage: Stage) -> dict[str, Any]:
    _connect_by_default(stage)
    module = stage.module("jobs.database")
    seen = []
    for tenant in ("1", "2"):
        module.tenant.set(tenant)
        seen.append(module.invoices())
    return {_TOLD: seen}


def _connect_by_default(stage: Stage) -> None:
    """The example names no database: whoever connects takes the scene's."""
    import psycopg.conninfo

    names = {"dbname": "PGDATABASE", "user": "PGUSER", "password": "PGPASSWORD", "host": "PGHOST", "port": "PGPORT"}
    names["options"] = "PGOPTIONS"
    for name, value in psycopg.conninfo.conninfo_to_dict(stage.dsn).items():
        if name in names and value is not None:
            os.environ[names[name]] = str(value)


PROOF = Proof(
    bad="A listener for connect",
    good="In each transaction",
    scene=scene,
    bad_shows={_TOLD: [3, 3]},
    good_shows={_TOLD: [3, 2]},
)
