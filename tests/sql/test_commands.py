"""Settings, transactions and sessions: what tokens alone decide."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from auditor.sql.meaning import Change, Kind, Statement, Term, TermKind, hole
from auditor.sql.read import read_sql


def one(text: str) -> Statement:
    (statement,) = read_sql(text)
    return statement


def shown(term: Term) -> str:
    """A term in short: text in quotes, everything else by its kind."""
    if term.kind is TermKind.LITERAL:
        return repr(term.text)
    if term.kind in (TermKind.PARAMETER, TermKind.COLUMN):
        return f"{term.kind.value} {term.text}"
    return str(term.kind.value)


SETTINGS: dict[str, tuple[str, tuple[str, str, str]]] = {
    "SET lasts as long as the session": ("SET app.tenant = '1'", ("'app.tenant'", "'1'", "false")),
    "SET SESSION says so": ("SET SESSION app.tenant TO '1'", ("'app.tenant'", "'1'", "false")),
    "SET LOCAL is local": ("SET LOCAL app.tenant = '1'", ("'app.tenant'", "'1'", "true")),
    "names of settings are the same in any case": ("SET App.Tenant = 1", ("'app.tenant'", "'1'", "false")),
    "names of settings may be quoted": ('SET "app.Tenant" = 1', ("'app.tenant'", "'1'", "false")),
    "words are values": ("SET search_path TO tenant_1", ("'search_path'", "'tenant_1'", "false")),
    "a list is one value of several parts": ("SET search_path TO a, public", ("'search_path'", "other", "false")),
    "SET SCHEMA is the search path": ("SET SCHEMA 'a'", ("'search_path'", "'a'", "false")),
    "SET ROLE is the setting role": ("SET ROLE worker", ("'role'", "'worker'", "false")),
    "SET LOCAL ROLE is local": ("SET LOCAL ROLE worker", ("'role'", "'worker'", "true")),
    "SET ROLE NONE is a value": ("SET ROLE NONE", ("'role'", "'none'", "false")),
    "SET SESSION AUTHORIZATION": ("SET SESSION AUTHORIZATION x", ("'session_authorization'", "'x'", "false")),
    "SET TIME ZONE is the setting timezone": ("SET TIME ZONE 'UTC'", ("'timezone'", "'UTC'", "false")),
    "a placeholder of psycopg": ("SET LOCAL app.tenant = %s", ("'app.tenant'", "parameter 0", "true")),
    "a named placeholder of psycopg": ("SET app.tenant = %(t)s", ("'app.tenant'", "parameter t", "false")),
    "a placeholder of SQLAlchemy": ("SET app.tenant = :t", ("'app.tenant'", "parameter t", "false")),
    "a placeholder of PostgreSQL": ("SET app.tenant TO $1", ("'app.tenant'", "parameter $1", "false")),
    "a placeholder of JDBC and SQLite": ("SET app.tenant = ?", ("'app.tenant'", "parameter 0", "false")),
    "a hole as the value": (f"SET app.tenant = {hole(3)}", ("'app.tenant'", "hole", "false")),
    "a hole inside quotes": (f"SET app.tenant = '{hole(3)}'", ("'app.tenant'", repr(hole(3)), "false")),
    "a hole as the name": (f"SET LOCAL {hole(3)} = '1'", ("hole", "'1'", "true")),
    "a hole as part of the name": (f"SET app.{hole(3)} = '1'", (repr(f"app.{hole(3)}"), "'1'", "false")),
    "set_config": ("SELECT set_config('app.tenant', '1', false)", ("'app.tenant'", "'1'", "false")),
    "a dump's preamble": ("SELECT pg_catalog.set_config('search_path', '', false)", ("'search_path'", "''", "false")),
    "set_config with a placeholder": ("SELECT set_config('App.X', %s, true)", ("'app.x'", "parameter 0", "true")),
    "set_config sees through casts": ("SELECT set_config('app.x', :v::text, true)", ("'app.x'", "parameter v", "true")),
    "set_config whose scope comes from outside": (
        "SELECT set_config('a.b', '1', $3)",
        ("'a.b'", "'1'", "parameter $3"),
    ),
    "a boolean as text": ("SELECT set_config('a.b', '1', 't')", ("'a.b'", "'1'", "true")),
    "set_config in a larger query": (
        "SELECT set_config('a.b', id::text, true) FROM tenants WHERE name = %s",
        ("'a.b'", "column id", "true"),
    ),
    "a template's braces inside quotes are text": ("SET a.b = '{x}'", ("'a.b'", "'{x}'", "false")),
    "a template's braces outside quotes are a hole": ("SET a.b = {{ x }}", ("'a.b'", "hole", "false")),
}


def test_a_function_of_ones_own_may_be_called_set_config() -> None:
    statement = one("SELECT set_config('user.contact', '{}'::jsonb)")
    assert not statement.settings
    assert [call.name for call in statement.calls] == ["set_config"]


@pytest.mark.parametrize(("text", "expected"), SETTINGS.values(), ids=SETTINGS)
def test_a_setting_is_changed(text: str, expected: tuple[str, str, str]) -> None:
    (change,) = one(text).settings
    assert change.change is Change.SET
    assert change.called is ("set_config" in text)
    assert (shown(change.name), shown(change.value), shown(change.local)) == expected


BACK = {
    "RESET": ("RESET app.tenant", [("reset", "'app.tenant'", "false")]),
    "RESET ALL": ("RESET ALL", [("reset all", "other", "false")]),
    "RESET ROLE": ("RESET ROLE", [("reset", "'role'", "false")]),
    "SET TO DEFAULT": ("SET app.tenant TO DEFAULT", [("reset", "'app.tenant'", "false")]),
    "SET LOCAL TO DEFAULT": ("SET LOCAL app.tenant = DEFAULT", [("reset", "'app.tenant'", "true")]),
    "SET SESSION AUTHORIZATION DEFAULT": (
        "SET SESSION AUTHORIZATION DEFAULT",
        [("reset", "'session_authorization'", "false")],
    ),
    "DISCARD ALL resets all there is": (
        "DISCARD ALL",
        [("reset", "'session_authorization'", "false"), ("reset", "'role'", "false"), ("reset all", "other", "false")],
    ),
    "DISCARD PLANS resets nothing": ("DISCARD PLANS", []),
}


@pytest.mark.parametrize(("text", "expected"), BACK.values(), ids=BACK)
def test_a_setting_goes_back(text: str, expected: list[tuple[str, str, str]]) -> None:
    found = [(change.change.value, shown(change.name), shown(change.local)) for change in one(text).settings]
    assert found == expected


SILENT = {
    "a column named role": "UPDATE users SET role = 'admin' WHERE id = %s",
    "a column named search_path": "UPDATE t SET search_path = 'x'",
    "a function's search path is the function's": (
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql SET search_path = app AS 'SELECT 1'"
    ),
    "ALTER FUNCTION sets nothing now": "ALTER FUNCTION f() SET search_path = app",
    "ALTER ROLE sets nothing now": "ALTER ROLE worker SET app.tenant = '1'",
    "ALTER DATABASE sets nothing now": "ALTER DATABASE d SET app.tenant = '1'",
    "ALTER SYSTEM sets nothing now": "ALTER SYSTEM SET work_mem = '1GB'",
    "ALTER TABLE SET is about the table": "ALTER TABLE t SET (fillfactor = 70)",
    "SET CONSTRAINTS sets no setting": "SET CONSTRAINTS ALL DEFERRED",
    "a string that looks like a call": "SELECT 'set_config(''a'', ''b'', true)'",
    "a comment that looks like a call": "SELECT 1 /* set_config('a', 'b', true) */",
    "a table named set_config": "SELECT * FROM set_config",
    "another schema's set_config": "SELECT app.set_config('a', 'b', true)",
    "what a function's body sets is not set by its making": (
        "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN SET app.tenant = '1'; END $$"
    ),
    "EXPLAIN without ANALYZE runs nothing": "EXPLAIN SELECT set_config('a.b', '1', true)",
}


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
def test_no_setting_is_changed(text: str) -> None:
    statement = one(text)
    assert statement.settings == ()
    assert [change for inner in statement.body for change in inner.settings] == []


COMMANDS: dict[str, tuple[str, Kind, dict[str, Any]]] = {
    "BEGIN with its modes": (
        "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        Kind.BEGIN,
        {"isolation": "repeatable read", "read_only": True},
    ),
    "START TRANSACTION": ("START TRANSACTION READ ONLY", Kind.BEGIN, {"read_only": True}),
    "SET TRANSACTION": (
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        Kind.SET_TRANSACTION,
        {"isolation": "serializable"},
    ),
    "END commits": ("END", Kind.COMMIT, {"chain": False}),
    "COMMIT AND CHAIN": ("COMMIT AND CHAIN", Kind.COMMIT, {"chain": True}),
    "COMMIT AND NO CHAIN": ("COMMIT AND NO CHAIN", Kind.COMMIT, {"chain": False}),
    "COMMIT PREPARED is about another transaction": ("COMMIT PREPARED 'x'", Kind.OTHER, {}),
    "ABORT rolls back": ("ABORT", Kind.ROLLBACK, {}),
    "ROLLBACK TO": ("ROLLBACK TO SAVEPOINT a", Kind.ROLLBACK_TO, {"name": "a"}),
    "SAVEPOINT with a hole in its name": (f"SAVEPOINT sp_{hole(0)}", Kind.SAVEPOINT, {"name": f"sp_{hole(0)}"}),
    "RELEASE": ("RELEASE a", Kind.RELEASE, {"name": "a"}),
    "PREPARE TRANSACTION": ("PREPARE TRANSACTION 'gid'", Kind.PREPARE_TRANSACTION, {"name": "gid"}),
    "LISTEN": ("LISTEN jobs", Kind.LISTEN, {"name": "jobs"}),
    "UNLISTEN *": ("UNLISTEN *", Kind.UNLISTEN, {"name": "*"}),
    "NOTIFY": ("NOTIFY jobs, 'x'", Kind.NOTIFY, {"name": "jobs"}),
    "DEALLOCATE ALL": ("DEALLOCATE ALL", Kind.DEALLOCATE, {"name": "all"}),
    "CLOSE ALL": ("CLOSE ALL", Kind.CLOSE, {"name": "all"}),
    "DISCARD TEMPORARY": ("DISCARD TEMPORARY", Kind.DISCARD, {"name": "temp"}),
    "SHOW": ("SHOW app.tenant", Kind.SHOW, {"name": "app.tenant"}),
    "case and space do not matter": ("  bEgIn\n", Kind.BEGIN, {}),
}


@pytest.mark.parametrize(("text", "kind", "fields"), COMMANDS.values(), ids=COMMANDS)
def test_a_command_is_known(text: str, kind: Kind, fields: dict[str, Any]) -> None:
    statement = one(text)
    assert statement.kind is kind
    assert {name: getattr(statement, name) for name in fields} == fields


def test_what_prepared_statements_cursors_and_copies_run_is_their_body() -> None:
    texts = (
        "PREPARE p AS UPDATE jobs SET a = 1",
        "EXPLAIN ANALYZE UPDATE jobs SET a = 1",
        "COPY (UPDATE jobs SET a = 1 RETURNING *) TO STDOUT",
    )
    for text in texts:
        statement = one(text)
        assert statement.writes == ()
        assert [table.name for table in statement.body[0].writes] == ["jobs"]


def test_nameless_placeholders_are_counted_through_a_text() -> None:
    statements = read_sql("SET LOCAL a.b = %s; SELECT %s, %(x)s, ?; SELECT 1")
    assert [[term.text for term in statement.parameters] for statement in statements] == [["0"], ["1", "x", "2"], []]


@pytest.mark.parametrize(
    "text",
    [
        "SET LOCAL app.tenant = %s; COMMIT; RESET ALL; DISCARD ALL; LISTEN x; SAVEPOINT a; RELEASE a",
        "SELECT set_config('app.tenant', %s, true), pg_catalog.set_config('x.y', '', false)",
        "SELECT current_setting('app.tenant', true)",
        "INSERT INTO jobs (a, b) VALUES (%s, now()) RETURNING id",
        "CREATE POLICY p ON t USING (a = current_setting('x.y')::int); ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE ROLE x BYPASSRLS; GRANT a TO b; CREATE TABLE t (a int)",
    ],
)
def test_simple_statements_do_not_pay_for_sqlglot(text: str) -> None:
    program = (
        f"import sys; from auditor.sql.read import read_sql; read_sql({text!r}); sys.exit('sqlglot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
