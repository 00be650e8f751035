"""The timeline held against reality: random worker programs of every driver, read by the audit and run on a server."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import pytest

from auditor.timeline.model.settings import Setting
from tests.reality.compare import compare
from tests.reality.runs import NOTES, PROGRAMS, place, prepare, try_programs
from tests.reality.watching import Seen

if TYPE_CHECKING:
    from pathlib import Path

    from auditor.lab.server import OwnServer

#: How many programs of each driver; `benchmarks/reality.py` tries more.
COUNT = int(os.environ.get("TENANT_AUDIT_PROGRAMS", "40"))
SEED = int(os.environ.get("TENANT_AUDIT_SEED", "1"))

logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)

pytestmark = [
    # What a failing program leaves behind is told of when it is deleted.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_foretold_is_what_happens(name: str, postgres: OwnServer, tmp_path: Path) -> None:
    tally = try_programs(name, tmp_path, postgres.dsn, COUNT, SEED, shrink=False)
    print(f"\n{name}: {tally}")
    assert tally.probes > COUNT
    assert tally.share_of_unknown < 0.05


LEAKS = {
    "psycopg": """
import os

from notes import note
from psycopg_pool import ConnectionPool

pool = ConnectionPool(os.environ["DSN"], min_size=1, max_size=1, open=True)


def job():
    with pool.connection() as conn:
        note(1, conn.execute("SELECT probe(1)").fetchone()[0])
        conn.execute("SELECT set_config('app.tenant', '1', false)")


job()
job()
pool.close()
""",
    "sqlalchemy over psycopg2": """
from notes import note
from place import PLACE
from sqlalchemy import create_engine, text

engine = create_engine(f"postgresql+psycopg2://{PLACE}", pool_size=1, max_overflow=0)


def job():
    with engine.connect() as conn:
        note(1, conn.execute(text("SELECT probe(1)")).scalar())
        conn.execute(text("SELECT set_config('app.tenant', '1', false)"))
        conn.commit()


job()
job()
engine.dispose()
""",
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_timeline_that_is_wrong_is_found_out(
    name: str, postgres: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(postgres.dsn)
    for file, text in {"worker.py": LEAKS[name], "notes.py": NOTES, "place.py": place(name, postgres.dsn)}.items():
        (tmp_path / file).write_text(text)
    right = compare(tmp_path, postgres.dsn)
    assert (right.missed, right.extra, right.probes) == (set(), set(), 1)
    # A commit that kept nothing, and a pool that never gave the same connection twice.
    monkeypatch.setattr(Setting, "committed", lambda self, _place: Setting(self.name))
    wrong = compare(tmp_path, postgres.dsn)
    assert wrong.missed == {Seen(1, "open", "1")}
