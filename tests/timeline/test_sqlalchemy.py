"""SQLAlchemy on the timeline: which transaction is open where, and who comes next."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.timeline.world import codes

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
from typing import Annotated
from fastapi import Depends
from sqlalchemy import create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool
engine = create_engine("postgresql+psycopg://x")
factory = sessionmaker(bind=engine)
async_engine = create_async_engine("postgresql+asyncpg://x")
async_factory = async_sessionmaker(async_engine)
LASTING = text("SELECT set_config('app.tenant', :t, false)")
LOCAL = text("SELECT set_config('app.tenant', :t, true)")
WORK = text("SELECT * FROM invoices")
"""
LASTS, ENDS = "TA101 at worker.py:11", "TA102 at worker.py:12"

KINDS = {
    "connect() rolls back": (
        """
        def run(t):
            with engine.connect() as conn:
                conn.execute(LASTING, {"t": t})
        """,
        [],
    ),
    "what is committed stays on the connection": (
        """
        def run(t):
            with engine.connect() as conn:
                conn.execute(LASTING, {"t": t})
                conn.commit()
        """,
        [LASTS],
    ),
    "begin() commits": (
        """
        def run(t):
            with engine.begin() as conn:
                conn.execute(LASTING, {"t": t})
        """,
        [LASTS],
    ),
    "a session that is committed and closed": (
        """
        def run(t):
            session = factory()
            try:
                session.execute(LASTING, {"t": t})
                session.commit()
            finally:
                session.close()
        """,
        [LASTS],
    ),
    "a session that nobody closes": (
        """
        def run(t):
            session = factory()
            session.execute(LASTING, {"t": t})
            session.commit()
        """,
        [LASTS],
    ),
    "a session that nobody commits": (
        """
        def run(t):
            with factory() as session:
                session.execute(LASTING, {"t": t})
        """,
        [],
    ),
    "begin of a session, with coroutines": (
        """
        async def run(t):
            async with async_factory() as session, session.begin():
                await session.execute(LASTING, {"t": t})
        """,
        [LASTS],
    ),
    "a dependency that keeps what it has set": (
        """
        async def get_db(t: str):
            async with async_factory() as session:
                await session.execute(LASTING, {"t": t})
                yield session

        async def view(session: Annotated[AsyncSession, Depends(get_db)]):
            await session.execute(WORK)
            await session.commit()
        """,
        [LASTS],
    ),
    "a dependency by the name of its annotation": (
        """
        def get_db():
            with factory() as session:
                yield session

        Db = Annotated[Session, Depends(get_db)]

        def view(session: Db, t: str):
            session.execute(LASTING, {"t": t})
            session.commit()
        """,
        [LASTS],
    ),
    "a scoped session": (
        """
        current = scoped_session(factory)

        def run(t):
            current.execute(LASTING, {"t": t})
            current.commit()
            current.remove()
        """,
        [LASTS],
    ),
    "a pool that keeps nothing": (
        """
        apart = create_engine("postgresql+psycopg://x", poolclass=NullPool)

        def run(t):
            with apart.begin() as conn:
                conn.execute(LASTING, {"t": t})
        """,
        [],
    ),
    "another database": (
        """
        lite = create_engine("sqlite:///x.db")
        Lite = sessionmaker(lite)

        def run(t):
            with Lite.begin() as session:
                session.execute(LASTING, {"t": t})
        """,
        [],
    ),
    "autocommit of a connection": (
        """
        def run(t):
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
                conn.execute(LOCAL, {"t": t})
                conn.execute(WORK)
        """,
        [ENDS],
    ),
    "autocommit of an engine": (
        """
        def run(t):
            with engine.execution_options(isolation_level="AUTOCOMMIT").begin() as conn:
                conn.execute(LOCAL, {"t": t})
                conn.execute(WORK)
        """,
        [ENDS],
    ),
    "a local tenant inside a transaction": (
        """
        def run(t):
            with factory() as session:
                session.execute(LOCAL, {"t": t})
                session.execute(WORK)
                session.commit()
        """,
        [],
    ),
    "a tenant that ended with the commit": (
        """
        def run(t):
            with factory() as session:
                session.execute(LOCAL, {"t": t})
                session.commit()
                session.execute(WORK)
        """,
        ["TA103 at worker.py:13"],
    ),
    "a tenant that every begin sets anew": (
        """
        @event.listens_for(factory, "after_begin")
        def set_tenant(session, transaction, connection):
            connection.execute(LOCAL, {"t": tenant_of(session)})

        def run():
            with factory() as session:
                session.execute(WORK)
                session.commit()
                session.execute(WORK)
        """,
        [],
    ),
    "a tenant that every begin sets anew where the session remembers one": (
        """
        @event.listens_for(Session, "after_begin")
        def set_tenant(session, transaction, connection):
            tenant = session.info.get("tenant")
            if tenant is None:
                return
            connection.execute(LOCAL, {"t": tenant})

        def run(session: Session, t):
            session.info["tenant"] = t
            session.execute(LOCAL, {"t": t})
            session.execute(WORK)
            session.commit()
            session.execute(WORK)
        """,
        [],
    ),
    "a tenant of one transaction, where the begin of each is told to somebody else": (
        """
        @event.listens_for(Session, "after_begin")
        def count(session, transaction, connection):
            session.info["begun"] = True

        def run(session: Session, t):
            session.execute(LOCAL, {"t": t})
            session.execute(WORK)
            session.commit()
            session.execute(WORK)
        """,
        ["TA103 at worker.py:13"],
    ),
    "a session's tenant that every begin sets anew": (
        """
        @event.listens_for(factory, "after_begin")
        def set_tenant(session, transaction, connection):
            connection.execute(LASTING, {"t": tenant_of(session)})

        def run():
            with factory() as session:
                session.execute(WORK)
                session.commit()
        """,
        [],
    ),
    "a tenant, or nobody where there is none, by the same statement": (
        """
        def dependency(request):
            tenant = request.state.tenant_id
            value = str(tenant) if tenant else ""
            session = factory()
            try:
                session.execute(LASTING, {"t": value})
                yield session
            finally:
                session.close()
        """,
        [LASTS],
    ),
    "a tenant that every checkout sets anew": (
        """
        @event.listens_for(engine, "checkout")
        def set_tenant(connection, record, proxy):
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('app.tenant', %s, false)", (current_tenant(),))

        def run():
            with engine.begin() as conn:
                conn.execute(WORK)
        """,
        [],
    ),
    "a parameter that is bound on the server": (
        """
        async def run(session: AsyncSession, t):
            await session.execute(text("SET LOCAL app.tenant = :t"), {"t": t})
        """,
        ["TA110 at worker.py:16"],
    ),
    "a parameter that may be bound in the client": (
        """
        def run(session: Session, t):
            session.execute(text("SET LOCAL app.tenant = :t"), {"t": t})
        """,
        [],
    ),
    "a cleanup that closing rolls back": (
        """
        def run(t):
            session = factory()
            try:
                session.execute(LASTING, {"t": t})
                session.commit()
            finally:
                session.execute(text("RESET app.tenant"))
                session.close()
        """,
        ["TA111 at worker.py:21"],
    ),
    "a cleanup that is committed": (
        """
        def run(t):
            session = factory()
            try:
                session.execute(LASTING, {"t": t})
                session.commit()
            finally:
                session.execute(text("RESET app.tenant"))
                session.commit()
                session.close()
        """,
        [],
    ),
    "a savepoint hands its tenant up": (
        """
        def run(tenants):
            with factory() as session:
                for t in tenants:
                    with session.begin_nested():
                        session.execute(LOCAL, {"t": t})
                        session.execute(WORK)
                session.execute(WORK)
                session.commit()
        """,
        ["TA113 at worker.py:12"],
    ),
    "the session of an application": (
        """
        from flask_sqlalchemy import SQLAlchemy
        db = SQLAlchemy()

        def run(t):
            db.session.execute(db.text("SELECT set_config('app.tenant', :t, false)"), {"t": t})
            db.session.commit()
        """,
        ["TA101 at worker.py:19"],
    ),
}


@pytest.mark.parametrize(("source", "expected"), KINDS.values(), ids=KINDS)
def test_kinds(tmp_path: Path, source: str, expected: list[str]) -> None:
    assert codes(tmp_path, HEAD + textwrap.dedent(source)) == expected
