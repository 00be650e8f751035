"""Objects that keep a connection and are given to code that is not seen, which has them commit."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.timeline.world import find

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
import tracing
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple
from psycopg import Connection
from psycopg_pool import ConnectionPool
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session, sessionmaker

pool = ConnectionPool("")
make = sessionmaker(create_engine("postgresql+psycopg://"))

SET = "SELECT set_config('app.tenant', {value}, {local})"
"""
#: `AFTER` is where a value that was set for the session can be taken back.
WAYS = {
    "yielded by a function": """
        class Ledger:
            def __init__(self, session):
                self.session = session

            def book(self, entry):
                self.session.add(entry)
                self.session.commit()

        @contextmanager
        def ledger_of(org):
            with make() as session:
                session.execute(text(SET), {"org": org})
                yield Ledger(session)
                AFTER
    """,
    "its own context manager": """
        class Ledger:
            def __init__(self, org):
                self.org = org

            def __enter__(self):
                self.session = make()
                self.session.execute(text(SET), {"org": self.org})
                return self

            def __exit__(self, *failure):
                session = self.session
                AFTER
                self.session.close()

            def book(self, entry):
                self.session.add(entry)
                self.session.commit()
    """,
    "one that commits at its end": """
        class Ledger:
            def __init__(self, org):
                self.org = org

            def __enter__(self):
                self.conn = pool.getconn()
                self.conn.execute(SET, {"org": self.org})
                return self.conn

            def __exit__(self, kind, failure, trace):
                session = self.conn
                if kind is None:
                    AFTER
                    self.conn.commit()
                else:
                    self.conn.rollback()
                pool.putconn(self.conn)
    """,
    "yielded in a bundle": """
        @dataclass
        class Desk:
            org: str
            conn: Connection

        @contextmanager
        def desk(org):
            with pool.connection() as session:
                session.execute("SELECT set_config('app.tenant', %s, LOCAL)", (org,))
                yield Desk(org, session)
                AFTER
    """,
    "yielded in a namespace": """
        @contextmanager
        def desk(org):
            with make() as session:
                session.execute(text(SET), {"org": org})
                yield SimpleNamespace(org=org, db=session)
                AFTER
    """,
    "yielded as a class of its own": """
        class OfOrg(Session):
            pass

        @contextmanager
        def desk(org) -> Iterator[OfOrg]:
            with make() as session:
                session.execute(text(SET), {"org": org})
                own = OfOrg.__new__(OfOrg)
                own.__dict__.update(vars(session))
                yield own
                AFTER
    """,
    "wrapped by a library": """
        @contextmanager
        def desk(org) -> Generator[Session, None, None]:
            with make() as session:
                session.execute(text(SET), {"org": org})
                yield tracing.watched(session)
                AFTER
    """,
    "returned in a bundle": """
        class Desk(NamedTuple):
            db: Session
            org: str

        def desk(org):
            session = make()
            session.execute(text(SET), {"org": org})
            AFTER
            return Desk(session, org)
    """,
}


def found(folder: Path, code: str, local: str, after: str = "pass") -> list[str]:
    value = "%(org)s" if "conn.execute" in code else ":org"
    body = textwrap.dedent(code).replace("AFTER", after).replace("LOCAL", local)
    text = HEAD.format(value=value, local=local) + body
    return [one.code for one in find(folder, {"ledger.py": text})]


@pytest.mark.parametrize("code", WAYS.values(), ids=WAYS)
def test_what_is_set_for_the_session_is_kept_by_who_is_given_the_object(code: str, tmp_path: Path) -> None:
    assert found(tmp_path, code, "false") == ["TA101"]


@pytest.mark.parametrize("code", WAYS.values(), ids=WAYS)
def test_what_is_set_for_the_transaction_is_not(code: str, tmp_path: Path) -> None:
    assert found(tmp_path, code, "true") == []


def test_an_object_that_never_commits_keeps_nothing(tmp_path: Path) -> None:
    code = WAYS["yielded by a function"].replace("self.session.commit()", "self.session.flush()")
    assert found(tmp_path, code, "false") == []


def test_what_is_taken_back_at_its_end_is_gone(tmp_path: Path) -> None:
    code = WAYS["one that commits at its end"]
    assert found(tmp_path, code, "false", 'session.execute("RESET ALL")') == []


def test_what_has_no_connection_has_nobody_commit(tmp_path: Path) -> None:
    code = WAYS["yielded in a namespace"].replace("db=session", "of=len(org)")
    assert found(tmp_path, code, "false") == []


def test_a_session_beside_the_one_that_is_handed_out_is_not_it(tmp_path: Path) -> None:
    code = """
        @contextmanager
        def desk(org, db: Session) -> Iterator[Session]:
            with make() as session:
                session.execute(text(SET), {"org": org})
                yield db
    """
    assert found(tmp_path, code, "false") == []


@pytest.mark.parametrize("given", ["SimpleNamespace(org=org, db=session)", "tracing.watched(session)"])
def test_what_its_maker_takes_back_is_gone(given: str, tmp_path: Path) -> None:
    code = """
        @contextmanager
        def desk(org) -> Iterator[Session]:
            with make() as session:
                session.execute(text(SET), {"org": org})
                try:
                    yield GIVEN
                finally:
                    session.rollback()
                    session.execute(text("RESET ALL"))
                    session.commit()
    """
    assert found(tmp_path, code.replace("GIVEN", given), "false") == []
