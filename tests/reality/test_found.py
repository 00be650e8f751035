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
from sqlalchemy import NullPool, create_engine, event, exc, text
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
WITHOUT_A_POOL = """
engine = create_engine(f"postgresql+{dialect}://{PLACE}", poolclass=NullPool)


@event.listens_for(engine, "connect")
def connected(connection, record):
    connection.cursor().execute("SET app.tenant = '8'")
    connection.commit()


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
    "nor of a savepoint": (
        LISTENS.format(target="engine", event="begin"),
        """
    with engine.connect() as conn:
        conn.execute(text("SET LOCAL app.tenant = '2'"))
        with conn.begin_nested():
            note(1, conn.execute(text("SELECT probe(1)")).scalar())
    with factory() as conn:
        conn.execute(text("SET LOCAL app.tenant = '2'"))
        begun = conn.begin_nested()
        note(2, conn.execute(text("SELECT probe(2)")).scalar())
        begun.commit()
""",
    ),
    "but who listens to a session is": (
        LISTENS.format(target="factory", event="after_begin"),
        """
    with factory() as conn:
        conn.execute(text("SET LOCAL app.tenant = '2'"))
        with conn.begin_nested():
            note(1, conn.execute(text("SELECT probe(1)")).scalar())
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
    "a session that is closed in its block goes on after it": (
        "",
        """
    with Session(engine) as conn:
        with conn.begin_nested():
            conn.execute(LOCAL)
            conn.close()
        note(1, conn.execute(text("SELECT probe(1)")).scalar())
""",
    ),
    "and not before the last of its blocks is left": (
        "",
        """
    with Session(engine) as conn:
        try:
            with conn.begin():
                with conn.begin_nested():
                    conn.close()
                note(1, conn.execute(text("SELECT probe(1)")).scalar())
        except exc.InvalidRequestError:
            note(2, conn.execute(text("SELECT probe(2)")).scalar())
""",
    ),
    "what ended a block's transaction may be followed by a rollback": (
        "",
        """
    with Session(engine) as conn:
        with conn.begin():
            conn.execute(LOCAL)
            conn.commit()
            conn.rollback()
        note(1, conn.execute(text("SELECT probe(1)")).scalar())
""",
    ),
    "on a connection by a commit, too": (
        "",
        """
    with engine.connect() as conn:
        with conn.begin():
            conn.execute(LOCAL)
            conn.rollback()
            conn.commit()
        note(1, conn.execute(text("SELECT probe(1)")).scalar())
""",
    ),
    "after a COMMIT in text it depends on the DBAPI whether a savepoint can be set": (
        "",
        """
    with engine.connect() as conn:
        try:
            conn.execute(text("COMMIT"))
            with conn.begin_nested():
                note(1, conn.execute(text("SELECT probe(1)")).scalar())
                conn.commit()
            note(2, conn.execute(text("SELECT probe(2)")).scalar())
        except exc.DBAPIError:
            note(3, conn.execute(text("SELECT probe(3)")).scalar())
""",
    ),
    "on a session that is refused": (
        "",
        """
    with Session(engine) as conn:
        try:
            with conn.begin():
                conn.execute(LOCAL)
                conn.rollback()
                conn.commit()
            note(1, conn.execute(text("SELECT probe(1)")).scalar())
        except exc.InvalidRequestError:
            note(2, conn.execute(text("SELECT probe(2)")).scalar())
""",
    ),
    "without a pool the next transaction has a connection of its own": (
        WITHOUT_A_POOL,
        """
    with Session(engine) as conn:
        begun = conn.begin()
        conn.execute(text("SET app.tenant = '1'"))
        begun.commit()
        note(1, conn.execute(text("SELECT probe(1)")).scalar())
""",
    ),
    "also after a block in which the last one ended": (
        WITHOUT_A_POOL,
        """
    with Session(engine) as conn:
        with conn.begin():
            conn.execute(text("SET app.tenant = '1'"))
            conn.commit()
        note(1, conn.execute(text("SELECT probe(1)")).scalar())
""",
    ),
}


PG8000 = {
    "a commit in text of an aborted transaction raises": (
        "pg8000",
        """
import pg8000.dbapi

from notes import note
from place import OPTIONS

conn = pg8000.dbapi.connect(**OPTIONS)
cursor = conn.cursor()
try:
    cursor.execute("SELECT set_config('app.tenant', '1', false)")
    conn.commit()
    cursor.execute("SELECT 1 / 0")
except Exception:
    try:
        cursor.execute("COMMIT")
        cursor.execute("SET app.tenant = '2'")
    except Exception:
        cursor.execute("SELECT probe(1)")
        note(1, cursor.fetchone()[0])
conn.close()
""",
    ),
    "a native one, too": (
        "pg8000.native",
        """
import pg8000.native

from notes import note
from place import OPTIONS

conn = pg8000.native.Connection(**OPTIONS)
try:
    conn.run("BEGIN")
    conn.run("SELECT 1 / 0")
except Exception:
    try:
        conn.run("COMMIT")
        conn.run("SET app.tenant = '2'")
    except Exception:
        note(1, conn.run("SELECT probe(1)")[0][0])
conn.close()
""",
    ),
    "before its first statement a connection is idle": (
        "pg8000",
        """
import pg8000.dbapi

from notes import note
from place import OPTIONS

conn = pg8000.dbapi.connect(**OPTIONS)
conn.autocommit = True
cursor = conn.cursor()
cursor.execute("SELECT probe(1)")
note(1, cursor.fetchone()[0])
conn.close()
""",
    ),
}

#: What SQLAlchemy over asyncpg does otherwise: commit() and rollback() end only what it has begun itself.
OVER_ASYNCPG = {
    "those who listen for a begin hear of each of the library's own, whatever a text has begun": """
async def job():
    async with alone.connect() as conn:
        await conn.execute(text("BEGIN"))
        await conn.commit()
        note(1, (await conn.execute(text("SELECT probe(1)"))).scalar())


@event.listens_for(engine.sync_engine, "begin")
def set_in_transaction(connection):
    connection.exec_driver_sql("SET LOCAL app.tenant = '7'")
""",
    "the next borrower finds an aborted transaction that a text has begun in autocommit": """
async def job():
    try:
        async with alone.connect() as conn:
            await conn.execute(text("BEGIN"))
            await conn.execute(text("SELECT 1 / 0"))
    except exc.DBAPIError:
        async with alone.connect() as conn:
            try:
                note(1, (await conn.execute(text("SELECT probe(1)"))).scalar())
            except exc.DBAPIError:
                await conn.rollback()
""",
    "a session sends no savepoint before the first statement inside": """
async def job():
    async with AsyncSession(engine) as conn:
        try:
            await conn.execute(text("SELECT 1 / 0"))
        except exc.DBAPIError:
            async with conn.begin_nested():
                await conn.commit()
        note(1, (await conn.execute(text("SELECT probe(1)"))).scalar())
""",
    "nor where the text of a statement has ended the transaction": """
async def job():
    async with AsyncSession(engine) as conn:
        await conn.execute(text("COMMIT"))
        async with conn.begin_nested():
            await conn.commit()
        note(1, (await conn.execute(text("SELECT probe(1)"))).scalar())
""",
    "it refuses to begin where a text has begun in autocommit, and ends nothing there": """
async def job():
    async with alone.connect() as conn:
        await conn.execute(text("BEGIN"))
    try:
        async with engine.begin() as conn:
            await conn.execute(text("SET app.tenant = '1'"))
    except exc.DBAPIError:
        pass
    async with alone.connect() as conn:
        await conn.commit()
        note(1, (await conn.execute(text("SELECT probe(1)"))).scalar())
    async with AsyncSession(engine) as conn:
        try:
            await conn.execute(text("SET app.tenant = '1'"))
        except exc.DBAPIError:
            await conn.rollback()
    async with alone.connect() as conn:
        note(2, (await conn.execute(text("SELECT probe(2)"))).scalar())
        await conn.execute(text("COMMIT"))
    async with engine.connect() as conn:
        await conn.execute(text("SELECT 1"))
        note(3, (await conn.execute(text("SELECT probe(3)"))).scalar())
        await conn.commit()
        note(4, (await conn.execute(text("SELECT probe(4)"))).scalar())
""",
}
_OVER_ASYNCPG = """
import asyncio

from notes import note
from place import PLACE
from sqlalchemy import event, exc, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

engine = create_async_engine(f"postgresql+asyncpg://{PLACE}", pool_size=1, max_overflow=0)
alone = engine.execution_options(isolation_level="AUTOCOMMIT")
"""
_RUN = """

async def main():
    await job()
    await engine.dispose()


asyncio.run(main())
"""


@pytest.mark.parametrize("job", OVER_ASYNCPG.values(), ids=OVER_ASYNCPG.keys())
def test_the_audit_agrees_with_the_server_under_sqlalchemy_over_asyncpg(
    postgres: OwnServer, tmp_path: Path, job: str
) -> None:
    agree(f"{_OVER_ASYNCPG.lstrip()}\n{job}{_RUN}", "", tmp_path, postgres.dsn)


@pytest.mark.parametrize("found", PG8000.values(), ids=PG8000.keys())
def test_the_audit_agrees_with_the_server_under_pg8000(
    postgres: OwnServer, tmp_path: Path, found: tuple[str, str]
) -> None:
    name, source = found
    agree(source.lstrip(), name, tmp_path, postgres.dsn)


@pytest.mark.parametrize("dialect", ["psycopg", "psycopg2"])
@pytest.mark.parametrize("found", FOUND.values(), ids=FOUND.keys())
def test_the_audit_agrees_with_the_server_under_sqlalchemy(
    postgres: OwnServer, tmp_path: Path, found: tuple[str, str], dialect: str
) -> None:
    listens, job = found
    source = f"{SQLALCHEMY.lstrip()}{listens}def job():{job}\n\njob()\nengine.dispose()\n"
    agree(source.replace("{dialect}", dialect), "", tmp_path, postgres.dsn)


def agree(source: str, name: str, folder: Path, dsn: str) -> None:
    prepare(dsn)
    for file, text in {"worker.py": source, "notes.py": NOTES, "place.py": place(name, dsn)}.items():
        (folder / file).write_text(text)
    found = compare(folder, dsn)
    assert (found.missed, found.extra) == (set(), set())
    assert found.probes
    assert not found.unknown
