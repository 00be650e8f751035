"""The lines of source files, for reports and for what follows a finding when lines move."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from auditor.files import UnreadableError, pieces

if TYPE_CHECKING:
    from collections.abc import Callable

    #: The lines of a file by the path that people see, without their ends; none where it cannot be read.
    Lines = Callable[[str], "tuple[str, ...]"]


class SourceLines:
    """Reads a file when it is first asked for, and once."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._known: dict[str, tuple[str, ...]] = {}

    def __call__(self, path: str) -> tuple[str, ...]:
        if path not in self._known:
            self._known[path] = self._read(path)
        return self._known[path]

    def _read(self, path: str) -> tuple[str, ...]:
        try:
            data = b"".join(pieces(os.path.join(self._cwd, path.replace("/", os.sep)), whole=True))
        except UnreadableError:
            return ()
        # Lines as Python and SQL count them; str.splitlines would also end one at a form feed.
        return tuple(re.split(r"\r\n|\r|\n", decode(data)))


_COOKIE = re.compile(rb"\A(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]+)")


def decode(data: bytes) -> str:
    """Text to show, whatever its encoding: as it declares or as UTF-8, and byte by byte where that does not fit."""
    cookie = _COOKIE.match(data)
    encoding = cookie[1].decode("ascii") if cookie else "utf-8-sig"
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return data.decode("latin-1")
