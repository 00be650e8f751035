"""What files beside the sources tell: the versions that a project locks, and a pooler before its database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from auditor.program.pooler import Pooler, find_pooler
from auditor.program.specifiers import upper
from tests.timeline.world import find, walked

if TYPE_CHECKING:
    from pathlib import Path

LOCKS = {
    "uv.lock": 'version = 1\n[[package]]\nname = "psycopg"\nversion = "3.2.1"\n',
    "poetry.lock": '[[package]]\nname = "Psycopg"\nversion = "3.2.1"\ndescription = "x"\n',
    "pdm.lock": '[[package]]\nname = "psycopg"\nversion = "3.2.1"\n',
    "requirements.txt": "# psycopg==9\n-r base.txt\npsycopg[binary,pool]==3.2.1 ; python_version > '3.8'  # pinned\n",
    "requirements-dev.txt": "psycopg==3.2.1 --hash=sha256:00\n",
    "pyproject.toml": '[project]\ndependencies = ["psycopg[binary] == 3.2.1"]\n',
}
SILENT = {
    "uv.lock": 'version = 1\n[[package]]\nname = "psycopg"\n',
    "poetry.lock": "[[package\n",
    "pdm.lock": 'package = "psycopg"\n[metadata]\n',
    "requirements.txt": "psycopg>=3.2.1\npsycopg-pool==3.2.1\npsycopg @ file:///x\npsycopg==3.*\n",
    "requirements-all.txt": "psycopg==3.2.1 ; python_version < '3.9'\npsycopg==3.3.9 ; python_version >= '3.9'\n",
    "pyproject.toml": '[project]\ndependencies = ["psycopg >= 3.2.1"]\n',
}
WORKER = """
    from psycopg_pool import ConnectionPool


    def reset(conn):
        conn.autocommit = True
        conn.execute("DISCARD ALL")
        conn.autocommit = False


    pool = ConnectionPool("", reset=reset)


    def run(job):
        with pool.connection() as conn:
            conn.execute("UPDATE jobs SET done = true WHERE id = %s", (job,))
"""


def version(folder: Path, files: dict[str, str]) -> str | None:
    program = walked(folder, {"src/app/worker.py": WORKER, **files}).program
    found = program.version_of("psycopg", "src/app/worker.py")
    return f"{found.text} in {found.path}" if found is not None else None


@pytest.mark.parametrize("name", LOCKS)
def test_a_version_that_is_locked(tmp_path: Path, name: str) -> None:
    assert version(tmp_path, {name: LOCKS[name]}) == f"3.2.1 in {name}"


@pytest.mark.parametrize("name", SILENT)
def test_what_tells_no_version(tmp_path: Path, name: str) -> None:
    assert version(tmp_path, {name: SILENT[name]}) is None


def test_the_nearest_file_counts_and_a_lock_before_requirements(tmp_path: Path) -> None:
    files = {"uv.lock": LOCKS["uv.lock"].replace("3.2.1", "3.1.0"), "src/uv.lock": LOCKS["uv.lock"]}
    assert version(tmp_path / "near", {**files, "src/requirements.txt": "psycopg==3.0.1"}) == "3.2.1 in src/uv.lock"
    assert version(tmp_path / "beside", {"other/uv.lock": LOCKS["uv.lock"]}) is None


@pytest.mark.parametrize(
    ("file", "text", "before"),
    [
        ("requirements.txt", "psycopg2<2.9", True),
        ("requirements.txt", "psycopg2-binary ~= 2.8.4 ; python_version < '3.9'  # old", True),
        ("requirements.txt", "psycopg2-binary[x]==2.8.*", True),
        ("requirements.txt", "psycopg2>=2.7,<2.9", True),
        ("requirements.txt", "psycopg2<=2.8.6", True),
        ("requirements.txt", "psycopg2==2.8.6", True),
        ("requirements.txt", "psycopg2~=2.8", False),
        ("requirements.txt", "psycopg2<3", False),
        ("requirements.txt", "psycopg2>=2.8", False),
        ("requirements.txt", "psycopg2!=2.8.1", False),
        ("requirements.txt", "psycopg2", False),
        ("requirements.txt", "psycopg2==2.9.1", False),
        ("requirements.txt", "psycopg2<2.9; python_version<'3'\npsycopg2>=2.9; python_version>='3'", False),
        ("pyproject.toml", "[project]\ndependencies = ['psycopg2<2.9']", True),
        ("pyproject.toml", "[tool.poetry.dependencies]\npsycopg2 = '~2.8'", True),
        ("pyproject.toml", "[tool.poetry.dependencies]\npsycopg2-binary = {version = '~2.8.1', extras = []}", True),
        ("pyproject.toml", "[tool.poetry.dependencies]\npsycopg2 = '^2.8'", False),
        ("pyproject.toml", "[tool.poetry.dependencies]\npsycopg2 = '<2.8 || >=2.9'", False),
        ("pyproject.toml", "[tool.poetry]\ndependencies = 3", False),
        ("uv.lock", '[[package]]\nname = "psycopg2"\nversion = "2.8.6"\n', True),
        ("tenant-audit.toml", "", False),
    ],
)
def test_an_older_driver_is_one_that_nothing_newer_is_allowed_of(
    tmp_path: Path, file: str, text: str, before: bool
) -> None:
    source = """
    import psycopg2

    conn = psycopg2.connect("")
    conn.autocommit = True

    def run(tenant):
        with conn, conn.cursor() as cursor:
            cursor.execute("SELECT set_config('app.tenant', %s, true)", (tenant,))
            cursor.execute("UPDATE jobs SET done = true")
    """
    codes = [one.code for one in find(tmp_path, {"worker.py": source, file: text})]
    assert codes == (["TA102"] if before else [])


@pytest.mark.parametrize(
    ("allowed", "above"),
    [
        ("^1.4", (2,)),
        ("^0.3.1", (0, 4)),
        ("^0", (1,)),
        ("~1", (2,)),
        ("<2,>1,<1.9", (1, 9)),
        ("~=1", ()),
        ("===1.0", (1, 0, 1)),
    ],
)
def test_below_what_the_allowed_versions_lie(allowed: str, above: tuple[int, ...]) -> None:
    assert upper(allowed) == above


def told(folder: Path, lock: str) -> str:
    files = {"worker.py": WORKER, "uv.lock": lock}
    (message,) = (one.message for one in find(folder, files) if one.code == "TA201")
    return message


def test_the_message_on_discard_all_tells_the_version(tmp_path: Path) -> None:
    assert "(psycopg 3.2.1, which uv.lock tells)" in told(tmp_path / "old", LOCKS["uv.lock"])
    assert "only by luck" in told(tmp_path / "new", LOCKS["uv.lock"].replace("3.2.1", "3.3.9"))
    assert told(tmp_path / "none", "").endswith("does not exist")


# A pooler

INI = """
[databases]
app = host=db port=5432 dbname=app

[pgbouncer]
; pool_mode = session
pool_mode = {mode}
"""
ALONE = """
    import psycopg


    def run(tenant):
        conn = psycopg.connect("", autocommit=True)
        conn.execute("SELECT set_config('app.tenant', %s, false)", (tenant,))
        conn.execute("UPDATE invoices SET closed = true")
        conn.close()
"""
OVER_ASYNCPG = """
    import asyncpg


    async def main():
        pool = await asyncpg.create_pool("")
        await serve(pool)


    async def run(pool: asyncpg.Pool, tenant):
        async with pool.acquire() as conn:
            await conn.execute("SELECT set_config('app.tenant', $1, false)", tenant)
            await conn.execute("UPDATE invoices SET closed = true")
"""


@pytest.mark.parametrize("worker", [ALONE, OVER_ASYNCPG], ids=["closed by the job", "set back by the pool"])
def test_behind_a_pooler_a_session_is_somebody_elses_next(tmp_path: Path, worker: str) -> None:
    def codes(name: str, **files: str) -> list[tuple[str, str, list[str]]]:
        shown = {path.replace("__", "/").replace("_ini", ".ini"): text for path, text in files.items()}
        return [
            (one.code, one.confidence.value, [place.place.path for place in one.related if "pooler" in place.message])
            for one in find(tmp_path / name, {"worker.py": worker, **shown})
            if one.code == "TA101"
        ]

    plain = codes("plain")
    assert [one for one in plain if one[1] != "low"] == []
    assert codes("by session", deploy__pgbouncer_ini=INI.format(mode="session")) == plain
    (found,) = codes("by transaction", deploy__pgbouncer_ini=INI.format(mode="transaction"))
    assert found == ("TA101", "medium", ["deploy/pgbouncer.ini"])


def test_a_mode_of_one_database_counts_too_and_the_configuration_counts_most(tmp_path: Path) -> None:
    one = "[databases]\napp = host=db pool_mode=transaction\n[pgbouncer]\npool_mode = session\n"
    files = {"worker.py": ALONE, "pgbouncer.ini": one}
    program = walked(tmp_path, files).program
    assert program.pooler is not None
    assert program.pooler.place is not None
    assert program.pooler.place.line == 2
    assert find_pooler("session", program.inventory.beside) is None
    assert find_pooler("statement", ()) == Pooler("statement", None)
