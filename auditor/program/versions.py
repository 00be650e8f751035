"""The versions that a project locks: uv.lock, poetry.lock, pdm.lock, requirements files, pyproject.toml, read as data.

A lock says what is installed, `==` in a requirement says the same, and any other bound says nothing for certain. Of
several files the nearest upward from the source that asks counts, of one folder a lock before requirements.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from auditor import toml
from auditor.files import read
from auditor.listing import upward

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.files import SourceFile

_PINNED = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*={2,3}\s*(\d+(?:\.\d+)*)(?![\w.*+!-])")
_NUMBER = re.compile(r"\d+")


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

    def of(self, package: str, source: str) -> Version | None:
        """The version of a package that the source of that absolute name runs with, if that is told."""
        for folder in upward(os.path.dirname(source)):
            for file in self._files:
                if os.path.dirname(file.file) == folder and (found := self._of_file(file).get(_plain(package))):
                    return Version(found, file.path)
        return None

    def _of_file(self, file: SourceFile) -> dict[str, str]:
        known = self._known.get(file.file)
        if known is None:
            data = read(file)
            text = data.decode("utf-8-sig", "replace") if isinstance(data, bytes) else ""
            # What a file says twice, for one platform and another, it says of neither.
            known = self._known[file.file] = {}
            for name, version in _pins(text, file.file):
                known[name] = version if known.setdefault(name, version) == version else ""
        return known


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
    project = table.get("project")
    for line in _list(project.get("dependencies")) if isinstance(project, dict) else ():
        yield from _required(line if isinstance(line, str) else "")


def _required(line: str) -> Iterator[tuple[str, str]]:
    """`name[extra]==1.2.3`, whatever platform it is for."""
    found = _PINNED.match(line.strip())
    if found is not None:
        yield _plain(found[1]), found[2]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _toml(text: str) -> dict[str, Any]:
    """What a file says; nothing where it is no TOML, which is not ours to judge."""
    try:
        return toml.parse(text)
    except (ValueError, RecursionError):
        return {}
