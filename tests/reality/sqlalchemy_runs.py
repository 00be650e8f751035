"""Runs random programs on SQLAlchemy, and compares what is foretold of them with what is seen."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

import psycopg
from hypothesis import HealthCheck, Phase, given, seed, settings
from psycopg.conninfo import conninfo_to_dict

from tests.reality.compare import compare
from tests.reality.sqlalchemy_programs import programs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.reality.programs import Program


class Tally(NamedTuple):
    programs: int
    probes: int
    unknown: int

    def __str__(self) -> str:
        share = 100 * self.unknown / max(self.probes, 1)
        return f"{self.programs} programs, {self.probes} probes, {self.unknown} of them unknown ({share:.1f} %)"


def prepare(dsn: str) -> None:
    """Make the function that probes call: it tells the tenant in force."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "CREATE OR REPLACE FUNCTION probe(n int) RETURNS text LANGUAGE sql AS"
            " $$ SELECT current_setting('app.tenant', true) $$"
        )


def url_of(dsn: str) -> str:
    """A server's place as SQLAlchemy writes it, without the driver."""
    told = conninfo_to_dict(dsn)
    place = "&".join(f"{name}={told[name]}" for name in ("host", "port") if told.get(name))
    return f"{told['user']}@/{told['dbname']}?{place}"


def try_programs(
    folder: Path, dsn: str, count: int, number: int, phases: tuple[Phase, ...] = (Phase.generate, Phase.shrink)
) -> Tally:
    """Hold so many programs against a server; raises AssertionError with the smallest that differs."""
    prepare(dsn)
    counted = [0, 0, 0]

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def hold(program: Program) -> None:
        where = folder / "program"
        where.mkdir(parents=True, exist_ok=True)
        (where / "worker.py").write_text(program.source)
        found = compare(where, dsn)
        counted[0] += 1
        counted[1] += found.probes
        counted[2] += found.unknown
        assert (found.missed, found.extra) == (set(), set()), f"{found}\n{program.source}"

    with mock.patch.dict(os.environ, {"SQLALCHEMY_URL": url_of(dsn)}):
        hold()
    return Tally(*counted)
