"""For a person at a terminal: what happens, the lines that make it happen, and the mend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.report.concise import headline
from auditor.report.look import plain
from auditor.report.snippet import Mark, Snippet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.findings import Finding
    from auditor.lines import Lines
    from auditor.report import Report
    from auditor.report.look import Look


def render(report: Report) -> Iterator[str]:
    for finding in report.findings:
        yield "".join(f"{line}\n" for line in _finding(finding, report.lines, report.look))
        yield "\n"


def _finding(finding: Finding, lines: Lines, look: Look) -> Iterator[str]:
    yield headline(finding, look)
    files = _by_file(finding)
    gutter = max(len(str(mark.place.line)) for marks in files.values() for mark in marks)
    for path, marks in files.items():
        if path != finding.place.path:
            yield f"{'':>{gutter}}{look.paint('faint', '-->')} {plain(path)}:{marks[0].place.line}"
        yield from Snippet(lines(path), gutter, look).show(marks)
    if finding.mend:
        yield from Snippet((), gutter, look).note(f"mend: {plain(finding.mend)}")


def _by_file(finding: Finding) -> dict[str, list[Mark]]:
    """The places of a finding, its own file first, each file from top to bottom."""
    files = {finding.place.path: [Mark(finding.place, "", finding.severity.value)]}
    for mark in _related(finding):
        files.setdefault(mark.place.path, []).append(mark)
    return {path: sorted(marks, key=lambda mark: mark.place[1:3]) for path, marks in files.items()}


def _related(finding: Finding) -> list[Mark]:
    """The related places, numbered where reading from top to bottom would not give the order of events."""
    places = [related.place for related in finding.related]
    told_in_order = places == sorted(places) and all(place.path == finding.place.path for place in places)
    numbered = len(places) > 1 and not told_in_order
    return [
        Mark(place, f"{number}. {plain(message)}" if numbered else plain(message), "related")
        for number, (place, message) in enumerate(finding.related, 1)
    ]
