"""Policies, row security, roles, tables, triggers."""

from __future__ import annotations

import pytest

from auditor.sql.meaning import Column, Kind, Statement, hole
from auditor.sql.read import read_sql


def one(text: str) -> Statement:
    (statement,) = read_sql(text)
    return statement


def test_a_policy_with_everything() -> None:
    text = (
        "CREATE POLICY tenant ON app.invoices AS RESTRICTIVE FOR UPDATE TO worker, staff"
        " USING (tenant_id = current_setting('App.Tenant', true)::int) WITH CHECK (app.may_write(tenant_id))"
    )
    policy = one(text).policy
    assert policy is not None
    assert (policy.name, policy.table.schema, policy.table.name) == ("tenant", "app", "invoices")
    assert (policy.command, policy.roles, policy.permissive) == ("update", ("worker", "staff"), False)
    assert policy.using == "tenant_id = current_setting('App.Tenant', true)::int"
    assert policy.check == "app.may_write(tenant_id)"
    assert text[slice(*policy.using_span)] == policy.using
    assert text[slice(*policy.check_span)] == policy.check
    assert [(read.name.text, read.missing_ok) for read in policy.reads] == [("app.tenant", True)]
    assert [(call.schema, call.name) for call in policy.calls] == [("app", "may_write")]


POLICIES = {
    "a policy for everybody has no roles": ("CREATE POLICY p ON t USING (true)", ("all", (), True, "true", None)),
    "PUBLIC is everybody": ("CREATE POLICY p ON t TO a, PUBLIC USING (x)", ("all", (), True, "x", None)),
    "a policy with a check alone": ("CREATE POLICY p ON t FOR INSERT WITH CHECK (x)", ("insert", (), True, None, "x")),
    "a policy that is altered": ("ALTER POLICY p ON t TO w USING (false)", ("all", ("w",), True, "false", None)),
    "a policy that is dropped": ("DROP POLICY IF EXISTS p ON t", ("all", (), True, None, None)),
    "a policy whose expression is a hole": (
        f"CREATE POLICY p ON t USING ({hole(0)})",
        ("all", (), True, hole(0), None),
    ),
    "a policy whose brackets are a hole": (f"CREATE POLICY p ON t USING {hole(0)}", ("all", (), True, hole(0), None)),
}


@pytest.mark.parametrize(("text", "expected"), POLICIES.values(), ids=POLICIES)
def test_a_policy(text: str, expected: tuple[str, tuple[str, ...], bool, str | None, str | None]) -> None:
    policy = one(text).policy
    assert policy is not None
    assert (policy.name, policy.table.name) == ("p", "t")
    assert (policy.command, policy.roles, policy.permissive, policy.using, policy.check) == expected


def test_what_a_policy_reads_is_not_read_now() -> None:
    statement = one("CREATE POLICY p ON t USING (id IN (SELECT id FROM s WHERE a = current_setting('x.y')))")
    assert (statement.reads, statement.setting_reads, statement.queries) == ((), (), ())


ROW_SECURITY = {
    "ENABLE": ("ALTER TABLE t ENABLE ROW LEVEL SECURITY", ["enable"]),
    "DISABLE": ("ALTER TABLE t DISABLE ROW LEVEL SECURITY", ["disable"]),
    "FORCE": ("ALTER TABLE ONLY t FORCE ROW LEVEL SECURITY", ["force"]),
    "NO FORCE": ("ALTER TABLE IF EXISTS t NO FORCE ROW LEVEL SECURITY", ["no force"]),
    "several at once": ("ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY", ["enable", "force"]),
    "a trigger that is enabled is none": ("ALTER TABLE t ENABLE TRIGGER ALL", []),
    "a hole as the table": (f"ALTER TABLE {hole(0)} ENABLE ROW LEVEL SECURITY", ["enable"]),
}


@pytest.mark.parametrize(("text", "actions"), ROW_SECURITY.values(), ids=ROW_SECURITY)
def test_row_security(text: str, actions: list[str]) -> None:
    assert [security.action for security in one(text).row_security] == actions


TABLES = {
    "columns, but no constraints": (
        "CREATE TABLE t (id bigint PRIMARY KEY, price numeric(10, 2) NOT NULL, UNIQUE (id), CHECK (id > 0), b text[])",
        [("id", "bigint", True), ("price", "numeric(10, 2)"), ("b", "text[]")],
    ),
    "quoted columns and types of several words": (
        'CREATE TABLE t ("At" timestamp with time zone DEFAULT now(), FOREIGN KEY (id) REFERENCES x (id))',
        [("At", "timestamp with time zone")],
    ),
    "a column of a quoted type": ('CREATE TABLE t (a "My Type" NOT NULL)', [("a", '"my type"')]),
    "a column without a type": ("CREATE TABLE t OF x (a NOT NULL)", []),
    "columns that are added": (
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS a int DEFAULT 0, ADD b text, ADD CONSTRAINT c CHECK (a > 0), DROP d",
        [("a", "int"), ("b", "text")],
    ),
    "columns that tell one row from all others": (
        "CREATE TABLE t (a int, key text UNIQUE, c int, CONSTRAINT p PRIMARY KEY (a), UNIQUE (a, c))",
        [("a", "int", True), ("key", "text", True), ("c", "int")],
    ),
    "a template of a table": ("CREATE TABLE {schema}.t (a {type} NOT NULL)", [("a", "{type}")]),
}


@pytest.mark.parametrize(("text", "columns"), TABLES.values(), ids=TABLES)
def test_the_shape_of_a_table(text: str, columns: list[tuple[str, str] | tuple[str, str, bool]]) -> None:
    shape = one(text).shape
    assert shape is not None
    assert shape.table.name == "t"
    assert shape.columns == tuple(Column(*column) for column in columns)


def test_the_owner_of_a_table() -> None:
    for text in ("ALTER TABLE t OWNER TO worker", "ALTER VIEW v OWNER TO worker"):
        shape = one(text).shape
        assert shape is not None
        assert shape.owner == "worker"


def test_a_default_may_read_the_tenant() -> None:
    (read,) = one("CREATE TABLE t (a uuid DEFAULT current_setting('app.tenant')::uuid)").setting_reads
    assert (read.name.text, read.missing_ok) == ("app.tenant", False)


ROLES = {
    "attributes": (
        "CREATE ROLE w LOGIN NOSUPERUSER BYPASSRLS PASSWORD 'x'",
        ("w", ("login", "nosuperuser", "bypassrls"), ()),
    ),
    "a user may log in": ("CREATE USER w NOINHERIT", ("w", ("login", "noinherit"), ())),
    "membership at birth": ("CREATE ROLE w IN ROLE a, b", ("w", (), ("a", "b"))),
    "attributes that change": ("ALTER ROLE w WITH NOBYPASSRLS", ("w", ("nobypassrls",), ())),
    "membership that is granted": ("GRANT a, b TO w", ("w", (), ("a", "b"))),
    "membership with options": ("GRANT a TO w WITH INHERIT TRUE", ("w", (), ("a",))),
}


@pytest.mark.parametrize(("text", "expected"), ROLES.values(), ids=ROLES)
def test_a_role(text: str, expected: tuple[str, tuple[str, ...], tuple[str, ...]]) -> None:
    role = one(text).role
    assert role is not None
    assert (role.name, role.attributes, role.member_of) == expected


def test_a_grant_to_several_names_them_all() -> None:
    role = one("GRANT a TO b, c, d").role
    assert role is not None
    assert (role.name, role.others) == ("b", ("c", "d"))


@pytest.mark.parametrize("text", ["GRANT SELECT ON t TO w", "REVOKE a FROM w", "GRANT ALL ON SCHEMA s TO w"])
def test_privileges_make_no_members(text: str) -> None:
    assert one(text).role is None


SETTINGS_OF_ROLES = {
    "a role's setting": ("ALTER ROLE w SET app.tenant = '1'", "w", "app.tenant"),
    "a role's setting in one database": ("ALTER ROLE w IN DATABASE d SET app.tenant = '1'", "w", "app.tenant"),
    "a database's setting": (
        "ALTER DATABASE d SET idle_in_transaction_session_timeout = '1min'",
        "d",
        "idle_in_transaction_session_timeout",
    ),
    "the server's setting": (
        "ALTER SYSTEM SET idle_in_transaction_session_timeout TO 60",
        "",
        "idle_in_transaction_session_timeout",
    ),
}


@pytest.mark.parametrize(("text", "name", "setting"), SETTINGS_OF_ROLES.values(), ids=SETTINGS_OF_ROLES)
def test_settings_of_roles_and_databases(text: str, name: str, setting: str) -> None:
    statement = one(text)
    assert statement.role is not None
    assert statement.role.name == name
    assert [change.name.text for change in statement.role.settings] == [setting]
    assert statement.settings == ()


def test_a_trigger_names_its_table_and_its_function() -> None:
    statement = one("CREATE TRIGGER a BEFORE UPDATE OF x ON s.t FOR EACH ROW EXECUTE FUNCTION app.touch()")
    assert statement.kind is Kind.CREATE_TRIGGER
    assert statement.shape is not None
    assert (statement.name, statement.shape.table.name) == ("a", "t")
    assert [(call.schema, call.name) for call in statement.calls] == [("app", "touch")]


def test_a_view_tells_what_it_will_read() -> None:
    statement = one("CREATE VIEW v AS SELECT * FROM a JOIN b USING (id) WITH CHECK OPTION")
    assert [table.name for table in statement.reads] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("DROP FUNCTION f", ("f",)),
        ("DROP FUNCTION IF EXISTS app.claim(integer, text), done(bigint) CASCADE", ("claim", "done")),
        ("DROP PROCEDURE reap()", ("reap",)),
        ("DROP ROUTINE reap", ("reap",)),
    ],
)
def test_functions_that_are_dropped(text: str, names: tuple[str, ...]) -> None:
    (statement,) = read_sql(text)
    assert statement.dropped_functions == names
