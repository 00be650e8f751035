"""Hides the findings that comments ask to hide, and tells which comments hide nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.directives import Directive, Unused
from auditor.rule import means

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from auditor.findings import Finding
    from auditor.lines import Lines
    from auditor.packs import LoadedRule


class Outcome(NamedTuple):
    """What suppression leaves, what it hides, and the directives that hide nothing."""

    kept: list[Finding]
    suppressed: list[Finding]
    unused: list[Unused]


def apply(
    findings: Iterable[Finding],
    directives: Sequence[Directive],
    loaded: Sequence[LoadedRule],
    chosen: Collection[LoadedRule],
    lines: Lines,
) -> Outcome:
    """Hide what the directives ask to hide. A rule that is loaded and was not chosen is never named in vain."""
    by_path: dict[str, list[Directive]] = {}
    for directive in directives:
        by_path.setdefault(directive.path, []).append(directive)
    outcome = Outcome([], [], [])
    used: set[tuple[Directive, str]] = set()
    for finding in findings:
        hits = [
            (directive, word)
            for directive in by_path.get(finding.place.path, ())
            for word in directive.words
            if means(word, finding) and directive.covers(finding.place, lines)
        ]
        used.update(hits)
        (outcome.suppressed if hits else outcome.kept).append(finding)
    for directive in directives:
        outcome.unused.extend(_in_vain(directive, used, loaded, chosen))
    return outcome


def _in_vain(
    directive: Directive,
    used: set[tuple[Directive, str]],
    loaded: Sequence[LoadedRule],
    chosen: Collection[LoadedRule],
) -> Iterator[Unused]:
    if directive.problem is not None:
        yield Unused(directive, directive.problem)
    for word in directive.words:
        meant = [rule for rule in loaded if means(word, rule.rule)]
        if not meant:
            yield Unused(directive, "unknown", word)
        elif (directive, word) not in used and all(rule in chosen and rule.check is not None for rule in meant):
            yield Unused(directive, "nothing", word)
