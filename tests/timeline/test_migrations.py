"""Policies are judged as the last numbered migration leaves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.timeline.world import find

if TYPE_CHECKING:
    from pathlib import Path

TABLE = (
    "CREATE TABLE notes (id int, tenant_id uuid);\n"
    "ALTER TABLE notes ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;\n"
)
RAISES = "USING (tenant_id = current_setting('app.tenant', true)::uuid);\n"
HIDES = "USING (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);\n"
FIRST = f"{TABLE}CREATE POLICY own ON notes {RAISES}"


def places(folder: Path, **migrations: str) -> list[str]:
    files = {f"migrations/{name.removeprefix('_')}.sql": text for name, text in migrations.items()}
    return [f"{one.code} {one.place.path.removeprefix('migrations/')}" for one in find(folder, files)]


def test_what_a_later_migration_replaces_alters_or_switches_off_is_no_fault_any_more(tmp_path: Path) -> None:
    later = {
        "replaces": f"DROP POLICY own ON notes;\nCREATE POLICY own ON notes {HIDES}",
        "drops": "DROP POLICY IF EXISTS own ON notes;\n",
        "alters": f"ALTER POLICY own ON notes {HIDES}",
        "switches off": "ALTER TABLE notes DISABLE ROW LEVEL SECURITY;\n",
    }
    for how, text in later.items():
        assert places(tmp_path / how, _2_notes=FIRST, _10_mend=text) == [], how


def test_what_a_later_migration_breaks_is_reported_there(tmp_path: Path) -> None:
    first = f"{TABLE}CREATE POLICY own ON notes {HIDES}"
    later = f"DROP POLICY own ON notes;\nCREATE POLICY own ON notes {RAISES}"
    assert places(tmp_path, V1__notes=first, V2__notes=later) == ["TA602 V2__notes.sql"]


def test_what_takes_a_migration_back_changes_nothing(tmp_path: Path) -> None:
    back = "DROP POLICY own ON notes;\nALTER TABLE notes DISABLE ROW LEVEL SECURITY;\n"
    files = find(tmp_path, {"m/001_notes.up.sql": FIRST, "m/001_notes.down.sql": back, "m/002_more.down.sql": back})
    assert [one.code for one in files] == ["TA602"]
    same_file = {"m/001_table.sql": FIRST, "m/002_on.sql": f"{TABLE}-- migrate:down\n{back.splitlines()[1]}\n"}
    assert [one.code for one in find(tmp_path / "same", same_file)] == ["TA602"]


def test_files_without_a_number_tell_no_order(tmp_path: Path) -> None:
    assert places(tmp_path, notes=FIRST, teardown="DROP POLICY own ON notes;\n") == ["TA602 notes.sql"]


MIGRATION = """
from django.db import migrations


def back(apps, schema_editor):
    schema_editor.execute('''{back}''')


class Migration(migrations.Migration):
    operations = [
        migrations.RunPython(migrations.RunPython.noop, back),
        migrations.RunSQL('''{forth}''', reverse_sql='''{back}'''),
    ]
"""


def test_migrations_of_django_are_in_order_and_what_takes_them_back_is_left_out(tmp_path: Path) -> None:
    drop = "DROP POLICY own ON notes;"
    first = MIGRATION.format(forth=FIRST, back=drop)
    files = {"app/migrations/0001_notes.py": first}
    assert [one.code for one in find(tmp_path / "made", files)] == ["TA602"]
    files["app/migrations/0002_mend.py"] = MIGRATION.format(forth=drop, back=FIRST)
    assert [one.code for one in find(tmp_path / "dropped", files)] == []


PROTECTED = """
    CREATE TABLE letters (id bigint PRIMARY KEY, tenant_id uuid NOT NULL);
    ALTER TABLE letters ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON letters USING (tenant_id = current_setting('app.tenant', true)::uuid);
"""


PROSE = """
    '''Works under FORCE ROW LEVEL SECURITY, too.'''
    import psycopg
    # FORCE ROW LEVEL SECURITY comes later.
"""
UNSEEN = """
    import psycopg

    def force(conn, table):
        conn.execute("ALTER TABLE " + table + " FORCE ROW LEVEL SECURITY")
"""


def test_what_prose_says_of_row_security_forces_nothing(tmp_path: Path) -> None:
    assert [one for one in find(tmp_path / "a", {"1.sql": PROTECTED, "code.py": PROSE}) if one.code == "TA603"]
    assert not [one for one in find(tmp_path / "b", {"1.sql": PROTECTED, "code.py": UNSEEN}) if one.code == "TA603"]


CLAIM = """
CREATE OR REPLACE FUNCTION take() RETURNS SETOF jobs LANGUAGE sql AS $$
    UPDATE jobs SET state = 'running', lease_until = now() + interval '1 min' WHERE id = (
        SELECT id FROM jobs WHERE state = 'queued' OR lease_until < now() LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING *
$$;
CREATE OR REPLACE FUNCTION done(job bigint) RETURNS void LANGUAGE sql AS $$
    UPDATE jobs SET state = 'done' WHERE id = job
$$;
"""
CALLS = """
import psycopg

def work(handle):
    with psycopg.connect("", autocommit=True) as conn:
        for row in conn.execute("SELECT * FROM take()").fetchall():
            handle(row)
            conn.execute("SELECT done(%s)", (row[0],))
"""


def test_a_schema_that_is_kept_as_a_whole_tells_what_a_function_is(tmp_path: Path) -> None:
    """What the migrations left stands in it: there it can still be changed."""
    migration = {"worker.py": CALLS, "db/migrations/007_take.sql": CLAIM}
    alone = find(tmp_path, migration)
    both = find(tmp_path, {**migration, "db/schema.sql": CLAIM})
    assert {one.place.path for one in alone if one.code == "TA402"} == {"db/migrations/007_take.sql"}
    assert {one.place.path for one in both if one.code == "TA402"} == {"db/schema.sql"}
