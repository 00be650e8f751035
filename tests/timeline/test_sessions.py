"""Where programs keep sessions of SQLAlchemy and what makes them: the kinds that are written, told or left alone."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from auditor.timeline.model.events import Ran
from tests.timeline.world import codes, walked

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, contextmanager
from flask import Flask, g
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import bindparam, create_engine, event, false, func, literal, select, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from starlette.middleware.base import BaseHTTPMiddleware
from tenancy import current
URL = "postgresql+psycopg://x"
LASTING = text("SELECT set_config('app.tenant', :t, false)")
LOCAL = text("SELECT set_config('app.tenant', :t, true)")
WORK = text("UPDATE invoices SET sent = true")
"""
LASTS, ELSEWHERE = "TA101 at worker.py:11", "TA112 at worker.py:12"

KINDS = {
    "a factory in an attribute of a class": (
        """
        class Database:
            engine = create_engine(URL)
            Session = sessionmaker(bind=engine)

            def session(self, tenant):
                session = self.Session()
                session.execute(LASTING, {"t": tenant})
                session.commit()
                return session
        """,
        [LASTS],
    ),
    "a factory that is given by its type": (
        """
        class Repository:
            def __init__(self, sessions: sessionmaker[Session]):
                self._sessions = sessions

            def run(self, tenant):
                with self._sessions() as session:
                    session.execute(LASTING, {"t": tenant})
                    session.commit()
        """,
        [LASTS],
    ),
    "a factory that is given by its name": (
        """
        def run(session_factory, tenant):
            with session_factory() as session:
                session.execute(LASTING, {"t": tenant})
                session.commit()
        """,
        [LASTS],
    ),
    "whatever makes sessions": (
        """
        class Repository:
            def __init__(self, make: Callable[[], AbstractAsyncContextManager[AsyncSession]]):
                self._make = make

            async def run(self, tenant):
                async with self._make() as session:
                    await session.execute(LASTING, {"t": tenant})
                    await session.commit()
        """,
        [LASTS],
    ),
    "a factory in a dict of the module": (
        """
        _state = {}

        def init(url):
            _state["engine"] = create_engine(url)
            _state["sessions"] = sessionmaker(_state["engine"])

        def run(tenant):
            with _state["sessions"]() as session:
                session.execute(LASTING, {"t": tenant})
                session.commit()
        """,
        [LASTS],
    ),
    "a dependency whose session is committed by whom it is given to": (
        """
        def get_session(tenant: str):
            with Session(create_engine(URL)) as session:
                session.execute(LASTING, {"t": tenant})
                yield session

        ENGINE = create_engine(URL)

        def get_lasting_session(tenant: str):
            with Session(ENGINE) as session:
                session.execute(LASTING, {"t": tenant})
                yield session
        """,
        [LASTS],
    ),
    "a dependency whose transaction is a block's": (
        """
        ENGINE = create_engine(URL)

        def get_session(tenant: str):
            with Session(ENGINE) as session, session.begin():
                session.execute(LOCAL, {"t": tenant})
                yield session
        """,
        [],
    ),
    "a helper that is given the session": (
        """
        async def set_tenant(session: AsyncSession, tenant: str):
            await session.execute(LASTING, {"t": tenant})
        """,
        [LASTS],
    ),
    "a class of sessions of the project's own": (
        """
        class TenantSession(Session):
            def __init__(self, tenant, *args, **options):
                super().__init__(*args, **options)
                self.tenant = tenant
                settings = [func.set_config(literal("app.tenant"), bindparam("tenant"), false())]
                for name in tenant.names:
                    settings.append(func.set_config(literal(f"rls.{name}"), bindparam("name"), false()))
                self.template = select(*settings)

            def execute(self, *args, **options):
                super().execute(self.template.params(tenant=self.tenant))
                return super().execute(*args, **options)
        """,
        ["TA101 at worker.py:19", "TA101 at worker.py:21"],
    ),
    "a session of such a class, and what is local in it": (
        """
        class TenantSession(Session):
            def as_tenant(self, tenant):
                self.execute(LOCAL, {"t": tenant})
                return self

        sessions = sessionmaker(create_engine(URL), class_=TenantSession)

        def run(tenant):
            with sessions() as session:
                session.as_tenant(tenant).execute(WORK)
                session.commit()
                session.execute(WORK)
        """,
        ["TA103 at worker.py:13"],
    ),
    "a listener that nothing else runs": (
        """
        engine = create_engine(URL)

        @event.listens_for(Session, "after_begin")
        def set_tenant(session, transaction, connection):
            tenant = current.get()
            if tenant is not None:
                connection.execute(LASTING, {"t": tenant})
        """,
        [LASTS],
    ),
    "a listener that always sets it anew": (
        """
        engine = create_engine(URL)

        @event.listens_for(Session, "after_begin")
        def set_tenant(session, transaction, connection):
            connection.execute(LASTING, {"t": tenant_of(session)})
        """,
        [],
    ),
    "a listener to the begin of an engine's transactions": (
        """
        engine = create_async_engine("postgresql+asyncpg://x")

        @event.listens_for(engine.sync_engine, "begin")
        def set_tenant(connection):
            if current.get():
                connection.execute(LASTING, {"t": current.get()})
        """,
        [LASTS],
    ),
    "a listener that is asked for by a function": (
        """
        def set_tenant(connection, record):
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('app.tenant', %s, false)", (current.get(),))
            connection.commit()

        def make_engine():
            engine = create_engine(URL)
            event.listen(engine, "connect", set_tenant)
            return engine
        """,
        ["TA107 at worker.py:17"],
    ),
    "what every connection is opened with": (
        """
        engine = create_engine(URL)

        @event.listens_for(engine, "connect")
        def set_nobody(connection, record):
            with connection.cursor() as cursor:
                cursor.execute("SET app.tenant = 'nobody'")
            connection.commit()
        """,
        [],
    ),
    "a checkout that sets a tenant only when there is one": (
        """
        engine = create_engine(URL)

        @event.listens_for(engine, "checkout")
        def set_tenant(connection, record, proxy):
            if current.get() is not None:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT set_config('app.tenant', %s, false)", (current.get(),))
                connection.commit()
        """,
        ["TA101 at worker.py:21"],
    ),
    "a middleware whose session is closed when the request goes on": (
        """
        sessions = async_sessionmaker(create_async_engine(URL))

        class Tenant(BaseHTTPMiddleware):
            async def dispatch(self, request, call_next):
                async with sessions() as session:
                    await session.execute(LOCAL, {"t": request.state.tenant})
                return await call_next(request)
        """,
        [ELSEWHERE],
    ),
    "a middleware without a framework": (
        """
        sessions = async_sessionmaker(create_async_engine(URL))

        class Tenant:
            def __init__(self, app):
                self.app = app

            async def __call__(self, scope, receive, send):
                async with sessions() as session:
                    await session.execute(LOCAL, {"t": scope["tenant"]})
                await self.app(scope, receive, send)
        """,
        [ELSEWHERE],
    ),
    "a middleware that hands its session on": (
        """
        sessions = async_sessionmaker(create_async_engine(URL))

        class Tenant(BaseHTTPMiddleware):
            async def dispatch(self, request, call_next):
                async with sessions() as session, session.begin():
                    await session.execute(LOCAL, {"t": request.state.tenant})
                    request.state.session = session
                    return await call_next(request)
        """,
        [],
    ),
    "an application's session, before each request": (
        """
        app = Flask(__name__)
        db = SQLAlchemy(app)

        @app.before_request
        def set_tenant():
            db.session.execute(LASTING, {"t": g.tenant})
            db.session.commit()
        """,
        [LASTS],
    ),
    "a parameter that the driver of an application's session may bind": (
        """
        db = SQLAlchemy()

        def set_tenant():
            db.session.execute(text("SET LOCAL app.tenant = :t"), {"t": g.tenant})
        """,
        [],
    ),
}


@pytest.mark.parametrize(("source", "expected"), KINDS.values(), ids=KINDS)
def test_kinds(tmp_path: Path, source: str, expected: list[str]) -> None:
    assert codes(tmp_path, HEAD + textwrap.dedent(source)) == expected


@pytest.mark.parametrize(("pool", "kept"), [("NullPool", False), ("QueuePool", True)])
def test_a_session_without_a_pool_takes_another_connection_for_each_transaction(
    tmp_path: Path, pool: str, kept: bool
) -> None:
    source = f"""
    from sqlalchemy import {pool}, create_engine, text
    from sqlalchemy.orm import Session

    engine = create_engine("postgresql+psycopg://app", poolclass={pool})

    def run():
        with Session(engine) as session:
            session.execute(text("SELECT set_config('app.tenant', '1', false)"))
            session.commit()
            session.execute(text("DELETE FROM notes"))
    """
    ran = [event for event in walked(tmp_path, {"worker.py": source}).events if isinstance(event, Ran)]
    assert ran[-1].before.setting("app.tenant").current.is_value is kept
