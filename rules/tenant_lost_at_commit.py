"""Tenant work after the commit that ended the tenant."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.rule import SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

RULE = Rule("TA103", "tenant-lost-at-commit", Severity.ERROR, triggers=SETTING_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for orphan in timeline.orphans():
        yield (
            RULE.at(orphan.place, f"{orphan.name} ended with the commit: this reaches {orphan.table} with no tenant")
            .see(orphan.set_at, "set here, for the transaction")
            .see(orphan.ended_at, "the transaction ends here, and the tenant with it")
            .sure(orphan.sure)
            .mended("set the tenant again in each transaction that works for it")
        )
