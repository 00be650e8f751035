"""Worker programs, made at random, written out as Python that the audit reads and the driver runs."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

HELPERS = '''
"""Helpers as programs have them: functions and context managers of another module."""

from contextlib import contextmanager


def set_local(conn, tenant):
    conn.execute("SELECT set_config('app.tenant', %s, true)", (tenant,))


def set_session(conn, tenant):
    conn.execute("SELECT set_config('app.tenant', %s, false)", (tenant,))


@contextmanager
def as_tenant(conn, tenant):
    with conn.transaction():
        set_local(conn, tenant)
        yield conn


@contextmanager
def until_reset(conn, tenant):
    set_session(conn, tenant)
    try:
        yield
    finally:
        conn.execute("RESET app.tenant")


def quietly(conn, statement):
    try:
        conn.execute(statement)
    except Exception:
        conn.rollback()
'''

#: Statements that change the tenant, or the transaction.
STATEMENTS = [
    "SELECT set_config('app.tenant', '{t}', true)",
    "SELECT set_config('app.tenant', '{t}', false)",
    "SET LOCAL app.tenant = '{t}'",
    "SET app.tenant = '{t}'",
    "SET SESSION app.tenant TO '{t}'",
    "RESET app.tenant",
    "RESET ALL",
    "SELECT 1",
]
CONTROLS = ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO SAVEPOINT s", "RELEASE SAVEPOINT s"]


class _Writer:
    """Draws a program line by line; every probe gets a number of its own."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw
        self.probes = 0

    def pick(self, count: int) -> int:
        return self._draw(st.integers(0, count - 1))

    def tenant(self) -> str:
        return str(1 + self.pick(3))

    def probe(self) -> str:
        self.probes += 1
        return f'conn.execute("SELECT probe({self.probes})")'

    def body(self, depth: int, inside: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(1 + self.pick(3)):
            lines += self.move(depth, inside)
            if self.pick(3):
                lines.append(self.probe())
        return lines

    def move(self, depth: int, inside: bool) -> list[str]:
        """One move; `inside` a transaction() block the driver refuses commit and rollback."""
        kind = self.pick(14 if depth else 6)
        if kind < 3:
            return [f'conn.execute("{self.statement()}")']
        if kind == 3:
            return [f"{('set_local', 'set_session')[self.pick(2)]}(conn, '{self.tenant()}')"]
        if kind == 4:
            return [f"conn.{('commit', 'rollback')[self.pick(2)]}()"]
        if kind == 5:
            return ["with conn.cursor() as cur:", f'    cur.execute("{self.statement()}")']
        return self.block(kind - 6, depth - 1, inside)

    def statement(self) -> str:
        return STATEMENTS[self.pick(len(STATEMENTS))].replace("{t}", self.tenant())

    def block(self, kind: int, depth: int, inside: bool) -> list[str]:
        """A move with others in it."""
        if kind == 0:
            options = ("", "force_rollback=True")[self.pick(4) == 0]
            return [f"with conn.transaction({options}):", *_indented(self.body(depth, True))]
        if kind == 1:
            return [f"with as_tenant(conn, '{self.tenant()}'):", *_indented(self.body(depth, True))]
        if kind == 2:
            return [f"with until_reset(conn, '{self.tenant()}'):", *_indented(self.body(depth, inside))]
        if kind == 3:
            lines = ["try:", *_indented(self.body(depth, inside)), '    conn.execute("SELECT 1 / 0")']
            handler = ["pass"] if self.pick(3) == 0 else self.body(depth, inside)
            return [*lines, "except psycopg.Error:", *_indented(handler)]
        if kind == 4:
            lines = ["try:", *_indented(self.body(depth, inside)), "    raise KeyError", "except KeyError:"]
            lines += _indented(self.body(depth, inside))
            return lines
        if kind == 5:
            return ["try:", *_indented(self.body(depth, inside)), "finally:", *_indented(self.body(depth, inside))]
        if kind == 6:
            value = ("True", "False")[self.pick(2)]
            return ["try:", f"    conn.autocommit = {value}", "except psycopg.ProgrammingError:", "    conn.rollback()"]
        lines = [f'conn.execute("{CONTROLS[self.pick(len(CONTROLS))]}")', self.probe()]
        return ["try:", *_indented(lines), "except psycopg.Error:", "    conn.rollback()"]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


_POOLS = ["", ', kwargs={"autocommit": True}', ", reset=clear", ", reset=clear_badly", ", configure=prepare"]
_IMPORTS = """
import os

import psycopg
from psycopg_pool import ConnectionPool

from helpers import as_tenant, quietly, set_local, set_session, until_reset
"""
_CALLBACKS = """
def clear(conn):
    conn.execute("RESET app.tenant")
    conn.commit()


def clear_badly(conn):
    conn.execute("RESET app.tenant")


def prepare(conn):
    conn.execute("SELECT 1")
    conn.commit()
"""


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A worker with one pool and some jobs on it, one after the other."""
    writer = _Writer(draw)
    pool = _POOLS[writer.pick(len(_POOLS))]
    jobs, calls = [], []
    for number in range(1 + writer.pick(3)):
        body = writer.body(2, False)
        kind = writer.pick(6)
        if kind < 3:
            lines = ["with pool.connection() as conn:", *_indented(body)]
        elif kind == 3:
            lines = ["conn = pool.getconn()", "try:", *_indented(body), "finally:", "    pool.putconn(conn)"]
        elif kind == 4:
            options = ("", ", autocommit=True")[writer.pick(2)]
            lines = [f"with psycopg.connect(DSN{options}) as conn:", *_indented(body)]
        else:
            lines = ["conn = psycopg.connect(DSN)", "try:", *_indented(body), "finally:", "    conn.close()"]
        jobs.append("\n".join([f"def job{number}():", *_indented(lines)]))
        calls += ["try:", f"    job{number}()", "except (KeyError, psycopg.Error):", "    pass"]
    main = ["def main():", *_indented(calls)]
    return "\n\n\n".join(
        [
            _IMPORTS.strip(),
            _CALLBACKS.strip(),
            f'DSN = os.environ["DSN"]\npool = ConnectionPool(DSN, min_size=1, max_size=1, open=True{pool})',
            *jobs,
            "\n".join(main),
            "main()\npool.close()\n",
        ]
    )


_AWAITED = re.compile(
    r"\b((?:conn|cur)\.(?:execute|commit|rollback|close)|set_local|set_session|quietly|pool\.(?:getconn|putconn)|job\d+)\("
)


def asynchronously(source: str) -> str:
    """The same program with async: every call of the driver is awaited."""
    source = re.sub(r"\bdef (?=set_|as_|until|quiet|clear|prepare|job|main)", "async def ", source)
    source = _AWAITED.sub(r"await \1(", source)
    source = re.sub(r"async def await ", "async def ", source)
    source = re.sub(r"\bwith (?=pool|conn|as_tenant|until_reset)", "async with ", source)
    source = source.replace("with psycopg.connect(", "async with await psycopg.AsyncConnection.connect(")
    source = source.replace("= psycopg.connect(", "= await psycopg.AsyncConnection.connect(")
    source = re.sub(r"conn\.autocommit = (\w+)", r"await conn.set_autocommit(\1)", source)
    source = source.replace("@contextmanager", "@asynccontextmanager").replace(
        "import contextmanager", "import asynccontextmanager"
    )
    source = source.replace("ConnectionPool", "AsyncConnectionPool")
    source = source.replace("open=True", "open=False")
    return source.replace(
        "main()\npool.close()\n",
        textwrap.dedent(
            """
            async def run():
                await pool.open()
                await main()
                await pool.close()


            asyncio.run(run())
            """
        ).lstrip(),
    ).replace("import os\n", "import asyncio\nimport os\n", 1)
