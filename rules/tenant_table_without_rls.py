"""A table of tenants that was left out of row security."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import POLICY_TRIGGERS, Confidence, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA606", "tenant-table-without-rls", Severity.NOTE, triggers=POLICY_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for found in timeline.uncovered_tables():
        yield (
            RULE.at(
                found.place,
                f"{found.table} has {found.column} as {found.sibling} has, but no row security: "
                "every tenant sees the rows of all of them",
            )
            .sure(Confidence.MEDIUM)
            .see(found.sibling_at, f"switched on for {found.sibling} here")
            .mended(f"enable and force row security on {found.table} too, with the same policy")
        )
