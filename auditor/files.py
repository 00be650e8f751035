"""The files of a run: what each is to the audit, and how its bytes are read without surprises."""

from __future__ import annotations

import enum
import os
import stat
from typing import TYPE_CHECKING, Literal, NamedTuple

from auditor.errors import reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator

Language = Literal["python", "sql", "other"]

#: Larger files are searched in pieces, and not read: what a person wrote is smaller, a dump of data is not.
LIMIT = 64 * 1024 * 1024

_OVERLAP = 4096


class Role(enum.Enum):
    """What a file is to a run."""

    REPORTED = "reported"  #: under the given paths: its faults are reported
    TEST = "test"  #: test code: read, not reported
    CONTEXT = "context"  #: of the same project, outside the given paths: read, not reported


class SourceFile(NamedTuple):
    """`path` is what people see: relative to the working directory, with slashes. `file` is absolute."""

    path: str
    file: str
    language: Language
    role: Role


class Skipped(NamedTuple):
    """A file or folder that was left out, and why."""

    path: str
    reason: str


class Inventory(NamedTuple):
    """The files of a run, in the order of their paths. `roots` are the projects they belong to.

    `beside` are files that tell what the sources run with: locks of versions, configuration of a pooler.
    """

    files: tuple[SourceFile, ...]
    skipped: tuple[Skipped, ...]
    roots: tuple[str, ...]
    cwd: str
    beside: tuple[SourceFile, ...] = ()

    def of_role(self, role: Role) -> frozenset[str]:
        """The paths of the files of one role."""
        return frozenset(file.path for file in self.files if file.role is role)


class UnreadableError(Exception):
    """A file whose bytes cannot be had; the message says why."""


def read(file: SourceFile) -> bytes | Skipped:
    """All of a file, or why not."""
    try:
        return b"".join(pieces(file.file, whole=True))
    except UnreadableError as error:
        return Skipped(file.path, str(error))


def pieces(file: str, whole: bool = False) -> Iterator[bytes]:
    """The bytes of a file: in one piece, or where it is larger than `LIMIT` in pieces that overlap a little.

    Only regular files are read: opening a pipe or a device never waits. With `whole`, a larger file is refused.
    """
    try:
        # A pipe that nobody writes to would be waited for.
        descriptor = os.open(file, os.O_RDONLY | _OPEN_FLAGS)
    except OSError as error:
        raise UnreadableError(reason_of(error)) from error
    except ValueError as error:  # a NUL in the name
        raise UnreadableError(str(error)) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError("not a regular file")
        if status.st_size <= LIMIT:
            yield _rest(descriptor, status.st_size)
        elif whole:
            raise UnreadableError(f"larger than {LIMIT // 1024 // 1024} MiB")
        else:
            yield from _overlapping(descriptor)
    except OSError as error:
        raise UnreadableError(reason_of(error)) from error
    finally:
        os.close(descriptor)


_OPEN_FLAGS: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def _rest(descriptor: int, expected: int) -> bytes:
    data = os.read(descriptor, expected + 1)
    if len(data) == expected:
        return data
    parts = [data]
    while parts[-1]:  # the file grew, or its size was not known
        parts.append(os.read(descriptor, 1024 * 1024))
    return b"".join(parts)


def _overlapping(descriptor: int) -> Iterator[bytes]:
    tail = b""
    while data := os.read(descriptor, 8 * 1024 * 1024):
        yield tail + data
        tail = data[-_OVERLAP:]
