"""The server that experiments and tests run on: private while it is there, and gone afterwards, whatever happens."""

from __future__ import annotations

import os
import pwd
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import psycopg
import pytest

from auditor.errors import UserError
from auditor.lab import server as module
from auditor.lab.installations import Installation, installations
from auditor.lab.server import MARKER, VARIABLE, OwnServer, own_server, server

if TYPE_CHECKING:
    from collections.abc import Callable

CHILD = """
import sys, time
from auditor.lab.installations import installations
from auditor.lab.server import own_server
with own_server(installations()[0], {}) as running:
    print(running.folder, running.pid, flush=True)
    time.sleep(600)
"""


def eventually(what: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet waited for does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_it_is_what_it_says(postgres: OwnServer) -> None:
    with psycopg.connect(postgres.dsn) as conn:
        assert conn.info.parameter_status("server_version").split()[0] == postgres.version  # type: ignore[union-attr]


def test_nobody_else_can_reach_it(postgres: OwnServer) -> None:
    assert stat.S_IMODE(postgres.folder.stat().st_mode) == 0o700
    with psycopg.connect(postgres.dsn) as conn:
        assert conn.execute("SHOW listen_addresses").fetchone() == ("",)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to be somebody else")
def test_it_does_not_run_as_root(postgres: OwnServer) -> None:
    owner = Path(f"/proc/{postgres.pid}").stat().st_uid
    assert owner != 0
    assert pwd.getpwuid(owner).pw_name in ("postgres", "nobody")


def test_it_starts_again_on_the_same_data(postgres: OwnServer) -> None:
    before = postgres.pid
    with psycopg.connect(postgres.dsn) as conn:
        conn.execute("CREATE TABLE kept ()")
    postgres.restart()
    with psycopg.connect(postgres.dsn) as conn:
        conn.execute("DROP TABLE kept")
    assert postgres.pid != before


def test_it_leaves_nothing_behind() -> None:
    above = Path(os.environ.get("TMPDIR", "/tmp"))
    mode = above.stat().st_mode
    with own_server(installations()[0], {"work_mem": "1MB"}) as running:
        folder, pid = running.folder, running.pid
        with psycopg.connect(running.dsn) as conn:
            assert conn.execute("SHOW work_mem").fetchone() == ("1MB",)
    assert not folder.exists()
    assert not is_alive(pid)
    assert above.stat().st_mode == mode


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_goes_with_its_parent_however_that_ends(how: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stdout is not None
        folder, pid = child.stdout.readline().split()
        assert is_alive(int(pid))
        child.send_signal(how)
    assert eventually(lambda: not is_alive(int(pid)) and not Path(folder).exists())


def test_it_goes_when_all_of_its_processes_are_asked_to_end() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stdout is not None
        folder, pid = child.stdout.readline().split()
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        assert len(children) == 2
        for one in (*map(int, children), child.pid):
            os.kill(one, signal.SIGTERM)
    assert eventually(lambda: not is_alive(int(pid)) and not Path(folder).exists())


def test_where_the_servers_user_cannot_go_a_copy_is_run(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has folders that the server's user cannot reach")
    original = installations()[0]
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    package = original.folder.parents[1]
    for folder in (package, package.with_name(f"{package.name}.libs")):
        (hidden / folder.name).symlink_to(folder)
    installation = original._replace(folder=hidden / package.name / "pginstall" / "bin")
    with own_server(installation, {}) as running, psycopg.connect(running.dsn) as conn:
        assert conn.execute("SELECT 1").fetchone() == (1,)
        assert (running.folder / "install").exists()
    assert stat.S_IMODE(hidden.stat().st_mode) == 0o700


def test_a_cluster_that_cannot_be_made_is_said_in_one_line() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "initdb").write_text("#!/bin/sh\necho 'no space left' >&2\nexit 1\n")
        (folder / "initdb").chmod(0o755)
        (folder / "postgres").symlink_to("/bin/true")
        message = "PostgreSQL 99 could not make a cluster: no space left"
        with pytest.raises(UserError, match=message), own_server(Installation("99", folder), {}):
            pass


# A database that is given


def test_an_empty_database_is_used_and_left(database: str) -> None:
    with server(database) as running:
        assert running.dsn == database
        assert int(running.version.split(".")[0]) >= 14


def test_a_database_of_ours_is_used_again(database: str) -> None:
    with psycopg.connect(database) as conn:
        conn.execute(f"CREATE SCHEMA {MARKER}")
        conn.execute(f"CREATE TABLE {MARKER}.jobs ()")
    with server(database) as running:
        assert running.dsn == database


@pytest.mark.parametrize("what", ["TABLE customers ()", "SCHEMA crm", "VIEW v AS SELECT 1"])
def test_anybody_elses_database_is_refused(database: str, what: str) -> None:
    with psycopg.connect(database) as conn:
        conn.execute(f"CREATE {what}")
    with pytest.raises(UserError, match="is not empty"), server(database):
        pass


def test_a_database_that_is_not_there_is_said_in_one_line() -> None:
    with (
        pytest.raises(UserError, match="no connection to the database that was given") as caught,
        server("host=/nowhere dbname=x"),
    ):
        pass
    assert "\n" not in str(caught.value)


def test_the_one_that_is_named_goes_before_the_environment(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "host=/nowhere")
    with server(database) as running:
        assert running.dsn == database
    monkeypatch.setenv(VARIABLE, database)
    with server() as running:
        assert running.dsn == database


def test_without_any_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(module, "installations", list)
    with pytest.raises(UserError, match=r"pip install 'tenant-audit\[lab\]'"), server():
        pass
