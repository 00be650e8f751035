"""The versions that a project locks: uv.lock, poetry.lock, pdm.lock, requirements files, pyproject.toml, read as data.

A lock says what is installed, `==` in a requirement says the same; another bound only says below what it is. Of
several files the nearest upward from the source that asks counts, of one folder a lock before requirements.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from auditor import toml
from auditor.files import read
from auditor.listing import upward
from auditor.program.specifiers import upper

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.files import SourceFile

_PINNED = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*={2,3}\s*(\d+(?:\.\d+)*)(?![\w.*+!-])")
_REQUIRED = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?([<>=~!][^)]*)")
_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
#: Distributions of drivers that leave the parameters of a statement to the server, and of those that put them in.
_SERVER_SIDE = frozenset({"asyncpg", "psycopg"})
_CLIENT_SIDE = re.compile(r"psycopg2|pygresql", re.IGNORECASE)


class Version(NamedTuple):
    """A version as the project writes it, and the file that says so, as it is shown."""

    text: str
    path: str

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(int(part) for part in _NUMBER.findall(self.text)[:3])


class Versions:
    """Looks versions up. A file is read when it is first asked for."""

    def __init__(self, files: Iterable[SourceFile]) -> None:
        ordered = sorted(
            files, key=lambda file: (not file.file.endswith(".lock"), file.file.endswith(".toml"), file.file)
        )
        self._files = [file for file in ordered if not file.file.endswith(".ini")]
        self._known: dict[str, dict[str, str]] = {}
        self._bounds: dict[str, dict[str, tuple[int, ...]]] = {}

    def of(self, package: str, source: str) -> Version | None:
        """The version of a package that the source of that absolute name runs with, if that is told."""
        for file in self._nearest(source):
            if found := self._of_file(file).get(_plain(package)):
                return Version(found, file.path)
        return None

    def is_below(self, package: str, source: str, limit: tuple[int, ...]) -> bool:
        """Whether every version of a package that the source of that absolute name may run with is below `limit`."""
        locked = self.of(package, source)
        if locked is not None:
            return locked.numbers < limit
        for file in self._nearest(source):
            if found := self._bounds_in(file).get(_plain(package)):
                return found <= limit
        return False

    @cached_property
    def bind_on_server(self) -> bool:
        """Whether all that the project can reach PostgreSQL with leaves the parameters of a statement to the server.

        It does where such a driver is required, and none is named anywhere that puts them in itself. What only an
        example or a part further down requires tells nothing of the whole.
        """
        named = any(_CLIENT_SIDE.search(_text(file)) for file in self._files)
        top = min((os.path.dirname(file.file) for file in self._files), key=len, default="")
        whole = (file for file in self._files if os.path.dirname(file.file) == top)
        required = {name for file in whole for name in _names(_text(file), file.file)}
        return not required.isdisjoint(_SERVER_SIDE) and not named

    @cached_property
    def required(self) -> frozenset[str]:
        """The packages that the project requires for whatever it does, of any version."""
        return frozenset(name for file in self._files for name in _names(_text(file), file.file))

    def _nearest(self, source: str) -> Iterator[SourceFile]:
        """The files that speak for a source, in the order in which they count."""
        for folder in upward(os.path.dirname(source)):
            yield from (file for file in self._files if os.path.dirname(file.file) == folder)

    def _bounds_in(self, file: SourceFile) -> dict[str, tuple[int, ...]]:
        known = self._bounds.get(file.file)
        if known is None:
            known = self._bounds[file.file] = {}
            for name, allowed in _allowed(_text(file), file.file):
                # What a file says twice, of one platform and another, allows what either of them does.
                above = upper(allowed)
                before = known.get(name, above)
                known[name] = max(above, before) if above and before else ()
        return known

    def _of_file(self, file: SourceFile) -> dict[str, str]:
        known = self._known.get(file.file)
        if known is None:
            # What a file says twice, for one platform and another, it says of neither.
            known = self._known[file.file] = {}
            for name, version in _pins(_text(file), file.file):
                known[name] = version if known.setdefault(name, version) == version else ""
        return known


def _text(file: SourceFile) -> str:
    data = read(file)
    return data.decode("utf-8-sig", "replace") if isinstance(data, bytes) else ""


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pins(text: str, file: str) -> Iterator[tuple[str, str]]:
    """Each package that a file tells the version of."""
    if not file.endswith((".lock", ".toml")):
        for line in text.splitlines():
            yield from _required(line.partition("#")[0])
        return
    table = _toml(text)
    for package in _list(table.get("package")):
        name, version = (package.get("name"), package.get("version")) if isinstance(package, dict) else (None, None)
        if isinstance(name, str) and isinstance(version, str):
            yield _plain(name), version
    for line in _list(_table(table, "project").get("dependencies")):
        yield from _required(line if isinstance(line, str) else "")


def _required(line: str) -> Iterator[tuple[str, str]]:
    """`name[extra]==1.2.3`, whatever platform it is for."""
    found = _PINNED.match(line.strip())
    if found is not None:
        yield _plain(found[1]), found[2]


def _allowed(text: str, file: str) -> Iterator[tuple[str, str]]:
    """Each package that a file requires, and the versions of it that it allows."""
    if file.endswith(".lock"):
        return
    lines = text.splitlines()
    if file.endswith(".toml"):
        table = _toml(text)
        lines = [line for line in _list(_table(table, "project").get("dependencies")) if isinstance(line, str)]
        for name, said in _table(table, "tool", "poetry", "dependencies").items():
            allowed = said.get("version") if isinstance(said, dict) else said
            if isinstance(allowed, str):
                yield _plain(name), allowed
    for line in lines:
        found = _REQUIRED.match(line.partition("#")[0].partition(";")[0].strip())
        if found is not None:
            yield _plain(found[1]), found[2]


def _names(text: str, file: str) -> Iterator[str]:
    """The packages that a file requires for whatever its project does, of no version in particular."""
    if file.endswith(".lock"):
        return
    lines = text.splitlines()
    if file.endswith(".toml"):
        table = _toml(text)
        lines = [line for line in _list(_table(table, "project").get("dependencies")) if isinstance(line, str)]
        yield from map(_plain, _table(table, "tool", "poetry", "dependencies"))
    for line in lines:
        if found := _NAME.match(line.strip()):
            yield _plain(found[0])


def _table(value: object, *names: str) -> dict[str, Any]:
    """The table under these names; empty where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _toml(text: str) -> dict[str, Any]:
    """What a file says; nothing where it is no TOML, which is not ours to judge."""
    try:
        return toml.parse(text)
    except (ValueError, RecursionError):
        return {}
