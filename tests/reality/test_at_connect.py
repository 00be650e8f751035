"""What a connection is opened with: how long that stays, and for whom (TA107)."""

from __future__ import annotations

import asyncio

import asyncpg
import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

READ = "SELECT current_setting('app.tenant', true)"


def test_what_init_sets_is_gone_when_the_connection_first_comes_back(database: str) -> None:
    words = conninfo_to_dict(database)

    async def init(connection: asyncpg.Connection) -> None:
        await connection.execute("SELECT set_config('app.tenant', '1', false)")

    async def run(**given: object) -> list[str]:
        pool = await asyncpg.create_pool(
            host=words.get("host"),
            port=words.get("port"),
            user=words.get("user"),
            database=words.get("dbname"),
            min_size=1,
            max_size=1,
            **given,
        )
        async with pool:
            return [await pool.fetchval(READ) for _ in range(3)]

    assert asyncio.run(run(init=init)) == ["1", "", ""]
    # What the server was asked for as the connection began is what RESET ALL goes back to.
    assert asyncio.run(run(server_settings={"app.tenant": "2"})) == ["2", "2", "2"]


def test_what_options_and_roles_say_holds_for_the_life_of_a_connection(database: str) -> None:
    with ConnectionPool(database, min_size=1, max_size=1, kwargs={"options": "-c app.tenant=3"}) as pool:
        for _ in range(2):
            with pool.connection() as conn:
                conn.execute("SELECT set_config('app.tenant', '9', true)")
            with pool.connection() as conn:
                assert conn.execute(READ).fetchone() == ("3",)
                conn.execute("RESET ALL")
                assert conn.execute(READ).fetchone() == ("3",)
    with psycopg.connect(database, autocommit=True) as conn:
        name = conn.info.dbname
        conn.execute(f"ALTER DATABASE {name} SET app.tenant = '4'")
        assert conn.execute(READ).fetchone() in ((None,), ("",))
        with psycopg.connect(database) as later:
            assert later.execute(READ).fetchone() == ("4",)
