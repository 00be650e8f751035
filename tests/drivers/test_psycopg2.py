"""What `auditor/drivers/psycopg2.py` and the rules say of psycopg2 and its pools, shown on a real server."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import psycopg2
import psycopg2.extras
import psycopg2.pool
import pytest
from psycopg2 import errors, extensions
from psycopg2.extensions import TRANSACTION_STATUS_IDLE as IDLE
from psycopg2.extensions import TRANSACTION_STATUS_INERROR as ABORTED
from psycopg2.extensions import TRANSACTION_STATUS_INTRANS as OPEN

from auditor.drivers.model import AfterBlock, Binding, Thing
from auditor.drivers.psycopg2 import DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSION = "SELECT set_config('app.tenant', '1', false)"
LOCAL = "SELECT set_config('app.tenant', '1', true)"


def ask(conn: Any, query: str, *parameters: object) -> Any:
    with conn.cursor() as cur:
        cur.execute(query, parameters or None)
        row = cur.fetchone() if cur.description else None
    return row[0] if row else None


def tenant(conn: Any) -> str | None:
    found: str | None = ask(conn, "SELECT current_setting('app.tenant', true)")
    return found


@pytest.fixture
def conn(database: str) -> Iterator[Any]:
    connection = psycopg2.connect(database)
    yield connection
    connection.close()


@pytest.fixture
def pool(database: str) -> Iterator[Any]:
    made = psycopg2.pool.ThreadedConnectionPool(1, 1, database)
    yield made
    made.closeall()


def test_a_statement_begins_a_transaction(conn: Any) -> None:
    assert DRIVER.begins_by_itself
    assert conn.get_transaction_status() == IDLE
    ask(conn, "SELECT 1")
    assert conn.get_transaction_status() == OPEN


@pytest.mark.parametrize("how", ["attribute", "set_session", "level"])
def test_in_autocommit_it_does_not(conn: Any, how: str) -> None:
    if how == "attribute":
        conn.autocommit = True
    elif how == "set_session":
        conn.set_session(autocommit=True)
    else:
        conn.set_isolation_level(extensions.ISOLATION_LEVEL_AUTOCOMMIT)
    ask(conn, "SELECT 1")
    assert conn.get_transaction_status() == IDLE


def test_a_statement_that_fails_aborts_the_transaction(conn: Any) -> None:
    with pytest.raises(errors.DivisionByZero):
        ask(conn, "SELECT 1 / 0")
    assert conn.get_transaction_status() == ABORTED
    with pytest.raises(errors.InFailedSqlTransaction):
        ask(conn, "SELECT 1")


def test_the_end_of_a_block_commits_and_keeps_the_connection(conn: Any) -> None:
    assert DRIVER.after_block is AfterBlock.KEEP
    with conn:
        ask(conn, SESSION)
    assert not conn.closed
    assert conn.get_transaction_status() == IDLE
    assert tenant(conn) == "1"


def test_an_exception_in_a_block_rolls_back(conn: Any) -> None:
    with pytest.raises(KeyError), conn:
        ask(conn, SESSION)
        raise KeyError
    assert tenant(conn) in (None, "")


def test_a_block_begins_a_transaction_even_in_autocommit(conn: Any) -> None:
    assert DRIVER.block_begins
    conn.autocommit = True
    with conn:
        ask(conn, LOCAL)
        assert tenant(conn) == "1"
    assert tenant(conn) == ""


def test_a_block_in_a_block_is_refused(conn: Any) -> None:
    with conn:
        ask(conn, "SELECT 1")
        with pytest.raises(psycopg2.ProgrammingError), conn:
            pytest.fail("the block was entered")
        assert conn.get_transaction_status() == OPEN


def test_autocommit_that_is_switched_in_a_block_begins_after_it(conn: Any) -> None:
    with conn:
        conn.autocommit = True
        ask(conn, LOCAL)
        assert tenant(conn) == "1"
    ask(conn, LOCAL)
    assert tenant(conn) == ""


def test_after_a_commit_in_text_no_transaction_is_begun_until_commit_is_called(pool: Any) -> None:
    assert not DRIVER.watches_status
    conn = pool.getconn()
    ask(conn, "COMMIT")
    ask(conn, "SELECT 1")
    assert conn.get_transaction_status() == IDLE
    with pytest.raises(psycopg2.ProgrammingError):
        conn.autocommit = True
    pool.putconn(conn)
    conn = pool.getconn()
    ask(conn, "SELECT 1")
    assert conn.get_transaction_status() == IDLE
    conn.commit()
    ask(conn, "SELECT 1")
    assert conn.get_transaction_status() == OPEN


def test_in_autocommit_commit_and_rollback_send_nothing(database: str) -> None:
    pool = psycopg2.pool.ThreadedConnectionPool(1, 1, database)
    conn = pool.getconn()
    conn.autocommit = True
    ask(conn, "BEGIN")
    conn.commit()
    conn.rollback()
    assert conn.get_transaction_status() == OPEN
    pool.putconn(conn)
    assert pool.getconn().get_transaction_status() == OPEN
    pool.closeall()


def test_switching_autocommit_in_a_transaction_raises(conn: Any) -> None:
    assert DRIVER.autocommit_switch_raises
    ask(conn, "SELECT 1")
    with pytest.raises(psycopg2.ProgrammingError):
        conn.autocommit = True
    with pytest.raises(psycopg2.ProgrammingError):
        conn.set_session(autocommit=True)


def test_switching_the_isolation_level_rolls_back(conn: Any) -> None:
    assert DRIVER.isolation_switch_rolls_back
    ask(conn, SESSION)
    conn.set_isolation_level(extensions.ISOLATION_LEVEL_SERIALIZABLE)
    assert conn.get_transaction_status() == IDLE
    assert tenant(conn) in (None, "")


def test_parameters_are_bound_in_the_client(conn: Any) -> None:
    assert DRIVER.binding is Binding.CLIENT
    ask(conn, "SET app.tenant = %s", "1")
    assert tenant(conn) == "1"


def test_nothing_is_prepared_so_discard_all_breaks_nothing(conn: Any) -> None:
    assert DRIVER.prepares_after is None
    conn.autocommit = True
    for _ in range(20):
        ask(conn, "SELECT count(*) FROM pg_class WHERE relname = %s", "jobs")
        ask(conn, "DISCARD ALL")


def test_discard_all_fails_in_a_transaction(conn: Any) -> None:
    with pytest.raises(errors.ActiveSqlTransaction):
        ask(conn, "DISCARD ALL")


def test_reset_rolls_back_and_clears_the_session(conn: Any) -> None:
    ask(conn, SESSION)
    conn.commit()
    conn.reset()
    assert conn.get_transaction_status() == IDLE
    assert tenant(conn) in (None, "")


@pytest.mark.parametrize("how", ["SET ROLE", "SET SESSION AUTHORIZATION"])
def test_reset_gives_up_a_role_too(conn: Any, how: str) -> None:
    assert not DRIVER.reset_keeps
    ask(conn, "CREATE ROLE someone")
    try:
        conn.commit()
        ask(conn, f"{how} someone")
        conn.commit()
        conn.reset()
        assert ask(conn, "SELECT current_user = 'someone'") is False
    finally:
        ask(conn, "DROP ROLE someone")
        conn.commit()


def test_a_committed_session_setting_is_handed_on_by_the_pool(pool: Any) -> None:
    conn = pool.getconn()
    ask(conn, SESSION)
    conn.commit()
    pool.putconn(conn)
    assert tenant(pool.getconn()) == "1"


def test_what_is_open_when_a_connection_comes_back_is_rolled_back(pool: Any) -> None:
    assert not DRIVER.pool_discards_busy
    conn = pool.getconn()
    first = conn.get_backend_pid()
    ask(conn, SESSION)
    pool.putconn(conn)
    conn = pool.getconn()
    assert (conn.get_backend_pid(), conn.get_transaction_status()) == (first, IDLE)
    assert tenant(conn) in (None, "")


def test_a_cleanup_that_nobody_commits_is_no_cleanup(pool: Any) -> None:
    conn = pool.getconn()
    ask(conn, SESSION)
    conn.commit()
    ask(conn, "RESET app.tenant")
    pool.putconn(conn)
    assert tenant(pool.getconn()) == "1"


def test_a_connection_that_is_closed_on_its_way_back_is_replaced(pool: Any) -> None:
    conn = pool.getconn()
    ask(conn, SESSION)
    conn.commit()
    pool.putconn(conn, close=True)
    assert tenant(pool.getconn()) is None


def test_execute_values_is_a_statement_like_any_other(conn: Any) -> None:
    assert "psycopg2.extras.execute_values" in DRIVER.helpers
    ask(conn, "CREATE TABLE kept (id int)")
    conn.commit()
    with conn.cursor() as cur:
        psycopg2.extras.execute_values(cur, "INSERT INTO kept VALUES %s", [(1,), (2,)])
    assert conn.get_transaction_status() == OPEN


@pytest.mark.parametrize("name", sorted({*DRIVER.makes, *DRIVER.types, *DRIVER.errors, *DRIVER.helpers}))
def test_what_is_named_is_there(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert getattr(importlib.import_module(module), attribute) is not None


@pytest.mark.parametrize(
    ("thing", "cls"),
    [
        (Thing.CONNECTION, extensions.connection),
        (Thing.CLIENT_CURSOR, extensions.cursor),
        (Thing.POOL, psycopg2.pool.ThreadedConnectionPool),
    ],
)
def test_every_public_method_is_in_the_tables(thing: Thing, cls: Any) -> None:
    known = {name for kind, name in DRIVER.methods if kind is thing}
    members = {name: getattr(cls, name) for name in dir(cls) if not name.startswith("_")}
    methods = {name for name, member in members.items() if callable(member) and not isinstance(member, type)}
    assert methods - known - OF_NO_CONSEQUENCE == set()


#: Two-phase commit is left alone, and the rest touches no transaction.
OF_NO_CONSEQUENCE = {
    "cast",
    "get_dsn_parameters",
    "get_native_connection",
    "get_parameter_status",
    "isexecuting",
    "setinputsizes",
    "setoutputsize",
    "tpc_begin",
    "tpc_commit",
    "tpc_prepare",
    "tpc_recover",
    "tpc_rollback",
    "xid",
}
