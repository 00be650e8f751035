"""An attempt counted in the transaction that a failure rolls back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA301", "count-in-work-transaction", Severity.ERROR, triggers=CLAIM_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for run in timeline.jobs:
        if run.counts_last:
            continue
        for count, ending in run.lost_counts:
            finding = RULE.at(
                count.place,
                "the attempt is counted in the transaction of the work: a failure rolls the count back with it",
            )
            if count.place != run.claim.place:
                finding = finding.see(run.claim.place, "the job is claimed here")
            if ending.failed_at is not None:
                finding = finding.see(
                    ending.failed_at, "when this fails, the transaction is rolled back and nothing is counted"
                )
            yield (
                finding.sure(min(count.sure, run.claim.sure))
                .of_fault(run.claim.place, run.root, also="and so it is here")
                .mended("count in the claim and commit it before the work, or count the failure in a new transaction")
            )
