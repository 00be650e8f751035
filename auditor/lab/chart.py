"""Pictures where a line says more than a table: what is in them. They are drawn as text or as SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Lines:
    """One line a variant: figures in the order of `steps`."""

    title: str
    unit: str
    steps: Sequence[str]
    series: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Bars:
    """One bar a variant."""

    title: str
    unit: str
    bars: Mapping[str, float]


@dataclass(frozen=True)
class Spans:
    """Who did what from when to when, in seconds: one lane a worker."""

    title: str
    lanes: Mapping[str, Sequence[tuple[float, float, str]]]


Chart: TypeAlias = Lines | Bars | Spans
