"""What the timeline says of SQLAlchemy held against reality: random worker programs, read and run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from unittest import mock

import psycopg
import pytest

from tests.reality.sqlalchemy_runs import try_programs

if TYPE_CHECKING:
    from pathlib import Path

    from auditor.lab.server import OwnServer

COUNT = int(os.environ.get("TENANT_AUDIT_PROGRAMS", "100"))
SEED = int(os.environ.get("TENANT_AUDIT_SEED", "1"))


def test_what_is_foretold_is_what_happens(postgres: OwnServer, tmp_path: Path) -> None:
    tally = try_programs(tmp_path, postgres.dsn, COUNT, SEED)
    print(f"\n{tally}")
    assert tally.probes > 2 * COUNT
    assert tally.unknown <= 0.05 * tally.probes


def test_a_timeline_that_is_wrong_is_found_out(postgres: OwnServer, tmp_path: Path) -> None:
    """A commit that ends no local tenant: some program tells."""
    from auditor.timeline.settings import Setting

    with (
        mock.patch.object(Setting, "committed", lambda self, _place: self),
        pytest.raises(AssertionError),
    ):
        try_programs(tmp_path, postgres.dsn, 30, SEED)
    with psycopg.connect(postgres.dsn) as conn:
        assert conn.execute("SELECT 1").fetchone() == (1,)
