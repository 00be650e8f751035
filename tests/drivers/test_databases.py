"""What `auditor/drivers/databases.py` says of the databases package, shown on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asyncpg import exceptions
from databases import Database
from databases.core import Connection
from psycopg.conninfo import conninfo_to_dict

from auditor.drivers.databases import DRIVER
from auditor.drivers.model import Binding, Thing

SESSION = "SELECT set_config('app.tenant', '1', false)"
LOCAL = "SELECT set_config('app.tenant', '1', true)"
READ = "SELECT current_setting('app.tenant', true)"


def connected(dsn: str, body: Callable[[Any], Awaitable[None]]) -> None:
    """Run the body on a database whose pool has one connection."""
    told = conninfo_to_dict(dsn)
    place = "&".join(f"{name}={told[name]}" for name in ("host", "port") if told.get(name))
    url = f"postgresql://{told['user']}@/{told['dbname']}?{place}"

    async def main() -> None:
        async with Database(url, min_size=1, max_size=1) as database:
            await body(database)

    asyncio.run(main())


def test_each_statement_has_a_connection_of_its_own_in_autocommit(database: str) -> None:
    assert DRIVER.of_task
    assert DRIVER.autocommit
    assert DRIVER.pool_resets

    async def body(db: Any) -> None:
        await db.execute(LOCAL)
        assert not await db.fetch_val(READ)
        await db.execute(SESSION)
        assert not await db.fetch_val(READ)

    connected(database, body)


def test_a_block_keeps_a_connection_for_whoever_runs_in_it(database: str) -> None:
    async def body(db: Any) -> None:
        async with db.connection() as conn:
            await conn.execute(SESSION)
            assert await db.fetch_val(READ) == "1"
            async with db.connection() as inner:
                assert inner is conn
            assert await conn.fetch_val(READ) == "1"
            await conn.execute(LOCAL)
            assert await conn.fetch_val(READ) == "1"
        assert not await db.fetch_val(READ)

    connected(database, body)


def test_a_transaction_commits_or_rolls_back(database: str) -> None:
    async def body(db: Any) -> None:
        async with db.connection():
            with pytest.raises(KeyError):
                async with db.transaction():
                    await db.execute(SESSION)
                    raise KeyError
            assert not await db.fetch_val(READ)
            async with db.transaction():
                await db.execute(LOCAL)
                assert await db.fetch_val(READ) == "1"
            assert not await db.fetch_val(READ)
            async with db.transaction(force_rollback=True):
                await db.execute(SESSION)
            assert not await db.fetch_val(READ)
        async with db.transaction():
            await db.execute(SESSION)
        assert not await db.fetch_val(READ)

    connected(database, body)


def test_a_transaction_in_a_transaction_is_a_savepoint(database: str) -> None:
    assert DRIVER.release_raises
    assert not DRIVER.release_recovers

    async def body(db: Any) -> None:
        async with db.transaction():
            await db.execute(LOCAL)
            with pytest.raises(KeyError):
                async with db.transaction():
                    await db.execute("SELECT set_config('app.tenant', '2', true)")
                    raise KeyError
            assert await db.fetch_val(READ) == "1"

    connected(database, body)


def test_a_transaction_is_begun_and_ended_by_hand(database: str) -> None:
    async def body(db: Any) -> None:
        transaction = await db.transaction()
        await db.execute(LOCAL)
        assert await db.fetch_val(READ) == "1"
        await transaction.rollback()
        assert not await db.fetch_val(READ)
        transaction = await db.transaction()
        await db.execute("CREATE TABLE kept (n int)")
        await transaction.commit()
        assert await db.fetch_val("SELECT count(*) FROM kept") == 0

    connected(database, body)


def test_a_decorator_is_a_block_for_each_call(database: str) -> None:
    async def body(db: Any) -> None:
        @db.transaction()
        async def work() -> Any:
            await db.execute(LOCAL)
            return await db.fetch_val(READ)

        assert await work() == "1"

    connected(database, body)


def test_the_server_binds_what_is_named(database: str) -> None:
    assert DRIVER.binding is Binding.SERVER

    async def body(db: Any) -> None:
        assert await db.fetch_val("SELECT set_config('app.tenant', :tenant, true)", values={"tenant": "7"}) == "7"
        with pytest.raises(exceptions.PostgresSyntaxError):
            await db.execute("SET app.tenant = :tenant", {"tenant": "7"})

    connected(database, body)


def test_discard_all_drops_what_the_cache_still_counts_on(database: str) -> None:
    assert DRIVER.prepares_after == 1

    async def body(db: Any) -> None:
        async with db.connection() as conn:
            await conn.fetch_all("SELECT :n ::int", {"n": 1})
            await conn.raw_connection.execute("DISCARD ALL")
            with pytest.raises(exceptions.InvalidSQLStatementNameError):
                await conn.fetch_all("SELECT :n ::int", {"n": 1})

    connected(database, body)


def test_isolation_of_a_block(database: str) -> None:
    async def body(db: Any) -> None:
        for name, level in DRIVER.isolation_names.items():
            async with db.transaction(isolation=name):
                assert await db.fetch_val("SHOW transaction_isolation") == level

    connected(database, body)


def test_other_databases_have_other_dialects() -> None:
    assert set(DRIVER.speaks) < set(Database.SUPPORTED_BACKENDS)
    assert {"mysql", "sqlite"} <= set(Database.SUPPORTED_BACKENDS)


def test_the_methods_are_the_librarys() -> None:
    things = {Thing.POOL: Database, Thing.CONNECTION: Connection}
    for thing, name in DRIVER.methods:
        assert callable(getattr(things[thing], name)), name
    public = {name for name in dir(Connection) if not name.startswith("_")} - {"raw_connection"}
    assert public == {name for thing, name in DRIVER.methods if thing is Thing.CONNECTION}
