"""What is read without sqlglot is read as sqlglot would have: the two ways are held against each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.sql.dialect import parse_query
from auditor.sql.meaning import Comparison, Span, Term
from auditor.sql.plain import is_plain
from auditor.sql.salvage import salvage
from auditor.sql.script import split_script
from auditor.sql.tokens import tokenize
from auditor.sql.tree import facts_of
from tests.sql import oracle

STATEMENTS = Path(__file__).with_name("statements.sql").read_text(encoding="utf-8")

PLAIN = [
    "SELECT count(*) FROM invoices",
    "SELECT id, payload FROM app.jobs j WHERE j.status = 'queued' AND attempts < 3 ORDER BY id DESC LIMIT 1",
    "UPDATE jobs SET attempts = attempts + 1, locked_until = now() + interval '1 min' WHERE id = %s RETURNING id",
    "DELETE FROM jobs WHERE id = $1 AND locked_until IS NOT NULL",
    "INSERT INTO job_runs (job_id, started) VALUES (%(job)s, clock_timestamp()), (2, DEFAULT)",
    "SELECT set_config('app.tenant', :tenant, true)",
]
NOT_PLAIN = [
    "SELECT id FROM jobs FOR UPDATE SKIP LOCKED",
    "SELECT id FROM jobs, tenants",
    "SELECT id FROM jobs WHERE a = 1 OR b = 2",
    "SELECT id FROM (SELECT 1) AS x",
    "SELECT a FROM jobs WHERE id = (SELECT 1)",
    "SELECT a FROM generate_series(1, 2)",
    "SELECT user FROM jobs",
    "SELECT cast(a AS int) FROM jobs",
    "SELECT a -> 'b' FROM jobs",
    "SELECT 1 2",
    "SELECT a FROM jobs LIMIT",
    "UPDATE jobs SET (a, b) = (1, 2)",
    "UPDATE jobs SET a = 1 WHERE",
    "DELETE FROM jobs USING other",
    "INSERT INTO jobs (a) SELECT 1",
    "INSERT INTO jobs (a) VALUES (1) ON CONFLICT DO NOTHING",
    "SELECT a AS select FROM jobs",
]


def without_spans(value: Any) -> Any:
    """Facts without places inside terms and conditions: the tree tells no place of TRUE and NULL."""
    if isinstance(value, (Term, Comparison)):
        return tuple(without_spans(part) for part in value._replace(span=Span(0, 0)))
    if isinstance(value, tuple):
        return tuple(without_spans(part) for part in value)
    return value


def same(text: str) -> None:
    """Read alike both ways; or not by sqlglot, but by PostgreSQL."""
    tokens = tokenize(text)
    tree = parse_query(tokens, text)
    if tree is None:
        assert oracle.parse(text) is not None, text
        return
    assert without_spans(salvage(tokens, text)) == without_spans(facts_of(tree, tokens, text)), text


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_statement_needs_no_grammar(text: str) -> None:
    assert is_plain(tokenize(text))
    same(text)


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_what_is_more_than_plain_is_left_to_the_grammar(text: str) -> None:
    assert not is_plain(tokenize(text))


def test_every_plain_statement_at_hand_is_read_the_same() -> None:
    texts = [STATEMENTS[start:end] for start, end in split_script(STATEMENTS).statements]
    plain = [text for text in texts if (tokens := tokenize(text)) and is_plain(tokens)]
    assert len(plain) > 20
    for text in plain:
        same(text)


NAMES = st.sampled_from(["a", "jobs", "j", "status", '"Order"', "app", "name", "value", "count", "key", "date", "role"])
LITERALS = st.sampled_from(
    ["1", "-1", "0.5", "'x'", "''", "'it''s'", "%s", "%(a)s", "$1", ":b", "?", "NULL", "true", "now()", "current_date"]
)
OPERATORS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])


@st.composite
def columns(draw: st.DrawFn) -> str:
    return draw(NAMES) if draw(st.booleans()) else f"{draw(NAMES)}.{draw(NAMES)}"


@st.composite
def operands(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.integers(0, 5 if depth else 3))
    if kind < 2:
        return draw(columns())
    if kind == 2:
        return draw(LITERALS)
    if kind == 3:
        return f"{draw(st.sampled_from(['a', 'status', '1', '%s']))}::{draw(st.sampled_from(['text', 'int', 'uuid']))}"
    name = draw(st.sampled_from(["lower", "coalesce", "app.set_tenant", "set_config", "now", "count", "f"]))
    return f"{name}({', '.join(draw(st.lists(values(depth - 1), max_size=3)))})"


@st.composite
def values(draw: st.DrawFn, depth: int = 2) -> str:
    left = draw(operands(depth))
    return f"{left} {draw(st.sampled_from('+-'))} {draw(operands(depth))}" if draw(st.integers(0, 3)) == 0 else left


@st.composite
def wheres(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        return ""
    each = st.one_of(
        st.builds(lambda a, op, b: f"{a} {op} {b}", values(), OPERATORS, values()),
        st.builds(lambda a, negated: f"{a} IS {negated}NULL", columns(), st.sampled_from(["", "NOT "])),
    )
    return " WHERE " + " AND ".join(draw(st.lists(each, min_size=1, max_size=3)))


@st.composite
def statements(draw: st.DrawFn) -> str:
    verb = draw(st.sampled_from(["select", "insert", "update", "delete"]))
    table = draw(columns()) + draw(st.sampled_from(["", " t", " AS t"]))
    shown = ", ".join(
        draw(st.lists(st.builds(lambda v, a: v + a, values(), st.sampled_from(["", " AS x"])), min_size=1, max_size=3))
    )
    returning = draw(st.sampled_from(["", " RETURNING *", f" RETURNING {shown}"]))
    if verb == "select":
        rest = draw(st.sampled_from(["", " ORDER BY a", " ORDER BY a DESC, t.b LIMIT 1", " LIMIT %s"]))
        return f"SELECT {draw(st.sampled_from(['*', shown]))} FROM {table}{draw(wheres())}{rest}"
    if verb == "insert":
        row = draw(st.lists(values(), min_size=1, max_size=3))
        names = draw(st.lists(NAMES, min_size=len(row), max_size=len(row)))
        return f"INSERT INTO {table.split()[0]} ({', '.join(names)}) VALUES ({', '.join(row)}){returning}"
    if verb == "update":
        made = draw(st.lists(st.builds(lambda n, v: f"{n} = {v}", NAMES, values()), min_size=1, max_size=3))
        return f"UPDATE {table} SET {', '.join(made)}{draw(wheres())}{returning}"
    return f"DELETE FROM {table}{draw(wheres())}{returning}"


@given(statements())
def test_any_plain_statement_is_read_the_same(text: str) -> None:
    if is_plain(tokenize(text)):
        same(text)


WORDS = " ".join(PLAIN + NOT_PLAIN).replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split()


@given(st.lists(st.sampled_from(WORDS), max_size=15))
def test_what_is_taken_for_plain_parses(words: list[str]) -> None:
    text = " ".join(["SELECT", *words])
    if is_plain(tokenize(text)):
        same(text)


def test_a_plain_statement_does_not_import_sqlglot() -> None:
    asked = f"import sys; from auditor.sql.read import read_sql; [read_sql(t) for t in {PLAIN!r}]"
    done = subprocess.run(
        [sys.executable, "-c", f"{asked}; sys.exit('sqlglot' in sys.modules)"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
