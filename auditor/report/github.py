"""Workflow commands that GitHub shows as annotations beside the code."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from auditor.findings import Confidence, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.findings import Finding
    from auditor.report import Report

_COMMANDS = {Severity.NOTE: "notice", Severity.WARNING: "warning", Severity.ERROR: "error"}


def render(report: Report) -> Iterator[str]:
    for finding in report.findings:
        properties = ",".join(f"{name}={_property(value)}" for name, value in _properties(finding).items())
        yield f"::{_COMMANDS[finding.severity]} {properties}::{_data(_message(finding))}\n"


def _properties(finding: Finding) -> dict[str, str]:
    place = finding.place
    end_line = place.end_line or place.line
    found = {"file": _from_workspace(place.path), "line": str(place.line), "endLine": str(end_line)}
    if end_line == place.line:  # columns are for places on one line
        found |= {"col": str(place.column), "endColumn": str(place.end_column or place.column)}
    return found | {"title": f"{finding.code} {finding.name}"}


def _message(finding: Finding) -> str:
    """An annotation is all there is to see, so the other places and the mend are told in words."""
    lines = [finding.message]
    if finding.confidence is not Confidence.HIGH:
        lines[0] += f" ({finding.confidence.value} confidence)"
    lines.extend(f"{place.path}:{place.line} {message}" for place, message in finding.related)
    if finding.mend:
        lines.append(f"mend: {finding.mend}")
    return "\n".join(lines)


def _from_workspace(path: str) -> str:
    """A path from the root of the repository, where annotations are looked for, whatever folder the run was in."""
    workspace = os.environ.get("GITHUB_WORKSPACE", "")
    absolute = os.path.abspath(path)
    below = workspace.rstrip(os.sep) + os.sep
    return absolute.removeprefix(below).replace(os.sep, "/") if workspace and absolute.startswith(below) else path


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
