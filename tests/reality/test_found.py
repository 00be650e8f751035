"""Programs in which the audit was once wrong, as small as they can be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.reality.compare import compare
from tests.reality.runs import NOTES, place, prepare

if TYPE_CHECKING:
    from pathlib import Path

    from auditor.lab.server import OwnServer

#: Of SQLAlchemy: what listens, and what a job does.
SQLALCHEMY = """
from notes import note
from place import PLACE
from sqlalchemy import create_engine, event, exc, text
from sqlalchemy.orm import Session, sessionmaker

engine = create_engine(f"postgresql+{dialect}://{PLACE}", pool_size=1, max_overflow=0)
alone = engine.execution_options(isolation_level="AUTOCOMMIT")
LOCAL = text("SELECT set_config('app.tenant', '1', true)")


class Own(Session):
    pass


class Narrower(Own):
    pass


factory = sessionmaker(bind=engine, class_=Own)


"""
LISTENS = """
@event.listens_for({target}, "{event}")
def begun(*told):
    told[-1].execute(LOCAL)


"""
FOUND = {
    "who listens to a class is told of its sessions": (
        LISTENS.format(target="Own", event="after_begin"),
        """
    with factory() as conn:
        note(1, conn.execute(text("SELECT probe(1)")).scalar())
    with Narrower(engine) as conn:
        note(2, conn.execute(text("SELECT probe(2)")).scalar())
""",
    ),
    "and of no others": (
        LISTENS.format(target="Narrower", event="after_begin"),
        """
    with factory() as conn:
        note(1, conn.execute(text("SELECT probe(1)")).scalar())
    with Session(engine) as conn:
        note(2, conn.execute(text("SELECT probe(2)")).scalar())
""",
    ),
    "nobody is told of what begins after a COMMIT in text": (
        LISTENS.format(target="engine", event="begin"),
        """
    with engine.connect() as conn:
        conn.execute(text("COMMIT"))
        note(1, conn.execute(text("SELECT probe(1)")).scalar())
        conn.commit()
        note(2, conn.execute(text("SELECT probe(2)")).scalar())
""",
    ),
    "after a COMMIT in text it depends on the DBAPI whether a transaction is begun": (
        "",
        """
    with engine.connect() as conn:
        conn.execute(text("COMMIT"))
        conn.execute(LOCAL)
        note(1, conn.execute(text("SELECT probe(1)")).scalar())
        conn.rollback()
        conn.execute(LOCAL)
        note(2, conn.execute(text("SELECT probe(2)")).scalar())
""",
    ),
    "in autocommit, too, a statement begins what begin() then refuses": (
        "",
        """
    with alone.connect() as conn:
        conn.execute(text("SET app.tenant = '1'"))
        try:
            with conn.begin():
                conn.execute(text("SET app.tenant = '2'"))
        except exc.InvalidRequestError:
            pass
        note(1, conn.execute(text("SELECT probe(1)")).scalar())
        conn.commit()
        with conn.begin():
            conn.execute(text("SET app.tenant = '3'"))
            note(2, conn.execute(text("SELECT probe(2)")).scalar())
""",
    ),
    "and those who listen are told of it": (
        LISTENS.format(target="engine", event="begin"),
        """
    with alone.connect() as conn:
        note(1, conn.execute(text("SELECT probe(1)")).scalar())
""",
    ),
}


@pytest.mark.parametrize("dialect", ["psycopg", "psycopg2"])
@pytest.mark.parametrize("found", FOUND.values(), ids=FOUND.keys())
def test_the_audit_agrees_with_the_server_under_sqlalchemy(
    postgres: OwnServer, tmp_path: Path, found: tuple[str, str], dialect: str
) -> None:
    listens, job = found
    head = SQLALCHEMY.replace("{dialect}", dialect)
    agree(f"{head.lstrip()}{listens}def job():{job}\n\njob()\nengine.dispose()\n", "", tmp_path, postgres.dsn)


def agree(source: str, name: str, folder: Path, dsn: str) -> None:
    prepare(dsn)
    for file, text in {"worker.py": source, "notes.py": NOTES, "place.py": place(name, dsn)}.items():
        (folder / file).write_text(text)
    found = compare(folder, dsn)
    assert (found.missed, found.extra) == (set(), set())
    assert found.probes
    assert not found.unknown
