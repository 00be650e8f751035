"""Reports: one file a format. A format is a function from a report to pieces of text, and knows no rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from auditor.files import Skipped
    from auditor.findings import Finding
    from auditor.lines import Lines
    from auditor.report.look import Look


class Summary(NamedTuple):
    """What there is to say about a run beside its findings.

    `files` are those that were asked for and read. Most are set aside by a search for the words that matter; what was
    read of the rest of their projects is not counted.
    """

    files: int = 0
    skipped: tuple[Skipped, ...] = ()
    suppressed: int = 0
    seconds: float = 0.0


class Report(NamedTuple):
    """All that a format gets: the findings in order, the run, the source lines, and what the screen can show."""

    findings: Sequence[Finding]
    summary: Summary
    lines: Lines
    look: Look


def render(report: Report, form: str) -> Iterator[str]:
    """The findings in one of the formats of `config.FORMATS`."""
    if not report.findings and form != "json":
        return iter(())
    if form == "json":
        from auditor.report.json import render
    elif form == "github":
        from auditor.report.github import render
    elif form == "concise":
        from auditor.report.concise import render
    else:
        from auditor.report.text import render
    return render(report)
