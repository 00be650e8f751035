"""TA502: what is held while a request is on its way."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from auditor.lab.stage import Proof, Stage

_TOLD = "snapshots held during the request"
_HELD = """
    SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL
       AND state = 'idle in transaction'
"""


def scene(stage: Stage) -> dict[str, Any]:
    seen: list[int] = []
    requests = ModuleType("requests")  # instead of a request: a look at the server
    requests.put = lambda *words, **more: seen.append(stage.value(_HELD))  # type: ignore[attr-defined]
    sys.modules["requests"] = requests
    stage.module("reports.export").export("1")
    return {_TOLD: seen[0]}


PROOF = Proof(
    bad="A level that the statement sets",
    good="Read at once, then sent",
    scene=scene,
    bad_shows={_TOLD: 1},
    good_shows={_TOLD: 0},
)
