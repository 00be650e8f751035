"""Alembic's revisions in the order in which they are run, as their own words say: `revision`, `down_revision`.

Where these are missing, or go in a circle, the order is that of the files' names.
"""

from __future__ import annotations

import ast
import heapq
import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from auditor.drivers import alembic
from auditor.files import Role, read
from auditor.program.per_module import once_per_module
from auditor.program.tree import descend
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from auditor.files import SourceFile
    from auditor.program.code import FunctionInfo, ModuleInfo

_SAYS = re.compile(
    rb"^(revision|down_revision|depends_on|branch_labels)\b[^=\n]*=\s*(\([^)]*\)|\[[^\]]*\]|\"[^\"\n]*\"|'[^'\n]*')",
    re.MULTILINE,
)
_RUNS = re.compile(rb"^def upgrade\b", re.MULTILINE)


class Revision(NamedTuple):
    """A file of Alembic's, the names it goes by, and what has to be run before it."""

    file: SourceFile
    names: frozenset[str]
    after: frozenset[str]
    matters: bool  #: it changes tables or runs SQL


@once_per_module
def is_revision(module: ModuleInfo) -> bool:
    """Whether a module is one of Alembic's revisions."""
    runs = any(isinstance(part, nodes.Function) for part in module.bound.get(alembic.UPGRADE, ()))
    known = "down_revision" in module.bound or any(
        part.loads.partition(".")[0] == alembic.PACKAGE for part in module.imports
    )
    return runs and known


def in_order(known: Iterable[ModuleInfo], files: Iterable[SourceFile]) -> list[list[Revision]]:
    """Each history of revisions that one of the modules belongs to, as it is run from its beginning."""
    folders = {posixpath.dirname(module.file) for module in known if is_revision(module)}
    revisions: list[Revision] = []
    for file in files:
        if file.language == "python" and file.role is not Role.TEST and posixpath.dirname(file.file) in folders:
            revisions.extend(_of_file(file))
    return [list(_run_order(history)) for history in _histories(revisions)]


def _of_file(file: SourceFile) -> Iterator[Revision]:
    data = read(file)
    if not isinstance(data, bytes) or not _RUNS.search(data):
        return
    said: dict[bytes, frozenset[str]] = {found[1]: frozenset(_texts(found[2])) for found in _SAYS.finditer(data)}
    names = said.get(b"revision", frozenset()) | said.get(b"branch_labels", frozenset())
    after = said.get(b"down_revision", frozenset()) | said.get(b"depends_on", frozenset())
    # `branch@revision` is that revision of a branch.
    after = frozenset(name.rpartition("@")[2] or name for name in after)
    yield Revision(file, names, after, any(name.encode() in data for name in alembic.NAMES))


def _texts(written: bytes) -> Iterator[str]:
    """The strings of a literal; none where it is none."""
    try:
        value = ast.literal_eval(written.decode("utf-8"))
    except (ValueError, SyntaxError):
        return
    for one in (value,) if isinstance(value, str) else value:
        if isinstance(one, str):
            yield one


def _histories(revisions: list[Revision]) -> list[list[Revision]]:
    """Revisions apart that have nothing to do with each other: they stand in other folders, and none names another."""
    homes: dict[str, str] = {}

    def home(folder: str) -> str:
        while homes.setdefault(folder, folder) != folder:
            folder = homes[folder]
        return folder

    named = {name: posixpath.dirname(one.file.file) for one in revisions for name in one.names}
    for one in revisions:
        for name in one.after & named.keys():
            homes[home(posixpath.dirname(one.file.file))] = home(named[name])
    found: dict[str, list[Revision]] = {}
    for one in revisions:
        found.setdefault(home(posixpath.dirname(one.file.file)), []).append(one)
    return list(found.values())


def _run_order(history: list[Revision]) -> Iterator[Revision]:
    """Each after those it names; those that are free to come next by the names of their files."""
    order = sorted(history, key=lambda one: one.file.file)
    number = {name: index for index, one in enumerate(order) for name in one.names}
    waits = {index: {number[name] for name in one.after if name in number} for index, one in enumerate(order)}
    yield from (order[index] for index in _sorted(waits))


def _sorted(waits: Mapping[int, set[int]]) -> Iterator[int]:
    followers: dict[int, list[int]] = {}
    for index, before in waits.items():
        for one in before:
            followers.setdefault(one, []).append(index)
    left = {index: len(before) for index, before in waits.items()}
    free = [index for index, count in left.items() if not count]
    heapq.heapify(free)
    while left:
        # A circle is broken where the first file stands.
        index = heapq.heappop(free) if free else min(left)
        if left.pop(index, None) is None:
            continue
        yield index
        for other in followers.get(index, ()):
            if other in left:
                left[other] -= 1
                if left[other] == 0:
                    heapq.heappush(free, other)


# The way back


def only_downgrades(module: ModuleInfo) -> Iterator[FunctionInfo]:
    """The functions of a revision that only run when it is taken back."""
    functions = {function.node.name: function for function in module.functions() if not function.nested}
    kept = _reached(alembic.UPGRADE, functions)
    top = (part for part in module.facts.module.body if not isinstance(part, (nodes.Function, nodes.Class)))
    for part in descend(tuple(top)):
        if isinstance(part, nodes.Name) and part.id in functions:
            kept |= _reached(part.id, functions)
    yield from (functions[name] for name in _reached(alembic.DOWNGRADE, functions) - kept)


def _reached(name: str, functions: Mapping[str, FunctionInfo]) -> set[str]:
    """The functions that one of them names, and those that these name."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one in functions and one not in found:
            found.add(one)
            waiting.extend(functions[one].words.names)
    return found
