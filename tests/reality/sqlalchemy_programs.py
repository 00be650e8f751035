"""Worker programs on SQLAlchemy, made at random: connections and sessions, blocks, savepoints, listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.reality.programs import STATEMENTS, Program

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD = """
import os

from sqlalchemy import create_engine, event, exc, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker

DSN = os.environ["SQLALCHEMY_URL"]
engine = create_engine(f"postgresql+psycopg://{DSN}", pool_size=1, max_overflow=0)
alone = engine.execution_options(isolation_level="AUTOCOMMIT")
factory = sessionmaker(bind=engine)
current = scoped_session(factory)
"""
_LISTENERS = [
    "",
    """
@event.listens_for(factory, "after_begin")
def set_tenant(session, transaction, connection):
    connection.execute(text("SELECT set_config('app.tenant', '9', true)"))
""",
    """
@event.listens_for(engine, "checkout")
def reset_tenant(connection, record, proxy):
    connection.cursor().execute("RESET app.tenant")
    connection.commit()
""",
]
_BLOCKS = [
    "with engine.connect() as conn:",
    "with engine.begin() as conn:",
    "with Session(engine) as conn:",
    "with factory() as conn:",
    "with factory.begin() as conn:",
    "with alone.connect() as conn:",
]


class _Writer:
    """Draws a program line by line; every probe gets a number of its own."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw
        self.probes = 0
        self.names = 0

    def pick(self, count: int) -> int:
        return self._draw(st.integers(0, count - 1))

    def probe(self) -> str:
        self.probes += 1
        return f'conn.execute(text("SELECT probe({self.probes})"))'

    def body(self, depth: int, begins: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(1 + self.pick(3)):
            lines += self.move(depth, begins)
            if self.pick(3):
                lines.append(self.probe())
        return lines

    def move(self, depth: int, begins: bool) -> list[str]:
        """One move; in autocommit nothing `begins`."""
        kind = self.pick(11 if depth else 5)
        if kind < 3:
            statement = STATEMENTS[self.pick(len(STATEMENTS))].replace("{t}", str(1 + self.pick(3)))
            return [f'conn.execute(text("{statement}"))']
        if kind < 5:
            return [f"conn.{('commit', 'rollback')[self.pick(2)]}()"]
        return self.block(kind - 5 if begins else 3 + self.pick(3), depth - 1, begins)

    def block(self, kind: int, depth: int, begins: bool) -> list[str]:
        """A move with others in it."""
        inner = self.body(depth, begins)
        if kind == 0:
            return [f"with conn.{('begin', 'begin_nested')[self.pick(2)]}():", *_indented(inner)]
        if kind == 1:
            return ["with conn.begin_nested():", *_indented(inner)]
        if kind == 2:
            self.names += 1
            name, how = f"t{self.names}", ("commit", "rollback")[self.pick(2)]
            begin = ("begin", "begin_nested")[self.pick(2)]
            # Whatever ends a transaction ends what was begun by hand with it: it is ended at once.
            statement = STATEMENTS[self.pick(len(STATEMENTS))].replace("{t}", str(1 + self.pick(3)))
            run = f'conn.execute(text("{statement}"))'
            return [f"{name} = conn.{begin}()", run, self.probe(), f"{name}.{how}()"]
        if kind == 3:
            fails = _indented([*inner, 'conn.execute(text("SELECT 1 / 0"))'])
            return ["try:", *fails, "except exc.DBAPIError:", *_indented(self.body(depth, begins))]
        if kind == 4:
            fails = _indented([*inner, "raise KeyError"])
            return ["try:", *fails, "except KeyError:", *_indented(self.body(depth, begins))]
        return ["try:", *_indented(inner), "finally:", *_indented(self.body(depth, begins))]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A worker with one pool and some jobs on it, one after the other."""
    writer = _Writer(draw)
    listener = _LISTENERS[writer.pick(len(_LISTENERS))]
    jobs, calls = [], []
    for number in range(1 + writer.pick(3)):
        kind = writer.pick(len(_BLOCKS) + 2)
        body = writer.body(2, kind != len(_BLOCKS) - 1)
        if kind < len(_BLOCKS):
            lines = [_BLOCKS[kind], *_indented(body)]
        elif kind == len(_BLOCKS):
            lines = ["conn = factory()", "try:", *_indented(body), "finally:", "    conn.close()"]
        else:
            lines = ["conn = current", "try:", *_indented(body), "finally:", "    current.remove()"]
        jobs.append("\n".join([f"def job{number}():", *_indented(lines)]))
        calls += ["try:", f"    job{number}()", "except (KeyError, exc.SQLAlchemyError):", "    pass"]
    parts = [_HEAD.strip(), listener.strip(), *jobs, "\n".join(["def main():", *_indented(calls)])]
    source = "\n\n\n".join([*(part for part in parts if part), "try:\n    main()\nfinally:\n    engine.dispose()\n"])
    return Program(source, False)
