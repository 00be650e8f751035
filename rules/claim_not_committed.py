"""Leases that nobody sees while the work goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule(
    "TA407",
    "claim-not-committed",
    Severity.ERROR,
    triggers=CLAIM_TRIGGERS,
    yields_to=("TA301", "TA302", "TA303"),
)


def check(timeline: Timeline) -> Iterator[Finding]:
    for run in timeline.jobs:
        ending = run.unseen_lease
        if ending is None:
            continue
        finding = RULE.at(
            run.claim.place,
            "the work runs in the transaction of the claim: nobody sees the lease, and a failure takes it back "
            "with all that it says",
        )
        if ending.failed_at is not None:
            finding = finding.see(ending.failed_at, "when this fails, the claim is rolled back too")
        yield (
            finding.sure(run.claim.sure)
            .of_fault(ending.place, run.root, also="and neither is this one seen")
            .mended("commit the claim before the work begins")
        )
