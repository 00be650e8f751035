"""Where a character of a string's value stands in the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.python.scan import Hole, ScanError, tokens
from auditor.python.strings import groups, pieces

if TYPE_CHECKING:
    from auditor.python.nodes import Span
    from auditor.python.scan import Literal
    from auditor.python.strings import Run


def locate(source: str, span: Span, piece: int, offset: int, end: bool = False) -> tuple[int, int]:
    """The line and column, in characters and from 1, of a character in the piece of that number of a Text node.

    `source` is the whole file, decoded; `span` is that of the Text. `offset` counts characters of the piece's value,
    and may be its length. With `end` it is the end of a stretch: the place behind the character before it, which may
    be lines above the next character. What can't be told, since the source is not the one that the span was read
    from, is where the span begins.
    """
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    line, column, last, _ = span
    if not 0 < line <= last <= len(lines):
        return line, column + 1
    before = len(lines[line - 1].encode("utf-8", "surrogatepass")[:column].decode(errors="replace"))
    text = "\n".join(lines[line - 1 : last])
    try:
        literals = next(groups(tokens(text, before), depth=1), ())
        known = literals and literals[0].start == before
        place = _offset(text, literals, piece, offset, end) if known else None
    except (ScanError, RecursionError):
        place = before
    place = before if place is None else place
    return line + text.count("\n", 0, place), place - text.rfind("\n", 0, place)


def _offset(text: str, literals: tuple[Literal, ...], piece: int, offset: int, end: bool) -> int | None:
    """The offset in the text, if there is such a piece and it is as long."""
    found = pieces(text, literals)[piece : piece + 1] if piece >= 0 else []
    if not found or isinstance(found[0], Hole):
        return None
    if literals[0].is_bytes:
        offset = _in_bytes("".join(run.value for run in found[0]), offset)
    return _in_runs(found[0], offset, end and offset > 0)


def _in_runs(runs: list[Run], offset: int, end: bool) -> int | None:
    for run in runs:
        if offset < len(run.value) + end:
            alike = len(run.value) == run.end - run.start
            return run.start + offset if alike else run.end if end else run.start
        offset -= len(run.value)
    return runs[-1].end if offset == 0 else None


def _in_bytes(value: str, offset: int) -> int:
    """The byte, for a character of bytes that were decoded as UTF-8."""
    try:
        return len(value.encode("latin-1").decode()[:offset].encode())
    except UnicodeError:
        return offset
