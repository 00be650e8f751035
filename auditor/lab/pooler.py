"""PgBouncer in transaction mode before the server, where it is installed: one server session, given to each client."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.lab.place import WORKER
from auditor.lab.server import MARKER, account, groups

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = "pgbouncer"
#: Seconds after which one that has not started never will.
_PATIENCE = 20.0
_SOCKET = ".s.PGSQL.6432"
#: A pooler takes no options at the start of a session, so what a session begins with is said by the pooler itself.
_CONFIGURATION = """
[databases]
lab = {database} connect_query='SET ROLE {role}; SET search_path = {schema}'
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 1
ignore_startup_parameters = options,extra_float_digits
"""


@contextlib.contextmanager
def pooler(dsn: str) -> Iterator[str]:
    """The connection string of a pooler with one session on the server, which is the worker's, while the block lasts.

    It listens on a socket in a private folder. `OSError` where it does not start.
    """
    folder = Path(tempfile.mkdtemp(prefix="ta-"))
    try:
        words = {"folder": folder, "database": _database(dsn), "role": WORKER, "schema": MARKER}
        file = folder / "pgbouncer.ini"
        file.write_text(_CONFIGURATION.format_map(words), encoding="utf-8")
        who = account()  # it refuses to run as root, as the server does
        if who is not None:
            for each in (folder, file):
                os.chown(each, pwd.getpwnam(who).pw_uid, pwd.getpwnam(who).pw_gid)
        program = shutil.which(PROGRAM) or PROGRAM
        command = [program, "--quiet", str(file)]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, user=who, **groups(who)
        ) as process:
            try:
                _wait(process, folder / _SOCKET)
                yield f"host={folder} port=6432 dbname=lab user=lab"
            finally:
                process.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _database(dsn: str) -> str:
    """Where the pooler finds the server, as its configuration has it."""
    import psycopg

    with psycopg.connect(dsn) as conn:
        info = conn.info
        found = {"host": info.host, "port": info.port, "dbname": info.dbname, "user": info.user}
        found["password"] = info.password
    return " ".join(f"{name}={_quoted(str(value))}" for name, value in found.items() if value)


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _wait(process: subprocess.Popen[bytes], socket: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise OSError(f"{PROGRAM} did not start")
        time.sleep(0.01)
