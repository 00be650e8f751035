"""What the timeline says of the drivers with fewer users held against reality: random programs, read and run."""

from __future__ import annotations

import gc
import os
import runpy
import sys
import warnings
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from psycopg.conninfo import conninfo_to_dict

from auditor.timeline.connection import Status
from tests.reality.compare import UNKNOWN, predicted
from tests.reality.smaller_programs import DIALECTS, programs
from tests.reality.sqlalchemy_runs import prepare, url_of

if TYPE_CHECKING:
    from pathlib import Path

    from auditor.lab.server import OwnServer

COUNT = int(os.environ.get("TENANT_AUDIT_PROGRAMS", "40"))
SEED = int(os.environ.get("TENANT_AUDIT_SEED", "1"))
# Tortoise wants a module of models.
NOTES = """
__models__ = []
seen = []


def note(number, tenant):
    seen.append((number, tenant or ""))
"""

pytestmark = [
    # What a failing program leaves behind is told of when it is deleted.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


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
    lines = {"OPTIONS": options, "DSN": dsn, "URL": f"postgresql://{url_of(dsn)}", "CONFIG": config}
    return "".join(f"{word} = {value!r}\n" for word, value in lines.items())


def observed(folder: Path) -> set[tuple[int, str]]:
    """The probes of a real run."""
    with mock.patch.object(sys, "path", [str(folder), *sys.path]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("notes", "place"):
            sys.modules.pop(name, None)
        try:
            runpy.run_path(str(folder / "worker.py"), run_name="worker")
            return set(sys.modules["notes"].seen)
        finally:
            for name in ("notes", "place"):
                sys.modules.pop(name, None)
            gc.collect()


@pytest.mark.parametrize("name", DIALECTS)
def test_what_is_foretold_is_what_happens(name: str, postgres: OwnServer, tmp_path: Path) -> None:
    prepare(postgres.dsn)
    counted = [0, 0, 0]

    @seed(SEED)
    @settings(
        max_examples=COUNT,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(name))
    def hold(source: str) -> None:
        files = {"worker.py": source, "notes.py": NOTES, "place.py": place(name, postgres.dsn)}
        for file, text in files.items():
            (tmp_path / file).write_text(text)
        told = {one for one in predicted(tmp_path) if one.status != Status.ABORTED.value}
        unknown = {one.probe for one in told if one.tenant == UNKNOWN}
        seen = observed(tmp_path)
        counted[0] += 1
        counted[1] += len(seen)
        counted[2] += len({number for number, _ in seen} & unknown)
        # What stands in a block that is refused is looked at all the same.
        ran = {number for number, _ in seen}
        sure = {(one.probe, one.tenant) for one in told if one.probe in ran - unknown}
        assert sure == {one for one in seen if one[0] not in unknown}, source

    hold()
    print(f"\n{name}: {counted[0]} programs, {counted[1]} probes, {counted[2]} of them unknown")
    assert counted[1] > COUNT
    assert counted[2] <= 0.05 * counted[1]
