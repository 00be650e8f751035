"""Policies are judged as the last of Alembic's revisions leaves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.timeline.world import find, walked

if TYPE_CHECKING:
    from pathlib import Path

RAISES = "USING (tenant_id = current_setting('app.tenant', true)::uuid)"
HIDES = "USING (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid)"
OPENS = "USING (current_setting('app.tenant', true) IS NULL OR tenant_id = current_setting('app.tenant', true))"


def revision(name: str, after: str | None, upgrade: str, downgrade: str = "pass", top: str = "") -> str:
    """The text of a revision whose functions have these bodies."""
    body = "".join(f"    {line}\n" for line in upgrade.strip().splitlines())
    return (
        "from alembic import op\nimport sqlalchemy as sa\n"
        f"revision = {name!r}\ndown_revision: str | None = {after!r}\n{top}\n\n"
        f"def upgrade() -> None:\n{body}\n\ndef downgrade() -> None:\n    {downgrade}\n"
    )


def found(folder: Path, *texts: str, **more: str) -> list[str]:
    """`code file:line` of what is found in revisions, which are in files that tell nothing of their order."""
    files = {f"alembic/versions/{chr(ord('z') - number)}.py": text for number, text in enumerate(texts)}
    files |= {f"{name}.py": text for name, text in more.items()}
    return [
        f"{one.code} {one.place.path.removeprefix('alembic/versions/')}:{one.place.line}" for one in find(folder, files)
    ]


FIRST = revision("a1", None, f'op.execute("CREATE POLICY own ON notes {RAISES}")')

MENDS = {
    "dropped": 'op.execute("DROP POLICY IF EXISTS own ON notes")',
    "dropped with its table": 'op.drop_table("notes")',
    "dropped with its table, in SQL": 'op.execute("DROP TABLE IF EXISTS others, notes CASCADE")',
    "altered": f'op.execute("ALTER POLICY own ON notes {HIDES}")',
    "replaced": f'op.execute("DROP POLICY own ON notes")\nop.execute("CREATE POLICY own ON notes {HIDES}")',
    "renamed first": 'op.rename_table("notes", "remarks")\nop.execute("DROP POLICY own ON remarks")',
    "dropped by a loop": ('for table in ("notes", "bills"):\n    op.execute(f"DROP POLICY own ON {table}")'),
    "dropped through the connection": (
        'connection = op.get_bind()\nconnection.execute(sa.text("DROP POLICY own ON notes"))'
    ),
    "dropped by rows that nobody sees": (
        'for row in op.get_bind().execute(sa.text("SELECT tablename FROM pg_tables")):\n'
        '    op.execute(f"DROP POLICY own ON {row.tablename}")'
    ),
}


def test_what_a_later_revision_mends_is_no_fault(tmp_path: Path) -> None:
    assert found(tmp_path / "alone", FIRST) == ["TA602 z.py:8"]
    for how, body in MENDS.items():
        assert found(tmp_path / how, FIRST, revision("b2", "a1", body)) == [], how


def test_the_order_is_that_of_the_revisions(tmp_path: Path) -> None:
    drop = revision("b2", "a1", 'op.execute("DROP POLICY own ON notes")')
    again = revision("c3", "b2", f'op.execute("CREATE POLICY own ON notes {OPENS}")')
    assert found(tmp_path / "again", FIRST, drop, again) == ["TA605 x.py:8"]
    assert found(tmp_path / "in other files", again, drop, FIRST) == ["TA605 z.py:8"]


def test_branches_are_run_before_what_merges_them(tmp_path: Path) -> None:
    left = revision("b2", "a1", f'op.execute("CREATE POLICY other ON notes {OPENS}")')
    right = revision("c3", "a1", 'op.add_column("notes", sa.Column("tenant_id", sa.UUID()))')
    merge = revision("d4", None, 'op.execute("DROP POLICY other ON notes")').replace("= None", '= ("b2", "c3")')
    assert found(tmp_path, merge, left, right, FIRST) == ["TA602 w.py:8"]


def test_without_their_words_revisions_are_run_by_the_names_of_their_files(tmp_path: Path) -> None:
    first = 'from alembic import op\n\ndef upgrade():\n    op.execute("CREATE POLICY own ON notes {}")\n'
    files = {"v/001_on.py": first.format(RAISES), "v/002_off.py": first.format(HIDES).replace("CREATE", "ALTER")}
    assert [one.code for one in find(tmp_path, files)] == []


def test_what_takes_a_revision_back_is_left_out(tmp_path: Path) -> None:
    down = f'op.execute("CREATE POLICY own ON notes {RAISES}")'
    up = 'op.execute("DROP POLICY IF EXISTS own ON notes")'
    assert found(tmp_path / "drops", revision("a1", None, up, down)) == []
    helper = f"def back():\n    {down}\n"
    assert found(tmp_path / "through a function", revision("a1", None, up, "back()", helper)) == []


HELPER = """
from alembic import op

def protect(table, setting="app.tenant"):
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY {table}_own ON {table} USING (tenant_id = current_setting('{setting}', true)::uuid)")
"""


def test_helpers_of_another_module_and_constants_are_followed(tmp_path: Path) -> None:
    top = 'from schema import protect\nTABLES = ["notes", "bills"]'
    up = "for table in TABLES:\n    protect(table)"
    made = revision("a1", None, up, "pass", top)
    assert found(tmp_path / "made", made, schema=HELPER) == ["TA602 schema.py:7"]
    mend = 'for table in sorted(TABLES):\n    op.execute(sa.text("DROP POLICY {0}_own ON {0}".format(table)))'
    mended = revision("b2", "a1", mend, "pass", top.splitlines()[1])
    assert found(tmp_path / "mended", made, mended, schema=HELPER) == []


def test_what_revisions_leave_of_tables(tmp_path: Path) -> None:
    make = 'op.create_table("notes", sa.Column("id", sa.BigInteger(), primary_key=True), sa.Column("body", sa.Text))'
    files = {
        "versions/1.py": revision("a1", None, f"{make}\nprotect('notes')", "pass", HELPER),
        "versions/2.py": revision("b2", "a1", 'op.add_column("notes", sa.Column("tenant_id", sa.UUID()))'),
        "versions/3.py": revision("c3", "b2", 'op.execute("ALTER TABLE notes NO FORCE ROW LEVEL SECURITY")'),
    }
    facts = walked(tmp_path, files).program.catalogue.tables["notes"]
    assert facts.columns == {"id": "bigint", "body": "text", "tenant_id": "uuid"}
    assert ([place.path for place in facts.enabled], facts.forced) == (["versions/1.py"], [])
    assert [fact.policy.name for fact in facts.policies] == ["notes_own"]


def test_what_is_not_seen_to_run_is_judged_as_it_is_written(tmp_path: Path) -> None:
    top = f'STATEMENTS = load("CREATE POLICY own ON notes {RAISES}")'
    text = revision("a1", None, "for statement in STATEMENTS:\n    op.execute(statement)", "pass", top)
    assert found(tmp_path, text) == ["TA602 z.py:5"]
