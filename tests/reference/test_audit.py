"""The audit's verdict on what it tells others to migrate to."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from auditor import cli
from tests.reference.harness import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

FILES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".sql"))


def audit(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """The exit code and the codes of what is found at the lowest severity and confidence."""
    words = ["--min-severity=note", "--min-confidence=low", "--fail-on=note", "--format=json", "--jobs=1", str(folder)]
    code = cli.main(words)
    return code, [finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]]


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The reference as a team has it: in a project of its own."""
    folder = tmp_path / "worker"
    folder.mkdir()
    for name in FILES:
        shutil.copy(FOLDER / name, folder)
    monkeypatch.chdir(tmp_path)
    return folder


def test_there_is_nothing_to_report(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(copied, capsys) == (0, [])


def test_each_file_is_as_clean_by_itself(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in FILES:
        assert audit(copied / name, capsys) == (0, []), name


FAULTS = {
    "TA101 in the simple worker": ("simple_worker.py", "'app.tenant', %s, true)", "'app.tenant', %s, false)"),
    "TA105 in the simple worker": ("simple_worker.py", "'app_tenant', true)", "'app_tenant', false)"),
    "TA201 in a reset callback": (
        "worker.py",
        "configure=configure,",
        "configure=configure, reset=lambda conn: conn.execute('DISCARD ALL'),",
    ),
    "TA203 in the pool's callback": ("worker.py", '"autocommit": True, ', ""),
    "TA601 in the schema": (
        "schema.sql",
        "GRANT SELECT ON app.jobs TO app_worker;",
        """ALTER TABLE app.jobs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
           CREATE POLICY own ON app.jobs USING (tenant_id = nullif(current_setting('app.tenant', true), '')::bigint);
        """,
    ),
    "TA602 in the schema": (
        "schema.sql",
        "USING (tenant_id = (SELECT nullif(current_setting('app.tenant', true), '')::bigint))",
        "USING (tenant_id = current_setting('app.tenant')::bigint)",
    ),
    "TA605 in the schema": ("schema.sql", "USING (tenant_id = (SELECT", "USING (true OR tenant_id = (SELECT"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_that_is_put_in_is_found(copied: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    """So the files are understood, and not merely read."""
    name, good, bad = FAULTS[what]
    text = (copied / name).read_text(encoding="utf-8")
    assert good in text
    (copied / name).write_text(text.replace(good, bad), encoding="utf-8")
    assert audit(copied, capsys) == (1, [what[:5]])


def test_no_suppression_is_used() -> None:
    for name in FILES:
        text = (FOLDER / name).read_text(encoding="utf-8").lower()
        assert "tenant-audit:" not in text
        assert "noqa" not in text
        assert "type: ignore" not in text


def test_the_worker_is_followed_to_its_end(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A worker with more ways through it than the audit follows would have nothing reported of it."""
    assert cli.main(["timeline", "--jobs=1", str(copied)]) == 0
    shown = capsys.readouterr().out
    for name in ("worker.Worker.run", "worker_async.AsyncWorker.run", "simple_worker.SimpleWorker.run"):
        assert name in shown
    assert "more paths than are followed" not in shown


def test_the_statements_are_in_one_place() -> None:
    """The workers that wait in threads and in an event loop ask the same of the database."""
    for name in ("worker.py", "worker_async.py"):
        nodes = ast.walk(ast.parse((FOLDER / name).read_text(encoding="utf-8")))
        texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        assert [text for text in texts if "app." in text and "=app" not in text] == []


def test_each_file_is_small_enough_to_own() -> None:
    assert {name: len((FOLDER / name).read_text().splitlines()) <= 600 for name in FILES} == dict.fromkeys(FILES, True)


def test_the_audit_needs_no_driver(copied: Path) -> None:
    """psycopg is the reference's and the laboratory's; who only audits has none."""
    code = "import sys; sys.modules['psycopg'] = None; from auditor.cli import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "--jobs=1", str(copied)]
    assert subprocess.run(words, capture_output=True, check=False, cwd=copied).returncode == 0
