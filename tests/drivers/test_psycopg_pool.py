"""What `auditor/drivers/psycopg.py` and the rules say of psycopg's pools and of what it prepares, on a real server."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import errors
from psycopg_pool import AsyncConnectionPool, ConnectionPool, NullConnectionPool, PoolTimeout

from auditor.drivers.model import Act, Callback, Thing
from auditor.drivers.psycopg import DRIVER
from tests.drivers.world import IDLE, OPEN, SESSION, backend, tenant

if TYPE_CHECKING:
    from collections.abc import Iterator

logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)


@pytest.fixture
def pool(database: str) -> Iterator[ConnectionPool]:
    with ConnectionPool(database, min_size=1, max_size=1) as made:
        yield made


def test_a_job_that_succeeds_hands_its_session_setting_on(pool: ConnectionPool) -> None:
    with pool.connection() as conn:
        conn.execute(SESSION)
        first = backend(conn)
    with pool.connection() as conn:
        assert (tenant(conn), backend(conn)) == ("1", first)


def test_a_job_that_fails_does_not_unless_it_is_in_autocommit(database: str, pool: ConnectionPool) -> None:
    with pytest.raises(KeyError), pool.connection() as conn:
        conn.execute(SESSION)
        raise KeyError
    with pool.connection() as conn:
        assert tenant(conn) in (None, "")
    with ConnectionPool(database, min_size=1, max_size=1, kwargs={"autocommit": True}) as other:
        with pytest.raises(KeyError), other.connection() as conn:
            conn.execute(SESSION)
            raise KeyError
        with other.connection() as conn:
            assert tenant(conn) == "1"


def test_what_is_open_when_a_connection_comes_back_is_rolled_back(pool: ConnectionPool) -> None:
    conn = pool.getconn()
    first = backend(conn)
    conn.execute("CREATE TABLE gone ()")
    pool.putconn(conn)
    with pool.connection() as conn:
        assert backend(conn) == first
        with pytest.raises(errors.UndefinedTable):
            conn.execute("SELECT FROM gone")


def test_a_cleanup_that_nobody_commits_is_no_cleanup(pool: ConnectionPool) -> None:
    with pool.connection() as conn:
        conn.execute(SESSION)
    borrowed = pool.getconn()
    borrowed.execute("RESET app.tenant")
    pool.putconn(borrowed)
    with pool.connection() as conn:
        assert tenant(conn) == "1"


def test_a_null_pool_keeps_no_connection(database: str) -> None:
    assert DRIVER.makes["psycopg_pool.NullConnectionPool"] is Thing.NULL_POOL
    with NullConnectionPool(database) as pool:
        with pool.connection() as conn:
            conn.execute(SESSION)
        with pool.connection() as conn:
            assert tenant(conn) is None


def leaves_open(conn: psycopg.Connection[Any]) -> None:
    """A callback that begins a transaction and does not end it."""
    conn.execute("SELECT set_config('app.tenant', '', false)")


def backends(database: str, jobs: int, **options: Any) -> int:
    """How many connections so many jobs on a pool of one came to."""
    seen = set()
    with ConnectionPool(database, min_size=1, max_size=1, **options) as pool:
        for _ in range(jobs):
            with pool.connection(timeout=30) as conn:
                conn.execute(SESSION)
                seen.add(backend(conn))
    return len(seen)


def test_a_reset_that_leaves_a_transaction_costs_a_connection_a_job(database: str) -> None:
    assert DRIVER.pool_discards_busy
    assert backends(database, 6, reset=leaves_open) == 6


def test_a_reset_that_commits_costs_none_and_clears(database: str) -> None:
    def reset(conn: psycopg.Connection[Any]) -> None:
        conn.execute("RESET app.tenant")
        conn.commit()

    assert backends(database, 6, reset=reset) == 1
    with ConnectionPool(database, min_size=1, max_size=1, reset=reset) as pool:
        with pool.connection() as conn:
            conn.execute(SESSION)
        with pool.connection() as conn:
            assert tenant(conn) == ""


def test_a_reset_runs_after_the_rollback_of_what_was_open(database: str) -> None:
    seen = []
    with ConnectionPool(
        database, min_size=1, max_size=1, reset=lambda conn: seen.append(conn.info.transaction_status)
    ) as pool:
        conn = pool.getconn()
        conn.execute("SELECT 1")
        pool.putconn(conn)
        with pool.connection():
            pass
    assert seen[:1] == [IDLE]


def test_a_configure_that_leaves_a_transaction_never_hands_out(database: str) -> None:
    with (
        ConnectionPool(database, min_size=1, max_size=1, open=False, configure=leaves_open) as pool,
        pytest.raises(PoolTimeout),
        pool.connection(timeout=0.5),
    ):
        pass


def test_a_check_that_leaves_a_transaction_hands_it_to_the_job(database: str) -> None:
    with (
        ConnectionPool(database, min_size=1, max_size=1, check=leaves_open) as pool,
        pool.connection() as conn,
    ):
        assert conn.info.transaction_status is OPEN
        with conn.transaction():
            conn.execute("CREATE TABLE kept ()")
        conn.rollback()
        with pytest.raises(errors.UndefinedTable):
            conn.execute("SELECT FROM kept")


def test_the_pools_own_check_leaves_a_connection_as_it_was(database: str) -> None:
    assert DRIVER.methods[Thing.POOL, "check_connection"] is Act.CHECK
    with (
        ConnectionPool(database, min_size=1, max_size=1, check=ConnectionPool.check_connection) as pool,
        pool.connection() as conn,
    ):
        assert conn.info.transaction_status is IDLE


def test_the_callbacks_are_these() -> None:
    for which in (Callback.CONFIGURE, Callback.CHECK, Callback.RESET):
        options: dict[str, Any] = {which.value: lambda conn: None}
        ConnectionPool("", open=False, **options)


def test_an_async_reset_that_leaves_a_transaction_costs_a_connection_a_job(database: str) -> None:
    async def reset(conn: psycopg.AsyncConnection[Any]) -> None:
        await conn.execute("RESET app.tenant")

    async def run() -> int:
        seen = set()
        async with AsyncConnectionPool(database, min_size=1, max_size=1, open=False, reset=reset) as pool:
            for _ in range(5):
                async with pool.connection() as conn:
                    await conn.execute(SESSION)
                    seen.add(conn.info.backend_pid)
        return len(seen)

    assert asyncio.run(run()) == 5


# Prepared statements


def clean(conn: psycopg.Connection[Any], how: tuple[str, ...]) -> None:
    conn.autocommit = True
    try:
        for statement in how:
            conn.execute(statement.encode())
    finally:
        conn.autocommit = False


def failing_job(
    database: str, jobs: int, how: tuple[str, ...], queries: int = 1, prepare: bool | None = None, **kwargs: Any
) -> int | None:
    """The first of so many jobs that fails, each one setting and some queries, on a pool that is cleaned in between."""
    with ConnectionPool(database, min_size=1, max_size=1, reset=lambda conn: clean(conn, how), kwargs=kwargs) as pool:
        for job in range(1, jobs + 1):
            try:
                with pool.connection() as conn:
                    conn.execute("SELECT set_config('app.tenant', %s, false)", (str(job),))
                    for _ in range(queries):
                        conn.execute("SELECT count(*) FROM pg_class", prepare=prepare)
            except errors.InvalidSqlStatementName:
                return job
    return None


PARTS = (
    "RESET ALL",
    "CLOSE ALL",
    "UNLISTEN *",
    "SELECT pg_advisory_unlock_all()",
    "DISCARD TEMP",
    "DISCARD SEQUENCES",
)


def test_discard_all_breaks_the_seventh_job(database: str) -> None:
    assert DRIVER.prepares_after == 5
    assert failing_job(database, 20, ("DISCARD ALL",)) == 7


def test_deallocate_all_does_so_too(database: str) -> None:
    assert failing_job(database, 20, ("DEALLOCATE ALL",)) is not None


@pytest.mark.parametrize(("threshold", "job"), [(1, 3), (5, 7), (10, 12), (None, None)])
def test_which_job_it_is_depends_on_the_threshold(database: str, threshold: int | None, job: int | None) -> None:
    assert failing_job(database, 20, ("DISCARD ALL",), prepare_threshold=threshold) == job


def test_what_is_never_prepared_itself_does_not_help_the_rest(database: str) -> None:
    assert failing_job(database, 20, ("DISCARD ALL",), prepare=False) == 7


def test_enough_queries_in_the_first_job_hide_it(database: str) -> None:
    # That the driver notices depends on what is cached when it first sees the text: no job of few queries is safe.
    assert {queries: failing_job(database, 20, ("DISCARD ALL",), queries) is None for queries in (1, 2, 6)} == {
        1: False,
        2: False,
        6: True,
    }


def test_its_parts_without_the_plans_break_none(database: str) -> None:
    assert failing_job(database, 40, PARTS) is None
    assert backends(database, 20, reset=lambda conn: clean(conn, PARTS)) == 1
