"""Files that could not be read or understood: what stands in them is not audited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import Place, Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.rule import Finding, Timeline

RULE = Rule("TA901", "unreadable-file", Severity.ERROR)


def check(timeline: Timeline) -> Iterator[Finding]:
    for unread in timeline.program.unread:
        place = Place(unread.path, unread.line, unread.column)
        yield RULE.at(place, f"nothing in this file is audited: {unread.reason}").mended(
            "mend the file, or take it out of the audit with `exclude` in the configuration"
        )
