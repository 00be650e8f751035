"""What `auditor/drivers/psycopg.py` and the rules say of psycopg 3 and its pool, shown on a real server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import psycopg
import psycopg_pool
import pytest
from psycopg import errors, sql
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from auditor.drivers.model import Binding, Filling, Thing
from auditor.drivers.psycopg import DRIVER
from tests.drivers.world import ABORTED, IDLE, LOCAL, OPEN, READ, SESSION, tenant

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def conn(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database) as connection:
        yield connection


@pytest.fixture
def auto(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


# Transactions


def test_a_statement_begins_a_transaction(conn: psycopg.Connection[Any]) -> None:
    assert DRIVER.begins_by_itself
    assert conn.info.transaction_status is IDLE
    conn.execute("SELECT 1")
    assert conn.info.transaction_status is OPEN


def test_in_autocommit_it_does_not(auto: psycopg.Connection[Any]) -> None:
    auto.execute("SELECT 1")
    assert auto.info.transaction_status is IDLE


def test_a_statement_that_fails_aborts_the_transaction(conn: psycopg.Connection[Any]) -> None:
    with pytest.raises(errors.DivisionByZero):
        conn.execute("SELECT 1 / 0")
    assert conn.info.transaction_status is ABORTED
    with pytest.raises(errors.InFailedSqlTransaction):
        conn.execute("SELECT 1")


def test_the_end_of_a_block_commits_and_closes(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE kept ()")
    assert DRIVER.after_block.value == "close"
    assert connection.closed
    with psycopg.connect(database) as connection:
        connection.execute("SELECT FROM kept")


def test_an_exception_in_a_block_rolls_back(database: str) -> None:
    with pytest.raises(KeyError), psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE gone ()")
        raise KeyError
    with pytest.raises(errors.UndefinedTable), psycopg.connect(database) as connection:
        connection.execute("SELECT FROM gone")


def test_transaction_begins_one_where_none_is_open(auto: psycopg.Connection[Any]) -> None:
    with auto.transaction():
        assert auto.info.transaction_status is OPEN
    assert auto.info.transaction_status is IDLE


def test_transaction_inside_a_transaction_is_a_savepoint(conn: psycopg.Connection[Any]) -> None:
    conn.execute("SELECT 1")
    with pytest.raises(errors.DivisionByZero), conn.transaction():
        conn.execute("SELECT 1 / 0")
    assert conn.info.transaction_status is OPEN


def test_transaction_is_not_entered_while_a_transaction_is_aborted(conn: psycopg.Connection[Any]) -> None:
    with pytest.raises(errors.DivisionByZero):
        conn.execute("SELECT 1 / 0")
    with pytest.raises(errors.InFailedSqlTransaction), conn.transaction():
        pytest.fail("the block was entered")
    assert conn.info.transaction_status is ABORTED
    conn.rollback()


def test_a_commit_in_text_is_noticed(conn: psycopg.Connection[Any]) -> None:
    assert DRIVER.watches_status
    conn.execute("COMMIT")
    conn.execute("SELECT 1")
    assert conn.info.transaction_status is OPEN


def test_transaction_leaves_idle_what_it_began(conn: psycopg.Connection[Any]) -> None:
    with conn.transaction():
        conn.execute("SELECT 1")
    assert conn.info.transaction_status is IDLE


def test_commit_is_refused_inside_transaction(conn: psycopg.Connection[Any]) -> None:
    assert DRIVER.block_forbids_commit
    for method in (conn.commit, conn.rollback):
        with pytest.raises(psycopg.ProgrammingError), conn.transaction():
            method()


def test_a_rollback_exception_undoes_a_block_and_goes_no_further(conn: psycopg.Connection[Any]) -> None:
    def give_up() -> None:
        raise psycopg.Rollback

    with conn.transaction():
        conn.execute("CREATE TABLE gone ()")
        give_up()
    with pytest.raises(errors.UndefinedTable):
        conn.execute("SELECT FROM gone")


def test_force_rollback_undoes_a_block_that_went_well(conn: psycopg.Connection[Any]) -> None:
    with conn.transaction(force_rollback=True):
        conn.execute("CREATE TABLE gone ()")
    with pytest.raises(errors.UndefinedTable):
        conn.execute("SELECT FROM gone")


def test_switching_autocommit_in_a_transaction_raises(conn: psycopg.Connection[Any]) -> None:
    assert DRIVER.autocommit_switch_raises
    conn.execute("SELECT 1")
    with pytest.raises(psycopg.ProgrammingError):
        conn.autocommit = True


def test_a_pipeline_is_one_transaction_in_autocommit_until_it_is_synced(auto: psycopg.Connection[Any]) -> None:
    auto.execute("CREATE TABLE seen (tenant text)")
    with auto.pipeline():
        auto.execute(LOCAL)
        auto.execute("INSERT INTO seen SELECT current_setting('app.tenant', true)")
    assert auto.execute("SELECT tenant FROM seen").fetchall() == [("1",)]


# Settings


def test_a_session_setting_is_kept_by_the_commit_and_undone_by_the_rollback(conn: psycopg.Connection[Any]) -> None:
    conn.execute(SESSION)
    conn.rollback()
    assert tenant(conn) in (None, "")
    conn.execute(SESSION)
    conn.commit()
    assert tenant(conn) == "1"


def test_a_local_setting_ends_with_the_transaction_and_leaves_the_empty_string(conn: psycopg.Connection[Any]) -> None:
    assert tenant(conn) is None
    conn.execute(LOCAL)
    assert tenant(conn) == "1"
    conn.commit()
    assert tenant(conn) == ""


def test_a_local_setting_outside_a_transaction_ends_with_its_statement(auto: psycopg.Connection[Any]) -> None:
    assert auto.execute("SELECT set_config('app.tenant', '1', true), pg_backend_pid()").fetchone() is not None
    assert tenant(auto) == ""
    auto.execute("SET LOCAL app.tenant = '2'")
    assert tenant(auto) == ""


def test_a_released_savepoint_hands_its_local_setting_up(conn: psycopg.Connection[Any]) -> None:
    conn.execute("SELECT 1")
    with conn.transaction():
        conn.execute(LOCAL)
    assert tenant(conn) == "1"


def test_a_savepoint_that_is_rolled_back_takes_its_settings_along(conn: psycopg.Connection[Any]) -> None:
    conn.execute("SELECT 1")
    with conn.transaction(force_rollback=True):
        conn.execute(LOCAL)
        conn.execute("SELECT set_config('app.other', '1', false)")
    assert tenant(conn) in (None, "")
    assert conn.execute("SELECT current_setting('app.other', true)").fetchone() in ((None,), ("",))


def test_set_takes_no_parameter_that_the_server_binds(conn: psycopg.Connection[Any]) -> None:
    assert DRIVER.binding is Binding.SERVER
    with pytest.raises(errors.SyntaxError):
        conn.execute("SET app.tenant = %s", ("1",))


def test_a_client_cursor_binds_it(conn: psycopg.Connection[Any]) -> None:
    assert DRIVER.makes["psycopg.ClientCursor"] is Thing.CLIENT_CURSOR
    psycopg.ClientCursor(conn).execute("SET app.tenant = %s", ("1",))
    assert tenant(conn) == "1"
    conn.cursor_factory = psycopg.ClientCursor
    conn.execute("SET app.tenant = %s", ("2",))
    assert tenant(conn) == "2"


def test_the_formats_of_template_strings_are_those_of_psycopg() -> None:
    tstrings = pytest.importorskip("psycopg._tstrings")
    known = {
        tstrings.FMT_IDENT: Filling.IDENTIFIER,
        tstrings.FMT_LITERAL: Filling.LITERAL,
        tstrings.FMT_SQL: Filling.SQL,
    }
    bound = {fmt.value: Filling.PARAMETER for fmt in psycopg.adapt.PyFormat}
    assert DRIVER.template_formats == {**known, **bound, "": Filling.PARAMETER}


def test_discard_all_fails_in_a_transaction(conn: psycopg.Connection[Any]) -> None:
    with pytest.raises(errors.ActiveSqlTransaction):
        conn.execute("DISCARD ALL")


# Async


def test_the_async_twins_behave_the_same(database: str) -> None:
    async def run() -> list[object]:
        seen: list[object] = []
        async with AsyncConnectionPool(database, min_size=1, max_size=1, open=False) as pool:
            async with pool.connection() as conn:
                await conn.execute(SESSION)
            async with pool.connection() as conn:
                seen.append(await (await conn.execute(READ)).fetchone())
                seen.append(conn.info.transaction_status)
            conn = await pool.getconn()
            await conn.execute("CREATE TABLE gone ()")
            await pool.putconn(conn)
            async with pool.connection() as conn:
                await conn.set_autocommit(True)
                async with conn.transaction():
                    await conn.execute("SELECT set_config('app.tenant', '2', true)")
                    seen.append(await (await conn.execute(READ)).fetchone())
                seen.append(await (await conn.execute("SELECT to_regclass('gone')")).fetchone())
                await conn.set_autocommit(False)
        async with await psycopg.AsyncConnection.connect(database) as conn:
            await conn.execute("SELECT 1")
        seen.append(conn.closed)
        return seen

    assert asyncio.run(run()) == [("1",), OPEN, ("2",), (None,), True]


# The tables


def _class(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    found: Any = {"psycopg": psycopg, "psycopg_pool": psycopg_pool}.get(module.partition(".")[0])
    for part in (*module.split(".")[1:], attribute):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", sorted({*DRIVER.makes, *DRIVER.types, *DRIVER.errors}))
def test_what_is_named_is_there(name: str) -> None:
    assert _class(name) is not None


@pytest.mark.parametrize("thing", [Thing.CONNECTION, Thing.POOL, Thing.CURSOR])
def test_every_public_method_is_in_the_tables(thing: Thing) -> None:
    classes = {
        Thing.CONNECTION: (psycopg.Connection, psycopg.AsyncConnection),
        Thing.POOL: (ConnectionPool, AsyncConnectionPool),
        Thing.CURSOR: (psycopg.Cursor, psycopg.AsyncCursor),
    }[thing]
    known = {name for kind, name in DRIVER.methods if kind is thing}
    for cls in classes:
        members = {name: getattr(cls, name) for name in dir(cls) if not name.startswith("_")}
        methods = {name for name, member in members.items() if callable(member) and not isinstance(member, type)}
        assert methods - known - OF_NO_CONSEQUENCE == set()


#: What makes connections is in other tables; two-phase commit is left alone; the pool's own threads are not called.
OF_NO_CONSEQUENCE = {
    "connect",
    "reconnect_failed",
    "run_task",
    "schedule_task",
    "setinputsizes",
    "setoutputsize",
    "tpc_begin",
    "tpc_commit",
    "tpc_prepare",
    "tpc_recover",
    "tpc_rollback",
    "worker",
    "xid",
}


def test_identifiers_and_literals_are_quoted(conn: psycopg.Connection[Any]) -> None:
    made = sql.SQL("SELECT {}, {}").format(sql.Identifier('a"b'), sql.Literal("it's"))
    assert made.as_string(conn) == """SELECT "a""b", 'it''s'"""
