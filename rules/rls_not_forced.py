"""Row security that does not bind the owner of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import POLICY_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA603", "rls-not-forced", Severity.WARNING, triggers=POLICY_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for found in timeline.unforced_tables():
        finding = RULE.at(
            found.place,
            f"row security on {found.table or 'these tables'} is not forced: the owner sees the rows of every tenant, "
            "and so does a worker that logs in as the owner",
        )
        for table, place in found.others:
            finding = finding.see(place, f"nor is it on {table or 'these'}")
        yield finding.sure(found.sure).mended(
            f"ALTER TABLE {found.table or '…'} FORCE ROW LEVEL SECURITY, "
            "or let the workers log in as a role that owns nothing"
        )
