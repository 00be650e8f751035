"""What a stream can show: how wide it is, and whether in colour."""

from __future__ import annotations

import os
import sys
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

#: Wide enough for what is written to a file, narrow enough to read there.
_WIDTH = 120
_NARROWEST = 40

_STYLES = {
    "error": "1;31",
    "warning": "1;33",
    "note": "1;36",
    "related": "36",
    "strong": "1",
    "faint": "2",
    "good": "32",
}


class Look(NamedTuple):
    """Width in columns, and whether escape sequences are shown as colours."""

    width: int = _WIDTH
    colour: bool = False

    def paint(self, style: str, text: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.colour and text else text


def look_at(stream: TextIO, colour: str, environment: Mapping[str, str]) -> Look:
    """How to write to a stream; `colour` is "auto", "always" or "never"."""
    return Look(_width(stream, environment), _colours(stream, colour, environment))


def is_terminal(stream: TextIO) -> bool:
    """Whether a person is looking on."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def _width(stream: TextIO, environment: Mapping[str, str]) -> int:
    said = environment.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return max(int(said), _NARROWEST)
    if is_terminal(stream):
        try:
            return max(os.get_terminal_size(stream.fileno()).columns or 80, _NARROWEST)
        except OSError:
            return 80
    return _WIDTH


def _colours(stream: TextIO, colour: str, environment: Mapping[str, str]) -> bool:
    if colour != "auto":
        return colour == "always"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    if not is_terminal(stream) or environment.get("TERM") == "dumb":
        return False
    return sys.platform != "win32" or bool(environment.get("WT_SESSION") or environment.get("TERM"))


# Text that cannot harm a terminal


def plain(text: str) -> str:
    """Text for one line of a terminal: what would move the cursor, colour or turn the reading order is spelt."""
    if text.isprintable():
        return text
    return "".join(character if _harmless(character) else _spelt(character) for character in text)


def cells(line: str) -> list[tuple[str, int]]:
    """What each character of a line is shown as, and how many columns it takes."""
    shown: list[tuple[str, int]] = []
    column = 0
    for character in line:
        text, width = character, 1
        if character == "\t":
            width = 4 - column % 4
            text = " " * width
        elif not character.isascii():
            text, width = _wide(character)
        elif not character.isprintable():
            text = _spelt(character)
            width = len(text)
        shown.append((text, width))
        column += width
    return shown


def _wide(character: str) -> tuple[str, int]:
    if unicodedata.combining(character):
        return character, 0
    if not _harmless(character):
        text = _spelt(character)
        return text, len(text)
    return character, 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _harmless(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) in ("Zs", "Mn", "Mc", "Me")


def _spelt(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
