"""What stands below a folder: what git tracks or does not ignore, or where there is no git, what a walk finds."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from auditor.errors import reason_of
from auditor.files import Skipped

SUFFIXES = (".py", ".sql")
#: Files beside the sources that tell what these run with: locked versions, and the pooler.
_BESIDE = re.compile(
    r"(?:^|[\\/])(?:uv\.lock|poetry\.lock|pdm\.lock|pyproject\.toml|requirements[^\\/]*\.txt|pgbouncer[^\\/]*\.ini)$"
)
_BESIDE_SUFFIXES = (".lock", ".toml", ".txt", ".ini")

#: Folders that hold what tools made or installed, by their names.
_NOT_OURS = frozenset(
    [
        ".bzr",
        ".cache",
        ".direnv",
        ".eggs",
        ".git",
        ".hg",
        ".hypothesis",
        ".idea",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pants.d",
        ".pyenv",
        ".pytest_cache",
        ".pytype",
        ".ruff_cache",
        ".svn",
        ".terraform",
        ".tox",
        ".venv",
        ".vscode",
        "__pycache__",
        "__pypackages__",
        "_build",
        "bower_components",
        "build",
        "buck-out",
        "dist",
        "htmlcov",
        "node_modules",
        "site-packages",
        "venv",
    ]
)

Excluded = Callable[[str], bool]


class Listing(NamedTuple):
    """Absolute paths. `links` are symbolic links: they may lead to a file that is listed under its own name too."""

    files: list[str]
    links: list[str]
    skipped: list[Skipped]
    beside: list[str]

    def add(self, other: Listing) -> None:
        self.files.extend(other.files)
        self.links.extend(other.links)
        self.skipped.extend(other.skipped)
        self.beside.extend(other.beside)


def list_folder(folder: str, excluded: Excluded) -> Listing:
    """The .py and .sql files below a folder."""
    if _inside_git(folder):
        listing = _tracked(folder, excluded)
        if listing is not None:
            return listing
    return walk(folder, excluded)


def walk(folder: str, excluded: Excluded) -> Listing:
    """The .py and .sql files below a folder, without what tools made or installed. Linked folders are not entered."""
    listing = Listing([], [], [], [])
    folders = [folder]
    while folders:
        folders.extend(_scan(folders.pop(), folder, excluded, listing))
    return listing


def is_ignored(folder: str) -> bool:
    """Whether git ignores this folder."""
    return _inside_git(folder) and _git(folder, "check-ignore", "-q", ".") is not None


def _scan(folder: str, top: str, excluded: Excluded, listing: Listing) -> list[str]:
    """Add the files of one folder to the listing; the folders in it are returned."""
    try:
        with os.scandir(folder) as scan:
            entries = list(scan)
    except OSError as error:
        listing.skipped.append(Skipped(folder, reason_of(error)))
        return []
    folders = []
    wanted = []
    for entry in entries:
        name = entry.name
        if name == "pyvenv.cfg" and folder != top:
            return []
        if _is_folder(entry):
            if name not in _NOT_OURS and not name.endswith(".egg-info") and not excluded(entry.path):
                folders.append(entry.path)
        elif name.endswith(SUFFIXES):
            wanted.append(entry)
        elif name.endswith(_BESIDE_SUFFIXES) and _BESIDE.search(name) and not excluded(entry.path):
            listing.beside.append(entry.path)
    for entry in wanted:
        _add(entry, excluded, listing)
    return folders


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _add(entry: os.DirEntry[str], excluded: Excluded, listing: Listing) -> None:
    if excluded(entry.path):
        return
    try:
        if entry.is_symlink():
            listing.links.append(entry.path)
        elif entry.is_file(follow_symlinks=False):
            listing.files.append(entry.path)
        else:
            listing.skipped.append(Skipped(entry.path, "not a regular file"))
    except OSError as error:
        listing.skipped.append(Skipped(entry.path, reason_of(error)))


# What git knows


def _inside_git(folder: str) -> bool:
    return any(os.path.lexists(os.path.join(above, ".git")) for above in upward(folder))


def upward(folder: str) -> Iterator[str]:
    """The folder and every folder above it, the nearest first."""
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _tracked(folder: str, excluded: Excluded) -> Listing | None:
    """What git tracks or does not ignore, or None where git cannot tell."""
    listing = Listing([], [], [], [])
    folders = [folder]
    while folders:
        top = folders.pop()
        output = _git(top, "ls-files", "-z", "-t", "-s", "-c", "-d", "-o", "--exclude-standard")
        if output is None:
            if top == folder:
                return None
            listing.add(walk(top, excluded))  # a repository in the repository, broken or not made yet
        else:
            folders.extend(_sort(top, _entries(output), excluded, listing))
    return listing


class _Entry(NamedTuple):
    tag: str  #: H tracked, R deleted, S not checked out, ? not tracked, …
    mode: str
    path: str


def _entries(output: bytes) -> Iterator[_Entry]:
    """The records of `git ls-files -z -t -s`: `H 100644 <hash> 0<tab>path`, or for untracked files `? path`."""
    for record in os.fsdecode(output).split("\0"):
        tag, _, rest = record.partition(" ")
        if tag == "?":
            yield _Entry(tag, "", rest)
        elif rest:
            facts, _, path = rest.partition("\t")
            yield _Entry(tag, facts[:6], path)


def _sort(top: str, entries: Iterable[_Entry], excluded: Excluded, listing: Listing) -> list[str]:
    """Add the entries of one repository to the listing; the repositories inside it are returned."""
    inner: list[str] = []
    found: dict[str, None] = {}
    links: dict[str, None] = {}
    deleted: set[str] = set()
    for tag, mode, path in entries:
        file = os.path.join(top, path.replace("/", os.sep).rstrip(os.sep))
        if mode == "160000" or path.endswith("/"):
            if not excluded(file) and not _made(path) and os.path.isdir(file):
                inner.append(file)
        elif not path.endswith(SUFFIXES):
            if path.endswith(_BESIDE_SUFFIXES) and _BESIDE.search(path) and not _made(path) and not excluded(file):
                listing.beside.append(file)
        elif tag == "R":
            deleted.add(file)
        elif (tag == "?" and _made(path)) or excluded(file) or (tag == "S" and not os.path.lexists(file)):
            continue
        elif mode == "120000" or (tag == "?" and os.path.islink(file)):
            links[file] = None
        else:
            found[file] = None
    listing.files.extend(file for file in found if file not in deleted)
    listing.links.extend(file for file in links if file not in deleted)
    return inner


def _made(path: str) -> bool:
    """Whether tools made or installed this: an environment that nobody told git to ignore is still not source."""
    folders = path.split("/")[:-1]
    return not _NOT_OURS.isdisjoint(folders) or any(name.endswith(".egg-info") for name in folders)


#: What git sets for its hooks, and what would turn another repository's listing into this one's.
_OF_ONE_REPOSITORY = frozenset(
    [
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_CEILING_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_GLOB_PATHSPECS",
        "GIT_ICASE_PATHSPECS",
        "GIT_INDEX_FILE",
        "GIT_LITERAL_PATHSPECS",
        "GIT_NAMESPACE",
        "GIT_NOGLOB_PATHSPECS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_WORK_TREE",
    ]
)


def _git(folder: str, *arguments: str) -> bytes | None:
    """What git says in a folder, or None when it is missing or refuses. No program that the repository names is run."""
    command = ["git", "-C", folder, "-c", "core.fsmonitor=false", *arguments]
    environment = {name: value for name, value in os.environ.items() if name not in _OF_ONE_REPOSITORY}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        if sys.platform == "win32":
            return _run(command, environment)
        return _spawn(command, environment)
    except (OSError, ValueError):
        return None


if sys.platform == "win32":

    def _run(command: list[str], environment: dict[str, str]) -> bytes | None:
        import subprocess

        # Left to itself, Windows would look for git.exe in the folder that is audited first.
        for folder in environment.get("PATH", "").split(os.pathsep):
            program = os.path.join(folder, "git.exe")
            if os.path.isabs(folder) and os.path.isfile(program):
                done = subprocess.run([program, *command[1:]], env=environment, capture_output=True, check=False)
                return done.stdout if done.returncode == 0 else None
        return None

else:

    def _spawn(command: list[str], environment: dict[str, str]) -> bytes | None:
        """`subprocess` in small: importing that takes longer than most runs of git."""
        reading, writing = os.pipe()
        try:
            process = os.posix_spawnp(
                command[0],
                command,
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, writing, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        with open(reading, "rb") as stream:
            output = stream.read()
        _, status = os.waitpid(process, 0)
        return output if status == 0 else None
