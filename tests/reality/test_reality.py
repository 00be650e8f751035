"""The timeline held against reality: random worker programs, read by the audit and run on a real server."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from auditor.timeline.settings import Setting
from tests.reality.compare import Seen, compare, write
from tests.reality.programs import Program, programs

if TYPE_CHECKING:
    from pathlib import Path

    from auditor.lab.server import OwnServer

COUNT = int(os.environ.get("TENANT_AUDIT_PROGRAMS", "100"))
SEED = int(os.environ.get("TENANT_AUDIT_SEED", "1"))

logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)


@pytest.fixture(scope="module")
def probed(postgres: OwnServer) -> str:
    """A database with the function that probes call: it tells the tenant in force."""
    with psycopg.connect(postgres.dsn, autocommit=True) as conn:
        conn.execute(
            "CREATE OR REPLACE FUNCTION probe(n int) RETURNS text LANGUAGE sql AS"
            " $$ SELECT current_setting('app.tenant', true) $$"
        )
    return postgres.dsn


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_what_is_foretold_is_what_happens(probed: str, tmp_path: Path, asynchronous: bool) -> None:
    counted = {"programs": 0, "probes": 0, "unknown": 0}

    @seed(SEED)
    @settings(
        max_examples=COUNT,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def hold(program: Program) -> None:
        folder = tmp_path / "program"
        write(folder, program.source, asynchronous=asynchronous)
        found = compare(folder, probed)
        counted["programs"] += 1
        counted["probes"] += found.probes
        counted["unknown"] += found.unknown
        assert (found.missed, found.extra) == (set(), set()), program.source

    hold()
    print(f"\n{counted['programs']} programs, {counted['probes']} probes, {counted['unknown']} of them unknown")
    assert counted["probes"] > 2 * COUNT
    assert counted["unknown"] <= 0.05 * counted["probes"]


LEAK = """
import os

from psycopg_pool import ConnectionPool

pool = ConnectionPool(os.environ["DSN"], min_size=1, max_size=1, open=True)


def job():
    with pool.connection() as conn:
        conn.execute("SELECT probe(1)")
        conn.execute("SELECT set_config('app.tenant', '1', false)")
        conn.execute("SELECT probe(2)")


job()
job()
pool.close()
"""


def test_a_timeline_that_is_wrong_is_found_out(probed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, LEAK, asynchronous=False)
    right = compare(tmp_path, probed)
    assert (right.missed, right.extra, right.probes) == (set(), set(), 2)
    # A commit that kept nothing, and a pool that never gave the same connection twice.
    monkeypatch.setattr(Setting, "committed", lambda self, _place: Setting(self.name))
    wrong = compare(tmp_path, probed)
    assert wrong.missed == {Seen(1, "open", "1")}
