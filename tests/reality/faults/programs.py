"""Small worker programs as trees, and the Python that each of them stands for.

A program is written for a dialect: psycopg 3, its async twin, psycopg2, Django or asyncpg. Every statement is a line of
ordinary source; what differs between the dialects is filled in where a line says `{await}`, `{async}` or `{run}`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from collections.abc import Iterator


class Dialect(enum.Enum):
    PSYCOPG = "psycopg"
    PSYCOPG_ASYNC = "psycopg, async"
    PSYCOPG2 = "psycopg2"
    DJANGO = "django"
    ASYNCPG = "asyncpg"


@dataclass(frozen=True)
class Line:
    """One line of source."""

    text: str


@dataclass(frozen=True)
class Probe:
    """A statement at which the audit's answer and the server's are compared."""


@dataclass(frozen=True)
class Compound:
    """A compound statement: each header with what stands below it."""

    clauses: tuple[tuple[str, Body], ...]


@dataclass(frozen=True)
class Helper:
    """A call of a function in another module, which works on the connection that it is given."""

    body: Body


@dataclass(frozen=True)
class Aside:
    """A call of a function in another module, which opens a connection of its own."""

    options: str
    body: Body


@dataclass(frozen=True)
class Managed:
    """`with` a generator of another module, whose body has a `yield`, around a body."""

    generator: Body
    body: Body


Move = Union[Line, Probe, Compound, Helper, Aside, Managed]
Body = tuple[Move, ...]


class Borrow(enum.Enum):
    """How a job gets its connection."""

    BLOCK = "pool.connection()"
    GETCONN = "getconn() and putconn()"
    CONNECT = "a connection of its own"


@dataclass(frozen=True)
class Job:
    borrow: Borrow
    body: Body
    #: What keeps its failure from ending the program: "", "except" or "suppress".
    guard: str = ""


@dataclass(frozen=True)
class Program:
    """Jobs in a row on one pool of one connection."""

    jobs: tuple[Job, ...]
    dialect: Dialect = Dialect.PSYCOPG
    autocommit: bool = False
    reset: Body | None = None
    configure: Body | None = None
    #: The pool belongs to the module, not to main().
    module_pool: bool = True


def sources(program: Program) -> dict[str, str]:
    """The modules of a program by file name."""
    if program.dialect is Dialect.DJANGO:
        # The connections are the process's: there is nothing to pool, and no callback.
        program = replace(program, module_pool=True, reset=None, configure=None)
    if program.dialect is Dialect.ASYNCPG:
        # Its pool belongs to the event loop that runs when it is made.
        program = replace(program, module_pool=False)
    return _Writer(program).files()


@dataclass
class _Writer:
    """Writes the modules of one program."""

    program: Program
    probes: int = 0
    helpers: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        return self.program.dialect in (Dialect.PSYCOPG_ASYNC, Dialect.ASYNCPG)

    @property
    def old(self) -> bool:
        return self.program.dialect is Dialect.PSYCOPG2

    def files(self) -> dict[str, str]:
        jobs = [line for number, job in enumerate(self.program.jobs, 1) for line in self.job(job, number)]
        pool = self.pool()
        main = list(self.main(pool))
        used = [f"from helpers import {', '.join(self.names)}"] if self.names else []
        start = "asyncio.run(main())" if self.waits else "main()"
        worker = [*self.imports(), *used, ""]
        if self.program.module_pool and not self.django:
            worker += [f"pool = {pool}", ""]
        worker += ["", *jobs, *main, "", 'if __name__ == "__main__":', f"    {start}"]
        helpers = [*self.imports(), "", "", *self.helpers]
        return {"worker.py": "\n".join(worker) + "\n", "helpers.py": "\n".join(helpers).rstrip() + "\n"}

    @property
    def asyncpg(self) -> bool:
        return self.program.dialect is Dialect.ASYNCPG

    @property
    def django(self) -> bool:
        return self.program.dialect is Dialect.DJANGO

    # Lines and bodies

    def fill(self, text: str) -> str:
        if self.django:
            text = text.replace("{run}", "conn.cursor().execute").replace("{cursor}", "conn.cursor().execute")
            text = text.replace("psycopg.", "").replace("{await}", "").replace("{async}", "")
            if text.startswith("conn.autocommit = "):
                text = f"conn.set_autocommit({text.removeprefix('conn.autocommit = ')})"
            return text
        if self.asyncpg:
            text = text.replace("psycopg.Error", "asyncpg.PostgresError")
            text = text.replace("psycopg.DatabaseError", "asyncpg.InterfaceError")
        run = "conn.cursor().execute" if self.old else "conn.execute"
        text = text.replace("{run}", "{await}" + run).replace("{cursor}", "{await}conn.cursor().execute")
        if self.waits and text.startswith("conn.autocommit = "):
            text = "{await}conn.set_autocommit(" + text.removeprefix("conn.autocommit = ") + ")"
        if self.old:
            text = text.replace("psycopg.", "psycopg2.").replace("set_autocommit(", "set_session(autocommit=")
        return text.replace("{await}", "await " if self.waits else "").replace("{async}", "async " * self.waits)

    def line(self, text: str, depth: int) -> str:
        return "    " * depth + self.fill(text)

    def body(self, body: Body, depth: int) -> Iterator[str]:
        if not body:
            yield self.line("pass", depth)
        for move in body:
            yield from self.move(move, depth)

    def move(self, move: Move, depth: int) -> Iterator[str]:
        if isinstance(move, Line):
            yield self.line(move.text, depth)
        elif isinstance(move, Probe):
            self.probes += 1
            yield self.line(f'{{run}}("SELECT probe({self.probes})")', depth)
        elif isinstance(move, Compound):
            for header, body in move.clauses:
                yield self.line(header, depth)
                yield from self.body(body, depth + 1)
        elif isinstance(move, Helper):
            yield self.line(f"{{await}}{self.function('step', 'conn', move.body)}(conn)", depth)
        elif isinstance(move, Aside):
            yield self.line(f"{{await}}{self.function('aside', '', (self.own(move.options, move.body),))}()", depth)
        else:
            decorator = "@asynccontextmanager" if self.waits else "@contextmanager"
            name = self.function("manager", "conn", move.generator, decorator)
            yield self.line(f"{{async}}with {name}(conn):", depth)
            yield from self.body(move.body, depth + 1)

    def own(self, options: str, body: Body) -> Compound:
        """Work on a connection of its own."""
        if self.django:
            return Compound((("if True:", (Line('conn = connections["other"]'), *body)),))
        if self.old:
            ways: Body = (*((Line("conn.autocommit = True"),) if options else ()), *body)
            return Compound((("with closing(psycopg2.connect(DSN)) as conn:", ways),))
        if self.asyncpg:
            opened = Line("conn = await asyncpg.connect(DSN)")
            ended = Compound((("try:", body), ("finally:", (Line("await conn.close()"),))))
            return Compound((("if True:", (opened, ended)),))
        made = "await psycopg.AsyncConnection.connect" if self.waits else "psycopg.connect"
        return Compound(((f"{{async}}with {made}(DSN{options}) as conn:", body),))

    def function(self, kind: str, parameter: str, body: Body, decorator: str = "") -> str:
        """Define a function in the module of helpers; its name."""
        name = f"{kind}_{len(self.names) + 1}"
        self.names.append(name)
        lines = [decorator] if decorator else []
        lines += [self.fill(f"{{async}}def {name}({parameter}):"), *self.body(body, 1)]
        self.helpers.extend([*lines, "", ""])
        return name

    # The parts of the worker

    def imports(self) -> list[str]:
        lines = ["import asyncio", "import os"]
        lines += ["from contextlib import asynccontextmanager, closing, contextmanager, suppress", ""]
        if self.django:
            lines += ["from django.db import DatabaseError, Error, connection, connections, transaction"]
        elif self.asyncpg:
            lines += ["import asyncpg"]
        elif self.old:
            lines += ["import psycopg2", "from psycopg2.pool import ThreadedConnectionPool"]
        else:
            lines += ["import psycopg", "from psycopg_pool import AsyncConnectionPool, ConnectionPool"]
        return [*lines, "from outside import flag, touch", "", 'DSN = os.environ["DATABASE_URL"]', 'TENANT = "7"']

    def pool(self) -> str:
        if self.django:
            return ""
        if self.old:
            return "ThreadedConnectionPool(1, 1, DSN)"
        options = "min_size=1, max_size=1" if self.asyncpg else "min_size=1, max_size=1, timeout=20, open=False"
        if self.program.autocommit and not self.asyncpg:
            options += ', kwargs={"autocommit": True}'
        configure = "init" if self.asyncpg else "configure"
        for name, body in (("reset", self.program.reset), (configure, self.program.configure)):
            if body is not None:
                options += f", {name}={self.function(name, 'conn', body)}"
        if self.asyncpg:
            return f"asyncpg.create_pool(DSN, {options})"
        return f"{'AsyncConnectionPool' if self.waits else 'ConnectionPool'}(DSN, {options})"

    def job(self, job: Job, number: int) -> Iterator[str]:
        if self.django:
            yield from self.job_of_django(job, number)
            return
        borrow = "acquire" if self.asyncpg else "connection"
        yield self.fill(f"{{async}}def job_{number}({'' if self.program.module_pool else 'pool'}):")
        if job.borrow is Borrow.CONNECT:
            yield from self.move(self.own(", autocommit=True" if self.program.autocommit else "", job.body), 1)
        elif job.borrow is Borrow.BLOCK and not self.old:
            yield from self.move(Compound(((f"{{async}}with pool.{borrow}() as conn:", job.body),)), 1)
        else:
            inside: Body = job.body
            if job.borrow is Borrow.BLOCK:
                inside = (Compound((("with conn:", job.body),)),)
            take, give = ("acquire", "release") if self.asyncpg else ("getconn", "putconn")
            yield self.line(f"conn = {{await}}pool.{take}()", 1)
            back = (Line(f"{{await}}pool.{give}(conn)"),)
            yield from self.move(Compound((("try:", inside), ("finally:", back))), 1)
        yield from ("", "")

    def job_of_django(self, job: Job, number: int) -> Iterator[str]:
        """A job on the connection of the process: under the decorator, in a block, or in autocommit."""
        if job.borrow is Borrow.CONNECT:
            yield "@transaction.atomic"
        yield f"def job_{number}():"
        yield self.line("conn = connection", 1)
        block = Compound((("with transaction.atomic():", job.body),))
        yield from self.body((block,) if job.borrow is Borrow.BLOCK else job.body, 1)
        yield from ("", "")

    def main(self, pool: str) -> Iterator[str]:
        yield self.fill("{async}def main():")
        if not self.program.module_pool:
            yield self.line(f"pool = {pool}", 1)
        argument = "" if self.program.module_pool else "pool"
        calls: list[Move] = []
        for number, job in enumerate(self.program.jobs, 1):
            call = Line(f"{{await}}job_{number}({argument})")
            if job.guard == "except":
                calls.append(Compound((("try:", (call,)), ("except Exception:", ()))))
            elif job.guard == "suppress":
                calls.append(Compound((("with suppress(Exception):", (call,)),)))
            else:
                calls.append(call)
        if self.django:
            yield from self.body(tuple(calls), 1)
        elif self.old:
            yield from self.move(Compound((("try:", tuple(calls)), ("finally:", (Line("pool.closeall()"),)))), 1)
        else:
            yield from self.move(Compound((("{async}with pool:", tuple(calls)),)), 1)
        yield ""
