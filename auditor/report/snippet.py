"""Source lines with places underlined, as wide as the screen and no wider."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, NamedTuple

from auditor.report.look import cells

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from auditor.findings import Place
    from auditor.report.look import Look

_DOTS = "..."
#: How many columns of a cut line are shown before the place that matters.
_BEFORE = 16
#: A label that would be narrower than this goes below its underline.
_LABEL = 40


class Mark(NamedTuple):
    """A place to underline, with what to say about it. `style` is "related", or the severity of the finding."""

    place: Place
    label: str
    style: str


class _Window(NamedTuple):
    """The part of a line that is shown: characters from `start` up to `end`."""

    start: int
    end: int


class Snippet(NamedTuple):
    """Lines of one file. `gutter` is how wide line numbers are."""

    lines: Sequence[str]
    gutter: int
    look: Look

    def show(self, marks: Sequence[Mark]) -> Iterator[str]:
        """The lines of the marks, which come from top to bottom, each mark below its line."""
        shown = 0
        before = None
        for mark in marks:
            line = mark.place.line
            if not 0 < line <= len(self.lines):
                yield f"{'':>{self.gutter}} = line {line}" + (f": {mark.label}" if mark.label else "")
                continue
            window = self._window(line, [other.place for other in marks if other.place.line == line])
            if line != shown:
                yield from self._between(shown, line)
                yield self._code(line, window)
            shown = line
            yield from self._underline(mark, window, again=mark.place == before)
            before = mark.place

    def note(self, text: str) -> Iterator[str]:
        """A remark below the lines."""
        start = f"{'':>{self.gutter}} = "
        yield from textwrap.wrap(text, self.look.width, initial_indent=start, subsequent_indent=" " * len(start))

    def _between(self, above: int, line: int) -> Iterator[str]:
        """What stands for the lines between: a single one is shown."""
        if above and line == above + 2:
            yield self._code(above + 1, self._window(above + 1, []))
        elif above and line > above + 2:
            yield _DOTS

    def _row(self, number: str, text: str) -> str:
        return self.look.paint("faint", f"{number:>{self.gutter}} |") + (f" {text}" if text else "")

    def _code(self, line: int, window: _Window) -> str:
        shown = cells(self.lines[line - 1])
        text = "".join(text for text, _ in shown[window.start : window.end]).rstrip()
        before, after = _DOTS if window.start else "", _DOTS if window.end < len(shown) else ""
        return self._row(str(line), before + text + after)

    def _underline(self, mark: Mark, window: _Window, again: bool) -> Iterator[str]:
        """What stands below a line for a mark; a place that is underlined already gets one more label."""
        shown = cells(self.lines[mark.place.line - 1])
        start, end = _stretch(mark.place, self.lines[mark.place.line - 1])
        start, end = max(start, window.start), min(end, window.end)
        indent = (len(_DOTS) if window.start else 0) + _width(shown[window.start : start])
        length = max(_width(shown[start:end]), 1)
        indent = min(indent, self._room - length)  # behind the end of a line that fills the screen
        sign = self.look.paint(mark.style, ("-" if mark.style == "related" else "^") * length)
        room = self._room - indent - length - 1
        if len(mark.label) <= room or room >= _LABEL:
            first, *others = textwrap.wrap(mark.label, max(room, 1)) or [""]
            start_of_row = " " * (indent + length) if again else " " * indent + sign
            yield self._row("", f"{start_of_row} {self.look.paint(mark.style, first)}".rstrip())
            indent += length + 1
        else:
            if not again:
                yield self._row("", " " * indent + sign)
            indent = max(min(indent, self._room - _LABEL), 0)
            others = textwrap.wrap(mark.label, self._room - indent)
        for text in others:
            yield self._row("", " " * indent + self.look.paint(mark.style, text))

    @property
    def _room(self) -> int:
        """How many columns there are for source."""
        return self.look.width - self.gutter - len(" | ")

    def _window(self, line: int, places: Sequence[Place]) -> _Window:
        shown = cells(self.lines[line - 1])
        if _width(shown) <= self._room:
            return _Window(0, len(shown))
        start = min((_stretch(place, self.lines[line - 1])[0] for place in places), default=0)
        room = self._room - len(_DOTS)
        if _width(shown[:start]) < room - _BEFORE:
            start = 0
        else:
            room -= len(_DOTS)
            before = _BEFORE
            while start and before > 0:
                start -= 1
                before -= shown[start][1]
        end = start
        while end < len(shown) and room >= shown[end][1]:
            room -= shown[end][1]
            end += 1
        return _Window(start, end)


def _stretch(place: Place, line: str) -> tuple[int, int]:
    """The characters of its first line that a place covers. One without columns covers what stands on the line."""
    full = len(line.rstrip())
    indent = len(line) - len(line.lstrip())
    start = min(max(place.column - 1, 0), full)
    end = full
    if place.end_line in (0, place.line) and place.end_column:
        end = min(place.end_column - 1, len(line))
    elif place.column > 1 and not place.end_line:
        end = start + 1
    return (indent if place.column <= 1 and indent < end else start), max(end, start)


def _width(shown: Sequence[tuple[str, int]]) -> int:
    return sum(width for _, width in shown)
