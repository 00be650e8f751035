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
    words = ["--min-severity=note", "--min-confidence=low", "--fail-on=note", "--format=json", str(folder)]
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


@pytest.mark.parametrize(
    ("name", "good", "bad", "code"),
    [
        ("jobs.py", "'app.tenant', %(tenant)s, true)", "'app.tenant', %(tenant)s, false)", "TA101"),
        ("jobs.py", "set_config('role', 'app_tenant', true)", "set_config('role', 'app_tenant', false)", "TA105"),
        ("jobs.py", "status = 'running', attempts = attempts + 1,", "status = 'running',", "TA305"),
        ("schema.sql", "tenant_id = (SELECT nullif(", "true OR tenant_id = (SELECT nullif(", "TA605"),
        ("simple_worker.py", "'app.tenant', %s, true)", "'app.tenant', %s, false)", "TA101"),
    ],
    ids=lambda word: word if word.startswith("TA") else "",
)
def test_it_is_understood_and_not_overlooked(
    copied: Path, capsys: pytest.CaptureFixture[str], name: str, good: str, bad: str, code: str
) -> None:
    """A fault that is put in is found: so what is not found is not there."""
    text = (copied / name).read_text(encoding="utf-8")
    assert good in text
    (copied / name).write_text(text.replace(good, bad), encoding="utf-8")
    found = audit(copied, capsys)
    assert found[0] == 1
    assert code in found[1]


def test_no_suppression_is_used() -> None:
    for name in FILES:
        text = (FOLDER / name).read_text(encoding="utf-8").lower()
        assert "tenant-audit:" not in text
        assert "noqa" not in text
        assert "type: ignore" not in text


def test_the_statements_are_in_one_place() -> None:
    """The workers that wait in threads and in an event loop ask the same of the database."""
    for name in ("worker.py", "worker_async.py"):
        tree = ast.parse((FOLDER / name).read_text(encoding="utf-8"))
        texts = [
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        assert [text for text in texts if " app." in text and "FROM" in text] == []


def test_the_audit_needs_no_driver() -> None:
    """psycopg is the reference's and the laboratory's; who only audits has none."""
    code = "import sys; sys.modules['psycopg'] = None; from auditor.cli import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "--exit-zero", str(FOLDER / "schema.sql")]
    assert subprocess.run(words, capture_output=True, check=False, cwd=FOLDER).returncode == 0
