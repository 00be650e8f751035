"""Whom row security binds, and which tables: what TA603, TA604 and TA606 rest on, and what outlives a job (TA106)."""

from __future__ import annotations

import psycopg
from psycopg_pool import ConnectionPool

TABLES = """
CREATE ROLE {0}_owner; CREATE ROLE {0}_app; CREATE ROLE {0}_all BYPASSRLS;
GRANT ALL ON SCHEMA public TO {0}_owner, {0}_app, {0}_all;
SET ROLE {0}_owner;
CREATE TABLE invoices AS SELECT n AS id, 't' || n AS tenant FROM generate_series(1, 3) AS n;
CREATE TABLE notes AS SELECT * FROM invoices;
ALTER TABLE invoices ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON invoices USING (tenant = current_setting('app.tenant', true));
GRANT SELECT ON invoices, notes TO {0}_app, {0}_all;
RESET ROLE;
"""


def seen(conn: psycopg.Connection[tuple[int]], role: str, table: str = "invoices", tenant: str = "") -> int:
    with conn.transaction():
        conn.execute(f"SET LOCAL ROLE {role}")
        conn.execute("SELECT set_config('app.tenant', %s, true)", (tenant,))
        row = conn.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row is not None
    return row[0]


def test_whom_row_security_binds(database: str) -> None:
    name = database.rpartition("=")[2]
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(TABLES.format(name))
        owner, app, every = f"{name}_owner", f"{name}_app", f"{name}_all"
        try:
            assert (seen(conn, owner, tenant="t1"), seen(conn, owner)) == (3, 3)
            assert (seen(conn, app, tenant="t1"), seen(conn, app)) == (1, 0)
            assert (seen(conn, every, tenant="t1"), seen(conn, every)) == (3, 3)
            assert seen(conn, app, "notes", tenant="t1") == 3
            conn.execute("ALTER TABLE invoices FORCE ROW LEVEL SECURITY")
            assert (seen(conn, owner, tenant="t1"), seen(conn, owner)) == (1, 0)
            assert seen(conn, every) == 3
        finally:
            conn.execute(f"DROP OWNED BY {owner}, {app}, {every}")
            conn.execute(f"DROP ROLE {owner}, {app}, {every}")


def test_who_has_the_rights_of_an_owner(database: str) -> None:
    name = database.rpartition("=")[2]
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(TABLES.format(name))
        heir, aloof, child = f"{name}_heir", f"{name}_aloof", f"{name}_child"
        roles = (f"{name}_owner", f"{name}_app", f"{name}_all", heir, aloof, child)
        conn.execute(f"CREATE ROLE {heir}; CREATE ROLE {aloof} NOINHERIT; CREATE ROLE {child}")
        try:
            conn.execute(f"GRANT {name}_owner TO {heir}, {aloof}; GRANT {name}_all TO {child}")
            conn.execute(f"GRANT SELECT ON invoices TO {heir}, {aloof}, {child}")
            assert seen(conn, heir, tenant="t1") == 3
            # Without INHERIT the owner's rights are had only as the owner; BYPASSRLS is no right that is handed on.
            assert seen(conn, aloof, tenant="t1") == 1
            assert seen(conn, child, tenant="t1") == 1
        finally:
            conn.execute(f"DROP OWNED BY {', '.join(roles)}")
            conn.execute(f"DROP ROLE {', '.join(roles)}")


def test_whose_tables_the_next_job_reads(database: str) -> None:
    with ConnectionPool(database, min_size=1, max_size=1) as pool:

        def job(scope: str, fails: bool = False) -> str:
            try:
                with pool.connection() as conn:
                    conn.execute(f"SET {scope} search_path TO one, public")
                    assert not fails
            except AssertionError:
                assert fails
            with pool.connection() as conn:
                row = conn.execute("SELECT current_schema()").fetchone()
                conn.execute("RESET search_path")
            assert row is not None
            return str(row[0])

        with pool.connection() as conn:
            conn.execute("CREATE SCHEMA one")
        assert job("SESSION") == "one"
        assert job("SESSION", fails=True) == "public"
        assert job("LOCAL") == "public"
