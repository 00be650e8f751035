"""What `drivers/tortoise.py` and `timeline/mappers/models.py` say of Tortoise, shown on a real server."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict
from tortoise import Tortoise, connections, fields
from tortoise.backends.asyncpg.client import AsyncpgDBClient, TransactionWrapper
from tortoise.exceptions import BaseORMException
from tortoise.expressions import F
from tortoise.models import Model
from tortoise.transactions import atomic, in_transaction

from auditor.drivers.model import Act, Binding, Given, Thing
from auditor.drivers.tortoise import DRIVER

SESSION = "SELECT set_config('app.tenant', '1', false)"
LOCAL = "SELECT set_config('app.tenant', '1', true)"
READ = "SELECT current_setting('app.tenant', true) AS tenant"


class Job(Model):
    id = fields.IntField(primary_key=True)
    status = fields.CharField(max_length=10)
    attempts = fields.IntField(default=0)
    started_by = fields.CharField(max_length=10, null=True, source_field="worker")


class RenamedJob(Model):
    id = fields.IntField(primary_key=True)

    class Meta:
        table = "renamed"


def connected(dsn: str, body: Callable[[], Awaitable[None]]) -> None:
    """Run the body with a pool of one connection."""
    told = conninfo_to_dict(dsn)
    place = {name: told.get(name) for name in ("host", "port", "user")}
    credentials = {**place, "port": place["port"] or 5432, "database": told["dbname"], "minsize": 1, "maxsize": 1}
    default = {"engine": "tortoise.backends.asyncpg", "credentials": credentials}
    apps = {"models": {"models": ["tests.drivers.test_tortoise"], "default_connection": "default"}}

    async def main() -> None:
        await Tortoise.init(config={"connections": {"default": default}, "apps": apps})
        try:
            await body()
        finally:
            await Tortoise.close_connections()

    asyncio.run(main())


async def tenant(conn: Any = None) -> Any:
    rows = await (conn or connections.get("default")).execute_query_dict(READ)
    return rows[0]["tenant"]


def test_each_statement_has_a_connection_of_its_own_in_autocommit(database: str) -> None:
    assert DRIVER.of_task
    assert DRIVER.autocommit
    assert DRIVER.pool_resets

    async def body() -> None:
        conn = connections.get("default")
        await conn.execute_query(LOCAL)
        assert not await tenant()
        await conn.execute_script(SESSION)
        assert not await tenant()

    connected(database, body)


def test_a_block_commits_or_rolls_back_on_one_connection_for_whoever_runs_in_it(database: str) -> None:
    assert DRIVER.block_gives is Given.CONNECTION

    async def body() -> None:
        with pytest.raises(KeyError):
            async with in_transaction() as conn:
                await conn.execute_script("CREATE TABLE kept (n int)")
                raise KeyError
        async with in_transaction("default") as conn:
            await conn.execute_query(LOCAL)
            assert await tenant() == "1"
            assert await tenant(conn) == "1"
            assert await tenant(Tortoise.get_connection("default")) == "1"
            assert (await conn.execute_query_dict("SELECT count(*) AS n FROM pg_class WHERE relname = 'kept'")) == [
                {"n": 0}
            ]
        assert not await tenant()

    connected(database, body)


def test_a_block_in_a_block_is_a_savepoint(database: str) -> None:
    assert DRIVER.functions["tortoise.transactions.in_transaction"] is Act.TRANSACTION
    assert DRIVER.release_raises
    assert not DRIVER.release_recovers

    async def body() -> None:
        async with in_transaction() as conn:
            await conn.execute_query(LOCAL)
            with pytest.raises(KeyError):
                async with in_transaction() as inner:
                    await inner.execute_query("SELECT set_config('app.tenant', '2', true)")
                    raise KeyError
            assert await tenant() == "1"

    connected(database, body)


def test_a_block_is_ended_by_hand_once(database: str) -> None:
    async def body() -> None:
        async with in_transaction() as conn:
            await conn.execute_query(LOCAL)
            await conn.rollback()
            assert not await tenant(conn)
            await conn.execute_query(LOCAL)
            assert not await tenant(conn)

    connected(database, body)


def test_a_decorator_is_a_block_for_each_call(database: str) -> None:
    async def body() -> None:
        @atomic()
        async def work() -> Any:
            await connections.get("default").execute_query(LOCAL)
            return await tenant()

        assert await work() == "1"

    connected(database, body)


def test_the_server_binds(database: str) -> None:
    assert DRIVER.binding is Binding.SERVER

    async def body() -> None:
        conn = connections.get("default")
        assert await conn.execute_query_dict("SELECT set_config('app.tenant', $1, true) AS told", ["7"]) == [
            {"told": "7"}
        ]
        with pytest.raises(BaseORMException):
            await conn.execute_query("SET app.tenant = $1", ["7"])

    connected(database, body)


def test_errors_of_statements(database: str) -> None:
    async def body() -> None:
        with pytest.raises(BaseORMException) as caught:
            await connections.get("default").execute_query("SELECT nothing")
        lineage = {f"{one.__module__}.{one.__name__}" for one in type(caught.value).__mro__}
        assert lineage & DRIVER.errors

    connected(database, body)


# Models


def test_statements_of_models(database: str) -> None:
    async def body() -> None:
        await Tortoise.generate_schemas()
        waiting = Job.filter(status="queued", attempts__lt=5).order_by("id").limit(1)
        assert waiting.select_for_update(skip_locked=True).sql().endswith("FOR UPDATE SKIP LOCKED")
        assert waiting.select_for_update().sql().endswith("FOR UPDATE")
        # In autocommit, too.
        assert await waiting.select_for_update(skip_locked=True).first() is None
        job = await Job.create(status="queued")
        assert await Job.filter(id=job.id, status="queued").update(attempts=F("attempts") + 1, started_by="me") == 1
        assert (await connections.get("default").execute_query_dict("SELECT attempts, worker FROM job")) == [
            {"attempts": 1, "worker": "me"}
        ]
        found = await Job.get(id=job.id)
        found.status = "done"
        await found.save(update_fields=["status"])
        assert await Job.get_or_none(status="queued") is None
        assert [one.id for one in await Job.filter(status="done")] == [job.id]
        assert [one.id async for one in Job.all()] == [job.id]
        await found.delete()
        assert await Job.all().count() == 0

    connected(database, body)


def test_what_a_model_sends_in_a_block_is_part_of_it(database: str) -> None:
    async def body() -> None:
        await Tortoise.generate_schemas()
        with pytest.raises(KeyError):
            async with in_transaction():
                await Job.create(status="queued")
                raise KeyError
        assert await Job.all().count() == 0

    connected(database, body)


def test_tables_are_named_after_their_models(database: str) -> None:
    async def body() -> None:
        assert Job._meta.db_table == "job"
        assert RenamedJob._meta.db_table == "renamed"

    connected(database, body)


# The tables


def test_the_methods_are_the_librarys() -> None:
    things = {Thing.POOL: AsyncpgDBClient, Thing.CONNECTION: TransactionWrapper}
    for thing, name in DRIVER.methods:
        assert callable(getattr(things[thing], name)), name


def test_the_names_of_things_are_the_librarys() -> None:
    for name in {*DRIVER.types, *DRIVER.models, *DRIVER.errors, "tortoise.transactions.in_transaction"}:
        home, _, attribute = name.rpartition(".")
        assert callable(getattr(importlib.import_module(home), attribute)), name
