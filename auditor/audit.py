"""From a timeline to the findings that a person gets to see."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from auditor.errors import UserError, one_line
from auditor.files import Inventory, Role
from auditor.findings import Finding
from auditor.globs import matcher
from auditor.rule import means
from auditor.suppress import Outcome, apply

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from auditor.config import Config
    from auditor.directives import Directive
    from auditor.files import Skipped
    from auditor.lines import Lines
    from auditor.packs import LoadedRule
    from auditor.timeline import Timeline


class Examined(NamedTuple):
    """What the rules find, what comments ask for, and what was left out."""

    findings: list[Finding]
    directives: Sequence[Directive]
    skipped: tuple[Skipped, ...]


def audit(timeline: Timeline, rules: Iterable[LoadedRule]) -> list[Finding]:
    """All that the rules find, in the order of a report, each fault once."""
    rules = list(rules)
    found = (finding for rule in rules if rule.check is not None for finding in _ask(rule, rule.check, timeline))
    # What is said here is true of PostgreSQL alone.
    ours = (finding for finding in found if not timeline.program.is_for_another_database(finding.place))
    once = _once(_joined(_settled(ours)), {rule.rule.code: rule.rule.yields_to for rule in rules})
    return [
        finding if finding.symbol else replace(finding, symbol=timeline.program.symbol_at(finding.place))
        for finding in map(timeline.with_calls, once)
    ]


def suppress(
    findings: Sequence[Finding],
    directives: Sequence[Directive],
    loaded: Sequence[LoadedRule],
    chosen: Collection[LoadedRule],
    lines: Lines,
) -> Outcome:
    """Hide what comments ask to hide, and let the rules on comments judge those that hide nothing."""
    first = apply(findings, directives, loaded, chosen, lines)
    judged = [
        finding
        for rule in chosen
        if rule.check_suppressions is not None
        for finding in _ask(rule, rule.check_suppressions, first.unused)
    ]
    second = apply(judged, directives, loaded, chosen, lines)
    return Outcome(_settled([*first.kept, *second.kept]), [*first.suppressed, *second.suppressed], first.unused)


def keep(findings: Iterable[Finding], inventory: Inventory, config: Config, lines: Lines) -> list[Finding]:
    """What is to be reported: in the files asked for, severe and sure enough, and not ignored where it stands."""
    files = {file.path: file.file for file in inventory.files if file.role is Role.REPORTED}
    ignores = [(matcher([glob], config.folder), words) for glob, words in config.per_path_ignores]
    kept = [
        finding
        for finding in findings
        if finding.place.path in files
        and config.min_severity <= finding.severity
        and config.min_confidence <= finding.confidence
        and not any(
            match(files[finding.place.path]) and any(means(word, finding) for word in words) for match, words in ignores
        )
    ]
    return [replace(finding, context=_context(finding, lines)) for finding in kept]


def _context(finding: Finding, lines: Lines) -> str:
    known = lines(finding.place.path)
    return known[finding.place.line - 1].strip() if 0 < finding.place.line <= len(known) else ""


def _settled(findings: Iterable[Finding]) -> list[Finding]:
    """Findings in order. Of those that say the same about the same place, the surest and shortest is kept."""
    best: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        key = (finding.code, finding.place, finding.message)
        known = best.get(key)
        faults = finding.faults if known is None else finding.faults | known.faults
        best[key] = replace(finding if known is None or _worth(finding) > _worth(known) else known, faults=faults)
    return sorted(best.values(), key=lambda finding: finding.order)


def _joined(findings: list[Finding]) -> list[Finding]:
    """Of the findings of one rule that are one fault, the one that tells most, with the places of the others."""
    left: list[Finding] = []
    for group in _groups(findings):
        # In order, the first of those that are equally sure and name as many of the others.
        speaker = max(group, key=lambda one: (one.confidence.rank, sum(other.named_in(one) for other in group)))
        for other in group:
            if other is not speaker and not other.named_in(speaker):
                speaker = speaker.see(other.place, other.also or other.message)
        left.append(speaker)
    return sorted(left, key=lambda finding: finding.order)


def _groups(findings: list[Finding]) -> list[list[Finding]]:
    """The findings of each fault, in their order; one that shares faults with two groups makes them one."""
    groups: dict[int, list[Finding]] = {}
    of_fault: dict[tuple[object, ...], int] = {}
    for number, finding in enumerate(findings):
        faults = [(finding.code, *fault) for fault in finding.faults]
        group = groups[number] = [finding]
        for other in dict.fromkeys(of_fault[fault] for fault in faults if fault in of_fault):
            group[:0] = groups.pop(other)
        of_fault.update((fault, number) for one in group for fault in ((one.code, *name) for name in one.faults))
    return list(groups.values())


def _once(findings: list[Finding], yields: dict[str, tuple[str, ...]]) -> list[Finding]:
    """Of findings that tell of one fault, the most telling; the place of what yields to it becomes a related one."""
    heirs = {id(finding): _heir(finding, findings, yields.get(finding.code, ())) for finding in findings}
    kept: dict[int, Finding] = {id(finding): finding for finding in findings if heirs[id(finding)] is None}
    for finding in findings:
        heir = heirs[id(finding)]
        if heir is not None and id(heir) in kept and not finding.named_in(kept[id(heir)]):
            kept[id(heir)] = kept[id(heir)].see(finding.place, finding.message)
    return list(kept.values())


def _heir(finding: Finding, findings: list[Finding], codes: tuple[str, ...]) -> Finding | None:
    """The finding that speaks for another: it is at least as sure, so that what is hidden hides nothing surer."""
    speakers = (
        one for one in findings if one.code in codes and finding.confidence <= one.confidence and one.concerns(finding)
    )
    return next(speakers, None)


def _worth(finding: Finding) -> tuple[int, int]:
    return (finding.confidence.rank, -len(finding.related))


_About = TypeVar("_About")


def _ask(loaded: LoadedRule, check: Callable[[_About], Iterable[Finding]], about: _About) -> list[Finding]:
    """What a rule finds. A rule that fails ends the run: what it would have found must not be missing unseen."""
    who = f"{loaded.module}: the rule {loaded.rule.name}"
    try:
        found = list(check(about) or ())
    except Exception as error:
        what = one_line(f"{type(error).__name__}: {error}")
        raise UserError(f"{who} failed: {what}; with -v you see where") from error
    if not all(isinstance(finding, Finding) for finding in found):
        raise UserError(f"{who} yields something that is no Finding; make findings with RULE.at(place, message)")
    return found
