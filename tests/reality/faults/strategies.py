"""Generates worker programs: what people write, in any order and nesting that Python takes."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.reality.faults.programs import (
    Aside,
    Body,
    Borrow,
    Compound,
    Dialect,
    Helper,
    Job,
    Line,
    Managed,
    Move,
    Probe,
    Program,
)

_SETTINGS = (
    "{run}(\"SELECT set_config('app.tenant', '1', true)\")",
    "{run}(\"SELECT set_config('app.tenant', '2', false)\")",
    '{run}("SELECT set_config(\'app.tenant\', %s, true)", ("3",))',
    "{run}(\"SELECT set_config('app.tenant', %s, false)\", (TENANT,))",
    "{cursor}(\"SELECT set_config('app.tenant', %(who)s, %(here)s)\", {'who': '4', 'here': True})",
    "{run}(\"SET LOCAL app.tenant = '5'\")",
    "{run}(\"SET app.tenant TO '6'\")",
    "{run}(\"SET SESSION app.tenant = '8'\")",
    "{run}(f\"SET LOCAL app.tenant = '{TENANT}'\")",
)
_OF_ASYNCPG = (
    "{run}(\"SELECT set_config('app.tenant', '1', true)\")",
    "{run}(\"SELECT set_config('app.tenant', '2', false)\")",
    "{run}(\"SELECT set_config('app.tenant', $1, true)\", '3')",
    "await conn.fetchval(\"SELECT set_config('app.tenant', $1, false)\", TENANT)",
    "await conn.fetch(\"SELECT set_config('app.tenant', $1, $2)\", *('4', True))",
    "await conn.fetchrow(\"SELECT set_config('app.tenant', '4', false)\")",
    "{run}(\"SET LOCAL app.tenant = '5'\")",
    "{run}(\"SET app.tenant TO '6'\")",
    "{run}(f\"SET LOCAL app.tenant = '{TENANT}'\")",
    "{run}(\"SET LOCAL app.tenant = '5'; SELECT 1\")",
    "await (await conn.prepare(\"SELECT set_config('app.tenant', $1, false)\")).fetchval('8')",
)
_CLEANUPS = (
    '{run}("RESET app.tenant")',
    '{run}("RESET ALL")',
    "{run}(\"SELECT set_config('app.tenant', '', false)\")",
    "{run}(\"SELECT set_config('app.tenant', '', true)\")",
    "{run}(\"SET LOCAL app.tenant = ''\")",
    '{run}("SET app.tenant TO DEFAULT")',
)
_QUERIES = ('{run}("SELECT 1")', '{run}("SELECT 1 / 0")', "touch(conn)", "pass")
_ENDS = ("{await}conn.commit()", "{await}conn.rollback()")
_SWITCHES = (
    "{await}conn.set_autocommit(True)",
    "{await}conn.set_autocommit(False)",
    "conn.autocommit = True",
    "conn.autocommit = False",
)
#: Transactions in the text of statements: not inside conn.transaction(), which would lose count.
_TEXTS = (
    '{run}("BEGIN")',
    '{run}("COMMIT")',
    '{run}("ROLLBACK")',
    '{run}("SAVEPOINT a")',
    '{run}("ROLLBACK TO SAVEPOINT a")',
    '{run}("RELEASE SAVEPOINT a")',
)
_RAISES = ("raise ValueError", "raise psycopg.Rollback", "raise KeyError('x')")
_HANDLERS = (
    "except Exception:",
    "except psycopg.Error:",
    "except ValueError:",
    "except (KeyError, psycopg.DatabaseError):",
    "except:",
)


#: Blocks of transactions, those of psycopg2 second.
_BLOCKS = (
    ("{async}with conn.transaction():",) * 4 + ("{async}with conn.transaction(force_rollback=True):",),
    ("with conn:",),
    ("with transaction.atomic(using=conn.alias):",) * 4
    + ("with transaction.atomic(conn.alias, savepoint=False):", "with transaction.atomic(conn.alias, durable=True):"),
    ("{async}with conn.transaction():",) * 4 + ("{async}with conn.transaction(isolation='read_committed'):",),
)
#: What only Django's connections know.
_OF_DJANGO = ("conn.set_rollback(True)", "transaction.set_rollback(True, using=conn.alias)")


class Where(NamedTuple):
    """Where a body stands, which decides what may stand in it."""

    depth: int
    #: Inside a transaction() block.
    block: bool = False
    loop: bool = False
    handler: bool = False
    #: It must not be left other than by its end or an exception.
    generator: bool = False
    dialect: Dialect = Dialect.PSYCOPG

    @property
    def old(self) -> bool:
        return self.dialect is Dialect.PSYCOPG2

    @property
    def django(self) -> bool:
        return self.dialect is Dialect.DJANGO

    @property
    def asyncpg(self) -> bool:
        return self.dialect is Dialect.ASYNCPG

    @property
    def settings(self) -> tuple[str, ...]:
        return _OF_ASYNCPG if self.asyncpg else _SETTINGS

    @property
    def blocks(self) -> tuple[str, ...]:
        return _BLOCKS[3 if self.asyncpg else 2 if self.django else self.old]

    def deeper(self, **changes: Any) -> Where:
        return self._replace(depth=self.depth - 1, **changes)


def _lines(where: Where) -> st.SearchStrategy[Move]:
    lines = [*where.settings, *_CLEANUPS, *_QUERIES * 2, *_RAISES]
    lines += ["{await}conn.reset()"] if where.asyncpg else [*_ENDS * 2, *_SWITCHES]
    if where.django:
        lines += [*_OF_DJANGO, *(() if where.block else ("conn.close()",))]
    if where.old or where.django or where.asyncpg:
        lines = [line for line in lines if "psycopg.Rollback" not in line]
    if not where.block and not where.django:
        lines += _TEXTS
    if where.loop:
        lines += ["break", "continue"]
    if where.handler:
        lines += ["raise"] * 3
    if not where.generator:
        lines.append("return")
    return st.sampled_from(lines).map(Line)


@cache
def bodies(where: Where) -> st.SearchStrategy[Body]:
    """What stands in a function, a block or a clause."""
    moves: st.SearchStrategy[Move] = _lines(where)
    probes: st.SearchStrategy[Move] = st.just(Probe())
    options = [moves, probes, st.sampled_from(where.settings).map(Line)]
    if where.depth > 0:
        options += [_compounds(where), _calls(where)]
    # Where a failure leaves the connection as it is, states multiply: what is given up as too large says nothing.
    most = 3 if where.asyncpg or where.dialect is Dialect.PSYCOPG2 else 4
    return st.lists(st.one_of(options), min_size=1, max_size=most).map(tuple)


def _compounds(where: Where) -> st.SearchStrategy[Move]:
    inner = where.deeper()
    plain = bodies(inner)
    handler = bodies(inner._replace(handler=True))
    loop = bodies(inner._replace(loop=True))

    def clauses(*headers: str, of: tuple[st.SearchStrategy[Body], ...]) -> st.SearchStrategy[Move]:
        return st.tuples(*of).map(lambda made: Compound(tuple(zip(headers, made, strict=True))))

    block = bodies(inner._replace(block=True))
    transactions = st.sampled_from(where.blocks)
    entered = st.tuples(transactions, block).map(lambda pair: Compound((pair,)))
    by_hand = block.map(lambda body: _by_hand(f"held_{where.depth}", body))
    return st.one_of(
        entered,
        by_hand if where.asyncpg else entered,
        st.tuples(plain, st.sampled_from(_HANDLERS), handler).map(
            lambda made: Compound((("try:", made[0]), (made[1], made[2])))
        ),
        clauses("try:", "finally:", of=(plain, plain)),
        clauses("try:", "except Exception:", "else:", "finally:", of=(plain, handler, plain, plain)),
        clauses("if flag():", of=(plain,)),
        clauses("if flag():", "else:", of=(plain, plain)),
        st.tuples(st.sampled_from(["for _ in range(2):", 'for who in ("1", "2"):']), loop).map(
            lambda pair: Compound((pair,))
        ),
        clauses("with suppress(Exception):", of=(plain,)),
        clauses("with suppress(ValueError, psycopg.Error):", of=(plain,)),
    )


def _by_hand(name: str, body: Body) -> Move:
    """A transaction that is begun and ended by its methods."""
    ways = (
        ("try:", body),
        ("except BaseException:", (Line(f"await {name}.rollback()"), Line("raise"))),
        ("else:", (Line(f"await {name}.commit()"),)),
    )
    held = (Line(f"{name} = conn.transaction()"), Line(f"await {name}.start()"), Compound(ways))
    return Compound((("if True:", held),))


def _calls(where: Where) -> st.SearchStrategy[Move]:
    alone = where.deeper(loop=False, handler=False)
    own = Where(0 if where.django else where.depth - 1, dialect=where.dialect)
    generators = _generators(alone._replace(generator=True))
    within = bodies(where.deeper(generator=True, loop=False, block=True))
    return st.one_of(
        bodies(alone).map(Helper),
        st.builds(Aside, st.sampled_from(["", ", autocommit=True"]), bodies(own)),
        st.builds(Managed, generators, within),
    )


def _generators(where: Where) -> st.SearchStrategy[Body]:
    """Generators that are used as context managers."""
    short = bodies(Where(0, block=True, generator=True, dialect=where.dialect))
    handed = Line("yield conn")

    def made(parts: tuple[str, Body, Body]) -> Body:
        kind, before, after = parts
        if kind == "finally":
            return (*before, Compound((("try:", (handed,)), ("finally:", after))))
        if kind == "except":
            return (*before, Compound((("try:", (handed,)), ("except Exception:", (*after, Line("raise"))))))
        if kind == "swallow":
            return (*before, Compound((("try:", (handed,)), ("except Exception:", after))))
        if kind == "transaction":
            return (Compound(((where.blocks[0], (*before, handed)),)), *after)
        return (*before, handed, *after)

    kinds = st.sampled_from(["plain", "finally", "finally", "except", "swallow", "transaction", "transaction"])
    return st.tuples(kinds, short, short).map(made)


def _resets(dialect: Dialect) -> st.SearchStrategy[Body | None]:
    if dialect is Dialect.ASYNCPG:
        own = st.sampled_from([*_CLEANUPS, "{await}conn.reset()", "pass"])
        return st.one_of(st.none(), own.map(lambda line: (Line(line),)))
    clears = st.sampled_from(_CLEANUPS).map(Line)
    endings = st.sampled_from([*_ENDS, "", ""])
    made = st.tuples(clears, endings).map(lambda pair: (pair[0], *([Line(pair[1])] if pair[1] else [])))
    switched: st.SearchStrategy[Body] = clears.map(
        lambda line: (Line("conn.autocommit = True"), line, Line("conn.autocommit = False"))
    )
    return st.one_of(st.none(), st.none(), made, switched)


def _configures(dialect: Dialect) -> st.SearchStrategy[Body | None]:
    if dialect is Dialect.ASYNCPG:
        return st.sampled_from([None, None, (Line(_SETTINGS[1]),)])
    done: Body = (Line(_SETTINGS[1]), Line("{await}conn.commit()"))
    return st.sampled_from([None, None, None, done, (Line("conn.autocommit = True"),)])


def programs(dialect: Dialect, depth: int = 2) -> st.SearchStrategy[Program]:
    """Programs of one to three jobs in a row on one pool of one connection."""
    jobs = st.builds(
        Job,
        st.sampled_from([Borrow.BLOCK, Borrow.BLOCK, Borrow.GETCONN, Borrow.CONNECT]),
        bodies(Where(depth, dialect=dialect)),
        st.sampled_from(["", "except", "except", "suppress"]),
    )
    return st.builds(
        Program,
        # On the connections of the process every job goes on from all states that the one before may have left.
        st.lists(jobs, min_size=1, max_size=2 if dialect in (Dialect.DJANGO, Dialect.ASYNCPG) else 3).map(tuple),
        st.just(dialect),
        st.booleans(),
        _resets(dialect),
        _configures(dialect),
        st.booleans(),
    )
