"""Holds what is foretold of generated programs against a server: every state that is told must be seen, and no other.

In these programs a statement fails that always does, and no other one; `tests/reality/faults` makes any step fail, and
asks only that nothing happens that was not foretold.
"""

from __future__ import annotations

import gc
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from hypothesis import HealthCheck, Phase, given, seed, settings
from psycopg.conninfo import conninfo_to_dict

from tests.reality import programs, smaller_programs, sqlalchemy_programs
from tests.reality.compare import compare

if TYPE_CHECKING:
    from pathlib import Path

    from hypothesis.strategies import SearchStrategy

#: The drivers, and how each of them is run through programs of its own.
PROGRAMS: dict[str, SearchStrategy[str]] = {
    "psycopg, exactly": programs.programs(),
    "psycopg, async, exactly": programs.programs().map(programs.asynchronously),
    **{f"sqlalchemy over {name}": sqlalchemy_programs.programs(name) for name in sqlalchemy_programs.DIALECTS},
    **{name: smaller_programs.programs(name) for name in smaller_programs.DIALECTS},
}
NOTES = """
def note(number, tenant):
    pass
"""


@dataclass
class Tally:
    """What was compared so far."""

    programs: int = 0
    probes: int = 0
    unknown: int = 0

    @property
    def share_of_unknown(self) -> float:
        return self.unknown / max(self.probes, 1)

    def __str__(self) -> str:
        return f"{self.programs} programs, {self.probes} probes, {100 * self.share_of_unknown:.2f} % unknown"


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


def place(name: str, dsn: str) -> str:
    """Where the server is, as each driver takes it."""
    told = conninfo_to_dict(dsn)
    host, port = str(told.get("host") or "localhost"), int(told.get("port") or 5432)
    options: dict[str, Any] = {"user": told["user"], "database": told["dbname"]}
    if name.startswith("pg8000") and host.startswith("/"):
        options["unix_sock"] = f"{host}/.s.PGSQL.{port}"
    else:
        options |= {"host": host, "port": port}
    client = {"engine": "tortoise.backends.asyncpg", "credentials": {**options, "minsize": 1, "maxsize": 1}}
    config = {"connections": {"default": client}, "apps": {"models": {"models": ["notes"]}}}
    lines = {"OPTIONS": options, "DSN": dsn, "PLACE": url_of(dsn), "CONFIG": config}
    lines["URL"] = f"postgresql://{url_of(dsn)}"
    return "".join(f"{word} = {value!r}\n" for word, value in lines.items())


def try_programs(
    name: str, folder: Path, dsn: str, count: int, number: int, tally: Tally | None = None, *, shrink: bool = True
) -> Tally:
    """Hold so many programs of a driver against a server; raises AssertionError with the smallest that differs.

    Whoever gives a tally still has what was counted when this is ended early.
    """
    tally = Tally() if tally is None else tally
    prepare(dsn)
    asynchronous = name == "psycopg, async, exactly"
    helpers = programs.asynchronously(programs.HELPERS) if asynchronous else programs.HELPERS
    files = {"notes.py": NOTES, "place.py": place(name, dsn), "helpers.py": helpers}
    for file, text in files.items():
        (folder / file).write_text(text)

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(PROGRAMS[name])
    def hold(source: str) -> None:
        (folder / "worker.py").write_text(source)
        found = compare(folder, dsn)
        tally.programs += 1
        tally.probes += found.probes
        tally.unknown += found.unknown
        assert (found.missed, found.extra) == (set(), set()), f"{found}\n{source}"

    with warnings.catch_warnings():
        # What a failing program leaves behind is told of when it is deleted.
        warnings.simplefilter("ignore")
        hold()
        gc.collect()
    return tally
