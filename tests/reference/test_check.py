"""Whether a live database carries what the workers need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from auditor import cli
from auditor.reference.write import FOLDER, Names, rename

if TYPE_CHECKING:
    from pathlib import Path

    from tests.reference.harness import Queue

CLEAN = "the database carries what the workers need"


def told(capsys: pytest.CaptureFixture[str], dsn: str, *words: str) -> tuple[int, list[str]]:
    code = cli.main(["reference", "--check", dsn, *words])
    return code, capsys.readouterr().out.splitlines()


def test_a_database_that_has_it_all(queue: Queue, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, queue.worker_dsn) == (0, [CLEAN])
    assert told(capsys, queue.worker_dsn, "--quiet") == (0, [])


def test_a_database_with_other_names(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = Names("acme", "tasks", "org_id", "uuid", "acme.org")
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(rename((FOLDER / "schema.sql").read_text(encoding="utf-8"), names, "schema.sql"))
    words = ["--schema=acme", "--jobs-table=tasks", "--tenant-column=org_id", "--setting=acme.org"]
    dsn = database.replace("user=lab", "user=acme_worker")
    assert told(capsys, dsn, *words, "--tenant-type=uuid") == (0, [CLEAN])
    assert told(capsys, dsn, *words) == (1, ["tasks.org_id: is uuid, and should be bigint"])


def test_what_is_missing_is_told(queue: Queue, capsys: pytest.CaptureFixture[str]) -> None:
    queue.admin.execute(
        "ALTER TABLE app.jobs DROP COLUMN fence; ALTER TABLE app.jobs ALTER attempts TYPE numeric;"
        "DROP INDEX app.jobs_running; DROP FUNCTION app.hold_job; ALTER FUNCTION app.finish_job RESET search_path;"
        "ALTER TABLE app.invoices NO FORCE ROW LEVEL SECURITY"
    )
    assert told(capsys, queue.worker_dsn) == (
        1,
        [
            "jobs.attempts: is numeric, and should be integer",
            "jobs.fence: is missing (bigint)",
            "jobs_running: this index is missing",
            "hold_job: this function is missing",
            "finish_job: is not SECURITY DEFINER with search_path = pg_catalog, pg_temp",
            "invoices: row security is not forced, so its owner sees every tenant's rows",
        ],
    )


def test_what_a_worker_would_refuse_is_told(queue: Queue, capsys: pytest.CaptureFixture[str]) -> None:
    code, (line,) = told(capsys, queue.dsn)
    assert code == 1
    assert line.startswith("a worker would refuse to start: lab is a superuser, whom no row security binds: let the")


def test_an_empty_database(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = told(capsys, database)
    assert code == 1
    assert lines[1:3] == [
        "jobs: there is no such table that this login may see",
        "job_runs: there is no such table that this login may see",
    ]


def test_a_database_that_does_not_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reference", "--check", f"host={tmp_path} dbname=none"]) == 2
    assert capsys.readouterr().err.startswith("tenant-audit: the database cannot be asked: ")


@pytest.mark.parametrize("words", [[], ["folder", "--check", "dbname=x"]], ids=["neither", "both"])
def test_a_folder_or_a_database(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reference", *words]) == 2
    assert "either a folder to write to, or --check" in capsys.readouterr().err
