"""Pictures where a line says more than a table: as text for a terminal, and as SVG for a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Chart(Protocol):
    """A picture."""

    @property
    def title(self) -> str: ...

    def text(self, width: int, colour: bool) -> str:
        """The picture in so many columns."""
        ...

    def svg(self) -> str:
        """The picture as an SVG element, whose colours are the page's."""
        ...


@dataclass(frozen=True)
class Lines:
    """One line a variant: figures in the order of `steps`."""

    title: str
    unit: str
    steps: Sequence[str]
    series: Mapping[str, Sequence[float]]

    def text(self, width: int, colour: bool) -> str:
        from auditor.lab.chart_text import lines

        return lines(self, width, colour)

    def svg(self) -> str:
        from auditor.lab.chart_svg import lines

        return lines(self)


@dataclass(frozen=True)
class Bars:
    """One bar a variant."""

    title: str
    unit: str
    bars: Mapping[str, float]

    def text(self, width: int, colour: bool) -> str:
        from auditor.lab.chart_text import bars

        return bars(self, width, colour)

    def svg(self) -> str:
        from auditor.lab.chart_svg import bars

        return bars(self)


@dataclass(frozen=True)
class Spans:
    """Who did what from when to when, in seconds: one lane a worker."""

    title: str
    lanes: Mapping[str, Sequence[tuple[float, float, str]]]

    def text(self, width: int, colour: bool) -> str:
        from auditor.lab.chart_text import spans

        return spans(self, width, colour)

    def svg(self) -> str:
        from auditor.lab.chart_svg import spans

        return spans(self)
