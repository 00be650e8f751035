"""Generated programs: whatever fails, what the audit says of each statement is what a real server says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import INSTALLATIONS
from tests.reality.faults.comparison import try_programs
from tests.reality.faults.programs import Dialect

if TYPE_CHECKING:
    from auditor.lab.server import OwnServer

#: How many programs of each dialect; `benchmarks/reality.py` tries more.
COUNTS = {Dialect.PSYCOPG: 50, Dialect.PSYCOPG_ASYNC: 15, Dialect.PSYCOPG2: 30, Dialect.DJANGO: 60, Dialect.ASYNCPG: 60}


@pytest.mark.parametrize("postgres", INSTALLATIONS[:1], indirect=True, scope="session", ids=str)
@pytest.mark.parametrize("dialect", Dialect, ids=lambda dialect: dialect.value)
def test_the_audit_agrees_with_the_server(postgres: OwnServer, dialect: Dialect) -> None:
    tally = try_programs(dialect, postgres.dsn, COUNTS[dialect], most=3)
    print(f"\n{dialect.value}: {tally}")
    assert tally.probes > COUNTS[dialect]
    assert tally.share_of_unknown < 0.05
