"""Comments that tell the audit to be silent: what they ask for, and for which lines.

    # tenant-audit: ignore[session-tenant] the connection is closed at the end of the script
    -- tenant-audit: ignore[TA101, TA2] …
    # tenant-audit: ignore-file[TA307] …

Rules are named by code, by the beginning of a code or by name. Whoever finds a comment hands it to `parse_directive`;
text in a string that is no comment never gets here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from auditor.findings import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from auditor.lines import Lines


#: Why a directive, or one of the rules it names, hides nothing: there is no such finding; no rule of that name is
#: loaded; it names no rule; it speaks to us and asks for something we don't know.
Problem = Literal["nothing", "unknown", "bare", "unclear"]


class Directive(NamedTuple):
    """One comment: the rules it names, and the lines it counts for.

    `statement` is the first and last line it counts for. With `before` it stands on a line of its own outside any
    statement and counts for the one that begins at the next line of code; `statement` is then the next one that has
    several lines, wherever that begins.
    """

    path: str
    line: int
    column: int
    end_column: int
    words: tuple[str, ...] = ()
    statement: tuple[int, int] = (0, 0)
    before: bool = False
    whole_file: bool = False
    reason: str = ""
    problem: Problem | None = None

    @property
    def place(self) -> Place:
        return Place(self.path, self.line, self.column, self.line, self.end_column)

    def covers(self, place: Place, lines: Lines) -> bool:
        """Whether what stands at that place is meant."""
        if place.path != self.path or self.problem is not None:
            return False
        if self.whole_file:
            return True
        first, last = self.statement
        if self.before:
            if place.line <= self.line:
                return False
            start = _next_code(self.line, lines(self.path))
            first, last = start, last if start == first else start
        return first <= place.line <= last


class Unused(NamedTuple):
    """A directive that hides nothing. `word` is the rule it names in vain, empty where it names none."""

    directive: Directive
    problem: Problem
    word: str = ""


# Reading a comment


_ADDRESS = re.compile(r"(?:\A|#|--|/\*)[#\s*]*tenant-audit\s*:\s*([^\n]*)", re.IGNORECASE)
_REQUEST = re.compile(r"(ignore(?:-file)?)(?![\w-])\s*(?:\[([^\]]*)\])?\s*(.*)", re.IGNORECASE)


def parse_directive(
    text: str, path: str, line: int, column: int, own_line: bool, statements: Iterable[tuple[int, int]]
) -> Directive | None:
    """What a comment tells the audit, or None when it does not speak to it.

    `text` is the comment as written, `line` and `column` (from 1) where it begins. `statements` are the first and last
    lines of statements that span more than one; of those around the comment the smallest counts.
    """
    address = _ADDRESS.search(text)
    if address is None:
        return None
    written = text.partition("\n")[0].rstrip()
    directive = Directive(path, line, column, column + len(written))
    request = _REQUEST.match(address[1])
    if request is None:
        return directive._replace(problem="unclear")
    verb, names, reason = request.groups()
    around = _around(line, statements)
    following = min((span for span in statements if span[0] > line), default=(0, 0))
    words = tuple(dict.fromkeys(re.split(r"[\s,]+", (names or "").strip(" ,"))))
    return directive._replace(
        words=words if any(words) else (),
        whole_file=verb.lower() == "ignore-file",
        reason=reason.removesuffix("*/").strip(),
        problem=None if any(words) else "bare",
        statement=around or (following if own_line else (line, line)),
        before=own_line and around is None,
    )


def _around(line: int, statements: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    """The smallest of the statements that a line belongs to."""
    around = [(first, last) for first, last in statements if first <= line <= last]
    return min(around, key=lambda span: span[1] - span[0], default=None)


def _next_code(line: int, lines: Sequence[str]) -> int:
    """The first line after this one that is neither blank nor a comment."""
    for number in range(line, len(lines)):
        text = lines[number].strip()
        if text and not text.startswith(("#", "--")):
            return number + 1
    return line + 1
