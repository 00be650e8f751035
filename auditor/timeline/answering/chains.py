"""The calls that lead to what findings name, from where their ways part: told where a fault takes several modules."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.findings import Related

if TYPE_CHECKING:
    from collections.abc import Iterable

    from auditor.findings import Finding, Place
    from auditor.program import Program
    from auditor.timeline.model.events import Opened, Ran

_Chain = tuple["Place", ...]
#: The file and the name of a function.
_Home = tuple[str, str]

THROUGH = "through this call"
SUPPLIED = "a framework calls it for this function"
RUNS = "it runs here"
#: So many calls are told of one chain, and of all chains of a finding: of more the first and the last.
MOST, MOST_IN_ALL = 4, 6


class Chains:
    """The calls that led to each statement that ran, by the places that a finding may name it by."""

    def __init__(self, program: Program, statements: Iterable[Ran], opened: Iterable[Opened]) -> None:
        self._program = program
        self._chains: defaultdict[Place, dict[_Chain, None]] = defaultdict(dict)
        #: Where the connections of a place's statements were got.
        self._got: defaultdict[Place, set[Place]] = defaultdict(set)
        self._homes: dict[tuple[str, int], _Home] = {}
        got = {one.connection: one.place for one in opened}
        for ran in statements:
            chain = (*ran.through, ran.call)
            for place in _names(ran):
                self._chains[place].setdefault(chain)
                if ran.connection in got:
                    self._got[place].add(got[ran.connection])

    def tell(self, finding: Finding) -> Finding:
        """The same finding, each of its places behind the calls that lead to it."""
        named = (finding.place, *(see.place for see in finding.related))
        homes = {self._home(place) for place in named}
        chains = [self._shared(place, homes) for place in named]
        homes.update(self._home(got) for place in named for got in self._got.get(place, ()))
        start = self._start([chain for chain in chains if chain], homes)
        calls = {call for chain in chains for call in chain[start:]}
        if all(len(chain) - start < 2 for chain in chains) or len({place.path for place in (*named, *calls)}) == 1:
            return finding
        told: list[Related] = []
        room = MOST_IN_ALL
        for chain, see in zip(chains, (None, *finding.related), strict=True):
            steps = _shortened(self._steps(chain[start:], named, told), min(room, MOST))
            room -= len(steps)
            told.extend(steps if see is None else (*steps, see))
        return replace(finding, related=tuple(told))

    def _shared(self, place: Place, homes: set[_Home]) -> _Chain:
        """The last calls of every way to a place, among those ways that pass most of what the finding names."""
        ways = list(self._chains.get(place, ()))
        if not ways:
            return ()
        passed = [len(homes & {self._home(call) for call in way}) for way in ways]
        best = [way for way, count in zip(ways, passed, strict=True) if count == max(passed)]
        return tuple(reversed(_common([tuple(reversed(way)) for way in best])))

    def _start(self, chains: list[_Chain], homes: set[_Home]) -> int:
        """How many of the first calls say nothing: all ways share them, and nothing that is named comes before."""
        if not chains:
            return 0
        shared = len(_common(chains)) if len(chains) > 1 else len(chains[0]) - 1
        anchored = (index for index, call in enumerate(chains[0][:shared]) if self._home(call) in homes)
        return next(anchored, shared)

    def _steps(self, chain: _Chain, named: tuple[Place, ...], told: list[Related]) -> list[Related]:
        """The calls of a chain that are not yet told, and on whose lines nothing stands that is named anyway."""
        lines = {(place.path, place.line) for place in (*named, *(see.place for see in told))}
        return [
            Related(call, RUNS if call is chain[-1] else self._through(call))
            for call in chain
            if (call.path, call.line) not in lines and not any(call.holds(place) for place in named)
        ]

    def _through(self, call: Place) -> str:
        """What is said of a call: where a framework calls, the name of the function stands for it that it calls for."""
        module = self._program.module_at(call.path)
        before = module.lines[call.line - 1][: call.column - 1] if module is not None else b""
        return SUPPLIED if before.rstrip().endswith(b"def") else THROUGH

    def _home(self, place: Place) -> _Home:
        line = place.path, place.line
        known = self._homes.get(line)
        if known is None:
            known = self._homes[line] = place.path, self._program.symbol_at(place)
        return known


def _names(ran: Ran) -> set[Place]:
    parts = (*(setting.place for setting in ran.settings), *(mark.place for mark in ran.marks))
    return {ran.place, ran.call, *parts, *ran.step_places}


def _shortened(steps: list[Related], most: int) -> list[Related]:
    """At most so many steps, the first and the last ones; before the gap stands how many are left out."""
    if len(steps) <= most:
        return steps
    first, last = steps[: most // 2], steps[len(steps) - most // 2 :]
    if first:
        left = len(steps) - len(first) - len(last)
        first[-1] = Related(first[-1].place, f"{first[-1].message}, and {left} more")
    return [*first, *last]


def _common(chains: list[_Chain]) -> _Chain:
    """What all of them begin with."""
    shared = 0
    for calls in zip(*chains, strict=False):
        if len(set(calls)) > 1:
            break
        shared += 1
    return chains[0][:shared] if chains else ()
