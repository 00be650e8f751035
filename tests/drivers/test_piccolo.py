"""What `drivers/piccolo.py` and `timeline/mappers/records.py` say of piccolo, shown on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asyncpg import exceptions
from piccolo.columns import Integer, Text
from piccolo.engine.exceptions import TransactionError
from piccolo.engine.postgres import PostgresEngine
from piccolo.querystring import QueryString
from piccolo.table import Table
from psycopg.conninfo import conninfo_to_dict

from auditor.drivers.model import Act, Binding, Given, Thing
from auditor.drivers.piccolo import DRIVER

SESSION = "SELECT set_config('app.tenant', '1', false)"
LOCAL = "SELECT set_config('app.tenant', '1', true)"
READ = "SELECT current_setting('app.tenant', true) AS tenant"


class Job(Table):
    status = Text()
    attempts = Integer()


class RenamedJob(Table, tablename="renamed"):  # type: ignore[call-arg]
    status = Text()


def options(dsn: str) -> dict[str, Any]:
    told = conninfo_to_dict(dsn)
    place = {name: told[name] for name in ("host", "port") if told.get(name)}
    return {**place, "user": told["user"], "database": told["dbname"]}


def engaged(dsn: str, body: Callable[[Any], Awaitable[None]], pool: bool) -> None:
    """Run the body on an engine, with a pool of one connection or without any."""

    async def main() -> None:
        engine = PostgresEngine(config=options(dsn))
        Job._meta.db = engine
        if pool:
            await engine.start_connection_pool(min_size=1, max_size=1)
        try:
            await body(engine)
        finally:
            if pool:
                await engine.close_connection_pool()

    asyncio.run(main())


async def tenant() -> str | None:
    rows = await Job.raw(READ)
    return rows[0]["tenant"]  # type: ignore[no-any-return]


both = pytest.mark.parametrize("pool", [True, False])


@both
def test_each_statement_has_a_connection_of_its_own_in_autocommit(database: str, pool: bool) -> None:
    assert DRIVER.of_task
    assert DRIVER.autocommit
    assert DRIVER.pool_resets

    async def body(engine: Any) -> None:
        await Job.raw(LOCAL)
        assert not await tenant()
        await Job.raw(SESSION)
        assert not await tenant()
        await engine.run_ddl(SESSION)
        assert not await tenant()

    engaged(database, body, pool)


@both
def test_a_block_commits_or_rolls_back_on_one_connection(database: str, pool: bool) -> None:
    async def body(engine: Any) -> None:
        async with engine.transaction():
            await Job.raw(LOCAL)
            assert await tenant() == "1"
            await Job.create_table()
        assert not await tenant()
        with pytest.raises(KeyError):
            async with engine.transaction():
                await Job.insert(Job(status="queued"))
                raise KeyError
        assert await Job.count() == 0

    engaged(database, body, pool)


@both
def test_what_the_session_holds_ends_with_the_block(database: str, pool: bool) -> None:
    async def body(engine: Any) -> None:
        async with engine.transaction():
            await Job.raw(SESSION)
        assert not await tenant()

    engaged(database, body, pool)


@both
def test_a_block_in_a_block_takes_part(database: str, pool: bool) -> None:
    assert DRIVER.methods[Thing.POOL, "transaction"] is Act.JOIN
    assert not DRIVER.join_dooms

    async def body(engine: Any) -> None:
        async with engine.transaction():
            with pytest.raises(KeyError):
                async with engine.transaction():
                    await Job.raw(LOCAL)
                    raise KeyError
            assert await tenant() == "1"
            with pytest.raises(TransactionError):
                engine.transaction(allow_nested=False)

    engaged(database, body, pool)


def test_a_failure_that_is_caught_leaves_the_block_aborted_and_its_end_says_nothing(database: str) -> None:
    async def body(engine: Any) -> None:
        async with engine.transaction():
            with pytest.raises(exceptions.DivisionByZeroError):
                await Job.raw("SELECT 1 / 0")
            with pytest.raises(exceptions.InFailedSQLTransactionError):
                await tenant()

    engaged(database, body, pool=True)


def test_what_a_block_gives_ends_it_for_good(database: str) -> None:
    assert DRIVER.block_gives is Given.ENDING

    async def body(engine: Any) -> None:
        async with engine.transaction() as transaction:
            await Job.raw(LOCAL)
            await transaction.rollback()
            assert not await tenant()
            await Job.raw(LOCAL)
            assert not await tenant()

    engaged(database, body, pool=True)


def test_a_savepoint_by_hand(database: str) -> None:
    async def body(engine: Any) -> None:
        async with engine.transaction() as transaction:
            savepoint = await transaction.savepoint()
            await Job.raw(LOCAL)
            with pytest.raises(exceptions.DivisionByZeroError):
                await Job.raw("SELECT 1 / 0")
            await savepoint.rollback_to()
            assert not await tenant()
            await Job.raw(LOCAL)
            await savepoint.release()
            assert await tenant() == "1"

    engaged(database, body, pool=True)


def test_curly_brackets_are_parameters_that_the_server_binds(database: str) -> None:
    assert DRIVER.placeholder == "{}"
    assert DRIVER.binding is Binding.SERVER
    assert QueryString("SELECT {}, {}", 1, 2).compile_string() == ("SELECT $1, $2", [1, 2])

    async def body(engine: Any) -> None:
        rows = await Job.raw("SELECT set_config('app.tenant', {}, true) AS told", "7")
        assert rows == [{"told": "7"}]
        with pytest.raises(exceptions.PostgresSyntaxError):
            await Job.raw("SET app.tenant = {}", "7")

    engaged(database, body, pool=True)


def test_a_statement_is_sent_when_it_is_awaited_or_run(database: str) -> None:
    async def body(engine: Any) -> None:
        await Job.create_table()
        asked = Job.insert(Job(status="queued"))
        assert await Job.count() == 0
        await asked
        await Job.insert(Job(status="queued")).run()
        assert await Job.count() == 2

    engaged(database, body, pool=True)


def test_errors(database: str) -> None:
    async def body(engine: Any) -> None:
        with pytest.raises(exceptions.PostgresError) as caught:
            await Job.raw("SELECT 1 / 0")
        assert {f"{one.__module__}.{one.__name__}" for one in type(caught.value).__mro__} & DRIVER.errors

    engaged(database, body, pool=True)


def test_statements_of_models(database: str) -> None:
    def text(query: Any) -> str:
        return query.querystrings[0].compile_string()[0]  # type: ignore[no-any-return]

    async def body(engine: Any) -> None:
        waiting = Job.select().where(Job.status == "queued").order_by(Job.id).limit(1)
        assert text(waiting.lock_rows("UPDATE", skip_locked=True)).endswith("FOR UPDATE SKIP LOCKED")
        assert text(Job.objects().lock_rows()).endswith("FOR UPDATE")
        counted = Job.update({Job.attempts: Job.attempts + 1, Job.status: "running"}).where(Job.id == 1)
        assert text(counted).startswith('UPDATE "job" SET "attempts" = "attempts" + $1, "status" = $2')
        assert text(Job.delete().where(Job.id == 1)).startswith('DELETE FROM "job"')

    engaged(database, body, pool=True)


def test_tables_are_named_after_their_models() -> None:
    assert Job._meta.tablename == "job"
    assert RenamedJob._meta.tablename == "renamed"


def test_every_public_method_is_in_the_tables() -> None:
    public = {
        name for name in dir(PostgresEngine) if not name.startswith("_") and callable(getattr(PostgresEngine, name))
    }
    told = {name for thing, name in DRIVER.methods if thing is Thing.POOL}
    assert told <= public
    others = {name for name in public - told if "connnection" not in name}
    assert {name for name in others if "transaction" in name or name.startswith("run")} == set()
