"""TA501: what is open while a request is on its way."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from auditor.lab.stage import Proof, Stage

_TOLD = "transactions with rows locked or written during the request"
_OPEN = """
    SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xid IS NOT NULL
"""
_WEBHOOKS = """
    CREATE TABLE webhooks (
        id bigint PRIMARY KEY, url text NOT NULL, body text NOT NULL, status text NOT NULL DEFAULT 'queued',
        attempts int NOT NULL DEFAULT 0, locked_until timestamptz
    );
    INSERT INTO webhooks VALUES (1, 'https://example.com', '{}');
"""


def scene(stage: Stage) -> dict[str, Any]:
    seen: list[int] = []
    requests = ModuleType("requests")  # instead of a request: a look at the server
    requests.post = lambda *words, **more: seen.append(stage.value(_OPEN))  # type: ignore[attr-defined]
    sys.modules["requests"] = requests
    stage.module("jobs.worker").deliver_one()
    return {_TOLD: seen[0]}


PROOF = Proof(
    bad="A request while the job is locked",
    good="The claim is committed, then the work is done",
    scene=scene,
    schema=_WEBHOOKS,
    bad_shows={_TOLD: 1},
    good_shows={_TOLD: 0},
)
