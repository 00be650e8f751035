"""The words of the laboratory: an experiment, what it finds, and how that is held against what was found before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from auditor.lab.chart import Chart
    from auditor.lab.place import Place


@dataclass(frozen=True)
class Row:
    """One line of an experiment's table. `holds` is None where nothing was expected, or where it was skipped."""

    what: str
    article: str  #: what was found before; empty where it was not looked at
    here: str
    holds: bool | None = None
    #: The same for programs: counts, times and states that JSON has.
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Skipped:
    """A part that cannot be done here, and why."""

    what: str
    why: str

    def row(self) -> Row:
        return Row(self.what, "", f"skipped: {self.why}")


@dataclass(frozen=True)
class Outcome:
    """What an experiment found."""

    rows: tuple[Row, ...]
    verdict: str  #: one line: what was seen, and where it differs how
    charts: tuple[Chart, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether all that was expected was seen."""
        return all(row.holds is not False for row in self.rows)


@dataclass(frozen=True)
class Experiment:
    """One experiment. `run` is given a place that is its own, and tells there how far it has come."""

    name: str
    title: str  #: the question that it answers
    means: str  #: what follows from the answer
    run: Callable[[Place], Outcome]


def judged(rows: Sequence[Row], holds: str) -> Outcome:
    """The outcome of rows: `holds` says what they show where none of them differs."""
    differing = [row for row in rows if row.holds is False]
    if not differing:
        return Outcome(tuple(rows), f"holds: {holds}")
    told = "; ".join(f"{row.what}: {row.here}, and not {row.article or 'what was expected'}" for row in differing)
    return Outcome(tuple(rows), f"differs: {told}")
