"""Tenant work after the end of the transaction that the tenant was set in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA103", "tenant-lost-at-commit", Severity.ERROR, triggers=SETTING_TRIGGERS, yields_to=("TA110",))


def check(timeline: Timeline) -> Iterator[Finding]:
    for orphan in timeline.orphans():
        by_block = timeline.ends_block(orphan.ended_at)
        yield (
            RULE.at(
                orphan.place, f"{orphan.name} ended with its transaction: this reaches {orphan.table} with no tenant"
            )
            .see(orphan.set_at, "set here, for the transaction")
            .see(
                orphan.ended_at,
                f"the transaction ends {'with this block' if by_block else 'here'}, and the tenant with it",
            )
            .see_call(orphan.call, "this runs it, with no tenant")
            .sure(orphan.sure)
            .mended("set the tenant again in each transaction that works for it")
        )
