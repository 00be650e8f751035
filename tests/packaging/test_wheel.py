"""The wheel, built and installed as users install it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)],
        check=True,
    )
    (built,) = folder.glob("tenant_audit-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel, what it needs, and the Django package `rules`."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "-q", str(wheel), "rules"], check=True)
    return python


def test_the_wheel_brings_no_top_level_package_but_its_own(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"auditor"}
    assert "auditor/py.typed" in names


def test_every_rule_and_its_page_are_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {path.name for path in (ROOT / "rules").iterdir() if path.suffix in (".py", ".md")}
    assert ours
    assert {f"auditor/rules/{name}" for name in ours} <= names


def test_it_stands_beside_the_django_package_named_rules(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(
        "from psycopg_pool import ConnectionPool\n"
        "pool = ConnectionPool('')\n"
        "def job(tenant):\n"
        "    with pool.connection() as conn:\n"
        "        conn.execute(\"SELECT set_config('app.tenant', %s, false)\", (tenant,))\n"
    )
    audit = subprocess.run(
        [str(environment.parent / "tenant-audit"), "--format", "concise", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert audit.returncode == 1, audit.stderr
    assert "TA101" in audit.stdout
    permits = "import rules; rules.add_perm('app.edit', rules.always_allow); print(rules.has_perm('app.edit', None))"
    both = subprocess.run([str(environment), "-c", permits], capture_output=True, text=True, check=True)
    assert both.stdout == "True\n"


def test_it_needs_nothing_but_what_it_says(wheel: Path) -> None:
    (metadata,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("METADATA"))
    lines = zipfile.ZipFile(wheel).read(metadata).decode().splitlines()
    needed = {line.removeprefix("Requires-Dist: ").split(">")[0] for line in lines if line.startswith("Requires-Dist")}
    assert needed >= {"sqlglot", "libcst", "rich", "tomli"}
    always = {line for line in lines if line.startswith("Requires-Dist") and "extra ==" not in line}
    assert len(always) == 4
