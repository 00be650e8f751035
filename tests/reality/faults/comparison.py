"""Holds what the audit says of a program against what a server says, and counts."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings

from tests.reality.faults.observation import Run, runs
from tests.reality.faults.prediction import Prediction, Seen, predict
from tests.reality.faults.programs import sources
from tests.reality.faults.strategies import programs

if TYPE_CHECKING:
    from tests.reality.faults.programs import Dialect, Program


class DifferenceError(AssertionError):
    """The audit is wrong about a program."""


@dataclass
class Tally:
    """What was compared so far."""

    programs: int = 0
    runs: int = 0
    probes: int = 0
    unknown: int = 0
    #: Probes of which the audit told exactly one state.
    exact: int = 0
    #: States that were told, and those of them that came up in some run.
    told: int = 0
    met: int = 0
    statuses: Counter[str] = field(default_factory=Counter)

    @property
    def share_of_unknown(self) -> float:
        return self.unknown / max(self.probes, 1)

    def __str__(self) -> str:
        return (
            f"{self.programs} programs, {self.runs} runs, {self.probes} probes, "
            f"{100 * self.share_of_unknown:.2f} % unknown, "
            f"{100 * self.exact / max(self.probes, 1):.0f} % with one state, "
            f"{100 * self.met / max(self.told, 1):.0f} % of the states that were told met; "
            + ", ".join(f"{count} {status}" for status, count in sorted(self.statuses.items()))
        )


def try_programs(
    dialect: Dialect, dsn: str, count: int, most: int = 1000, seed: int | None = None, tally: Tally | None = None
) -> Tally:
    """Compare so many generated programs; without a seed always the same ones. Raises a DifferenceError, minimised.

    Whoever gives a tally still has what was counted when this is ended early.
    """
    tally = Tally() if tally is None else tally

    @settings(
        max_examples=count,
        derandomize=seed is None,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(programs(dialect))
    def agrees(program: Program) -> None:
        compare(program, dsn, tally, most)

    if seed is not None:
        agrees = hypothesis.seed(seed)(agrees)
    agrees()
    return tally


def compare(program: Program, dsn: str, tally: Tally, most: int = 1000) -> None:
    """Audit a program, run it `most` times at most, and raise a DifferenceError where they disagree."""
    compare_files(sources(program), dsn, tally, most)


def compare_files(files: dict[str, str], dsn: str, tally: Tally, most: int = 1000) -> None:
    """The same for a program that is written out."""
    with tempfile.TemporaryDirectory() as folder:
        prediction = predict(Path(folder), files)
    tally.programs += 1
    met: dict[int, set[Seen]] = {}
    for run in runs(files, dsn, most):
        tally.runs += 1
        for probe, seen in run.seen:
            _compare(files, prediction, run, probe, seen, tally)
            met.setdefault(probe, set()).add(seen)
    for probe, seens in met.items():
        told = prediction.states.get(probe, set())
        tally.told += len(told)
        tally.met += sum(any(one.allows(seen) for seen in seens) for one in told)


def _compare(files: dict[str, str], prediction: Prediction, run: Run, probe: int, seen: Seen, tally: Tally) -> None:
    told = prediction.states.get(probe, set())
    tally.probes += 1
    tally.statuses[seen.status] += 1
    tally.exact += len(told) == 1
    if prediction.given_up or any(one.is_unknown for one in told):
        tally.unknown += 1
        return
    if not any(one.allows(seen) for one in told):
        raise DifferenceError(_report(files, run, probe, seen, told))


def _report(files: dict[str, str], run: Run, probe: int, seen: Seen, told: set[Seen]) -> str:
    says = " or ".join(map(_say, sorted(told, key=str))) or "never"
    lines = [f"probe {probe}: the server says {_say(seen)}, the audit {says}"]
    lines.append(f"(fault {run.fault}, flags {run.flags:b}, seen {run.seen}, ended by {run.ended_by!r})")
    for name, text in files.items():
        lines += [f"--- {name}", text]
    return "\n".join(lines)


def _say(seen: Seen) -> str:
    return seen.status if seen.tenant is None else f"{seen.status} as {seen.tenant or 'nobody'}"
