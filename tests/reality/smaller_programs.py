"""Worker programs on the drivers with fewer users, made at random: blocks, savepoints, ends by hand, failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from tests.reality.programs import CONTROLS, STATEMENTS

if TYPE_CHECKING:
    from collections.abc import Callable


class Dialect(NamedTuple):
    """How programs are written for a driver; `{sql}` is the text of a statement, `{n}` the number of a name."""

    head: str
    #: What a job stands in, and what may stand in it.
    outer: tuple[str, ...]
    inner: tuple[str, ...]
    run: str
    probe: str
    #: Statements of the driver, not of SQL, that may stand anywhere.
    moves: tuple[str, ...] = ()
    #: A block with a name, and what may end it in the middle.
    named: str = ""
    ends: tuple[str, ...] = ()
    #: A savepoint that is set by hand in the job's own block, and what may be done with it.
    mark: str = ""
    of_mark: tuple[str, ...] = ()
    asynchronous: bool = True
    begins: str = ""
    closes: str = ""
    #: A block that the server refuses to begin or to release keeps its connection for ever, and the program with it:
    #: no statement fails.
    leaks: bool = False
    #: What helpers are given to work on.
    handle: str = ""
    #: Transactions may be begun and ended in text.
    texts: bool = False


PLAIN = "with nullcontext():"
_HELPERS = """
{async }def set_tenant({handle}tenant, local):
    {set}


@{async}contextmanager
{async }def until_reset({handle}tenant):
    {await }set_tenant({handle}tenant, "false")
    try:
        yield
    finally:
        {reset}


@{async}contextmanager
{async }def as_tenant({handle}tenant):
    {block}
        {await }set_tenant({handle}tenant, "true")
        yield
"""
DIALECTS = {
    "pg8000": Dialect(
        head="import pg8000.dbapi\nconn = pg8000.dbapi.connect(**OPTIONS)",
        outer=(PLAIN,),
        inner=(),
        run='conn.cursor().execute("{sql}")',
        probe='rows = conn.cursor()\nrows.execute("{sql}")\nnote({n}, rows.fetchone()[0])',
        moves=("conn.commit()", "conn.rollback()", "conn.autocommit = True", "conn.autocommit = False"),
        texts=True,
        asynchronous=False,
        closes="conn.close()",
    ),
    "pg8000.native": Dialect(
        head="import pg8000.native\nconn = pg8000.native.Connection(**OPTIONS)",
        outer=(PLAIN,),
        inner=(),
        run='conn.run("{sql}")',
        probe='note({n}, conn.run("{sql}")[0][0])',
        moves=('conn.run("BEGIN")', 'conn.run("COMMIT")', 'conn.run("ROLLBACK")'),
        texts=True,
        asynchronous=False,
        closes="conn.close()",
    ),
    "peewee": Dialect(
        head="from peewee import PostgresqlDatabase\ndb = PostgresqlDatabase(**OPTIONS)",
        outer=(PLAIN, "with db.atomic():", "with db.connection_context():", "with db:"),
        inner=("with db.atomic():", "with db.transaction():", "with db.savepoint():"),
        run='db.execute_sql("{sql}")',
        probe='note({n}, db.execute_sql("{sql}").fetchone()[0])',
        named="with db.atomic() as t{n}:",
        ends=("t{n}.commit()", "t{n}.rollback()"),
        asynchronous=False,
        closes="db.close()",
    ),
    "peewee's pool": Dialect(
        head="from playhouse.pool import PooledPostgresqlDatabase\n"
        "db = PooledPostgresqlDatabase(max_connections=1, **OPTIONS)",
        outer=(PLAIN, "with db.atomic():", "with db.connection_context():", "with db:"),
        inner=("with db.atomic():", "with db.transaction():"),
        run='db.execute_sql("{sql}")',
        probe='note({n}, db.execute_sql("{sql}").fetchone()[0])',
        asynchronous=False,
        closes="db.manual_close()",
    ),
    "aiopg": Dialect(
        head="import aiopg",
        outer=("async with pool.acquire() as conn, conn.cursor() as cur:",),
        inner=("async with cur.begin():", "async with cur.begin_nested():"),
        run='await cur.execute("{sql}")',
        probe='await cur.execute("{sql}")\nnote({n}, (await cur.fetchone())[0])',
        handle="cur",
        begins="async with aiopg.create_pool(DSN, minsize=1, maxsize=1) as pool:",
    ),
    "databases": Dialect(
        head="from databases import Database\ndb = Database(URL, min_size=1, max_size=1)",
        outer=(PLAIN, "async with db.connection():", "async with db.transaction():"),
        inner=(
            "async with db.transaction():",
            "async with db.connection():",
            "async with db.transaction(force_rollback=True):",
        ),
        run='await db.execute("{sql}")',
        probe='note({n}, await db.fetch_val("{sql}"))',
        begins="async with db:",
        leaks=True,
    ),
    "piccolo": Dialect(
        head="from piccolo.columns import Integer\nfrom piccolo.engine.postgres import PostgresEngine\n"
        "from piccolo.table import Table\nDB = PostgresEngine(config=OPTIONS)\n"
        "class Job(Table, db=DB):\n    n = Integer()",
        outer=(PLAIN, "async with DB.transaction() as t:"),
        inner=("async with DB.transaction():",),
        run='await Job.raw("{sql}")',
        probe='note({n}, (await Job.raw("{sql}"))[0]["probe"])',
        mark="s{n} = await t.savepoint()",
        of_mark=("await s{n}.rollback_to()", "await s{n}.release()"),
        begins="await DB.start_connection_pool(min_size=1, max_size=1)\ntry:",
        closes="await DB.close_connection_pool()",
    ),
    "tortoise": Dialect(
        head="from tortoise import Tortoise, connections\nfrom tortoise.transactions import in_transaction",
        outer=(PLAIN, "async with in_transaction():"),
        inner=("async with in_transaction():",),
        run='await connections.get("default").execute_query("{sql}")',
        probe='note({n}, (await connections.get("default").execute_query_dict("{sql}"))[0]["probe"])',
        named="async with in_transaction() as t{n}:",
        begins="await Tortoise.init(config=CONFIG)\ntry:",
        closes="await Tortoise.close_connections()",
    ),
}


class _Writer:
    """Draws a program line by line; every probe gets a number of its own."""

    def __init__(self, dialect: Dialect, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw
        self.dialect = dialect
        self.probes = 0
        self.names = 0

    def pick(self, count: int) -> int:
        return self._draw(st.integers(0, count - 1))

    def one_of(self, options: tuple[str, ...] | list[str]) -> str:
        return options[self.pick(len(options))]

    def probe(self) -> list[str]:
        self.probes += 1
        text = self.dialect.probe.replace("{sql}", f"SELECT probe({self.probes})")
        return text.replace("{n}", str(self.probes)).splitlines()

    def run(self, statement: str) -> str:
        return self.dialect.run.replace("{sql}", statement)

    def helped(self, helper: str, *rest: str) -> str:
        """A call of one of the helpers."""
        return f"{helper}({', '.join([*filter(None, [self.dialect.handle]), str(1 + self.pick(3)), *rest])})"

    def body(self, depth: int, marked: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(1 + self.pick(3)):
            lines += self.move(depth, marked)
            if self.pick(3):
                lines += self.probe()
        return lines

    def move(self, depth: int, marked: bool) -> list[str]:
        """One move; a savepoint by hand is only set in the job's own block."""
        kind = self.pick(13 if depth else 5) - 1
        if kind < 0:
            wait = "await " if self.dialect.asynchronous else ""
            return [wait + self.helped("set_tenant", self.one_of(('"true"', '"false"')))]
        if kind < 3 or (kind == 3 and not self.dialect.moves):
            return [self.run(self.one_of(STATEMENTS).replace("{t}", str(1 + self.pick(3))))]
        if kind == 3:
            return [self.one_of(self.dialect.moves)]
        return self.block(kind, depth - 1, marked)

    def block(self, kind: int, depth: int, marked: bool) -> list[str]:
        """A move with others in it."""
        dialect = self.dialect
        blocks = kind < 6 and bool(dialect.inner or dialect.named or dialect.mark)
        inner = self.body(depth, False)
        if kind > 7:
            return self.around(kind, inner, depth)
        if blocks:
            choice = self.pick(3)
            if choice == 0 and dialect.named and dialect.ends:
                self.names += 1
                end, number = self.one_of(dialect.ends), str(self.names)
                lines = [*inner, end.replace("{n}", number), *self.probe(), *self.body(depth, False)]
                return [dialect.named.replace("{n}", number), *_indented(lines)]
            if choice == 0 and dialect.mark and marked:
                self.names += 1
                number = str(self.names)
                begun, ended = dialect.mark.replace("{n}", number), self.one_of(dialect.of_mark).replace("{n}", number)
                return [begun, *inner, *self.probe(), ended]
            if dialect.inner:
                return [self.one_of(dialect.inner), *_indented(inner)]
        if kind < 7 and not dialect.leaks:
            fails = [*inner, self.run("SELECT 1 / 0")]
            return ["try:", *_indented(fails), "except Exception:", *_indented(self.body(depth, False))]
        fails = [*inner, "raise KeyError"]
        return ["try:", *_indented(fails), "except KeyError:", *_indented(self.body(depth, False))]

    def around(self, kind: int, inner: list[str], depth: int) -> list[str]:
        """A helper, a text or a failure around others."""
        dialect = self.dialect
        word = "async " if dialect.asynchronous else ""
        if kind == 8:
            return ["try:", *_indented(inner), "finally:", *_indented(self.body(depth, False))]
        if kind == 9:
            return [f"{word}with {self.helped(self.one_of(('until_reset', 'as_tenant')))}:", *_indented(inner)]
        if kind == 10 and dialect.texts:
            tried = [*inner, self.run(self.one_of(CONTROLS)), *self.probe()]
            return ["try:", *_indented(tried), "except Exception:", f"    {self.run('ROLLBACK')}"]
        outer = self.one_of(dialect.inner) if dialect.inner else f"{word}with {self.helped('as_tenant')}:"
        fails = "raise KeyError" if dialect.leaks or self.pick(2) else self.run("SELECT 1 / 0")
        left = [outer, *_indented([*inner, fails])]
        return ["try:", *_indented(left), "except Exception:", *_indented(self.body(depth, False))]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def programs(draw: st.DrawFn, name: str) -> str:
    """The source of a worker with some jobs, one after the other."""
    dialect = DIALECTS[name]
    writer = _Writer(dialect, draw)
    word, wait = ("async ", "await ") if dialect.asynchronous else ("", "")
    jobs, calls = [], []
    arguments = "pool" if "pool.acquire" in dialect.outer[0] else ""
    for number in range(1 + writer.pick(3)):
        outer = writer.one_of(dialect.outer)
        body = writer.body(2, marked=" as t:" in outer)
        jobs.append("\n".join([f"{word}def job{number}({arguments}):", f"    {outer}", *_indented(_indented(body))]))
        calls += ["try:", f"    {wait}job{number}({arguments})", "except Exception:", "    pass"]
    main = [*dialect.begins.splitlines(), *_indented(calls)] if dialect.begins else ["try:", *_indented(calls)]
    if dialect.closes:
        main += ["finally:", f"    {dialect.closes}"]
    lines = [f"{word}def main():", *_indented(main)]
    head = "import asyncio\nfrom contextlib import asynccontextmanager, contextmanager, nullcontext\n"
    head += "from notes import note\nfrom place import *\n"
    start = "asyncio.run(main())" if dialect.asynchronous else "main()"
    return "\n\n\n".join([head + dialect.head, _helpers(dialect), *jobs, "\n".join(lines), start]) + "\n"


def _helpers(dialect: Dialect) -> str:
    """Functions and context managers as programs have them."""
    set_it = "f\"SELECT set_config('app.tenant', '{tenant}', {local})\""
    filled = {
        "{set}": dialect.run.replace('"{sql}"', set_it),
        "{reset}": dialect.run.replace("{sql}", "RESET app.tenant"),
        "{block}": dialect.inner[0] if dialect.inner else PLAIN,
        "{handle}": f"{dialect.handle}, " if dialect.handle else "",
        "{async }": "async " if dialect.asynchronous else "",
        "{await }": "await " if dialect.asynchronous else "",
        "{async}": "async" if dialect.asynchronous else "",
    }
    source = _HELPERS.strip()
    for mark, text in filled.items():
        source = source.replace(mark, text)
    return source
