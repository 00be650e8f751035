"""Connections and pools whose making is not seen: a library is given them, and they are told by their names alone."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.timeline.world import codes, find

if TYPE_CHECKING:
    from pathlib import Path

DRAIN = """
    {head}

    {before}
        async with {taken} as conn:
            async with conn.transaction():
                for row in await conn.fetch(
                    "SELECT id, payload FROM outbox WHERE sent_at IS NULL AND attempts < $1 FOR UPDATE SKIP LOCKED", 5
                ):
                    try:
                        await broker.xadd("out", row["payload"])
                        await conn.execute("UPDATE outbox SET sent_at = now() WHERE id = $1", row["id"])
                    except Exception as error:
                        await conn.execute("UPDATE outbox SET attempts = attempts + 1 WHERE id = $1", row["id"])
"""
WAYS = {
    "a parameter": ("async def drain(pool, broker):", "pool.acquire()"),
    "a parameter of any type": ("async def drain(pool: Any, broker):", "pool.acquire()"),
    "an attribute": ("async def drain(self, broker):", "self.pool.acquire()"),
    "what an unknown call gives": ("async def drain(broker):", "connect_to('outbox')"),
    "a pool that an unknown call gives": ("async def drain(broker):", "(await the_pool()).acquire()"),
}


@pytest.mark.parametrize("head", ["import asyncpg", "from typing import Any"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_is_done_on_it_is_followed(way: tuple[str, str], head: str, tmp_path: Path) -> None:
    before, taken = way
    source = DRAIN.format(head=head, before=before, taken=taken)
    assert {found.partition(" ")[0] for found in codes(tmp_path, source)} >= {"TA501", "TA304"}


def test_a_field_of_any_type_holds_what_its_name_says(tmp_path: Path) -> None:
    source = """
        from dataclasses import dataclass
        from typing import Any

        @dataclass
        class Drainer:
            broker: Any
            pg_pool: Any | None = None

            async def drain(self):
                if self.pg_pool is None:
                    raise RuntimeError("no pool")
                async with self.pg_pool.acquire() as conn:
                    await self.drain_with(conn)

            async def drain_with(self, conn: Any):
                async with conn.transaction():
                    row = await conn.fetchrow("SELECT id FROM outbox WHERE sent_at IS NULL FOR UPDATE SKIP LOCKED")
                    await self.broker.xadd("out", row["id"])
                    await conn.execute("UPDATE outbox SET sent_at = now() WHERE id = $1", row["id"])
        """
    assert "TA501 at worker.py:19" in codes(tmp_path, source)


def test_what_speaks_to_no_driver_is_no_connection(tmp_path: Path) -> None:
    source = """
        async def drain(pool, broker):
            async with pool.acquire() as conn:
                row = await conn.get("SELECT id FROM outbox WHERE sent_at IS NULL LIMIT 1 FOR UPDATE SKIP LOCKED")
                await broker.xadd("out", row["id"])
        """
    assert codes(tmp_path, source) == []


TASK = """
    import asyncio
    import asyncpg

    async def drain(pool, broker):
        async with pool.acquire() as conn, conn.transaction():
            row = await conn.fetchrow("SELECT id FROM outbox WHERE sent_at IS NULL LIMIT 1 FOR UPDATE SKIP LOCKED")
            await broker.xadd("out", row["id"])
            await conn.execute("UPDATE outbox SET sent_at = now() WHERE id = $1", row["id"])

    async def tell(broker, row):
        await broker.xadd("out", row["id"])

    async def main():
        pool = await asyncpg.create_pool()
        asyncio.create_task(drain(pool, connect()))

    async def apart(pool, broker):
        async with pool.acquire() as conn, conn.transaction():
            row = await conn.fetchrow("SELECT id FROM outbox WHERE sent_at IS NULL LIMIT 1 FOR UPDATE SKIP LOCKED")
            await conn.execute("UPDATE outbox SET sent_at = now() WHERE id = $1", row["id"])
            asyncio.create_task(tell(broker, row))
"""


def test_a_task_waits_in_its_own_transactions_and_not_in_those_of_its_start(tmp_path: Path) -> None:
    found = find(tmp_path, {"worker.py": TASK})
    assert [one.place.line for one in found if one.code == "TA501"] == [8]


FACTORY = """
    from collections.abc import AsyncIterator, Iterator
    from contextlib import asynccontextmanager
    from sqlalchemy import text
    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.orm import Session

    {code}
"""
HANDED_OUT = {
    "what a factory makes": """
    def sessions_of(make):
        def session_of(request) -> Iterator[Session]:
            db = make()
            try:
                db.execute(text({sql}), {{"org": request.state.org}})
                yield db
            finally:
                db.close()
        return session_of
    """,
    "what a registry has": """
    async def session_of(org, registry) -> AsyncIterator[AsyncSession]:
        async with registry.open("main") as found:
            await found.execute(text({sql}), {{"org": org}})
            yield found
    """,
    "what a generator yields": """
    class Sessions:
        @asynccontextmanager
        async def of(self, org) -> AsyncIterator[AsyncSession]:
            async for found in self.manager.each():
                await found.execute(text({sql}), {{"org": org}})
                yield found
    """,
}
SET = "SELECT set_config('app.tenant', :org, {})"


def sessions_found(folder: Path, code: str, local: str) -> list[str]:
    body = textwrap.dedent(code).replace("{{", "{").replace("}}", "}").replace("{sql}", repr(SET.format(local)))
    return [one.code for one in find(folder, {"sessions.py": textwrap.dedent(FACTORY).replace("{code}", body)})]


@pytest.mark.parametrize("code", HANDED_OUT.values(), ids=HANDED_OUT)
def test_what_a_function_declares_to_hand_out_is_followed(code: str, tmp_path: Path) -> None:
    assert sessions_found(tmp_path, code, "false") == ["TA101"]
    assert sessions_found(tmp_path, code, "true") == []


def test_what_hands_out_something_else_is_not(tmp_path: Path) -> None:
    code = HANDED_OUT["what a factory makes"].replace("Iterator[Session]", "Iterator[Cache]").replace("db", "cache")
    code = code.replace("execute(text({sql})", "store(text({sql})")  # what is executed by it tells that it is a session
    assert sessions_found(tmp_path, code, "false") == []
