"""What a helper sets on the session or the engine's connection that it is passed."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from auditor.findings import Confidence
from tests.timeline.world import find

if TYPE_CHECKING:
    from pathlib import Path

#: Settings for the session, which whoever passed the connection commits: they go back into the pool with it.
STAYING = {
    "an engine's connection": """
        from sqlalchemy import Connection, text

        def become(connection: Connection, account):
            connection.execute(text("SELECT set_config('app.account_id', :account, false)"), {"account": account})
    """,
    "one for coroutines": """
        from sqlalchemy import text
        from sqlalchemy.ext.asyncio import AsyncConnection

        async def become(connection: AsyncConnection, account):
            await connection.execute(text(f"SET app.account_id = '{account}'"))
    """,
    "a scope that travels as text": """
        from sqlalchemy import text
        from sqlalchemy.orm import Session

        SETTING = text("SELECT set_config(:name, :value, :is_local)")

        def become(session: Session, account):
            session.execute(SETTING, {"name": "app.account_id", "value": account, "is_local": "false"})
    """,
}
#: The same, where it does not stay, or where it is not seen that it does.
GOING = {
    "a local scope that travels as text": """
        from sqlalchemy import text
        from sqlalchemy.orm import Session

        SETTING = text("SELECT set_config(:name, :value, :is_local)")

        def become(session: Session, account):
            session.execute(SETTING, {"name": "app.account_id", "value": account, "is_local": "on"})
    """,
    "taken away by another helper": """
        from sqlalchemy import Connection, text

        def become(connection: Connection, account):
            connection.execute(text("SELECT set_config('app.account_id', :account, false)"), {"account": account})

        def leave(connection: Connection):
            connection.execute(text("RESET app.account_id"))
            connection.commit()
    """,
    "all of it reset": """
        from sqlalchemy import Connection, text

        def become(connection: Connection, account):
            connection.execute(text("SELECT set_config('app.account_id', :account, false)"), {"account": account})

        def leave(connection: Connection):
            connection.execute(text("RESET ALL"))
    """,
    "a driver's own connection, which may be nobody else's": """
        import psycopg

        def become(conn: psycopg.Connection, account):
            conn.execute("SELECT set_config('app.account_id', %s, false)", (account,))
    """,
}


def codes(tmp_path: Path, code: str) -> set[str]:
    return {one.code for one in find(tmp_path, {"tenancy.py": dedent(code)}) if one.confidence > Confidence.LOW}


@pytest.mark.parametrize("code", STAYING.values(), ids=STAYING)
def test_what_a_helper_sets_for_the_session_stays_on_the_pooled_connection(tmp_path: Path, code: str) -> None:
    assert "TA101" in codes(tmp_path, code)


@pytest.mark.parametrize("code", GOING.values(), ids=GOING)
def test_what_goes_again_is_left_alone(tmp_path: Path, code: str) -> None:
    assert "TA101" not in codes(tmp_path, code)


@pytest.mark.parametrize(("waits", "refused"), [("await ", True), ("", False)])
def test_who_waits_for_a_statement_leaves_its_parameters_to_the_server(
    tmp_path: Path, waits: str, refused: bool
) -> None:
    """Whatever the session that comes in was taken for: here one of an engine over psycopg2, which binds by itself."""
    helper = f"""
        from sqlalchemy import text

        async def become(session, account):
            connection = {waits}session.connection()
            {waits}connection.execute(text("SET LOCAL app.account_id = :account"), {{"account": account}})
    """
    view = """
        from sqlalchemy import create_engine
        from sqlalchemy.orm import Session
        from tenancy import become

        engine = create_engine("postgresql+psycopg2://app@db/app")

        async def show(account):
            with Session(engine) as session:
                await become(session, account)
                session.commit()
    """
    found = find(tmp_path, {"tenancy.py": dedent(helper), "view.py": dedent(view)})
    assert ("TA110" in {one.code for one in found}) is refused


POOLED = """
from contextlib import contextmanager
from sqlalchemy import create_engine, text
from sqlalchemy.orm import sessionmaker

engine = create_engine("postgresql+psycopg://app@db/app")
Session = sessionmaker(engine)


@contextmanager
def as_account(account):
    with Session() as session:
        session.execute(text("RESET ROLE"))
        session.execute(text(f'SET SESSION ROLE "account_{account}"'))
        yield session


def unsent():
    with Session() as session:
        BEGIN
        return session.execute(text("SELECT id FROM letters FOR UPDATE")).all()
"""


@pytest.mark.parametrize(("begin", "left"), [('session.execute(text("RESET ROLE"))', False), ("pass", True)])
def test_nobody_meets_a_role_that_every_borrower_takes_away_first(tmp_path: Path, begin: str, left: bool) -> None:
    assert ("TA105" in codes(tmp_path, POOLED.replace("BEGIN", begin))) is left


TENANT_OR_NOBODY = """
from typing import Callable, Generator
from fastapi import Request
from sqlalchemy import text
from sqlalchemy.orm import Session


def sessions(SessionLocal) -> Callable[..., Generator[Session, None, None]]:
    def get_db(request: Request) -> Generator[Session, None, None]:
        tenant_id = getattr(request.state, "tenant_id", None)
        if tenant_id:
            path = f'"{tenant_id}", public'
        else:
            path = "public"
        db = SessionLocal()
        try:
            db.execute(text(f"SET search_path TO {path}"))
            yield db
        finally:
            db.close()

    return get_db
"""


def test_what_sets_a_tenant_on_one_path_and_clears_on_another_is_no_clearing_first(tmp_path: Path) -> None:
    assert "TA106" in codes(tmp_path, TENANT_OR_NOBODY)
