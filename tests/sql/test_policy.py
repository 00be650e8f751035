"""What policies come to, and PostgreSQL's own verdict on the same expressions."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from auditor.sql.meaning import hole
from auditor.sql.policy import Outcome, outcomes

if TYPE_CHECKING:
    from collections.abc import Iterator

FUNCTIONS = {
    "current_tenant_id": "nullif(current_setting('app.tenant', true), '')::uuid",
    "naive_tenant_id": "current_setting('app.tenant', true)::uuid",
    "strict_tenant_id": "current_setting('app.tenant')::uuid",
    "wrapped_tenant_id": "coalesce(current_tenant_id(), '00000000-0000-0000-0000-000000000000'::uuid)",
    "is_admin": "coalesce(current_setting('app.admin', true), 'off') = 'on'",
}

NOBODY = "00000000-0000-0000-0000-000000000000"
HIDES, SHOWS, RAISES, DEPENDS = Outcome.HIDES, Outcome.SHOWS, Outcome.RAISES, Outcome.DEPENDS

#: An expression, and what it comes to when the tenant setting is missing, and when it is empty.
POLICIES: list[tuple[str, Outcome, Outcome]] = [
    # comparisons and casts
    ("tenant_id = current_setting('app.tenant')::uuid", RAISES, RAISES),
    ("tenant_id = current_setting('app.tenant', true)::uuid", HIDES, RAISES),
    ("tenant_id = nullif(current_setting('app.tenant', true), '')::uuid", HIDES, HIDES),
    ("tenant_id = nullif(current_setting('app.tenant'), '')::uuid", RAISES, HIDES),
    ("org = current_setting('app.tenant', true)::int", HIDES, RAISES),
    ("org = current_setting('app.tenant', true)::bigint", HIDES, RAISES),
    ("org = cast(current_setting('app.tenant', true) as integer)", HIDES, RAISES),
    ("org = nullif(current_setting('app.tenant', true), '')::integer", HIDES, HIDES),
    ("tenant = current_setting('app.tenant', true)", HIDES, HIDES),
    ("tenant = current_setting('app.tenant')", RAISES, HIDES),
    ("tenant_id::text = current_setting('app.tenant', true)", HIDES, HIDES),
    ("tenant_id::varchar = current_setting('app.tenant', true)::varchar", HIDES, HIDES),
    ("current_setting('app.tenant', true)::uuid = tenant_id", HIDES, RAISES),
    ("(tenant_id = (current_setting('app.tenant'::text, true))::uuid)", HIDES, RAISES),
    ("tenant_id = current_setting('App.Tenant', true)::uuid", HIDES, RAISES),
    ("org::numeric = current_setting('app.tenant', true)::numeric", HIDES, RAISES),
    ("deleted_at < current_setting('app.tenant', true)::timestamptz", HIDES, RAISES),
    ("current_setting('app.tenant', true)::boolean", HIDES, RAISES),
    # failing open
    ("current_setting('app.tenant', true) is null or tenant = current_setting('app.tenant', true)", SHOWS, HIDES),
    ("current_setting('app.tenant', true) = '' or tenant = current_setting('app.tenant', true)", HIDES, SHOWS),
    ("coalesce(current_setting('app.tenant', true), '') = '' or tenant = 'x'", SHOWS, SHOWS),
    ("nullif(current_setting('app.tenant', true), '') is null or org = 1", SHOWS, SHOWS),
    ("tenant = coalesce(nullif(current_setting('app.tenant', true), ''), tenant)", SHOWS, SHOWS),
    ("coalesce(nullif(current_setting('app.tenant', true), '')::uuid, tenant_id) = tenant_id", SHOWS, SHOWS),
    ("tenant = coalesce(current_setting('app.tenant', true), tenant)", SHOWS, HIDES),
    ("tenant is distinct from current_setting('app.tenant', true)", SHOWS, SHOWS),
    ("tenant <> current_setting('app.tenant', true)", HIDES, SHOWS),
    ("not (tenant <> current_setting('app.tenant', true))", HIDES, HIDES),
    ("true", SHOWS, SHOWS),
    ("false", HIDES, HIDES),
    # other columns of the row
    ("deleted_at is null and tenant_id = current_setting('app.tenant', true)::uuid", HIDES, RAISES),
    ("tenant_id = nullif(current_setting('app.tenant', true), '')::uuid and not is_public", HIDES, HIDES),
    ("is_public or tenant = current_setting('app.tenant', true)", DEPENDS, DEPENDS),
    ("is_public or tenant_id = current_setting('app.tenant', true)::uuid", DEPENDS, DEPENDS),
    ("tenant is null or tenant = current_setting('app.tenant', true)", HIDES, HIDES),
    # conditionals
    ("case current_setting('app.tenant', true) when '' then false else org = 1 end", DEPENDS, HIDES),
    ("case when nullif(current_setting('app.tenant', true), '') is null then true else false end", SHOWS, SHOWS),
    ("case when current_setting('app.tenant', true) ~ '^1$' then org = 1 else false end", HIDES, DEPENDS),
    (
        "case current_setting('app.tenant', true) ~ '1' when true then current_setting('app.tenant', true)::bool end",
        HIDES,
        DEPENDS,
    ),
    ("case current_setting('app.tenant', true) when '' then true else tenant = 'x' end", DEPENDS, SHOWS),
    (f"tenant_id = coalesce(nullif(current_setting('app.tenant', true), ''), '{NOBODY}')::uuid", DEPENDS, DEPENDS),
    ("org = coalesce(nullif(current_setting('app.tenant', true), ''), '0')::int", DEPENDS, DEPENDS),
    ("coalesce(nullif(current_setting('app.tenant', true), ''), '0')::int > 0", HIDES, HIDES),
    ("coalesce(current_setting('app.tenant', true), '0')::int > 0", HIDES, RAISES),
    ("length(current_setting('app.tenant', true)) > 0 and tenant = current_setting('app.tenant', true)", HIDES, HIDES),
    # lists and arrays
    ("tenant in (current_setting('app.tenant', true))", HIDES, HIDES),
    ("tenant not in (current_setting('app.tenant', true))", HIDES, SHOWS),
    ("tenant = any(string_to_array(current_setting('app.tenant', true), ','))", HIDES, HIDES),
    ("tenant_id = any(string_to_array(current_setting('app.tenant', true), ',')::uuid[])", HIDES, HIDES),
    ("tenant_id = any(current_setting('app.tenant', true)::uuid[])", HIDES, RAISES),
    ("tenant_id = any(('{' || current_setting('app.tenant', true) || '}')::uuid[])", HIDES, HIDES),
    ("tenant = any(regexp_split_to_array(current_setting('app.tenant', true), ','))", HIDES, HIDES),
    ("tenant_id = any(regexp_split_to_array(current_setting('app.tenant', true), ',')::uuid[])", HIDES, RAISES),
    ("tenant_id in (select unnest(string_to_array(current_setting('app.tenant', true), ','))::uuid)", HIDES, HIDES),
    ("tenant in (select unnest(string_to_array(current_setting('app.tenant', true), ',')))", HIDES, HIDES),
    ("tenant_id = any(array[current_setting('app.tenant', true)::uuid])", HIDES, RAISES),
    # json
    ("tenant = current_setting('app.tenant', true)::jsonb ->> 'tenant'", HIDES, RAISES),
    ("tenant = (current_setting('app.tenant', true)::json ->> 'tenant')", HIDES, RAISES),
    ("tenant = nullif(current_setting('app.tenant', true), '')::jsonb ->> 'tenant'", HIDES, HIDES),
    # text functions
    ("lower(tenant) = lower(current_setting('app.tenant', true))", HIDES, HIDES),
    ("tenant = trim(current_setting('app.tenant', true))", HIDES, HIDES),
    ("tenant like current_setting('app.tenant', true)", HIDES, DEPENDS),
    ("tenant = 't-' || current_setting('app.tenant', true)", HIDES, DEPENDS),
    ("tenant = concat('t-', current_setting('app.tenant', true))", DEPENDS, DEPENDS),
    ("tenant = split_part(current_setting('app.tenant', true), '/', 1)", HIDES, HIDES),
    # subqueries
    ("tenant_id = (select current_setting('app.tenant', true)::uuid)", HIDES, RAISES),
    ("tenant_id = (select nullif(current_setting('app.tenant', true), '')::uuid)", HIDES, HIDES),
    ("exists (select 1 from members m where m.member = current_setting('app.tenant', true))", HIDES, HIDES),
    ("tenant_id in (select tenant_id from members where member = current_setting('app.tenant', true))", HIDES, HIDES),
    ("org in (select org from members where org = current_setting('app.tenant', true)::int)", HIDES, RAISES),
    ("not exists (select 1 from members where member = current_setting('app.tenant', true))", SHOWS, SHOWS),
    ("tenant_id in (select tenant_id from members)", DEPENDS, DEPENDS),
    # functions
    ("tenant_id = current_tenant_id()", HIDES, HIDES),
    ("tenant_id = naive_tenant_id()", HIDES, RAISES),
    ("tenant_id = strict_tenant_id()", RAISES, RAISES),
    ("tenant_id = wrapped_tenant_id()", DEPENDS, DEPENDS),
    ("tenant_id = current_tenant_id() or is_admin()", DEPENDS, DEPENDS),
    ("(select current_tenant_id()) is not null and tenant_id = (select current_tenant_id())", HIDES, HIDES),
    # other settings
    ("current_setting('app.admin', true) = 'on' or tenant = current_setting('app.tenant', true)", DEPENDS, DEPENDS),
    ("current_user = 'judge' or tenant = current_setting('app.tenant', true)", DEPENDS, DEPENDS),
    # where the order of evaluation decides
    ("current_setting('app.tenant', true) <> '' and org = current_setting('app.tenant', true)::int", HIDES, DEPENDS),
    ("current_setting('app.tenant', true) is null or org = current_setting('app.tenant')::int", DEPENDS, RAISES),
]


def is_tenant(name: str) -> bool:
    return name == "app.tenant"


@pytest.mark.parametrize(("expression", "missing", "empty"), POLICIES, ids=[policy[0] for policy in POLICIES])
def test_a_policy_comes_to(expression: str, missing: Outcome, empty: Outcome) -> None:
    found = outcomes(expression, FUNCTIONS, is_tenant)
    assert (found.missing.value, found.empty.value) == (missing.value, empty.value)


# PostgreSQL's verdict

#: One row at a time, so that what other rows do cannot hide an error: open and deleted or not.
_WORLDS = list(itertools.product((True, False), (None, "2020-01-01")))
_TENANT = "11111111-1111-1111-1111-111111111111"


class Judge:
    """Puts a policy on a table and looks whether a row is seen."""

    def __init__(self, owner: psycopg.Connection, worker: psycopg.Connection) -> None:
        self.owner = owner
        self.worker = worker

    def verdict(self, expression: str) -> Outcome:
        self.owner.execute("DROP POLICY IF EXISTS tenant ON docs")
        self.owner.execute(f"CREATE POLICY tenant ON docs USING ({expression})".encode())
        seen = {self._seen(*world) for world in _WORLDS}
        if seen == {False}:
            return HIDES
        if seen == {True}:
            return SHOWS
        return RAISES if None in seen and True not in seen else DEPENDS

    def _seen(self, is_public: bool, deleted_at: str | None) -> bool | None:
        """Whether the row is shown; None where looking raises."""
        self.owner.execute("TRUNCATE docs")
        self.owner.execute(
            "INSERT INTO docs VALUES (%s, 'acme', 1, %s, %s::timestamptz)", (_TENANT, is_public, deleted_at)
        )
        try:
            return self.worker.execute("SELECT 1 FROM docs").fetchone() is not None
        except psycopg.Error:
            return None


@pytest.fixture(scope="module")
def owner(postgres_dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE worker LOGIN")
        connection.execute(
            "CREATE TABLE docs (tenant_id uuid, tenant text, org int, is_public bool, deleted_at timestamptz)"
        )
        connection.execute("CREATE TABLE members (tenant_id uuid, member text, org int)")
        connection.execute("INSERT INTO members VALUES (%s, 'somebody', 1)", (_TENANT,))
        connection.execute("ALTER TABLE docs ENABLE ROW LEVEL SECURITY")
        connection.execute("GRANT SELECT ON docs, members TO worker")
        for name, body in FUNCTIONS.items():
            returns = sql.SQL("boolean" if name == "is_admin" else "uuid")
            connection.execute(
                sql.SQL("CREATE FUNCTION {}() RETURNS {} STABLE LANGUAGE sql AS {}").format(
                    sql.Identifier(name), returns, sql.Literal(f"SELECT {body}")
                )
            )
        yield connection


@pytest.fixture(scope="module")
def without_setting(postgres_dsn: str, owner: psycopg.Connection) -> Iterator[Judge]:
    """A session that has never set the tenant."""
    with psycopg.connect(postgres_dsn, user="worker", autocommit=True) as connection:
        yield Judge(owner, connection)


@pytest.fixture(scope="module")
def after_setting(postgres_dsn: str, owner: psycopg.Connection) -> Iterator[Judge]:
    """A session whose local tenant has ended with its transaction."""
    with psycopg.connect(postgres_dsn, user="worker", autocommit=True) as connection:
        with connection.transaction():
            connection.execute("SELECT set_config('app.tenant', %s, true)", (_TENANT,))
        assert connection.execute("SELECT current_setting('app.tenant', true)").fetchone() == ("",)
        yield Judge(owner, connection)


@pytest.mark.parametrize(("expression", "missing", "empty"), POLICIES, ids=[policy[0] for policy in POLICIES])
def test_postgresql_says_the_same(
    expression: str, missing: Outcome, empty: Outcome, without_setting: Judge, after_setting: Judge
) -> None:
    for expected, judge in ((missing, without_setting), (empty, after_setting)):
        verdict = judge.verdict(expression)
        assert expected in (DEPENDS, verdict), f"PostgreSQL {verdict.value}"


def test_the_settings_that_are_read_are_named() -> None:
    found = outcomes(
        "current_setting('app.admin', true) = 'on' or tenant_id = current_tenant_id()", FUNCTIONS, is_tenant
    )
    assert found.settings == ("app.admin", "app.tenant")
    assert found.reads_tenant


def test_an_expression_without_settings_reads_no_tenant() -> None:
    assert not outcomes("owner = current_user", FUNCTIONS, is_tenant).reads_tenant


def test_functions_that_call_each_other_come_to_an_end() -> None:
    found = outcomes("tenant = f()", {"f": "g()", "g": "f()"}, is_tenant)
    assert found.missing is DEPENDS


@pytest.mark.parametrize("expression", ["", "((", "tenant_id = ", "a b c", "\x00", "(" * 5000])
def test_what_cannot_be_read_depends(expression: str) -> None:
    assert outcomes(expression, {}, is_tenant).missing is DEPENDS


def test_a_setting_is_named_even_where_the_rest_cannot_be_read() -> None:
    assert outcomes("tenant_id = ) current_setting('app.tenant')", {}, is_tenant).settings == ("app.tenant",)


@pytest.mark.parametrize("value", [f"{hole(0)}", f"t-{hole(0)}", "{organisation}", "%s", "%(organisation)s"])
def test_a_literal_that_is_filled_in_later_is_no_value_that_a_cast_refuses(value: str) -> None:
    found = outcomes(f"nullif(current_setting('app.tenant', true), '')::uuid = '{value}'::uuid", {}, is_tenant)
    assert (found.missing, found.empty) == (HIDES, HIDES)


def test_an_empty_array_is_no_hole() -> None:
    found = outcomes("org = any(coalesce(current_setting('app.tenant', true), '{}')::int[])", {}, is_tenant)
    assert (found.missing, found.empty) == (HIDES, RAISES)
