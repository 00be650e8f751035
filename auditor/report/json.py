"""One JSON document, for machines. Its shape is versioned: fields are added, never changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from auditor.findings import fingerprints
from auditor.pages import url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.findings import Finding, Related
    from auditor.report import Report

VERSION = 1


def render(report: Report) -> Iterator[str]:
    names = fingerprints(list(report.findings))
    document = {
        "version": VERSION,
        "findings": [_finding(finding, name) for finding, name in zip(report.findings, names, strict=True)],
        "files": {
            "read": report.summary.files,
            "skipped": [{"path": _text(path), "reason": _text(reason)} for path, reason in report.summary.skipped],
        },
    }
    yield json.dumps(document, indent=2) + "\n"


def _finding(finding: Finding, fingerprint: str) -> dict[str, Any]:
    place, fix = finding.place, finding.fix
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "message": _text(finding.message),
        "path": _text(place.path),
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line or place.line,
        "end_column": place.end_column or place.column,
        "symbol": _text(finding.symbol),
        "related": [_related(related) for related in finding.related],
        "fix": fix and {"applicability": fix.applicability.value, "description": _text(fix.description)},
        "fingerprint": fingerprint,
        "url": url(finding.code),
    }


def _related(related: Related) -> dict[str, Any]:
    place = related.place
    return {"path": _text(place.path), "line": place.line, "column": place.column, "message": _text(related.message)}


def _text(text: str) -> str:
    """Text that every reader of JSON accepts: a file name need not be Unicode, a JSON string must."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if not text.isascii() else text
