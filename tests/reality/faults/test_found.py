"""Programs in which the audit was once wrong, as small as they can be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.reality.faults.comparison import Tally, compare
from tests.reality.faults.programs import Body, Borrow, Compound, Dialect, Job, Line, Managed, Probe, Program

if TYPE_CHECKING:
    from auditor.lab.server import OwnServer

LOCAL = Line("{run}(\"SELECT set_config('app.tenant', '1', true)\")")
SESSION = Line("{run}(\"SELECT set_config('app.tenant', '1', false)\")")


FAILS = Line('{run}("SELECT 1 / 0")')


def block(*body: Line | Probe | Compound) -> Compound:
    return Compound((("{async}with conn.transaction():", body),))


FOUND: dict[str, Body] = {
    "a Rollback leaves its block and goes no further": (block(LOCAL, Line("raise psycopg.Rollback")), Probe()),
    "a Rollback in a savepoint leaves the transaction open": (
        LOCAL,
        block(SESSION, Line("raise psycopg.Rollback()")),
        Probe(),
    ),
    "a transaction block is not entered while the transaction is aborted": (
        Compound(
            (
                ("try:", (SESSION, Line('{run}("SELECT 1 / 0")'))),
                ("except Exception:", (Compound((("with suppress(Exception):", (block(LOCAL, Probe()),)),)), Probe())),
            )
        ),
        Probe(),
    ),
    "a failure that was caught in a savepoint makes its end fail": (
        LOCAL,
        Compound((("with suppress(psycopg.Error):", (block(Compound((("with suppress(Exception):", (FAILS,)),))),)),)),
        Probe(),
    ),
    "a savepoint that went with its transaction cannot be released": (
        LOCAL,
        Compound((("with suppress(psycopg.Error):", (block(Line('{run}("COMMIT")'), Probe()),)),)),
        Probe(),
    ),
    "nor be rolled back to, which is passed over": (
        LOCAL,
        Compound((("with suppress(KeyError):", (block(Line('{run}("COMMIT")'), Probe(), Line("raise KeyError")),)),)),
        Probe(),
    ),
    "a generator may swallow what its block raises": (
        Managed(
            (LOCAL, Compound((("try:", (Line("yield conn"),)), ("except Exception:", (LOCAL,))))),
            (SESSION, Line("raise KeyError")),
        ),
        Probe(),
    ),
    "a generator that ends before its yield has nothing to enter": (
        Compound(
            (
                ("try:", (Managed((block(Line("raise psycopg.Rollback"), Line("yield conn")),), (LOCAL,)), LOCAL)),
                ("except RuntimeError:", (Probe(),)),
            )
        ),
        Probe(),
    ),
}


FOUND_2: dict[str, Body] = {
    "autocommit that is switched on in a block is so after it": (
        Compound((("with conn:", (Line("conn.autocommit = True"), LOCAL, Probe())),)),
        LOCAL,
        Probe(),
    ),
    "a block in a block is refused": (
        Compound((("with suppress(psycopg.Error), conn:", (LOCAL, Compound((("with conn:", (Probe(),)),)))),)),
        Probe(),
    ),
    "after a COMMIT in text no transaction is begun": (SESSION, Line('{run}("COMMIT")'), LOCAL, Probe()),
    "until commit() is called": (Line('{run}("ROLLBACK")'), Probe(), Line("conn.commit()"), LOCAL, Probe()),
    "in autocommit commit() ends no transaction that a text began": (
        Line("conn.autocommit = True"),
        Line('{run}("BEGIN")'),
        LOCAL,
        Line("conn.commit()"),
        Probe(),
    ),
    "and autocommit cannot be switched": (
        Line('{run}("COMMIT")'),
        Compound((("with suppress(psycopg.Error):", (Line("conn.autocommit = True"), Probe())),)),
        Line("conn.rollback()"),
        Line("conn.autocommit = True"),
        Probe(),
    ),
    "what a text began in autocommit does not keep autocommit from being switched": (
        Line("conn.autocommit = True"),
        Line('{run}("BEGIN")'),
        LOCAL,
        Line("conn.set_session(autocommit=True)"),
        Probe(),
        Line("conn.autocommit = False"),
        Probe(),
    ),
}


CAUGHT = ("except Exception:", (Probe(),))
FOUND_ASYNCPG: dict[str, Body] = {
    "statements in one message that fails leave no transaction": (
        SESSION,
        Compound((("try:", (Line("{run}(\"SET LOCAL app.tenant = '5'; SELECT 1 / 0\")"),)), CAUGHT)),
        Probe(),
    ),
    "but one that they have begun themselves": (
        Compound((("try:", (Line("{run}(\"BEGIN; SET LOCAL app.tenant = '5'; SELECT 1 / 0\")"),)), CAUGHT)),
        Probe(),
    ),
    "after reset() the next block is the outermost": (
        block(LOCAL, Line("await conn.reset()"), Probe(), block(LOCAL, Probe()), Probe()),
        Probe(),
    ),
    "a savepoint that a reset() has undone cannot be released": (
        Compound((("with suppress(Exception):", (block(block(Line("await conn.reset()"), LOCAL), Probe()),)),)),
        Probe(),
    ),
}


@pytest.mark.parametrize("body", FOUND.values(), ids=FOUND.keys())
@pytest.mark.parametrize("autocommit", [False, True], ids=["", "autocommit"])
def test_the_audit_agrees_with_the_server(postgres: OwnServer, body: Body, autocommit: bool) -> None:
    agree(Program((Job(Borrow.BLOCK, body),), autocommit=autocommit), postgres.dsn)


@pytest.mark.parametrize("body", FOUND_2.values(), ids=FOUND_2.keys())
@pytest.mark.parametrize("borrow", [Borrow.GETCONN, Borrow.CONNECT])
def test_the_audit_agrees_with_the_server_under_psycopg2(postgres: OwnServer, body: Body, borrow: Borrow) -> None:
    jobs = (Job(borrow, body), Job(borrow, (LOCAL, Probe())))
    agree(Program(jobs, Dialect.PSYCOPG2), postgres.dsn)


def test_a_pool_forgets_the_blocks_that_nobody_has_left(postgres: OwnServer) -> None:
    left = Job(Borrow.BLOCK, (Line("begun = conn.transaction()"), Line("{await}begun.start()"), LOCAL))
    agree(Program((left, Job(Borrow.BLOCK, (block(LOCAL, Probe()), Probe()))), Dialect.ASYNCPG), postgres.dsn)


@pytest.mark.parametrize("body", FOUND_ASYNCPG.values(), ids=FOUND_ASYNCPG.keys())
def test_the_audit_agrees_with_the_server_under_asyncpg(postgres: OwnServer, body: Body) -> None:
    agree(Program((Job(Borrow.BLOCK, body),), Dialect.ASYNCPG), postgres.dsn)


def agree(program: Program, dsn: str) -> None:
    tally = Tally()
    compare(program, dsn, tally)
    assert tally.probes
    assert not tally.unknown
