"""One line a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.findings import Confidence
from auditor.report.look import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.findings import Finding
    from auditor.report import Report
    from auditor.report.look import Look


def render(report: Report) -> Iterator[str]:
    for finding in report.findings:
        yield f"{headline(finding, report.look)}\n"


def headline(finding: Finding, look: Look) -> str:
    """Where, which rule, what happens, how bad and, unless that is certain, how sure."""
    severity = finding.severity.value
    place = finding.place
    where = look.paint("strong", plain(place.path)) + f":{place.line}:{place.column}"
    weight = severity
    if finding.confidence is not Confidence.HIGH:
        weight += f", {finding.confidence.value} confidence"
    mended = " [*]" if finding.fix else ""
    code = look.paint(severity, finding.code)
    return f"{where} {code} {finding.name}: {plain(finding.message)} {look.paint('faint', f'[{weight}]')}{mended}"
