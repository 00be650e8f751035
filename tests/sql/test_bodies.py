"""Functions and DO: heads, and what stands in their bodies."""

from __future__ import annotations

import pytest

from auditor.sql.meaning import Function, Kind, Statement, TermKind
from auditor.sql.parameters import body_of
from auditor.sql.read import read_sql


def function(text: str) -> Function:
    (statement,) = read_sql(text)
    assert statement.function is not None
    return statement.function


def body(block: str) -> tuple[Statement, ...]:
    return function(f"DO $$ {block} $$").body


def test_a_head_with_everything() -> None:
    made = function(
        "CREATE OR REPLACE FUNCTION app.claim"
        "(p_worker text, INOUT n int DEFAULT 1, OUT id bigint, timestamp with time zone)"
        " RETURNS SETOF jobs AS $f$ BEGIN RETURN; END $f$ LANGUAGE plpgsql SECURITY DEFINER"
        " SET search_path = app, pg_temp SET work_mem FROM CURRENT"
    )
    assert (made.schema, made.name, made.language, made.security_definer) == ("app", "claim", "plpgsql", True)
    assert made.parameters == ("p_worker", "n", "")
    assert [(change.name.text, change.local.kind.value) for change in made.settings] == [
        ("search_path", "true"),
        ("work_mem", "true"),
    ]


RETURNS = {
    "one SELECT of an expression": (
        "LANGUAGE sql AS $$ SELECT nullif(current_setting('app.t', true), '')::uuid; $$",
        "nullif(current_setting('app.t', true), '')::uuid",
    ),
    "an alias is not part of it": ("LANGUAGE sql AS 'SELECT a + 1 AS x'", "a + 1"),
    "RETURN in PL/pgSQL": ("LANGUAGE plpgsql AS $$ BEGIN RETURN f(1); END; $$", "f(1)"),
    "RETURN in SQL": ("RETURN current_setting('app.t')::uuid", "current_setting('app.t')::uuid"),
    "an atomic body of one SELECT": ("LANGUAGE sql BEGIN ATOMIC SELECT f(1, 2); END", "f(1, 2)"),
    "FROM inside brackets belongs to the expression": (
        "LANGUAGE sql AS 'SELECT extract(epoch FROM now())'",
        "extract(epoch FROM now())",
    ),
    "a query of a table is no expression": ("LANGUAGE sql AS 'SELECT id FROM t'", None),
    "two columns are no expression": ("LANGUAGE sql AS 'SELECT 1, 2'", None),
    "two statements are none": ("LANGUAGE sql AS 'SELECT 1; SELECT 2'", None),
    "a block that does more than return": ("LANGUAGE plpgsql AS $$ BEGIN PERFORM f(); RETURN 1; END $$", None),
    "a block with a handler": (
        "LANGUAGE plpgsql AS $$ BEGIN RETURN 1; EXCEPTION WHEN others THEN RETURN 2; END $$",
        None,
    ),
    "one of two, by what is asked": (
        "LANGUAGE plpgsql AS $$ BEGIN IF a IS NULL THEN RETURN 1; END IF; RETURN a + 1; END; $$",
        "CASE WHEN a IS NULL THEN (1) ELSE (a + 1) END",
    ),
    "one of several": (
        "LANGUAGE plpgsql AS $$ BEGIN IF a THEN RETURN 1; ELSIF b THEN RETURN 2; ELSE RETURN 3; END IF; END $$",
        "CASE WHEN a THEN (1) ELSE (CASE WHEN b THEN (2) ELSE (3) END) END",
    ),
    "none where nothing is asked": ("LANGUAGE plpgsql AS $$ BEGIN IF a THEN RETURN 1; END IF; END $$", None),
    "something is done before": (
        "LANGUAGE plpgsql AS $$ BEGIN IF a THEN x := 1; RETURN x; END IF; RETURN 2; END $$",
        None,
    ),
    "an error in between": (
        "LANGUAGE plpgsql AS $$ BEGIN IF a THEN RAISE EXCEPTION 'no'; END IF; RETURN 2; END $$",
        None,
    ),
    "another language": ("LANGUAGE plpython3u AS 'return 1'", None),
}


@pytest.mark.parametrize(("rest", "expected"), RETURNS.values(), ids=RETURNS)
def test_what_a_function_returns(rest: str, expected: str | None) -> None:
    assert function(f"CREATE FUNCTION f() RETURNS int {rest}").returns == expected


STATEMENTS = {
    "PERFORM is a SELECT": ("PERFORM set_config('a.b', 'x', true)", [Kind.SELECT]),
    "INTO is PL/pgSQL's": ("SELECT id, r.x INTO STRICT v, w.y FROM jobs FOR UPDATE", [Kind.SELECT]),
    "INTO behind RETURNING": ("INSERT INTO t (a) VALUES (1) RETURNING id INTO v", [Kind.INSERT]),
    "an assignment that reads a table": ("v := (SELECT max(id) FROM jobs)", [Kind.SELECT]),
    "an assignment that calls": ("NEW.a := app.f(1)", [Kind.SELECT]),
    "an assignment that only computes": ("v := v + 1; w[1] = lower(x)", []),
    "a condition that reads a table": ("IF EXISTS (SELECT 1 FROM t) THEN NULL; END IF", [Kind.SELECT]),
    "a condition with a CASE of its own": (
        "IF CASE WHEN a THEN f() END THEN UPDATE t SET a = 1; ELSIF g() THEN DELETE FROM t; ELSE TRUNCATE t; END IF",
        [Kind.SELECT, Kind.UPDATE, Kind.SELECT, Kind.DELETE, Kind.TRUNCATE],
    ),
    "loops": (
        "FOR r IN SELECT * FROM t LOOP DELETE FROM u; END LOOP; FOR i IN 1..3 LOOP NULL; END LOOP",
        [Kind.SELECT, Kind.DELETE],
    ),
    "loops with a condition": (
        "WHILE f() LOOP EXIT; END LOOP; FOREACH x IN ARRAY g() LOOP CONTINUE; END LOOP",
        [Kind.SELECT, Kind.SELECT],
    ),
    "CASE as a statement": (
        "CASE f() WHEN 1 THEN PERFORM g(); ELSE PERFORM h(); END CASE",
        [Kind.SELECT, Kind.SELECT, Kind.SELECT],
    ),
    "blocks and handlers": (
        "BEGIN INSERT INTO t VALUES (1); EXCEPTION WHEN unique_violation OR others THEN DELETE FROM t; END",
        [Kind.INSERT, Kind.DELETE],
    ),
    "cursors": (
        "OPEN c FOR SELECT * FROM t; FETCH c INTO r; CLOSE c",
        [Kind.SELECT, Kind.FETCH, Kind.CLOSE],
    ),
    "transactions": ("COMMIT; ROLLBACK", [Kind.COMMIT, Kind.ROLLBACK]),
    "settings": ("SET LOCAL a.b = 'x'; RESET a.b", [Kind.SET, Kind.RESET]),
    "what a query returns": ("RETURN QUERY SELECT * FROM t; RETURN NEXT f(); RETURN", [Kind.SELECT, Kind.SELECT]),
    "messages and diagnostics": ("RAISE NOTICE 'x %', f(); GET DIAGNOSTICS n = ROW_COUNT", []),
    "a literal that is executed": ("EXECUTE 'SET LOCAL a.b = ''x'''", [Kind.SET]),
    "a format that is executed": ("EXECUTE format('UPDATE %I SET a = %L', t, v) USING w", [Kind.UPDATE]),
    "pieces that are executed": ("EXECUTE 'SELECT * FROM ' || t || ' WHERE a = 1' INTO v", [Kind.SELECT]),
    "a variable that is executed": ("EXECUTE v_sql", [Kind.OTHER]),
    "a dynamic loop": ("FOR r IN EXECUTE 'SELECT * FROM t' LOOP NULL; END LOOP", [Kind.SELECT]),
}


@pytest.mark.parametrize(("block", "kinds"), STATEMENTS.values(), ids=STATEMENTS)
def test_the_statements_of_a_block(block: str, kinds: list[Kind]) -> None:
    assert [statement.kind for statement in body(f"BEGIN {block}; END")] == kinds


def test_declarations_are_statements_too() -> None:
    found = body("DECLARE a int := (SELECT 1); b text DEFAULT f(); c CURSOR FOR SELECT * FROM t; d int = 1; BEGIN END")
    assert [[table.name for table in statement.reads] for statement in found] == [[], [], ["t"]]


QUOTED = {
    "dollar quotes": "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $x$ UPDATE jobs SET a = 'b' $x$",
    "single quotes": "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS ' UPDATE jobs SET a = 1'",
    "doubled quotes": "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS ' UPDATE jobs SET a = ''b'', c = ''it''''s'''",
    "an E string": r"CREATE FUNCTION f() RETURNS int LANGUAGE sql AS E' UPDATE jobs SET a = \'b\''",
    "an atomic body": "CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC UPDATE jobs SET a = 'b'; END",
    "PL/pgSQL": "DO 'BEGIN UPDATE jobs SET a = ''b''; END'",
    "a statement executed inside": "DO $$ BEGIN EXECUTE 'UPDATE jobs SET a = ''b'''; END $$",
    "a statement executed in doubled quotes": "DO 'BEGIN EXECUTE ''UPDATE jobs SET a = 1''; END'",
}


@pytest.mark.parametrize("text", QUOTED.values(), ids=QUOTED)
def test_offsets_count_in_the_text_given(text: str) -> None:
    (statement,) = function(text).body
    assert statement.span.start == text.index("UPDATE")
    (table,) = statement.writes
    assert text[slice(*table.span)] == "jobs"
    assignment = statement.queries[0].assignments[0]
    assert text[slice(*assignment.span)].startswith("a = ")


def test_values_in_doubled_quotes_are_read() -> None:
    (statement,) = body("BEGIN EXECUTE 'SELECT set_config(''app.tenant'', ''1'', true)'; END")
    (change,) = statement.settings
    assert (change.name.text, change.value.text) == ("app.tenant", "1")


def test_what_is_put_into_a_dynamic_statement_is_a_hole() -> None:
    (statement,) = body("BEGIN EXECUTE format('SET LOCAL ROLE %I', v); END")
    assert statement.settings[0].value.holes == (-1,)
    (statement,) = body("BEGIN EXECUTE 'SET LOCAL app.tenant = ' || quote_literal(v); END")
    assert statement.settings[0].value.holes == (-1,)


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        ("EXECUTE format('SET LOCAL app.tenant = %L', v)", TermKind.OTHER),
        ("EXECUTE 'SET LOCAL app.tenant = ' || quote_literal(v)", TermKind.OTHER),
        ("EXECUTE format('SET LOCAL app.tenant = %s', v)", TermKind.HOLE),
        ("EXECUTE 'SET LOCAL app.tenant = ' || v", TermKind.HOLE),
    ],
)
def test_only_what_is_not_quoted_may_end_the_string_it_is_put_into(block: str, kind: TermKind) -> None:
    (statement,) = body(f"BEGIN {block}; END")
    assert statement.settings[0].value.kind is kind


def test_fields_of_variables_are_values_and_columns_are_not() -> None:
    found = function(
        "CREATE FUNCTION f(p jobs) RETURNS void LANGUAGE plpgsql AS $$ DECLARE v jobs; w int; BEGIN"
        " UPDATE jobs j SET state = p.state, attempts = v.attempts + 1 WHERE j.id = v.id AND j.kind = w; END $$"
    )
    (statement,) = body_of(found)
    (query,) = statement.queries
    assert [made.value.kind for made in query.assignments] == [TermKind.HOLE, TermKind.ADD]
    assert [one.value.kind for one in query.conditions] == [TermKind.HOLE, TermKind.PARAMETER]


def test_roles_and_policies_in_a_do_block_are_found() -> None:
    found = body("BEGIN IF f() THEN CREATE ROLE w BYPASSRLS; END IF; CREATE POLICY p ON t USING (true); END")
    assert [statement.kind for statement in found] == [Kind.SELECT, Kind.CREATE_ROLE, Kind.CREATE_POLICY]


def test_an_owner_that_comes_later() -> None:
    made = function("ALTER FUNCTION app.claim(text) OWNER TO postgres")
    assert (made.schema, made.name, made.owner, made.body) == ("app", "claim", "postgres", ())


def test_what_a_block_asks_by_itself_is_told() -> None:
    made = function(
        "CREATE FUNCTION fail_job(p_id bigint, p_worker text) RETURNS void LANGUAGE plpgsql AS $$"
        " DECLARE job jobs%ROWTYPE; BEGIN SELECT * INTO job FROM jobs WHERE id = p_id FOR UPDATE;"
        " IF job.worker IS DISTINCT FROM p_worker THEN RETURN; END IF;"
        " IF job.attempts >= job.max_attempts THEN UPDATE jobs SET status = 'dead' WHERE id = p_id; END IF; END $$"
    )
    assert {"worker", "p_worker"} <= set(made.asks)
    assert made.looks_at_attempts


@pytest.mark.parametrize(
    "block",
    [
        pytest.param("BEGIN IF job.attempts = p_attempt THEN RETURN; END IF; END", id="which attempt it is"),
        pytest.param("BEGIN UPDATE jobs SET attempts = attempts + 1 WHERE n > 3; END", id="no condition of its own"),
        pytest.param("BEGIN IF n >= 3 THEN UPDATE jobs SET attempts = 0; END IF; END", id="another number"),
    ],
)
def test_no_number_of_attempts_is_held_against_another(block: str) -> None:
    (statement,) = read_sql(f"DO $$ {block} $$")
    assert statement.function is not None
    assert not statement.function.looks_at_attempts


@pytest.mark.parametrize(
    ("returns", "fires"), [("trigger", True), ("event_trigger", True), ("SETOF jobs", False), ("void", False)]
)
def test_what_only_a_trigger_runs(returns: str, fires: bool) -> None:
    assert function(f"CREATE FUNCTION f() RETURNS {returns} LANGUAGE plpgsql AS $$ BEGIN END $$").fires is fires
