"""Pictures as SVG. Colours are the page's variables, so that one picture is readable in the dark and in the light."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from auditor.lab.chart import Bars, Chart, Lines, Spans
from auditor.lab.chart_text import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_WIDTH, _LEFT, _RIGHT = 720, 64, 16
_ROW = 26


def svg(chart: Chart) -> str:
    """The picture as an SVG element."""
    if isinstance(chart, Lines):
        return _lines(chart)
    return _bars(chart) if isinstance(chart, Bars) else _spans(chart)


def _lines(chart: Lines) -> str:
    """One line a variant, with its name below in its colour."""
    top, height = 34, 220
    most = max((figure for series in chart.series.values() for figure in series), default=0) or 1
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(chart.steps) - 1)

    def at(index: int, figure: float) -> tuple[float, float]:
        return _LEFT + step * index, top + height * (1 - figure / most)

    parts = [_text(_LEFT, 16, f"{chart.title} ({chart.unit})", "title")]
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = at(0, most * share)[1]
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" class="grid"/>')
        parts.append(_text(_LEFT - 8, y + 4, number(most * share), "end"))
    for index, name in enumerate(chart.steps):
        parts.append(_text(at(index, 0)[0], top + height + 18, name, "middle"))
    for place, (name, series) in enumerate(chart.series.items()):
        points = [at(index, figure) for index, figure in enumerate(series)]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{drawn}" class="line c{place % 6}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="dot c{place % 6}"/>' for x, y in points]
        y = top + height + 44 + 20 * place
        parts.append(f'<rect x="{_LEFT}" y="{y - 10}" width="14" height="10" class="bar c{place % 6}"/>')
        parts.append(_text(_LEFT + 22, y, name))
    return _svg(parts, top + height + 44 + 20 * len(chart.series), chart.title)


def _bars(chart: Bars) -> str:
    """One bar a variant."""
    most = max(chart.bars.values(), default=0) or 1
    left = _beside(chart.bars)
    room = _WIDTH - left - 90
    parts = [_text(0, 16, f"{chart.title} ({chart.unit})", "title")]
    for place, (name, figure) in enumerate(chart.bars.items()):
        y, length = 34 + _ROW * place, max(1.0, room * figure / most)
        parts.append(_text(left - 10, y + 13, name, "end"))
        parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="18" class="bar c{place % 6}"/>')
        parts.append(_text(left + length + 8, y + 13, number(figure)))
    return _svg(parts, 40 + _ROW * len(chart.bars), chart.title)


def _spans(chart: Spans) -> str:
    """One lane a worker."""
    until = max((end for lane in chart.lanes.values() for _, end, _ in lane), default=0) or 1
    left = _beside(chart.lanes)
    parts = [_text(0, 16, chart.title, "title")]
    for place, (name, lane) in enumerate(chart.lanes.items()):
        y = 34 + _ROW * place
        parts.append(_text(left - 10, y + 13, name, "end"))
        parts.append(f'<line x1="{left}" y1="{y + 9}" x2="{_WIDTH - _RIGHT}" y2="{y + 9}" class="grid"/>')
        parts += _pieces(lane, y, left, (_WIDTH - _RIGHT - left) / until, place)
    bottom = 40 + _ROW * len(chart.lanes)
    parts += [_text(left, bottom + 12, "0 s"), _text(_WIDTH - _RIGHT, bottom + 12, f"{until:.1f} s", "end")]
    return _svg(parts, bottom + 22, chart.title)


def _beside(names: Iterable[str]) -> float:
    """The room that names take beside what is drawn; a letter is 6.5 wide on average, in whatever font it is."""
    return min(_WIDTH / 2, 20 + 6.5 * max((len(name) for name in names), default=0))


def _pieces(lane: Sequence[tuple[float, float, str]], y: float, left: float, scale: float, place: int) -> list[str]:
    parts = []
    for begin, end, what in lane:
        x, length = left + scale * begin, max(2.0, scale * (end - begin))
        told = f"<title>{escape(what)}: {begin:.2f} s to {end:.2f} s</title>"
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="18" class="bar c{place % 6}">{told}</rect>'
        )
        if length > 8 * len(what):
            parts.append(_text(x + 6, y + 13, what, "on"))
    return parts


def _text(x: float, y: float, told: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(told)}</text>'


def _svg(parts: Sequence[str], height: float, title: str) -> str:
    inner = "\n  ".join(parts)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}"'
        f' xmlns="http://www.w3.org/2000/svg">\n  {inner}\n</svg>'
    )
