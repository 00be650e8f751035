"""The last line of a run, and the count by rule."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from auditor.findings import Severity

if TYPE_CHECKING:
    from auditor.report import Report


def sentence(report: Report) -> str:
    """How many findings of which severity, in how many files, in what time."""
    summary = report.summary
    counts = Counter(finding.severity for finding in report.findings)
    found = ", ".join(
        report.look.paint(severity.value, _count(counts[severity], severity.value))
        for severity in reversed(Severity)
        if counts[severity]
    )
    said = f"{found or report.look.paint('good', 'no findings')} in {_count(summary.files, 'file')}"
    asides = [f"{summary.suppressed} suppressed"] if summary.suppressed else []
    if summary.skipped:
        asides.append(f"{_count(len(summary.skipped), 'path')} skipped, -v tells why")
    return f"{said}, {_time(summary.seconds)}" + (f" ({'; '.join(asides)})" if asides else "")


def statistics(report: Report) -> str:
    """How many findings of each rule, the commonest first."""
    counts = Counter((finding.code, finding.name) for finding in report.findings)
    width = len(str(max(counts.values(), default=0)))
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    return "".join(f"{count:>{width}}  {code}  {name}\n" for (code, name), count in rows)


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"
