"""Work of a job on a table of tenants while no tenant is set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, POLICY_TRIGGERS, SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule(
    "TA108",
    "work-without-tenant",
    Severity.WARNING,
    triggers=(*POLICY_TRIGGERS, *SETTING_TRIGGERS, *CLAIM_TRIGGERS),
    yields_to=("TA102", "TA103", "TA111", "TA112"),
)


def check(timeline: Timeline) -> Iterator[Finding]:
    for work in timeline.unset_tenants():
        finding = RULE.at(
            work.place,
            f"{work.table} is under a policy that needs a tenant, and no tenant is set on this connection: "
            "the job finds no row, and no error",
        )
        if work.claimed_at is not None:
            finding = finding.see(work.claimed_at, "the job is taken here")
        yield (
            finding.see(work.taken_at, "the job takes its connection here, and sets no tenant on it")
            .see(work.set_elsewhere, "this is done with a tenant, on a connection of the same kind")
            .sure(work.sure)
            .mended("set the tenant first, in the same transaction: set_config(…, …, true)")
        )
