"""The hook, run by pre-commit itself on a scratch repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

FAULTY = """\
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


def job(tenant):
    with pool.connection() as conn:
        conn.execute("SELECT set_config('app.tenant', %s, false)", (tenant,))
"""


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """This checkout as a repository of its own, and its one commit."""
    copy = tmp_path_factory.mktemp("hooks") / "repository"
    names = ("auditor", "rules", "pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml")
    copy.mkdir()
    for name in names:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    git(copy, "init", "-q")
    git(copy, "add", "-A")
    git(copy, "commit", "-qm", "as it is")
    return copy, git(copy, "rev-parse", "HEAD")


@pytest.fixture
def project(hooks: tuple[Path, str], tmp_path: Path) -> Path:
    """A repository that uses the hook."""
    repository, revision = hooks
    (tmp_path / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {repository}\n  rev: {revision}\n  hooks:\n  - id: tenant-audit\n"
    )
    git(tmp_path, "init", "-q")
    return tmp_path


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def hook(project: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    git(project, "add", "-A")
    environment = {**os.environ, "PRE_COMMIT_HOME": str(cache)}
    return subprocess.run(
        [sys.executable, "-m", "pre_commit", "run"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_commit_with_a_fault_is_stopped_and_told(project: Path, cache: Path) -> None:
    (project / "worker.py").write_text(FAULTY)
    ran = hook(project, cache)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "worker.py:8" in ran.stdout
    assert "TA101 session-tenant" in ran.stdout


def test_a_mended_commit_passes(project: Path, cache: Path) -> None:
    (project / "worker.py").write_text(FAULTY.replace("false", "true"))
    ran = hook(project, cache)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_commit_of_sql_alone_audits_the_program(project: Path, cache: Path) -> None:
    (project / "worker.py").write_text(FAULTY)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "worker", "--no-verify")
    (project / "schema.sql").write_text("CREATE TABLE invoices (id int);\n")
    ran = hook(project, cache)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "worker.py:8" in ran.stdout
