"""What `auditor/drivers/asyncpg.py` and the rules say of asyncpg and its pool, shown on a real server."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from asyncpg import exceptions
from psycopg.conninfo import conninfo_to_dict

from auditor.drivers.asyncpg import DRIVER
from auditor.drivers.model import Act, Binding, Callback, Thing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SESSION = "SELECT set_config('app.tenant', '1', false)"
LOCAL = "SELECT set_config('app.tenant', '1', true)"
READ = "SELECT current_setting('app.tenant', true)"


def options(dsn: str) -> dict[str, Any]:
    told = conninfo_to_dict(dsn)
    place = {name: told[name] for name in ("host", "port") if told.get(name)}
    return {**place, "user": told["user"], "database": told["dbname"]}


def connected(dsn: str, body: Callable[[Any], Awaitable[None]], **more: Any) -> None:
    """Run the body on a connection of its own."""

    async def main() -> None:
        conn = await asyncpg.connect(**options(dsn), **more)
        try:
            await body(conn)
        finally:
            await conn.close()

    asyncio.run(main())


def pooled(dsn: str, body: Callable[[Any], Awaitable[None]], **more: Any) -> None:
    """Run the body on a pool of one connection."""

    async def main() -> None:
        pool = await asyncpg.create_pool(**options(dsn), min_size=1, max_size=1, **more)
        try:
            await body(pool)
        finally:
            pool.terminate()

    asyncio.run(main())


def test_a_statement_begins_no_transaction(database: str) -> None:
    assert DRIVER.autocommit
    assert not DRIVER.begins_by_itself

    async def body(conn: Any) -> None:
        await conn.execute(LOCAL)
        assert not conn.is_in_transaction()
        assert not await conn.fetchval(READ)
        await conn.execute(SESSION)
        assert await conn.fetchval(READ) == "1"

    connected(database, body)


def test_statements_in_one_message_share_a_transaction(database: str) -> None:
    async def body(conn: Any) -> None:
        await conn.execute("CREATE TABLE seen (tenant text)")
        await conn.execute(f"{LOCAL}; INSERT INTO seen {READ}")
        assert await conn.fetchval("SELECT tenant FROM seen") == "1"
        assert not conn.is_in_transaction()

    connected(database, body)


def test_a_block_commits_or_rolls_back(database: str) -> None:
    async def body(conn: Any) -> None:
        with pytest.raises(KeyError):
            async with conn.transaction():
                await conn.execute(SESSION)
                raise KeyError
        assert not await conn.fetchval(READ)
        async with conn.transaction():
            await conn.execute(LOCAL)
            assert await conn.fetchval(READ) == "1"
        assert await conn.fetchval(READ) == ""
        async with conn.transaction():
            await conn.execute(SESSION)
        assert await conn.fetchval(READ) == "1"

    connected(database, body)


def test_a_failure_that_is_caught_leaves_the_block_aborted_and_its_end_says_nothing(database: str) -> None:
    async def body(conn: Any) -> None:
        async with conn.transaction():
            await conn.execute(SESSION)
            with pytest.raises(exceptions.DivisionByZeroError):
                await conn.execute("SELECT 1 / 0")
            with pytest.raises(exceptions.InFailedSQLTransactionError):
                await conn.execute("SELECT 1")
        assert not conn.is_in_transaction()
        assert not await conn.fetchval(READ)

    connected(database, body)


def test_a_block_in_a_block_is_a_savepoint(database: str) -> None:
    async def body(conn: Any) -> None:
        async with conn.transaction():
            with pytest.raises(KeyError):
                async with conn.transaction():
                    await conn.execute(LOCAL)
                    raise KeyError
            assert not await conn.fetchval(READ)
            async with conn.transaction():
                await conn.execute(LOCAL)
            assert await conn.fetchval(READ) == "1"

    connected(database, body)


def test_releasing_an_aborted_savepoint_fails_and_recovers_nothing(database: str) -> None:
    assert DRIVER.release_raises
    assert not DRIVER.release_recovers

    async def body(conn: Any) -> None:
        async with conn.transaction():
            with pytest.raises(exceptions.InFailedSQLTransactionError):
                async with conn.transaction():
                    with pytest.raises(exceptions.DivisionByZeroError):
                        await conn.execute("SELECT 1 / 0")
            with pytest.raises(exceptions.InFailedSQLTransactionError):
                await conn.execute("SELECT 1")

    connected(database, body)


def test_a_block_in_an_aborted_block_is_not_entered(database: str) -> None:
    async def body(conn: Any) -> None:
        async with conn.transaction():
            with pytest.raises(exceptions.DivisionByZeroError):
                await conn.execute("SELECT 1 / 0")
            with pytest.raises(exceptions.InFailedSQLTransactionError):
                async with conn.transaction():
                    pytest.fail("the block was entered")

    connected(database, body)


def test_a_block_in_a_transaction_begun_by_hand_is_refused(database: str) -> None:
    assert DRIVER.block_counts

    async def body(conn: Any) -> None:
        await conn.execute("BEGIN")
        with pytest.raises(exceptions.InterfaceError, match="manually started transaction"):
            async with conn.transaction():
                pytest.fail("the block was entered")
        assert conn.is_in_transaction()

    connected(database, body)


def test_a_block_whose_transaction_was_ended_in_a_statement_is_still_its_own(database: str) -> None:
    async def body(conn: Any) -> None:
        async with conn.transaction():
            await conn.execute("COMMIT")
            with pytest.raises(exceptions.NoActiveSQLTransactionError, match="can only be used in transaction blocks"):
                async with conn.transaction():
                    pytest.fail("the block was entered")
        assert not conn.is_in_transaction()

    connected(database, body)


def test_a_transaction_is_started_and_ended_by_hand(database: str) -> None:
    async def body(conn: Any) -> None:
        transaction = conn.transaction()
        assert not conn.is_in_transaction()
        await transaction.start()
        await conn.execute(SESSION)
        inner = conn.transaction()
        await inner.start()
        await conn.execute("SET app.tenant = '2'")
        await inner.rollback()
        assert await conn.fetchval(READ) == "1"
        await transaction.commit()
        assert await conn.fetchval(READ) == "1"
        async with conn.transaction() as nothing:
            assert nothing is None

    connected(database, body)


def test_a_block_is_not_ended_by_hand(database: str) -> None:
    async def body(conn: Any) -> None:
        transaction = conn.transaction()
        async with transaction:
            with pytest.raises(exceptions.InterfaceError, match="manually commit"):
                await transaction.commit()
            assert conn.is_in_transaction()

    connected(database, body)


def test_the_server_binds(database: str) -> None:
    assert DRIVER.binding is Binding.SERVER

    async def body(conn: Any) -> None:
        with pytest.raises(exceptions.PostgresSyntaxError):
            await conn.execute("SET app.tenant = $1", "1")
        await conn.execute("SELECT set_config('app.tenant', $1, false)", "1")
        assert await conn.fetchval(READ) == "1"

    connected(database, body)


def test_errors(database: str) -> None:
    async def body(conn: Any) -> None:
        with pytest.raises(asyncpg.PostgresError) as caught:
            await conn.execute("SELECT 1 / 0")
        lineage = {f"{one.__module__}.{one.__name__}" for one in type(caught.value).__mro__}
        assert lineage & DRIVER.errors
        assert not lineage & {DRIVER.refuses_with, "asyncpg.exceptions._base.InterfaceError"}

    connected(database, body)
    assert not any(name.endswith("PostgresError") for name in DRIVER.refusals_are)
    assert not issubclass(asyncpg.InterfaceError, asyncpg.PostgresError)


def test_isolation_of_a_block(database: str) -> None:
    async def body(conn: Any) -> None:
        for name, level in DRIVER.isolation_names.items():
            async with conn.transaction(isolation=name):
                assert await conn.fetchval("SHOW transaction_isolation") == level
        assert await conn.fetchval("SHOW transaction_isolation") == "read committed"

    connected(database, body)


def test_a_cursor_wants_a_transaction(database: str) -> None:
    async def body(conn: Any) -> None:
        with pytest.raises(exceptions.NoActiveSQLTransactionError):
            await conn.cursor("SELECT 1")
        async with conn.transaction():
            cursor = await conn.cursor("SELECT $1::int", 7)
            assert (await cursor.fetchrow())[0] == 7
            assert [row[0] async for row in conn.cursor("SELECT 1")] == [1]

    connected(database, body)


def test_a_statement_that_was_prepared_by_hand_runs_when_it_is_asked(database: str) -> None:
    async def body(conn: Any) -> None:
        prepared = await conn.prepare("SELECT set_config('app.tenant', $1, false)")
        assert not await conn.fetchval(READ)
        assert await prepared.fetchval("5") == "5"
        assert await conn.fetchval(READ) == "5"
        await prepared.executemany([("6",), ("7",)])
        assert await conn.fetchval(READ) == "7"

    connected(database, body)


def test_several_rounds_of_one_statement_are_a_transaction(database: str) -> None:
    async def body(conn: Any) -> None:
        await conn.execute("CREATE TABLE numbers (n int CHECK (n < 3))")
        with pytest.raises(exceptions.CheckViolationError):
            await conn.executemany("INSERT INTO numbers VALUES ($1)", [(1,), (2,), (3,)])
        assert await conn.fetchval("SELECT count(*) FROM numbers") == 0

    connected(database, body)


# The statement cache


def test_discard_all_drops_what_the_cache_still_counts_on(database: str) -> None:
    assert DRIVER.prepares_after == 1

    async def body(conn: Any) -> None:
        await conn.fetchval("SELECT $1::int", 1)
        await conn.execute("DISCARD ALL")
        with pytest.raises(exceptions.InvalidSQLStatementNameError, match="does not exist"):
            await conn.fetchval("SELECT $1::int", 1)

    connected(database, body)


def test_without_a_cache_nothing_is_counted_on(database: str) -> None:
    assert DRIVER.cache_option == "statement_cache_size"

    async def body(conn: Any) -> None:
        await conn.fetchval("SELECT $1::int", 1)
        await conn.execute("DISCARD ALL")
        assert await conn.fetchval("SELECT $1::int", 1) == 1

    connected(database, body, statement_cache_size=0)


@pytest.mark.parametrize("name", ["role", "session_authorization"])
def test_reset_keeps_a_role(database: str, name: str) -> None:
    assert name in DRIVER.reset_keeps

    async def body(conn: Any) -> None:
        await conn.execute("CREATE ROLE someone")
        try:
            await conn.execute(f"SET {name} = someone")
            await conn.execute("SET app.tenant = '1'")
            await conn.reset()
            assert await conn.fetchval("SELECT current_user") == "someone"
            assert not await conn.fetchval("SELECT current_setting('app.tenant', true)")
        finally:
            await conn.execute("RESET SESSION AUTHORIZATION; RESET ROLE")
            await conn.execute("DROP ROLE someone")

    connected(database, body)


# The pool


def test_what_a_session_holds_is_set_back_when_its_connection_is_released(database: str) -> None:
    assert DRIVER.pool_resets

    async def body(pool: Any) -> None:
        async with pool.acquire() as conn:
            await conn.execute(SESSION)
            await conn.execute("CREATE TEMP TABLE kept (n int)")
            pid = conn.get_server_pid()
        conn = await pool.acquire()
        assert conn.get_server_pid() == pid
        assert not await conn.fetchval(READ)
        assert await conn.fetchval("SELECT count(*) FROM kept") == 0
        await pool.release(conn)

    pooled(database, body)


def test_a_role_is_not(database: str) -> None:
    async def body(pool: Any) -> None:
        async with pool.acquire() as conn:
            await conn.execute("CREATE ROLE somebody")
            await conn.execute("SET ROLE somebody")
        async with pool.acquire() as conn:
            assert await conn.fetchval("SELECT current_user") == "somebody"
            await conn.execute("RESET ROLE")
            await conn.execute("DROP ROLE somebody")

    pooled(database, body)


def test_a_reset_of_ones_own_stands_in_the_place_of_the_pools(database: str) -> None:
    async def nothing(conn: Any) -> None:
        assert not conn.is_in_transaction()

    async def whole(conn: Any) -> None:
        await conn.reset()

    def held_after(reset: Any) -> str | None:
        seen: list[str | None] = []

        async def body(pool: Any) -> None:
            async with pool.acquire() as conn:
                await conn.execute(SESSION)
                await conn.execute("BEGIN")
            seen.append(await pool.fetchval(READ))

        pooled(database, body, reset=reset)
        return seen[0]

    assert DRIVER.callbacks["reset"] is Callback.RESET
    assert held_after(nothing) == "1"
    assert not held_after(whole)


def test_what_is_open_is_rolled_back_at_release(database: str) -> None:
    async def body(pool: Any) -> None:
        conn = await pool.acquire()
        pid = conn.get_server_pid()
        await conn.execute("CREATE TABLE numbers (n int)")
        await conn.execute("BEGIN")
        await conn.execute("INSERT INTO numbers VALUES (1)")
        await pool.release(conn)
        async with pool.acquire() as conn:
            assert conn.get_server_pid() == pid
            assert not conn.is_in_transaction()
            assert await conn.fetchval("SELECT count(*) FROM numbers") == 0

    pooled(database, body)


def test_init_runs_once_and_setup_each_time(database: str) -> None:
    assert DRIVER.callbacks["init"] is Callback.CONFIGURE
    assert DRIVER.callbacks["setup"] is Callback.CHECKOUT
    ran: list[str] = []

    async def init(conn: Any) -> None:
        ran.append("init")
        await conn.execute("SET app.first = 'kept'")

    async def setup(conn: Any) -> None:
        ran.append("setup")
        await conn.execute(SESSION)

    async def body(pool: Any) -> None:
        for held in ("kept", ""):
            async with pool.acquire() as conn:
                assert await conn.fetchval("SELECT current_setting('app.first', true)") == held
                assert await conn.fetchval(READ) == "1"

    pooled(database, body, init=init, setup=setup)
    assert ran == ["init", "setup", "setup"]


def test_a_callback_that_leaves_a_transaction_hands_it_out(database: str) -> None:
    assert not DRIVER.pool_discards_busy

    async def begins(conn: Any) -> None:
        await conn.execute("BEGIN")

    async def body(pool: Any) -> None:
        pids = set()
        for _ in range(2):
            async with pool.acquire() as conn:
                assert conn.is_in_transaction()
                pids.add(conn.get_server_pid())
        assert len(pids) == 1

    pooled(database, body, setup=begins)


def test_each_call_on_the_pool_takes_a_connection_of_its_own(database: str) -> None:
    async def body(pool: Any) -> None:
        await pool.execute(SESSION)
        assert not await pool.fetchval(READ)
        await pool.execute("BEGIN")
        async with pool.acquire() as conn:
            assert not conn.is_in_transaction()

    pooled(database, body)


def test_a_connection_that_is_closed_has_no_next_user(database: str) -> None:
    async def body(pool: Any) -> None:
        async with pool.acquire() as conn:
            pid = conn.get_server_pid()
            await conn.close()
        async with pool.acquire() as conn:
            assert conn.get_server_pid() != pid

    pooled(database, body)


# The tables


def test_every_public_method_is_in_the_tables() -> None:
    things = (
        (asyncpg.Connection, Thing.CONNECTION),
        (asyncpg.Pool, Thing.POOL),
        (asyncpg.prepared_stmt.PreparedStatement, Thing.STATEMENT),
    )
    for cls, thing in things:
        public = {name for name, _ in inspect.getmembers(cls, callable) if not name.startswith("_")}
        assert {name for name in public if (thing, name) not in DRIVER.methods} == set()
    prepared = {name for name, _ in inspect.getmembers(asyncpg.prepared_stmt.PreparedStatement, callable)}
    assert {
        name for name in prepared if not name.startswith("_") and (Thing.STATEMENT, name) not in DRIVER.methods
    } == set()


def test_the_names_of_things_are_the_librarys() -> None:
    for name in (*DRIVER.makes, *DRIVER.types):
        found: Any = asyncpg
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        assert callable(found)
    assert DRIVER.methods[Thing.CONNECTION, "transaction"] is Act.TRANSACTION
