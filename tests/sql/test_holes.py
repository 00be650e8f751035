"""Text that was built at run time: holes and placeholders, wherever they stand."""

from __future__ import annotations

import re

import pytest

from auditor.sql.meaning import Query, Statement, hole
from auditor.sql.read import read_sql


def fill(text: str) -> str:
    """«0» is written for the mark of hole 0."""
    return re.sub("«([0-9]+)»", lambda found: hole(int(found[1])), text)


def unfill(text: str) -> str:
    return re.sub("\ue000([0-9]*)_*\ue001", r"«\1»", text)


def one(text: str) -> Statement:
    (statement,) = read_sql(fill(text))
    assert statement.parsed
    return statement


def query(text: str) -> Query:
    return one(text).queries[0]


TABLES = {
    "a schema": ("SELECT * FROM «0».jobs", "«0».jobs"),
    "a schema in quotes": ('SELECT * FROM "«0»"."jobs"', "«0».jobs"),
    "a table": ("SELECT * FROM «0»", "«0»"),
    "a table with its alias": ("SELECT * FROM «0» AS j WHERE j.id = 1", "«0»"),
    "the end of a name": ("SELECT * FROM jobs_«0»", "jobs_«0»"),
    "the middle of a name": ("SELECT * FROM a_«0»_b", "a_«0»_b"),
    "what is updated": ("UPDATE «0» SET a = 1", "«0»"),
    "what is deleted from": ("DELETE FROM «0».«1» WHERE a = 1", "«0».«1»"),
    "what is inserted into": ("INSERT INTO «0» (a) VALUES (1)", "«0»"),
    "what is inserted into from a query": ("INSERT INTO «0» SELECT 1", "«0»"),
    "a table that Python's % fills": ("SELECT * FROM %s", "%s"),
    "a table that Python's % names": ("SELECT * FROM %(schema)s.jobs", "%(schema)s.jobs"),
    "a name that Python's % ends": ("SELECT * FROM jobs_%(name)s", "jobs_%(name)s"),
    "a name that Python's % begins": ("SELECT * FROM %s_jobs", "%s_jobs"),
    "a template of format()": ("SELECT * FROM {schema}.{table}", "{schema}.{table}"),
    "a template of Jinja": ("SELECT * FROM {{ schema }}.jobs", "{{ schema }}.jobs"),
    "a template of a shell": ("SELECT * FROM ${schema}.jobs", "${schema}.jobs"),
    "a variable of psql": ('SELECT * FROM :"table"', ':"table"'),
}


@pytest.mark.parametrize(("text", "name"), TABLES.values(), ids=TABLES)
def test_a_hole_in_the_name_of_a_table(text: str, name: str) -> None:
    target = query(text).target
    assert target is not None
    assert unfill(".".join(filter(None, (target.schema, target.name)))) == name


#: A condition, and the columns that are seen in it. «9» is a clause.
CLAUSES = {
    "all of WHERE": ("SELECT * FROM jobs WHERE «9»", [""]),
    "the rest of WHERE": ("SELECT * FROM jobs WHERE a = 1 «9»", ["a"]),
    "a part of WHERE": ("SELECT * FROM jobs WHERE «9» AND a = 1", ["", "a"]),
    "WHERE itself": ("SELECT * FROM jobs «9» ORDER BY id", []),
    "an alias": ("SELECT * FROM jobs «9» WHERE a = 1", ["a"]),
    "what is selected": ("SELECT «9» FROM jobs WHERE a = 1", ["a"]),
    "the order": ("SELECT * FROM jobs WHERE a = 1 ORDER BY «9»", ["a"]),
    "its direction": ("SELECT * FROM jobs WHERE a = 1 ORDER BY id «9» LIMIT 1", ["a"]),
    "the limit": ("SELECT * FROM jobs WHERE a = 1 LIMIT «9»", ["a"]),
    "a lock": ("SELECT * FROM jobs WHERE a = 1 LIMIT 1 «9»", ["a"]),
    "how the lock waits": ("SELECT * FROM jobs WHERE a = 1 FOR UPDATE «9»", ["a"]),
    "joins": ("SELECT * FROM jobs j «9» WHERE j.a = 1", ["a"]),
    "an operator": ("SELECT * FROM jobs WHERE a «9» %s AND b = 1", ["a", "b"]),
    "a list": ("SELECT * FROM jobs WHERE a IN («9») AND b IN «9»", ["a", "b"]),
    "assignments": ("UPDATE jobs SET «9» WHERE a = 1", ["a"]),
    "more assignments": ("UPDATE jobs SET x = 1 «9» WHERE a = 1", ["a"]),
    "what is returned": ("DELETE FROM jobs WHERE a = 1 RETURNING «9»", ["a"]),
    "RETURNING itself": ("DELETE FROM jobs WHERE a = 1 «9»", ["a"]),
    "CTEs before the statement": ("«9» UPDATE jobs SET x = 1 WHERE a = 1", ["a"]),
    "what a CTE holds": ("WITH c AS («9») SELECT * FROM jobs WHERE a = 1", ["a"]),
    "two clauses in a row": ("SELECT * FROM jobs WHERE a = 1 «9» «9»", ["a"]),
    "two clauses without space": ("SELECT * FROM jobs WHERE a = 1 «9»«9»", ["a"]),
    "a time": ("SELECT * FROM jobs WHERE a < now() - interval '«9» seconds'", ["a"]),
    "a type": ("SELECT * FROM jobs WHERE a = %s::«9»", ["a"]),
    "a column": ("SELECT * FROM jobs WHERE «9» = %s AND a = 1", ["«9»", "a"]),
}


@pytest.mark.parametrize(("text", "columns"), CLAUSES.values(), ids=CLAUSES)
def test_a_hole_for_a_clause_loses_nothing_else(text: str, columns: list[str]) -> None:
    found = query(text)
    assert found.target is not None
    assert found.target.name == "jobs"
    assert [unfill(comparison.column) for comparison in found.conditions] == columns


def test_what_surrounds_a_clause_is_kept() -> None:
    found = query("SELECT «0» FROM jobs_«1» «2» WHERE a = «3» «4» ORDER BY id «5» LIMIT «6» FOR UPDATE SKIP LOCKED")
    assert found.lock is not None
    assert found.limit is not None
    assert (found.ordered, found.lock.skip_locked, found.limit.holes) == (True, True, (6,))
    assert found.conditions[0].value.holes == (3,)


def test_a_count_of_a_column_that_is_a_hole() -> None:
    (made,) = query("UPDATE jobs SET «0» = «0» + 1").assignments
    assert (unfill(made.column), made.value.kind.value, unfill(made.value.text)) == ("«0»", "add", "«0»")


def test_assignments_that_are_not_seen_are_said() -> None:
    made, other = query("UPDATE jobs SET «0», a = 1").assignments
    assert (made.column, made.value.holes, other.column) == ("", (0,), "a")


def test_a_function_that_is_a_hole_is_called() -> None:
    assert [unfill(call.name) for call in one("SELECT «0»(%s, 1)").calls] == ["«0»"]


LITERALS = {
    "a hole in quotes": ("SELECT * FROM t WHERE a = '«3»'", "«3»", (3,)),
    "a hole in a longer literal": ("SELECT * FROM t WHERE a = 'x-«3»-«4»'", "x-«3»-«4»", (3, 4)),
    "JSON is no hole": ("SELECT * FROM t WHERE a = '{\"a\": {}}'", '{"a": {}}', ()),
    "an array is no hole": ("SELECT * FROM t WHERE a = '{1,2}'", "{1,2}", ()),
    "an empty array is no hole": ("SELECT * FROM t WHERE a = '{}'", "{}", ()),
}


@pytest.mark.parametrize(("text", "value", "holes"), LITERALS.values(), ids=LITERALS)
def test_literals(text: str, value: str, holes: tuple[int, ...]) -> None:
    (found,) = query(text).conditions
    assert (unfill(found.value.text), found.value.holes) == (value, holes)


PLACEHOLDERS = {
    "psycopg": ("a = %s AND b = %(x)s AND c = %b AND d = %t", ["0", "x", "1", "2"]),
    "glued to an operator": ("a=%s AND b>=%(x)s AND c=$1 AND d=:y AND e=?", ["0", "x", "$1", "y", "1"]),
    "PostgreSQL": ("a = $1 AND b = $12", ["$1", "$12"]),
    "SQLAlchemy": ("a = :a AND b = :b_2::int", ["a", "b_2"]),
    "psql": ("a = :'a' AND :\"b\" = :c", ["a", "b", "c"]),
    "question marks": ("a = ? AND b IN (?, ?) AND c LIKE ?", ["0", "1", "2", "3"]),
    "question marks that are operators": ("a ? 'k' AND b ?| array['x'] AND c -> 'd' ?& array['y'] AND e = ?", ["0"]),
    "percent signs that are none": ("a LIKE '%%s' AND b %% 2 = 0 AND c % d = 0", []),
    "colons that are none": ("a::int = b[1:2] AND c = 'x:y' AND d[e:f] = 1", []),
    "escaped colons": (r"a\:\:int = :b", ["b"]),
    "in quotes they are text": ("a = '%s' AND b = ':x' AND c = '$1' AND d = '?'", []),
    "in comments they are nothing": ("a = 1 -- %s :x ?\n /* $1 */", []),
}


@pytest.mark.parametrize(("where", "names"), PLACEHOLDERS.values(), ids=PLACEHOLDERS)
def test_placeholders(where: str, names: list[str]) -> None:
    text = f"SELECT * FROM t WHERE {where}"
    statement = one(text)
    assert [term.text for term in statement.parameters] == names
    assert [text[term.span.start] in "%:$?" for term in statement.parameters] == [True] * len(names)


def test_placeholders_stand_where_values_do() -> None:
    texts = [
        "SELECT * FROM t LIMIT %s OFFSET %s",
        "SELECT * FROM t WHERE a < now() - interval '1 second' * %s",
        "SELECT * FROM t WHERE a < now() - %s::interval AND b = ANY(%s)",
        "INSERT INTO t (a, b) VALUES %s",
        "INSERT INTO t (a, b) VALUES (%s, DEFAULT), (%(x)s, :y)",
        "UPDATE t SET a = coalesce(%s, a), b = %s || b, c = CASE WHEN %s THEN 1 ELSE $2 END",
        "SELECT * FROM f(%s, x => %s) WHERE (a, b) = (%s, %s)",
        "SELECT %s AS a, CAST(%s AS int), array[%s], row(%s)",
        "SELECT * FROM t FETCH FIRST %s ROWS ONLY",
        "SELECT a AT TIME ZONE %s FROM t ORDER BY %s",
    ]
    for text in texts:
        assert one(text).parsed


def test_offsets_count_in_the_text_with_its_marks() -> None:
    text = fill("UPDATE «10».jobs SET a = '«11»', b = %s WHERE «12» AND c = 1")
    (statement,) = read_sql(text)
    found = statement.queries[0]
    assert found.target is not None
    assert unfill(text[slice(*found.target.span)]) == "«10».jobs"
    assert [unfill(text[slice(*made.span)]) for made in found.assignments] == ["a = '«11»'", "b = %s"]
    assert [unfill(text[slice(*made.span)]) for made in found.conditions] == ["«12»", "c = 1"]
