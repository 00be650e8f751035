"""Queries: tables, conditions, assignments, locks, and how they hang together."""

from __future__ import annotations

import pytest

from auditor.sql.meaning import Comparison, Query, Statement, Term, TermKind
from auditor.sql.read import read_sql
from auditor.sql.salvage import salvage
from auditor.sql.tokens import tokenize


def one(text: str) -> Statement:
    (statement,) = read_sql(text)
    assert statement.parsed
    return statement


def shown(term: Term) -> str:
    parts = ", ".join(shown(part) for part in term.parts)
    name = {TermKind.LITERAL: repr(term.text), TermKind.COLUMN: term.text, TermKind.PARAMETER: f"%{term.text}"}.get(
        term.kind, f"{term.kind.value} {term.text}".strip()
    )
    return f"{name}({parts})" if parts else name


def condition(found: Comparison) -> str:
    return f"{found.column} {found.operator} {shown(found.value)}" + (" ?" if found.optional else "")


CONDITIONS = {
    "AND": ("a = 1 AND b <> 'x' AND (c < d)", ["a = '1'", "b <> 'x'", "c < d"]),
    "OR leaves each open": ("a = 1 OR b = 2", ["a = '1' ?", "b = '2' ?"]),
    "AND beside OR": ("a = 1 AND (b = 2 OR c = 3)", ["a = '1'", "b = '2' ?", "c = '3' ?"]),
    "the column stands on the left": ("1 = a AND now() > b", ["a = '1'", "b < now now"]),
    "a time ago": ("a < now() - interval '5 min'", ["a < now now(subtract('5 min'))"]),
    "an age": ("now() - a > interval '5 min'", ["a < now now(subtract('5 min'))"]),
    "a sum": ("a + 1 <= max_a", ["a <= max_a"]),
    "a column in a call or a cast": ("lower(a) = 'x' AND b::text = %s", ["a = 'x'", "b = %0"]),
    "IN": ("a IN ('x', 'y')", ["a in other('x', 'y')"]),
    "IN with one placeholder": ("a IN (%s) AND b IN %s", ["a in %0", "b in %1"]),
    "NOT IN": ("a NOT IN ('x')", ["a not in other('x')"]),
    "IN with a query": ("a IN (SELECT b FROM t)", ["a in query"]),
    "ANY": ("a = ANY(%s) AND b <> ALL(%s)", ["a in %0", "b not in %1"]),
    "ANY with an array": ("a = ANY(ARRAY(SELECT 1))", ["a in query"]),
    "a scalar query": ("a = (SELECT 1)", ["a = query"]),
    "rows": ("(a, b) = (1, 2)", ["a = '1'", "b = '2'"]),
    "BETWEEN": ("a BETWEEN 1 AND 2", ["a >= '1'", "a <= '2'"]),
    "IS": ("a IS NULL AND b IS NOT NULL AND NOT c IS NULL", ["a is null", "b is not null", "c is not null"]),
    "IS TRUE": ("a IS TRUE AND b IS NOT FALSE", ["a is true", "b is not false"]),
    "IS DISTINCT FROM": ("a IS DISTINCT FROM b AND c IS NOT DISTINCT FROM 1", ["a <> b", "c = '1'"]),
    "LIKE": ("a LIKE 'x%' AND b ILIKE 'y'", ["a like 'x%'", "b like 'y'"]),
    "a boolean column": ("a AND NOT b", ["a is true", "b is not true"]),
    "a function's answer": ("pg_try_advisory_xact_lock(a)", ["a other call pg_try_advisory_xact_lock(a)"]),
    "NOT leaves open what is not its opposite": ("NOT (a < 1)", ["a < '1' ?"]),
    "NOT over AND": ("NOT (a = 1 AND b = 2)", ["a <> '1' ?", "b <> '2' ?"]),
    "EXISTS is the query's business": ("EXISTS (SELECT 1) AND a = 1", ["a = '1'"]),
    "operators that are not the standard's": ("a @> '{}' AND b ->> 'x' = 'y'", ["a other other(a, '{}')", "b = 'y'"]),
    "a hole": ("\ue0000\ue001 AND a = 1", [" other hole \ue0000\ue001", "a = '1'"]),
    "a time with a zone": ("a <= now() AT TIME ZONE 'utc'", ["a <= now now"]),
    "an enumeration": ("a = 'x'::status", ["a = cast status('x')"]),
}


@pytest.mark.parametrize(("where", "expected"), CONDITIONS.values(), ids=CONDITIONS)
def test_conditions(where: str, expected: list[str]) -> None:
    query = one(f"SELECT 1 FROM t WHERE {where}").queries[0]
    assert [condition(found) for found in query.conditions] == expected


ASSIGNMENTS = {
    "UPDATE": ("UPDATE t SET a = 1, b = DEFAULT", ["a: '1'", "b: default"]),
    "a count": ("UPDATE t SET a = a + 1, b = coalesce(b, 0) + %s", ["a: add a('1')", "b: add b(%0)"]),
    "a count with the table's name": ("UPDATE t SET a = t.a + 1", ["a: add a('1')"]),
    "a count down": ("UPDATE t SET a = a - 1", ["a: subtract a('1')"]),
    "a clock": ("UPDATE t SET a = clock_timestamp() + interval '1 h'", ["a: now clock_timestamp('1 h')"]),
    "a clock that is a word": ("UPDATE t SET a = CURRENT_TIMESTAMP", ["a: now current_timestamp"]),
    "CASE": ("UPDATE t SET a = CASE WHEN b THEN 'x' ELSE c END", ["a: case('x', c)"]),
    "rows": ("UPDATE t SET (a, b) = (1, 2)", ["a: '1'", "b: '2'"]),
    "rows from a query": ("UPDATE t SET (a, b) = (SELECT 1, 2)", ["a: query", "b: query"]),
    "elements and fields": ("UPDATE t SET a[1] = 2, b.c = 3", ["a: '2'", "b: '3'"]),
    "INSERT": ("INSERT INTO t (a, b) VALUES (1, now()), (2, null)", ["a: '1'", "b: now now"]),
    "INSERT from a query": ("INSERT INTO t (a, b) SELECT x, 1 FROM y", ["a: x", "b: '1'"]),
    "INSERT from a star": ("INSERT INTO t (a, b) SELECT x, y.* FROM y", ["a: x"]),
    "ON CONFLICT": (
        "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET b = t.b + excluded.b",
        ["a: '1'", "b: add b(b)"],
    ),
    "MERGE": (
        "MERGE INTO t USING s ON true WHEN MATCHED THEN UPDATE SET a = 1 WHEN NOT MATCHED THEN INSERT (b) VALUES (2)",
        ["a: '1'", "b: '2'"],
    ),
    "an interval of seconds": ("UPDATE t SET a = now() + %s * interval '1 s'", ["a: now now(other(%0, '1 s'))"]),
    "make_interval": (
        "UPDATE t SET a = now() + make_interval(secs => %s)",
        ["a: now now(call make_interval(%0))"],
    ),
}


@pytest.mark.parametrize(("text", "expected"), ASSIGNMENTS.values(), ids=ASSIGNMENTS)
def test_assignments(text: str, expected: list[str]) -> None:
    query = one(text).queries[0]
    assert [f"{made.column}: {shown(made.value)}" for made in query.assignments] == expected


def roles(text: str) -> list[tuple[str, str, int]]:
    return [(query.verb.value, query.role, query.parent) for query in one(text).queries]


ROLES = {
    "IN": ("SELECT 1 FROM t WHERE a IN (SELECT 1)", [("select", "top", -1), ("select", "in", 0)]),
    "a scalar": ("SELECT 1 FROM t WHERE a = (SELECT 1)", [("select", "top", -1), ("select", "scalar", 0)]),
    "an array": ("SELECT 1 WHERE a = ANY(ARRAY(SELECT 1))", [("select", "top", -1), ("select", "array", 0)]),
    "ANY": ("SELECT 1 WHERE a = ANY(SELECT 1)", [("select", "top", -1), ("select", "in", 0)]),
    "EXISTS": ("SELECT 1 WHERE EXISTS (SELECT 1)", [("select", "top", -1), ("select", "exists", 0)]),
    "FROM": ("SELECT 1 FROM (SELECT 1) x", [("select", "top", -1), ("select", "from", 0)]),
    "LATERAL": ("SELECT 1 FROM t, LATERAL (SELECT 1) x", [("select", "top", -1), ("select", "from", 0)]),
    "a CTE": ("WITH c AS (SELECT 1) UPDATE t SET a = 1", [("update", "top", -1), ("select", "cte", 0)]),
    "a CTE that changes": ("WITH c AS (DELETE FROM t) SELECT 1", [("select", "top", -1), ("delete", "cte", 0)]),
    "UNION": ("SELECT 1 UNION SELECT 2", [("select", "top", -1), ("select", "union", 0)]),
    "UNION with a CTE": (
        "WITH c AS (SELECT 0) SELECT 1 UNION SELECT 2",
        [("select", "top", -1), ("select", "union", 0), ("select", "cte", 0)],
    ),
    "INSERT from a query": ("INSERT INTO t SELECT 1", [("insert", "top", -1), ("select", "other", 0)]),
    "a query in a value": ("UPDATE t SET a = (SELECT 1)", [("update", "top", -1), ("select", "scalar", 0)]),
    "a query in a call": ("SELECT coalesce((SELECT 1), 2)", [("select", "top", -1), ("select", "scalar", 0)]),
    "queries in queries": (
        "SELECT 1 WHERE a IN (SELECT 1 WHERE b IN (SELECT 2))",
        [("select", "top", -1), ("select", "in", 0), ("select", "in", 1)],
    ),
}


@pytest.mark.parametrize(("text", "expected"), ROLES.values(), ids=ROLES)
def test_how_queries_hang_together(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert roles(text) == expected


TABLES = {
    "every table of FROM": ("SELECT 1 FROM a, s.b JOIN c ON true", ["a", "s.b", "c"], []),
    "no functions": ("SELECT 1 FROM f(1), generate_series(1, 2) g, a", ["a"], []),
    "no CTEs": ("WITH a AS (SELECT 1 FROM b) SELECT 1 FROM a, c", ["c", "b"], []),
    "a table behind a CTE of its name": ("WITH a AS (SELECT 1 FROM a) SELECT 1 FROM a", ["a"], []),
    "a CTE with a schema is a table": ("WITH a AS (SELECT 1) SELECT 1 FROM s.a", ["s.a"], []),
    "a recursive CTE is no table": ("WITH RECURSIVE a AS (SELECT 1 UNION SELECT 1 FROM a) SELECT 1 FROM a", [], []),
    "names keep their case in quotes": ('SELECT 1 FROM "A"."B"', ["A.B"], []),
    "what is written": ("UPDATE a SET x = 1 FROM b WHERE a.y = b.y", ["b"], ["a"]),
    "what is written in a CTE": ("WITH x AS (INSERT INTO a SELECT 1 FROM b) SELECT 1 FROM c", ["c", "b"], ["a"]),
    "USING": ("DELETE FROM a USING b JOIN c ON true", ["b", "c"], ["a"]),
    "MERGE": ("MERGE INTO a USING b ON true WHEN MATCHED THEN DELETE", ["b"], ["a"]),
    "brackets around joins": ("SELECT 1 FROM (a JOIN b ON true) JOIN (SELECT 1 FROM c) d ON true", ["a", "b", "c"], []),
    "ONLY": ("SELECT 1 FROM ONLY a *", ["a"], []),
    "TABLE": ("TABLE a", ["a"], []),
}


@pytest.mark.parametrize(("text", "reads", "writes"), TABLES.values(), ids=TABLES)
def test_tables(text: str, reads: list[str], writes: list[str]) -> None:
    statement = one(text)
    named = [[".".join(filter(None, table[1::-1])) for table in found] for found in (statement.reads, statement.writes)]
    assert [sorted(named[0]), sorted(named[1])] == [sorted(reads), sorted(writes)]


LOCKS = {
    "FOR UPDATE": ("FOR UPDATE", ("update", False, False)),
    "SKIP LOCKED": ("FOR UPDATE SKIP LOCKED", ("update", True, False)),
    "NOWAIT": ("FOR NO KEY UPDATE NOWAIT", ("no key update", False, True)),
    "OF": ("FOR UPDATE OF t SKIP LOCKED", ("update", True, False)),
    "FOR SHARE": ("FOR SHARE", ("share", False, False)),
    "FOR KEY SHARE": ("FOR KEY SHARE SKIP LOCKED", ("key share", True, False)),
    "before LIMIT": ("ORDER BY a FOR UPDATE SKIP LOCKED LIMIT 1", ("update", True, False)),
}


@pytest.mark.parametrize(("clause", "expected"), LOCKS.values(), ids=LOCKS)
def test_row_locks(clause: str, expected: tuple[str, bool, bool]) -> None:
    text = f"SELECT 1 FROM t WHERE a = 1 {clause}"
    lock = one(text).queries[0].lock
    assert lock is not None
    assert lock[:3] == expected
    assert text[slice(*lock.span)].startswith("FOR ")


def test_the_parts_of_a_claim_and_where_they_stand() -> None:
    text = (
        "WITH next AS MATERIALIZED"
        " (SELECT id FROM jobs WHERE status = 'queued' ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)"
        " UPDATE jobs SET attempts = attempts + 1, locked_until = now() + interval '5 min' FROM next"
        " WHERE jobs.id = next.id RETURNING jobs.*, jobs.id AS job"
    )
    update, select = one(text).queries
    assert (update.returning, update.ordered, update.limit) == (("*", "id"), False, None)
    assert select.limit is not None
    assert (select.role, select.materialized, select.ordered, select.limit.text) == ("cte", True, True, "0")
    assert text[slice(*select.span)].startswith("SELECT id")
    assert text[slice(*select.span)].endswith("SKIP LOCKED")
    stretches = [text[slice(*made.span)] for made in update.assignments]
    assert stretches == ["attempts = attempts + 1", "locked_until = now() + interval '5 min'"]
    assert [text[slice(*found.span)] for found in select.conditions] == ["status = 'queued'"]
    assert text[slice(*update.assignments[1].value.span)] == "now() + interval '5 min'"


def test_comparisons_in_values_are_kept_apart() -> None:
    text = "UPDATE t SET status = CASE WHEN attempts >= max_attempts THEN 'dead' ELSE 'queued' END WHERE id = 1"
    query = one(text).queries[0]
    assert [condition(found) for found in query.cases] == ["attempts >= max_attempts"]
    assert [condition(found) for found in query.conditions] == ["id = '1'"]


def test_calls_but_not_the_everyday_ones() -> None:
    text = "SELECT app.claim(%s, now()), lower(pg_notify('a', b)), count(*) FROM f(1) WHERE g(current_setting('a.b'))"
    statement = one(text)
    assert {(call.schema, call.name) for call in statement.calls} == {
        ("app", "claim"),
        ("", "pg_notify"),
        ("", "f"),
        ("", "g"),
    }
    assert [read.name.text for read in statement.setting_reads] == ["a.b"]
    assert all(text[slice(*call.span)].endswith(")") for call in statement.calls)


# The same from tokens alone


SAME = [
    "SELECT id FROM jobs j WHERE status = 'queued' AND attempts < 3 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
    "UPDATE jobs SET attempts = attempts + 1, status = 'running' WHERE id = %s AND token = %s RETURNING *",
    "UPDATE s.jobs AS j SET a = now() + interval '1 h' FROM t WHERE j.id = t.id AND j.b IS NULL RETURNING j.id",
    "DELETE FROM jobs WHERE id = ANY(%s) RETURNING id",
    "DELETE FROM jobs USING a, b WHERE jobs.x = a.x AND jobs.y BETWEEN 1 AND 2",
    "INSERT INTO jobs (a, b) VALUES (1, %s) ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING id",
    "SELECT a FROM t JOIN u ON t.id = u.id LEFT JOIN v ON v.id = u.id WHERE t.x IN ('a') AND NOT EXISTS (SELECT 1)",
    "UPDATE jobs SET a = 1 WHERE id IN (SELECT id FROM jobs WHERE b <= now() FOR UPDATE SKIP LOCKED LIMIT 10)",
    "WITH c AS (SELECT id FROM jobs WHERE x = 1) SELECT * FROM c JOIN d ON d.id = c.id WHERE c.a > 1 OR d.b = 2",
]


@pytest.mark.parametrize("text", SAME)
def test_tokens_alone_tell_the_same(text: str) -> None:
    def essence(query: Query) -> tuple[object, ...]:
        return (
            query.verb,
            query.target and query.target[:2],
            [table[:2] for table in query.tables],
            [f"{made.column}: {shown(made.value)}" for made in query.assignments],
            [condition(found) for found in query.conditions],
            query.lock and query.lock[:3],
            query.limit and shown(query.limit),
            query.ordered,
            query.returning,
            query.role,
            query.parent,
        )

    salvaged = salvage(tokenize(text), text)
    parsed = one(text)
    assert [essence(query) for query in salvaged.queries] == [essence(query) for query in parsed.queries]
    assert {table[:2] for table in salvaged.reads} == {table[:2] for table in parsed.reads}
    assert {table[:2] for table in salvaged.writes} == {table[:2] for table in parsed.writes}


BROKEN = {
    "a statement that was cut off": ("UPDATE jobs SET attempts = attempts + 1 WHERE id = ANY(", "update"),
    "another database's syntax": ("SELECT TOP 5 * FROM jobs WHERE a = 1", "select"),
    "a word too many": ("DELETE FROM jobs WHERE WHERE id = 1", "delete"),
}


@pytest.mark.parametrize(("text", "kind"), BROKEN.values(), ids=BROKEN)
def test_what_will_not_parse_is_still_told(text: str, kind: str) -> None:
    (statement,) = read_sql(text)
    assert not statement.parsed
    assert statement.kind.value == kind
    assert [*statement.reads, *statement.writes]
