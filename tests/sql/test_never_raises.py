"""Whatever text comes: statements or nothing, offsets inside the text, and no exception."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from auditor.sql.meaning import Span, Statement, hole
from auditor.sql.policy import outcomes
from auditor.sql.queue import queue_steps
from auditor.sql.read import read_sql
from auditor.sql.script import split_script
from auditor.sql.tokens import tokenize, word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS = """
    select insert into update delete from merge using values set reset discard begin commit rollback to savepoint
    release create or replace function procedure policy table view index trigger role alter drop grant revoke as on for
    with recursive check where and or not in is null like between case when then else end group by order having limit
    offset fetch first rows only union all except intersect join left outer cross natural lateral returning conflict do
    nothing default language plpgsql sql security definer atomic return declare if loop while execute perform raise
    exception row level enable force local session authorization time zone all role copy stdin jobs id status attempts
    current_setting set_config now interval array any exists cast int text true false search cycle current of table
"""
PIECES = [
    *sorted(word_set(WORDS)),
    "(", ")", "(", ")", "[", "]", ",", ";", ".", "*", "=", "<>", "<", ">=", "+", "-", "||", "::", ":=", "=>", "->>",
    "?", "%s", "%(x)s", "$1", ":x", ":'x'", "%%", "'a'", "'app.tenant'", "''", "E'\\''", "$$", "$t$", "1", "1.5", '"a"',
    "--x\n", "/*", "*/", "'", '"', "\\gset\n", "\\.\n", "\n", "{x}", "{{ x }}", "${x}", hole(0), f"'{hole(1)}'",
    "@", "~", "#", "\\", "\x00", "\ud800", "é", "\ufeff", "\xa0",
]  # fmt: skip

sql_like = st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join)
glued = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
any_text = st.text(max_size=120)

many = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def spans(value: Any) -> Iterator[Span]:
    """Every span in a tree of facts."""
    if isinstance(value, Span):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from spans(part)


def check(text: str) -> None:
    statements = read_sql(text)
    end = 0
    for statement in statements:
        assert isinstance(statement, Statement)
        assert statement.text == text[statement.span.start : statement.span.end] != ""
        assert end <= statement.span.start
        end = statement.span.end
        queue_steps(statement)
    for start, stop in spans(statements):
        assert 0 <= start <= stop <= len(text)


@many
@given(sql_like)
@example("SELECT " + "(" * 3000)
@example("SELECT " + "(" * 3000 + "1" + ")" * 3000)
@example("SELECT " + "NOT " * 5000 + "x")
@example("SELECT " + "- " * 5000 + "1")
@example("SELECT 1" + " + 1" * 3000)
@example("SELECT 1 WHERE " + "a = 1 AND " * 3000 + "b")
@example("SELECT " + "CASE WHEN a THEN " * 500)
@example("SELECT 1 " + "UNION SELECT 1 " * 1000)
@example("UPDATE t SET a = " + "f(" * 200 + "1" + ")" * 200)
@example("SET x = " + "(" * 3000 + ")" * 3000)
@example("CREATE POLICY p ON t USING (" * 300)
@example("DO $$ BEGIN IF " + "(" * 2000)
@example("CREATE FUNCTION f() RETURNS int AS 'BEGIN EXECUTE ''''; END' LANGUAGE plpgsql")
@example("PREPARE a AS " * 400 + "SELECT 1")
@example("EXPLAIN ANALYZE " * 400 + "SELECT 1")
@example("WITH a AS (" * 300)
@example("\x00SELECT\x00 1")
@example("SELECT '\ud800'")
def test_something_like_sql(text: str) -> None:
    check(text)


@many
@given(glued)
def test_sql_glued_together(text: str) -> None:
    check(text)


@many
@given(any_text)
def test_any_text(text: str) -> None:
    check(text)


@many
@given(st.one_of(sql_like, glued))
def test_bodies_of_functions(text: str) -> None:
    check(f"CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $body$ BEGIN {text} END $body$")
    check("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS '" + text.replace("'", "''") + "'")


@many
@given(sql_like)
def test_policies(text: str) -> None:
    outcomes(text, {"f": text}, lambda name: True)


@many
@given(st.one_of(sql_like, glued, any_text))
def test_tokens_cover_what_is_not_space(text: str) -> None:
    tokens = tokenize(text)
    places = [place for token in tokens for place in (token.start, token.end)]
    assert places == sorted(places)
    assert all(token.start < token.end <= len(text) for token in tokens)


@many
@given(
    st.lists(st.sampled_from(["SELECT 1", "SELECT ';'", "SELECT $$;$$", "SELECT (1;2)", "-- ;\nSELECT 2", "/* ; */ x"]))
)
def test_statements_are_cut_at_their_semicolons(pieces: list[str]) -> None:
    text = ";\n".join(pieces)
    found = [text[start:end] for start, end in split_script(text).statements]
    assert len(found) == len(pieces)


@pytest.mark.parametrize("seed", range(3))
def test_a_million_characters_take_no_time_to_speak_of(seed: int) -> None:
    import random
    import time

    letters = random.Random(seed).choices(string.printable, k=1_000_000)
    start = time.perf_counter()
    split_script("".join(letters))
    assert time.perf_counter() - start < 10
