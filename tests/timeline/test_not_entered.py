"""Generators that come to their end without their yield: as context managers they have nothing to enter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from auditor.timeline.model.events import Ran
from tests.timeline.world import walked

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from elsewhere import decorated, wanted
from psycopg import AsyncConnection, Connection

"""
NEVER = """
@contextmanager
def locked(conn: Connection):
    if conn.execute("SET ROLE 'lock'"):
        return
    if False:
        yield conn
"""
NEVER_ASYNC = """
@asynccontextmanager
async def locked(conn: AsyncConnection):
    try:
        await conn.execute("SET ROLE 'lock'")
        raise ValueError
        yield conn
    except Exception:
        pass
"""
NOT_ENTERED = {
    "a block": (
        NEVER,
        """
def work(conn: Connection):
    with locked(conn):
        conn.execute("SET ROLE 'within'")
    conn.execute("SET ROLE 'after'")
""",
    ),
    "an asynchronous block": (
        NEVER_ASYNC,
        """
async def work(conn: AsyncConnection):
    async with locked(conn):
        await conn.execute("SET ROLE 'within'")
    await conn.execute("SET ROLE 'after'")
""",
    ),
    "a stack": (
        NEVER,
        """
def work(conn: Connection):
    with ExitStack() as stack:
        stack.enter_context(locked(conn))
        conn.execute("SET ROLE 'within'")
    conn.execute("SET ROLE 'after'")
""",
    ),
    "an asynchronous stack": (
        NEVER_ASYNC,
        """
async def work(conn: AsyncConnection):
    async with AsyncExitStack() as stack:
        held = await stack.enter_async_context(locked(conn))
        await held.execute("SET ROLE 'within'")
    await conn.execute("SET ROLE 'after'")
""",
    ),
    "what lets other errors pass": (
        NEVER,
        """
def work(conn: Connection):
    with suppress(ValueError), locked(conn):
        conn.execute("SET ROLE 'within'")
    conn.execute("SET ROLE 'after'")
""",
    ),
}
GOES_ON = {
    "it is caught": (
        NEVER,
        """
def work(conn: Connection):
    try:
        with locked(conn):
            conn.execute("SET ROLE 'within'")
    except RuntimeError:
        pass
    conn.execute("SET ROLE 'after'")
""",
    ),
    "the block fails, which is swallowed": (
        NEVER_ASYNC.replace("        raise ValueError\n", ""),
        """
async def work(conn: AsyncConnection):
    async with locked(conn):
        raise ValueError
    await conn.execute("SET ROLE 'after'")
""",
    ),
    "it yields on another way": (
        NEVER.replace("if conn.", "if wanted() and conn.").replace("if False", "if True"),
        """
def work(conn: Connection):
    with locked(conn):
        pass
    conn.execute("SET ROLE 'after'")
""",
    ),
    "another decorator enters it": (
        NEVER.replace("contextmanager", "decorated"),
        """
def work(conn: Connection):
    with locked(conn):
        pass
    conn.execute("SET ROLE 'after'")
""",
    ),
}
NOT_FOLLOWED = {
    "it returns what is not known": (
        """
@contextmanager
def locked(conn: Connection):
    conn.execute("SET ROLE 'lock'")
    return wanted(conn)
""",
        """
def work(conn: Connection):
    with locked(conn):
        conn.execute("SET ROLE 'within'")
    conn.execute("SET ROLE 'after'")
""",
    ),
    "it is not followed to its end": (
        """
@contextmanager
def locked(conn: Connection):
    conn.execute("SET ROLE 'lock'")
    with locked(conn) as held:
        yield held
""",
        """
def work(conn: Connection):
    with locked(conn):
        conn.execute("SET ROLE 'within'")
    conn.execute("SET ROLE 'after'")
""",
    ),
}


def reached(folder: Path, source: str) -> set[str]:
    """The statements that run, by what they set."""
    return {ran.text.split("'")[1] for ran in walked(folder, {"worker.py": HEAD + source}).of(Ran)}


@pytest.mark.parametrize(("manager", "work"), NOT_ENTERED.values(), ids=NOT_ENTERED.keys())
def test_nothing_runs_within_or_after(manager: str, work: str, tmp_path: Path) -> None:
    assert reached(tmp_path, manager + work) == {"lock"}


@pytest.mark.parametrize(("manager", "work"), GOES_ON.values(), ids=GOES_ON.keys())
def test_what_follows_runs_where(manager: str, work: str, tmp_path: Path) -> None:
    assert reached(tmp_path, manager + work) == {"lock", "after"}


@pytest.mark.parametrize(("manager", "work"), NOT_FOLLOWED.values(), ids=NOT_FOLLOWED.keys())
def test_what_may_be_entered_is(manager: str, work: str, tmp_path: Path) -> None:
    assert reached(tmp_path, manager + work) == {"lock", "within", "after"}
