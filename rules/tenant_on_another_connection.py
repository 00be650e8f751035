"""A tenant set on a connection that is gone before the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA112", "tenant-on-another-connection", Severity.ERROR, triggers=SETTING_TRIGGERS, yields_to=("TA110",))


def check(timeline: Timeline) -> Iterator[Finding]:
    for stranded in timeline.stranded():
        finding = RULE.at(
            stranded.set_at, "the tenant is set on a connection that is given up before the work runs"
        ).see(stranded.released_at, "the connection is given back or closed here")
        if stranded.over:
            finding = finding.see(stranded.place, "whoever asked for it goes on with other connections, with no tenant")
        else:
            tables = f": {', '.join(stranded.tables)}" if stranded.tables else ""
            finding = finding.see(stranded.place, f"the work runs on another connection, with no tenant{tables}")
        yield (
            finding.sure(stranded.sure).mended(
                "set the tenant on the connection that does the work, in the same transaction"
            )
        )
