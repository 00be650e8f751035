"""A local tenant that a released savepoint hands to what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA113", "tenant-outlives-savepoint", Severity.ERROR, triggers=SETTING_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for outlived, name, tenant in timeline.tenants_in_turn():
        if outlived.held.origin is None:
            continue
        yield (
            RULE.at(
                outlived.held.origin, f"{name} outlives its savepoint: a released savepoint hands its local settings up"
            )
            .see(outlived.place, "this runs after it, still as this tenant")
            .sure(tenant)
            .mended("give each tenant a transaction of its own, with none around them")
        )
