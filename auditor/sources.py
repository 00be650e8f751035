"""Which files a run reads, and what each is to it.

`find_files` lists the files below the given paths and of the projects they belong to. `search` and `mentions` tell
which of them contain which patterns and names, before anything is parsed. `read` gives the bytes of one.
"""

from __future__ import annotations

import os
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, Protocol

from auditor.errors import UserError
from auditor.files import Inventory, Language, Role, Skipped, SourceFile, read
from auditor.globs import matcher
from auditor.listing import SUFFIXES, Excluded, Listing, is_ignored, list_folder, upward, walk
from auditor.search import mentions, search

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Inventory", "Role", "Skipped", "SourceFile", "find_files", "mentions", "read", "search"]

#: A folder that holds one of these is a project.
_MARKS = ("pyproject.toml", "tenant-audit.toml", ".git")

_TEST_FOLDERS = frozenset(("test", "tests", "testing", "bench", "benchmark", "benchmarks"))


class Wishes(Protocol):
    """What of the configuration decides which files are read."""

    @property
    def paths(self) -> tuple[str, ...]: ...
    @property
    def exclude(self) -> tuple[str, ...]: ...
    @property
    def include_tests(self) -> bool: ...
    @property
    def folder(self) -> str: ...


class _Target(NamedTuple):
    """A path that was asked for: absolute, with the project it belongs to."""

    path: str
    is_folder: bool
    root: str
    in_project: bool

    def holds(self, file: str) -> bool:
        return file == self.path or file.startswith(_below(self.path))


def find_files(paths: Sequence[str], wishes: Wishes, cwd: str) -> Inventory:
    """The files below the paths, or below the configured ones; the rest of their projects is there for context."""
    if paths:
        asked = [os.path.join(cwd, path) for path in paths]
    else:
        asked = [os.path.join(wishes.folder, path) for path in wishes.paths] or [cwd]
    targets = [_target(path, cwd, not paths) for path in dict.fromkeys(map(os.path.normpath, asked))]
    excluded = matcher(wishes.exclude, wishes.folder)
    inventory = _inventory(_list_all(targets, excluded), targets, wishes.include_tests, cwd)
    if all(file.role is Role.CONTEXT for file in inventory.files):
        why = f" ({inventory.skipped[0].path}: {inventory.skipped[0].reason})" if inventory.skipped else ""
        shown = ", ".join(_display(target.path, cwd) for target in targets)
        raise UserError(f"{shown}: there is no .py or .sql file to read{why}")
    return inventory


def _target(path: str, cwd: str, configured: bool) -> _Target:
    try:
        is_folder = os.path.isdir(path)
        exists = is_folder or os.path.lexists(path)
    except ValueError:
        is_folder = exists = False
    if not exists:
        hint = "; the configuration names it in paths" if configured else ""
        raise UserError(f"{_display(path, cwd)}: there is no such file or folder{hint}")
    folder = path if is_folder else os.path.dirname(path)
    root = _project(folder)
    return _Target(path, is_folder, root or folder, root is not None)


def _project(folder: str) -> str | None:
    """The nearest folder upward that is a project. A home folder is none, whatever lies in it."""
    home = os.path.expanduser("~")
    for above in upward(folder):
        if above == home or above == os.path.dirname(above):
            return None
        if any(os.path.lexists(os.path.join(above, mark)) for mark in _MARKS):
            return above
    return None


# Listing


def _list_all(targets: list[_Target], excluded: Excluded) -> Listing:
    """Everything that can matter: the projects of the targets, and the targets that no project lists."""
    listing = Listing([], [], [], [])
    for folder in _outermost(target.root for target in targets if target.in_project or target.is_folder):
        listing.add(list_folder(folder, excluded))
    for target in targets:
        if not target.is_folder:
            _add_named(target.path, listing)
        elif not any(target.holds(file) for found in (listing.files, listing.links) for file in found):
            listing.add(_list_outright(target.path, excluded))
    return listing


def _outermost(folders: Iterable[str]) -> list[str]:
    kept: list[str] = []
    for folder in sorted(set(folders), key=len):
        if not any(folder.startswith(_below(above)) for above in kept):
            kept.append(folder)
    return kept


def _list_outright(folder: str, excluded: Excluded) -> Listing:
    """A folder that its project leaves out, and that was named all the same."""

    def below(path: str) -> bool:
        return excluded(path) and not excluded(folder)

    if is_ignored(folder):
        return walk(folder, below)
    return list_folder(folder, below)


def _add_named(file: str, listing: Listing) -> None:
    if not file.endswith(SUFFIXES):
        listing.skipped.append(Skipped(file, "neither .py nor .sql"))
    elif os.path.isfile(file):
        listing.files.append(file)
    elif os.path.islink(file):
        listing.links.append(file)
    else:
        listing.skipped.append(Skipped(file, "not a regular file"))


# Roles


def _inventory(listing: Listing, targets: list[_Target], include_tests: bool, cwd: str) -> Inventory:
    files = dict.fromkeys(listing.files)
    skipped = [*listing.skipped, *_follow(listing.links, files)]
    found = [
        SourceFile(_display(file, cwd), file, _language(file), _role(file, targets, include_tests)) for file in files
    ]
    gone = {Skipped(_display(path, cwd), reason) for path, reason in skipped}
    roots = _outermost(target.root for target in targets)
    told = dict.fromkeys(listing.beside)
    beside = sorted((SourceFile(_display(file, cwd), file, "other", Role.CONTEXT) for file in told), key=itemgetter(0))
    return Inventory(tuple(sorted(found, key=itemgetter(0))), tuple(sorted(gone)), tuple(roots), cwd, tuple(beside))


def _follow(links: list[str], files: dict[str, None]) -> Iterator[Skipped]:
    """Add the links that lead to files which are not there under their own name."""
    if not links:
        return
    folders = {folder: os.path.realpath(folder) for folder in {os.path.dirname(file) for file in files}}
    real = {os.path.join(folders[os.path.dirname(file)], os.path.basename(file)) for file in files}
    for link in dict.fromkeys(links):
        goal = os.path.realpath(link)
        if os.path.isfile(goal):
            if goal not in real:
                real.add(goal)
                files[link] = None
        elif not os.path.isdir(goal):
            yield Skipped(link, "not a regular file" if os.path.exists(goal) else "a symbolic link that leads nowhere")


def _role(file: str, targets: list[_Target], include_tests: bool) -> Role:
    """A test that was named itself, or by a folder of tests, is reported on like anything else."""
    role = Role.CONTEXT
    for target in targets:
        if target.holds(file):
            if include_tests or not _is_test(file, target.path) or _is_test(target.path, target.root):
                return Role.REPORTED
            role = Role.TEST
    if role is Role.CONTEXT and any(_is_test(file, target.root) for target in targets):
        role = Role.TEST
    return role


def _is_test(path: str, folder: str) -> bool:
    """Whether a path is test code, by its names below a folder."""
    below = path[len(folder) :].lower()
    if "test" not in below and "bench" not in below:  # all the names hold one of them, and few paths do
        return False
    *folders, name = below.replace(os.sep, "/").split("/")
    stem = name.rpartition(".")[0] or name
    return (
        name in _TEST_FOLDERS
        or not _TEST_FOLDERS.isdisjoint(folders)
        or name == "conftest.py"
        or stem == "tests"
        or stem.startswith("test_")
        or stem.endswith(("_test", "_tests"))
    )


def _language(file: str) -> Language:
    return "sql" if file.endswith(".sql") else "python"


def _display(path: str, cwd: str) -> str:
    shown = "." if path == cwd else path.removeprefix(_below(cwd))
    return shown.replace(os.sep, "/")


def _below(folder: str) -> str:
    """What every path below a folder begins with."""
    return folder if folder.endswith(os.sep) else folder + os.sep
