"""A PostgreSQL of our own for the tests that let it be the judge."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_USUAL_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """The connection string of a fresh server's superuser; skipped where no server is installed."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed")
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    account = _account()
    if account:
        shutil.chown(folder, account)
    data = folder / "data"
    subprocess.run(
        [binaries / "initdb", "--no-sync", "-A", "trust", "-U", "judge", "-D", data],
        check=True,
        user=account,
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    server = subprocess.Popen(
        [binaries / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"],
        user=account,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(folder / ".s.PGSQL.5432", server)
        yield f"host={folder} user=judge dbname=postgres"
    finally:
        server.terminate()
        server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path | None:
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    places = [place for pattern in _USUAL_PLACES for place in sorted(Path("/").glob(pattern[1:]))]
    return next((place for place in reversed(places) if (place / "postgres").exists()), None)


def _account() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _wait_for(socket: Path, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    for _ in range(300):
        if server.poll() is not None:
            pytest.fail("the server did not start")
        try:
            psycopg.connect(f"host={socket.parent} user=judge dbname=postgres").close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    pytest.fail("the server takes no connections")
