"""A pool's callback that gives its connection away, or closes it: what it leaves is not handed out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.timeline.world import find

if TYPE_CHECKING:
    from pathlib import Path

CLOSED = """
from sqlalchemy import create_engine, event, text

engine = create_engine("postgresql://")


@event.listens_for(engine, "connect")
def tried(connection, record):
    connection.close()
    engine.dispose()


def run(tenant):
    with engine.begin() as conn:
        conn.execute(text("SELECT set_config('app.tenant', :tenant, true)"), {"tenant": tenant})
"""
GIVEN = """
from psycopg_pool import ConnectionPool

pool = ConnectionPool("dbname=app", configure=lambda conn: pool.putconn(conn))


def run(tenant):
    with pool.connection() as conn:
        conn.execute("SELECT set_config('app.tenant', %s, true)", (tenant,))
"""


def test_one_that_is_closed_when_it_is_made(tmp_path: Path) -> None:
    assert find(tmp_path, {"app.py": CLOSED}) == []


def test_one_that_is_given_back_when_it_is_made(tmp_path: Path) -> None:
    assert find(tmp_path, {"app.py": GIVEN}) == []


RESET = """
from psycopg_pool import ConnectionPool


def reset(conn):
    conn.autocommit = True
    try:
        conn.execute("RESET ALL")
    finally:
        {back}


pool = ConnectionPool("dbname=app", reset=reset)


def run(tenant):
    with pool.connection() as conn:
        conn.execute("SELECT set_config('app.tenant', %s, true)", (tenant,))
"""


def test_one_that_is_closed_need_not_be_switched_back(tmp_path: Path) -> None:
    open_one = "if not conn.closed:\n            conn.autocommit = False"
    assert find(tmp_path, {"app.py": RESET.format(back=open_one)}) == []


def test_one_that_is_open_must_be(tmp_path: Path) -> None:
    closed_one = "if conn.closed:\n            conn.autocommit = False"
    assert [one.code for one in find(tmp_path, {"app.py": RESET.format(back=closed_one)})] == ["TA206"]


GIVEN_BACK = """
from psycopg import Connection
from psycopg_pool import ConnectionPool


def reset(conn):
    conn.autocommit = True
    try:
        conn.execute("DISCARD ALL")
    finally:
        conn.autocommit = False


pool = ConnectionPool("dbname=app", reset=reset, kwargs={KWARGS})


class Kernel:
    def begin(self, conn: Connection):
        conn.execute("SELECT 1")

    def release(self, conn: Connection):
        pool.putconn(conn)

    def run(self, conn: Connection):
        try:
            self.begin(conn)
        finally:
            self.release(conn)
"""


@pytest.mark.parametrize(("kwargs", "found"), [('{"prepare_threshold": None}', []), ("{}", ["TA201"])])
def test_what_is_given_back_was_made_by_the_pool(tmp_path: Path, kwargs: str, found: list[str]) -> None:
    told = find(tmp_path, {"app.py": GIVEN_BACK.replace("{KWARGS}", kwargs)})
    assert [one.code for one in told] == found


SAID = """
from psycopg_pool import ConnectionPool


def reset(conn):
    conn.autocommit = True
    try:
        conn.execute("DISCARD ALL")
    finally:
        conn.autocommit = False


connections = ConnectionPool("dbname=app", reset=reset, kwargs={KWARGS})


def run(pool: ConnectionPool):
    conn = pool.getconn()
    try:
        conn.execute("SELECT 1")
    finally:
        connections.putconn(conn)
"""


@pytest.mark.parametrize(("kwargs", "found"), [('{"prepare_threshold": None}', []), ("{}", ["TA201"])])
def test_what_comes_out_of_what_is_said_to_be_a_pool(tmp_path: Path, kwargs: str, found: list[str]) -> None:
    told = find(tmp_path, {"app.py": SAID.replace("{KWARGS}", kwargs)})
    assert [one.code for one in told] == found
