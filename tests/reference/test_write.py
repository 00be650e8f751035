"""The reference as a command writes it, with a team's own names: it has to run with them."""

from __future__ import annotations

import contextlib
import re
import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from auditor import cli
from auditor.reference.write import FILES, FOLDER, Names, rename
from tests.reference.harness import PATIENCE, eventually, load_written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = {
    "ours": [],
    "a schema": ["--schema=acme"],
    "plain": ["--schema=acme", "--jobs-table=tasks", "--tenant-column=org_id", "--setting=acme.org"],
    "uuid": ["--tenant-type=uuid", "--tenant-column=tenant"],
    "text": ["--tenant-type=text", "--setting=my.tenant.id"],
    "in quotes": ["--schema=My App", "--jobs-table=order", "--tenant-column=Org-Id", "--setting=acme.org_id"],
    "confusable": ["--schema=jobs", "--jobs-table=app_jobs", "--tenant-column=app", "--setting=jobs.app"],
}
TENANT = {"uuid": "1b4e28ba-2fa1-11d2-883f-0016d3cca427", "text": "ümlaut"}


@contextlib.contextmanager
def in_thread(worker: Any) -> Iterator[None]:
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(PATIENCE)


@pytest.mark.parametrize("what", NAMES)
def test_what_is_written_runs(written: Path, database: str, what: str) -> None:
    """The schema is made twice; one job is enqueued, run as its tenant and finished, and one that was lost before."""
    assert cli.main(["reference", str(written), *NAMES[what]]) == 0
    words = dict(word[2:].split("=", 1) for word in NAMES[what])
    schema, setting = words.get("schema", "app"), words.get("setting", "app.tenant")
    jobs, role = f'"{schema}"."{words.get("jobs-table", "jobs")}"', f"{schema}_tenant"
    tenant = TENANT.get(words.get("tenant-type", ""), "7")
    worker, new_job, options = load_written("worker"), load_written("jobs").NewJob, load_written("jobs").Options
    handlers, ran = worker.Handlers(), []

    def run(job: Any) -> None:
        with job.transaction() as conn:
            ran.append((job.tenant, conn.execute("SELECT current_user::text").fetchone()[0]))
        with job.finish() as conn:
            conn.execute(f'INSERT INTO "{schema}".invoices (number) VALUES (%s)', (str(job.id),))

    handlers.on("write", dict[str, Any])(run)
    with psycopg.connect(database, autocommit=True) as admin:
        text = (written / "schema.sql").read_text(encoding="utf-8")
        admin.execute(text)
        admin.execute(text)
        with admin.transaction():
            admin.execute("SELECT set_config('role', %s, true), set_config(%s, %s, true)", (role, setting, tenant))
            first, again = worker.enqueue(admin, new_job("write", key="k"), new_job("write", key="k"))
            (lost,) = worker.enqueue(admin, new_job("write"))
        assert again is None
        admin.execute(
            f"UPDATE {jobs} SET status = 'running', attempts = 1, fence = 1, worker = 'w', deadline = run_at,"
            " locked_until = run_at WHERE id = %s",
            (lost,),
        )
        dsn = re.sub("user=lab", f"user='{schema}_worker'", database)
        done = f"SELECT count(*) FROM {jobs} WHERE status = 'done'"
        with in_thread(worker.Worker(dsn, handlers, options(poll=0.05, backoff=0, listen=True))):
            eventually(lambda: admin.execute(done).fetchone() == (2,))
        rows = admin.execute(f'SELECT * FROM "{schema}".invoices ORDER BY number').fetchall()
    assert ran == [(tenant, role)] * 2
    assert [(str(row[1]), row[2]) for row in rows] == [(tenant, str(first)), (tenant, str(lost))]


@pytest.mark.parametrize("what", ["plain", "in quotes"])
def test_with_other_names_there_is_nothing_to_report_either(
    written: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    assert cli.main(["reference", str(written), *NAMES[what]]) == 0
    assert capsys.readouterr().out.splitlines() == [str(written / name) for name in FILES]
    for name in FILES:
        text = (written / name).read_text(encoding="utf-8")
        assert not re.search(r"\b(app_(owner|worker|tenant)|tenant_id|app\.(jobs|tenant))\b", text), name
    monkeypatch.chdir(written.parent)
    words = ["--min-severity=note", "--min-confidence=low", "--fail-on=note", "--jobs=1", "written"]
    assert cli.main(words) == 0


def test_our_own_names_change_nothing() -> None:
    for name in FILES:
        text = (FOLDER / name).read_text(encoding="utf-8")
        assert rename(text, Names(), name) == text


def test_nothing_is_written_over_unless_it_is_forced(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written.mkdir()
    (written / "worker.py").write_text("mine")
    (written / "__init__.py").write_text("mine")
    assert cli.main(["reference", str(written)]) == 2
    told = f"tenant-audit: {written / 'worker.py'}: there already; --force writes over it\n"
    assert capsys.readouterr().err == told
    assert sorted(path.name for path in written.iterdir()) == ["__init__.py", "worker.py"]
    assert (written / "worker.py").read_text() == "mine"
    assert cli.main(["reference", "--force", str(written)]) == 0
    assert sorted(path.name for path in written.iterdir()) == sorted(FILES)
    assert (written / "worker.py").read_text() != "mine"
    assert (written / "__init__.py").read_text() == "mine"  # a package's own file stays


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--schema=a;b", "is no name"),
        ("--schema=pg_mine", "PostgreSQL keeps for itself"),
        ('--jobs-table=x"y', "is no name"),
        ("--jobs-table=", "is no name"),
        ("--jobs-table=claimed", "calls something else"),
        ("--tenant-column=status", "calls something else"),
        ("--tenant-column=" + "x" * 49, "is no name"),
        ("--tenant-type=int[]", "is none of bigint"),
        ("--setting=tenant", "is no custom setting"),
        ("--setting=app.te'nant", "is no custom setting"),
    ],
)
def test_what_is_no_name_is_refused(written: Path, capsys: pytest.CaptureFixture[str], option: str, told: str) -> None:
    assert cli.main(["reference", str(written), option]) == 2
    assert told in capsys.readouterr().err
    assert not written.exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert cli.main(["reference", str(tmp_path / "file" / "below")]) == 2
    assert "cannot be written" in capsys.readouterr().err
