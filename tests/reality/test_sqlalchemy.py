"""What the timeline says of SQLAlchemy held against reality: random worker programs, read and run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from auditor.timeline.settings import Setting
from tests.reality.compare import Seen, compare
from tests.reality.sqlalchemy_runs import prepare, try_programs, url_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from auditor.lab.server import OwnServer

COUNT = int(os.environ.get("TENANT_AUDIT_PROGRAMS", "100"))
SEED = int(os.environ.get("TENANT_AUDIT_SEED", "1"))


def test_what_is_foretold_is_what_happens(postgres: OwnServer, tmp_path: Path) -> None:
    tally = try_programs(tmp_path, postgres.dsn, COUNT, SEED)
    print(f"\n{tally}")
    assert tally.probes > 2 * COUNT
    assert tally.unknown <= 0.05 * tally.probes


LEAK = """
import os

from sqlalchemy import create_engine, text

engine = create_engine(os.environ["SQLALCHEMY_URL"], pool_size=1, max_overflow=0)


def job():
    with engine.connect() as conn:
        conn.execute(text("SELECT probe(1)"))
        conn.execute(text("SELECT set_config('app.tenant', '1', false)"))
        conn.commit()


job()
job()
engine.dispose()
"""


def test_a_timeline_that_is_wrong_is_found_out(
    postgres: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(postgres.dsn)
    (tmp_path / "worker.py").write_text(LEAK)
    monkeypatch.setenv("SQLALCHEMY_URL", f"postgresql+psycopg://{url_of(postgres.dsn)}")
    right = compare(tmp_path, postgres.dsn)
    assert (right.missed, right.extra, right.probes) == (set(), set(), 1)
    monkeypatch.setattr(Setting, "committed", lambda self, _place: Setting(self.name))
    wrong = compare(tmp_path, postgres.dsn)
    assert wrong.missed == {Seen(1, "open", "1")}
