"""What the audit says that Alembic's revisions leave behind is what they leave on a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

pytest.importorskip("alembic")

from alembic import command
from alembic.config import Config

from tests.drivers.test_sqlalchemy import url
from tests.timeline.world import walked

if TYPE_CHECKING:
    from pathlib import Path

ENVIRONMENT = """
from alembic import context
from sqlalchemy import create_engine

with create_engine(context.config.get_main_option("sqlalchemy.url")).connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
"""
REVISION = """
import sqlalchemy as sa
from alembic import op

revision = "{name}"
down_revision = {after}
branch_labels = {labels}
TABLES = ("bills", "orders")


def upgrade():
{body}


def downgrade():
    for table in TABLES:
        op.execute(f"DROP POLICY never ON {{table}}")
"""
PROTECT = """
def protect(table):
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.get_bind().execute(sa.text("ALTER TABLE %s FORCE ROW LEVEL SECURITY" % table))
    op.execute(
        "CREATE POLICY {0}_tenant ON {0} USING (tenant_id = current_setting('app.tenant', true)::int)".format(table)
    )

for table in TABLES:
    op.create_table(table, sa.Column("id", sa.BigInteger(), primary_key=True), sa.Column("tenant_id", sa.Integer))
    protect(table)
op.execute(sa.text("CREATE TABLE notes (id int); CREATE TABLE tags (id int)"))
"""
LEFT = """
op.execute("ALTER TABLE orders NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY")
op.add_column("notes", sa.Column("tenant_id", sa.Integer()))
op.rename_table("notes", "remarks")
op.execute("CREATE POLICY twice ON remarks USING (false)")
"""
RIGHT = """
op.drop_table("tags")
op.execute('''
    ALTER POLICY bills_tenant ON bills
    USING (tenant_id = nullif(current_setting('app.tenant', true), '')::int)
''')
"""
MERGE = """
connection = op.get_bind()
for name in ["twice"]:
    connection.exec_driver_sql(f"DROP POLICY {name} ON remarks")
op.execute("CREATE POLICY twice ON remarks TO PUBLIC USING (true)")
"""


def revisions(folder: str) -> dict[str, str]:
    """The text of each revision, in files whose names tell another order."""
    made = {
        "z.py": ("a1", "None", '"base"', PROTECT),
        "y.py": ("b2", '"a1"', "None", LEFT),
        "x.py": ("c3", '("a1",)', '("other",)', RIGHT),
        "w.py": ("d4", '("b2", "c3")', "None", MERGE),
    }
    return {
        f"{folder}/{file}": REVISION.format(
            name=name, after=after, labels=labels, body="\n".join(f"    {line}" for line in body.splitlines())
        )
        for file, (name, after, labels, body) in made.items()
    }


def test_what_revisions_leave(database: str, tmp_path: Path) -> None:
    files = {"env.py": ENVIRONMENT, **revisions("versions")}
    catalogue = walked(tmp_path, files).program.catalogue
    config = Config()
    config.set_main_option("script_location", str(tmp_path))
    config.set_main_option("path_separator", "os")
    config.set_main_option("sqlalchemy.url", url(database, "psycopg").render_as_string(False).replace("%", "%%"))
    command.upgrade(config, "heads")
    with psycopg.connect(database) as conn:
        tables = conn.execute(
            "SELECT relname, relrowsecurity, relforcerowsecurity FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> 'alembic_version'"
        ).fetchall()
        policies = conn.execute("SELECT tablename, policyname, qual ILIKE '%nullif%' FROM pg_policies").fetchall()
        columns = conn.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns"
            " WHERE table_schema = 'public' AND table_name <> 'alembic_version'"
        ).fetchall()
    told = catalogue.tables.values()
    assert {(one.name, bool(one.enabled), bool(one.forced)) for one in told} == set(tables)
    known = [fact.policy for one in told for fact in one.policies]
    assert {(one.table.name, one.name, "nullif" in (one.using or "")) for one in known} == {
        (table, name, bool(mended)) for table, name, mended in policies
    }
    assert {
        (one.name, name, {"int": "integer"}.get(kind, kind)) for one in told for name, kind in one.columns.items()
    } == set(columns)
