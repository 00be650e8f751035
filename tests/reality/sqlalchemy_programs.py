"""Worker programs on SQLAlchemy, made at random: connections and sessions, blocks, savepoints, listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.reality.programs import CONTROLS, STATEMENTS

if TYPE_CHECKING:
    from collections.abc import Callable

#: The dialects, and whether they are for coroutines.
DIALECTS = {
    "psycopg": ("psycopg", False),
    "psycopg2": ("psycopg2", False),
    "psycopg, async": ("psycopg", True),
    "asyncpg": ("asyncpg", True),
}
_HEAD = """
import asyncio
from contextlib import {async}contextmanager

from notes import note
from place import PLACE
from sqlalchemy import NullPool, event, exc, func, select, text
{imports}

engine = {create_engine}(f"postgresql+{dialect}://{PLACE}", {options})
alone = engine.execution_options(isolation_level="AUTOCOMMIT")


class Own(Session):
    pass


factory = {factory}
current = {scoped}


{async }def set_tenant(conn, tenant, local):
    {await }conn.execute(text("SELECT set_config('app.tenant', :tenant, :local)"), {"tenant": tenant, "local": local})


@{async}contextmanager
{async }def as_tenant(conn, tenant):
    {async }with conn.begin_nested():
        {await }set_tenant(conn, tenant, True)
        yield


@{async}contextmanager
{async }def until_reset(conn, tenant):
    {await }set_tenant(conn, tenant, False)
    try:
        yield
    finally:
        {await }conn.execute(text("RESET app.tenant"))
"""
_SYNC = {
    "{create_engine}": "create_engine",
    "{imports}": "from sqlalchemy import create_engine\n"
    "from sqlalchemy.orm import Session, scoped_session, sessionmaker",
    "{factory}": "sessionmaker(bind=engine, class_=Own)",
    "{scoped}": "scoped_session(factory)",
}
_ASYNC = {
    "{create_engine}": "create_async_engine",
    "{imports}": "from sqlalchemy.ext.asyncio import (\n"
    "    AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine,\n)\n"
    "from sqlalchemy.orm import Session",
    "{factory}": "async_sessionmaker(bind=engine, sync_session_class=Own)",
    "{scoped}": "async_scoped_session(factory, scopefunc=asyncio.current_task)",
}
_OPTIONS = ("pool_size=1, max_overflow=0",) * 3 + ("poolclass=NullPool",)
_LISTENERS = [
    "",
    """
@event.listens_for(Own, "after_begin")
def set_at_begin(session, transaction, connection):
    connection.execute(text("SELECT set_config('app.tenant', '9', true)"))
""",
    """
@event.listens_for({engine}, "checkout")
def reset_tenant(connection, record, proxy):
    connection.cursor().execute("RESET app.tenant")
    connection.commit()
""",
    """
@event.listens_for({engine}, "connect")
def connected(connection, record):
    connection.cursor().execute("SET app.tenant = '8'")
    connection.commit()
""",
    """
@event.listens_for({engine}, "begin")
def set_in_transaction(connection):
    connection.exec_driver_sql("SET LOCAL app.tenant = '7'")
""",
]
#: What a job stands in: of a connection, of a session.
_OF_CONNECTION = (
    "{async }with engine.connect() as conn:",
    "{async }with engine.begin() as conn:",
    "{async }with alone.connect() as conn:",
)
_OF_SESSION = (
    "{async }with {Session}(engine) as conn:",
    "{async }with factory() as conn:",
    "{async }with factory.begin() as conn:",
)
_BY_HAND = (("conn = factory()", "{await }conn.close()"), ("conn = current", "{await }current.remove()"))


class _Writer:
    """Draws a program line by line; every probe gets a number of its own."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw
        self.probes = 0
        self.names = 0
        #: The job at hand works on a session, or on a connection; in autocommit nothing is begun on it.
        self.session = False
        self.begins = True
        #: Going back into the pool, a connection is set back to its isolation level by a statement.
        self.keeps_level = False
        #: How many blocks of transactions stand around.
        self.blocks = 0

    def pick(self, count: int) -> int:
        return self._draw(st.integers(0, count - 1))

    def one_of(self, options: tuple[str, ...] | list[str]) -> str:
        return options[self.pick(len(options))]

    def tenant(self) -> str:
        return str(1 + self.pick(3))

    def probe(self) -> str:
        self.probes += 1
        return f'note({self.probes}, ({{await }}conn.execute(text("SELECT probe({self.probes})"))).scalar())'

    def statement(self) -> str:
        """A statement, as text, of an expression, through a helper, or past the session."""
        text = self.one_of(STATEMENTS).replace("{t}", self.tenant())
        kind = self.pick(8)
        if kind == 0:
            local = self.one_of(("True", "False"))
            call = f'select(func.set_config("app.tenant", "{self.tenant()}", {local}))'
            return f"{{await }}conn.{self.one_of(('execute', 'scalar'))}({call})"
        if kind == 1:
            return f"{{await }}set_tenant(conn, '{self.tenant()}', {self.one_of(('True', 'False'))})"
        if kind == 2 and self.session:
            return f'{{await }}({{await }}conn.connection()).execute(text("{text}"))'
        if kind == 2:
            return f'{{await }}conn.exec_driver_sql("{text}")'
        return f'{{await }}conn.execute(text("{text}"))'

    def body(self, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(1 + self.pick(3)):
            lines += self.move(depth)
            if self.pick(3):
                lines.append(self.probe())
        return lines

    def move(self, depth: int) -> list[str]:
        kind = self.pick(14 if depth else 6)
        if kind < 3:
            return [self.statement()]
        if kind == 3 and self.session:
            return [f"{{await }}conn.{self.one_of(('commit', 'rollback', 'close'))}()"]
        if kind < 5:
            return [f"{{await }}conn.{self.one_of(('commit', 'rollback'))}()"]
        if kind == 5 and self.blocks:
            # A block would lose count of what a text ends.
            return [self.statement()]
        if kind == 5:
            # In autocommit psycopg2 ends nothing: the level cannot be set back, which raises no SQLAlchemyError.
            controls = CONTROLS if self.begins or not self.keeps_level else CONTROLS[1:]
            run = f'    {{await }}conn.execute(text("{self.one_of(controls)}"))'
            return ["try:", run, f"    {self.probe()}", "except exc.DBAPIError:", "    {await }conn.rollback()"]
        return self.block(kind - 6 if self.begins else 4 + self.pick(4), depth - 1)

    def block(self, kind: int, depth: int) -> list[str]:
        """A move with others in it."""
        if kind == 2:
            # Whatever ends a transaction ends what was begun by hand with it: it is ended at once.
            self.names += 1
            name = f"t{self.names}"
            begun = f"{name} = {{await }}conn.{self.one_of(('begin', 'begin_nested'))}()"
            ended = f"{{await }}{name}.{self.one_of(('commit', 'rollback'))}()"
            return [begun, self.statement(), self.probe(), ended]
        self.blocks += kind in (0, 1, 3)
        inner = _indented(self.body(depth))
        self.blocks -= kind in (0, 1, 3)
        if kind < 2:
            begin = self.one_of(("begin", "begin_nested", "begin_nested"))
            return [f"{{async }}with conn.{begin}():", *inner]
        if kind == 3:
            return [f"{{async }}with as_tenant(conn, '{self.tenant()}'):", *inner]
        if kind == 4:
            return [f"{{async }}with until_reset(conn, '{self.tenant()}'):", *inner]
        if kind == 5:
            fails = '    {await }conn.execute(text("SELECT 1 / 0"))'
            return ["try:", *inner, fails, "except exc.DBAPIError:", *_indented(self.body(depth))]
        if kind == 6:
            return ["try:", *inner, "    raise KeyError", "except KeyError:", *_indented(self.body(depth))]
        return ["try:", *inner, "finally:", *_indented(self.body(depth))]

    def job(self, number: int) -> list[str]:
        kind = self.pick(9)
        self.session, self.begins = kind > 3, kind != 2
        self.blocks = int(kind in (1, 6))
        body = _indented(self.body(2))
        if kind < 7:
            lines = [(*_OF_CONNECTION, _OF_CONNECTION[0], *_OF_SESSION)[kind], *body]
        else:
            begun, ended = _BY_HAND[kind - 7]
            lines = [begun, "try:", *body, "finally:", f"    {ended}"]
        return [f"{{async }}def job{number}():", *_indented(lines)]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def programs(draw: st.DrawFn, name: str) -> str:
    """The source of a worker with one pool and some jobs on it, one after the other."""
    dialect, waits = DIALECTS[name]
    writer = _Writer(draw)
    writer.keeps_level = dialect.endswith("psycopg2")
    options, listener = writer.one_of(_OPTIONS), writer.one_of(_LISTENERS)
    jobs, calls = [], []
    for number in range(1 + writer.pick(3)):
        jobs.append("\n".join(writer.job(number)))
        calls += ["try:", f"    {{await }}job{number}()", "except (KeyError, exc.SQLAlchemyError):", "    pass"]
    main = ["{async }def main():", "    try:", *_indented(_indented(calls)), "    finally:"]
    main.append("        {await }engine.dispose()")
    start = "asyncio.run(main())" if waits else "main()"
    parts = [_HEAD.strip(), listener.strip(), *jobs, "\n".join(main), start]
    source = "\n\n\n".join(part for part in parts if part) + "\n"
    filled = {
        **(_ASYNC if waits else _SYNC),
        "{engine}": "engine.sync_engine" if waits else "engine",
        "{Session}": "AsyncSession" if waits else "Session",
        "{dialect}": dialect,
        "{options}": options,
        "{async }": "async " if waits else "",
        "{await }": "await " if waits else "",
        "{async}": "async" if waits else "",
    }
    for mark, text in filled.items():
        source = source.replace(mark, text)
    return source
