"""What `auditor/drivers/aiopg.py` says of aiopg and its pool, shown on a real server."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import aiopg
import psycopg2
import pytest

from auditor.drivers.aiopg import DRIVER
from auditor.drivers.model import AfterBlock, Binding, Callback, Thing

SESSION = "SELECT set_config('app.tenant', '1', false)"
LOCAL = "SELECT set_config('app.tenant', '1', true)"
READ = "SELECT current_setting('app.tenant', true)"

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Invalid transaction status:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*You have not closed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def tidy() -> Iterator[None]:
    """What warns when it is deleted is deleted here."""
    yield
    gc.collect()


async def one(cur: Any, sql: str = READ) -> Any:
    await cur.execute(sql)
    return (await cur.fetchone())[0]


def connected(dsn: str, body: Callable[[Any], Awaitable[None]]) -> None:
    """Run the body with a cursor on a connection of its own."""

    async def main() -> None:
        async with aiopg.connect(dsn) as conn, conn.cursor() as cur:
            await body(cur)

    asyncio.run(main())


def pooled(dsn: str, body: Callable[[Any], Awaitable[None]], **more: Any) -> None:
    """Run the body on a pool of one connection."""

    async def main() -> None:
        async with aiopg.create_pool(dsn, minsize=1, maxsize=1, **more) as pool:
            await body(pool)

    asyncio.run(main())


def test_it_knows_nothing_but_autocommit(database: str) -> None:
    assert DRIVER.autocommit
    assert not DRIVER.begins_by_itself

    async def body(cur: Any) -> None:
        await cur.execute(LOCAL)
        assert not await one(cur)
        await cur.execute(SESSION)
        assert await one(cur) == "1"
        with pytest.raises(psycopg2.ProgrammingError):
            cur.connection.autocommit = False
        for end in (cur.connection.commit, cur.connection.rollback):
            with pytest.raises(psycopg2.ProgrammingError):
                await end()

    connected(database, body)


def test_the_client_binds(database: str) -> None:
    assert DRIVER.binding is Binding.CLIENT

    async def body(cur: Any) -> None:
        await cur.execute("SET app.tenant = %s", ("7",))
        assert await one(cur) == "7"

    connected(database, body)


def test_begin_is_a_block_that_commits_or_rolls_back(database: str) -> None:
    async def body(cur: Any) -> None:
        with pytest.raises(KeyError):
            async with cur.begin():
                await cur.execute(SESSION)
                raise KeyError
        assert not await one(cur)
        async with cur.begin():
            await cur.execute(LOCAL)
            assert await one(cur) == "1"
        assert not await one(cur)

    connected(database, body)


def test_begin_in_begin_is_refused(database: str) -> None:
    async def body(cur: Any) -> None:
        async with cur.begin():
            with pytest.raises(psycopg2.ProgrammingError):
                async with cur.begin():
                    pytest.fail("the block was entered")

    connected(database, body)


def test_begin_nested_is_a_transaction_or_a_savepoint(database: str) -> None:
    async def body(cur: Any) -> None:
        async with cur.begin_nested():
            await cur.execute(LOCAL)
            with pytest.raises(KeyError):
                async with cur.begin_nested():
                    await cur.execute("SELECT set_config('app.tenant', '2', true)")
                    raise KeyError
            assert await one(cur) == "1"
            async with cur.begin_nested():
                await cur.execute("SELECT set_config('app.tenant', '3', true)")
            assert await one(cur) == "3"
        assert not await one(cur)

    connected(database, body)


def test_releasing_an_aborted_savepoint_fails_and_recovers_nothing(database: str) -> None:
    assert DRIVER.release_raises
    assert not DRIVER.release_recovers

    async def body(cur: Any) -> None:
        async with cur.begin():
            with pytest.raises(psycopg2.InternalError):
                async with cur.begin_nested():
                    with pytest.raises(psycopg2.DataError):
                        await cur.execute("SELECT 1 / 0")
            with pytest.raises(psycopg2.InternalError):
                await cur.execute("SELECT 1")

    connected(database, body)


def test_a_transaction_is_begun_and_ended_by_hand(database: str) -> None:
    async def body(cur: Any) -> None:
        transaction = await cur.begin()
        await cur.execute(SESSION)
        await transaction.rollback()
        assert not await one(cur)
        transaction = await cur.begin()
        await cur.execute(SESSION)
        await transaction.commit()
        assert await one(cur) == "1"

    connected(database, body)


def test_a_block_of_a_connection_closes_it(database: str) -> None:
    assert DRIVER.after_block is AfterBlock.DROP

    async def body(cur: Any) -> None:
        async with aiopg.connect(database) as conn, conn.cursor() as inner:
            await inner.execute("BEGIN")
            await inner.execute("CREATE TABLE kept (n int)")
        assert conn.closed
        assert await one(cur, "SELECT count(*) FROM pg_class WHERE relname = 'kept'") == 0

    connected(database, body)


def test_the_pool_keeps_what_the_session_holds(database: str) -> None:
    assert not DRIVER.pool_resets

    async def body(pool: Any) -> None:
        async with pool.acquire() as conn, conn.cursor() as cur:
            pid = await one(cur, "SELECT pg_backend_pid()")
            await cur.execute(SESSION)
        conn = await pool.acquire()
        async with conn.cursor() as cur:
            assert await one(cur, "SELECT pg_backend_pid()") == pid
            assert await one(cur) == "1"
        await pool.release(conn)

    pooled(database, body)


def test_a_connection_that_comes_back_in_a_transaction_is_closed(database: str) -> None:
    assert DRIVER.pool_closes_busy

    async def body(pool: Any) -> None:
        async with pool.acquire() as conn, conn.cursor() as cur:
            pid = await one(cur, "SELECT pg_backend_pid()")
            await cur.execute(SESSION)
            await cur.execute("BEGIN")
        async with pool.acquire() as conn, conn.cursor() as cur:
            assert await one(cur, "SELECT pg_backend_pid()") != pid
            assert not await one(cur)

    pooled(database, body)


def test_the_pool_gives_a_cursor(database: str) -> None:
    async def body(pool: Any) -> None:
        with await pool.cursor() as cur:
            await cur.execute(SESSION)
        async with pool.acquire() as conn, conn.cursor() as cur:
            assert await one(cur) == "1"

    pooled(database, body)


def test_on_connect_runs_once_a_connection(database: str) -> None:
    assert DRIVER.callbacks["on_connect"] is Callback.CONFIGURE
    ran: list[Any] = []

    async def on_connect(conn: Any) -> None:
        ran.append(conn)

    async def body(pool: Any) -> None:
        for _ in range(2):
            async with pool.acquire():
                pass

    pooled(database, body, on_connect=on_connect)
    assert len(ran) == 1


def test_errors(database: str) -> None:
    async def body(cur: Any) -> None:
        with pytest.raises(psycopg2.DatabaseError) as caught:
            await cur.execute("SELECT 1 / 0")
        assert isinstance(caught.value, psycopg2.Error)

    assert DRIVER.errors == {"psycopg2.Error", "psycopg2.DatabaseError"}

    connected(database, body)


def test_the_methods_are_the_librarys() -> None:
    things = {
        Thing.CONNECTION: aiopg.Connection,
        Thing.CLIENT_CURSOR: aiopg.Cursor,
        Thing.POOL: aiopg.Pool,
    }
    for thing, name in DRIVER.methods:
        assert callable(getattr(things[thing], name)), name
    for name in (*DRIVER.makes, *DRIVER.types):
        found: Any = aiopg
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        assert callable(found)
    own = {name for name, kind in vars(aiopg.Pool).items() if inspect.isfunction(kind) and not name.startswith("_")}
    assert own <= {name for thing, name in DRIVER.methods if thing is Thing.POOL}
