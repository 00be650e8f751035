"""Pictures as text: blocks and letters that every terminal has, or ASCII where it has not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from auditor.lab.chart import Bars, Chart, Lines, Spans

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEIGHT = 10
_NARROWEST, _WIDEST = 20, 60
_COLOURS = ("31", "33", "32", "36", "35", "34")


def text(chart: Chart, width: int, colour: bool) -> str:
    """The picture in so many columns."""
    if isinstance(chart, Lines):
        return _lines(chart, width, colour)
    return _bars(chart, width, colour) if isinstance(chart, Bars) else _spans(chart, width, colour)


def _lines(chart: Lines, width: int, colour: bool) -> str:
    """One letter a variant, at the height of its figure; several at one place are a `*`."""
    most = max((figure for series in chart.series.values() for figure in series), default=0) or 1
    label = len(number(most))
    column = max(3, min(8, (min(width, 2 * _WIDEST) - label - 3) // max(1, len(chart.steps))))
    grid = [[""] * len(chart.steps) for _ in range(_HEIGHT)]
    for at, series in enumerate(chart.series.values()):
        for step, figure in enumerate(series):
            row = _HEIGHT - 1 - round((_HEIGHT - 1) * figure / most)
            grid[row][step] = "*" if grid[row][step] else _paint(chr(ord("a") + at), at, colour)
    told = [f"{chart.title} ({chart.unit})"]
    for row, cells in enumerate(grid):
        height = number(most * (_HEIGHT - 1 - row) / (_HEIGHT - 1)) if row % 3 == 0 else ""
        told.append(
            f"{height:>{label}} {_or('│', '|')}" + "".join(" " * (column - 1) + (cell or " ") for cell in cells)
        )
    told.append(" " * label + " " + _or("└", "+") + _or("─", "-") * (column * len(chart.steps)))
    told.append(" " * (label + 2) + "".join(f"{step[: column - 1]:>{column}}" for step in chart.steps))
    told += [f"  {_paint(chr(ord('a') + at), at, colour)}  {name}" for at, name in enumerate(chart.series)]
    return "\n".join(told)


def _bars(chart: Bars, width: int, colour: bool) -> str:
    """One bar a variant, with its figure behind it."""
    most = max(chart.bars.values(), default=0) or 1
    label = max(map(len, chart.bars), default=0)
    room = max(_NARROWEST, min(_WIDEST, width - label - 14))
    told = [f"{chart.title} ({chart.unit})"]
    for at, (name, figure) in enumerate(chart.bars.items()):
        bar = _or("█", "#") * (max(1, round(room * figure / most)) if figure else 0)
        told.append(f"{name:<{label}}  {_paint(bar, at, colour)} {number(figure)}")
    return "\n".join(told)


def _spans(chart: Spans, width: int, colour: bool) -> str:
    """One lane a worker; what it did fills the time that it took."""
    until = max((end for lane in chart.lanes.values() for _, end, _ in lane), default=0) or 1
    label = max(map(len, chart.lanes), default=0)
    room = max(_NARROWEST, min(_WIDEST, width - label - 4))
    told = [chart.title]
    for at, (name, lane) in enumerate(chart.lanes.items()):
        told.append(f"{name:<{label}}  {_paint(_lane(lane, room, until), at, colour)}")
    told.append(" " * (label + 2) + f"0 s{f'{until:.1f} s':>{room - 3}}")
    return "\n".join(told)


def _lane(lane: Sequence[tuple[float, float, str]], room: int, until: float) -> str:
    cells = [_or("·", ".")] * room
    for begin, end, what in lane:
        first = min(room - 1, int(room * begin / until))
        last = max(first + 1, min(room, round(room * end / until)))
        cells[first:last] = list(f"{what[: last - first]:{_or('▒', '=')}<{last - first}}")
    return "".join(cells)


def number(figure: float) -> str:
    """A figure in three places or so."""
    return f"{figure:,.0f}" if abs(figure) >= 100 or figure == int(figure) else f"{figure:.3g}"


def _paint(text: str, at: int, colour: bool) -> str:
    return f"\x1b[{_COLOURS[at % len(_COLOURS)]}m{text}\x1b[0m" if colour else text


def _or(sign: str, plain: str) -> str:
    """The sign, where standard output can write it."""
    try:
        sign.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return plain
    return sign
