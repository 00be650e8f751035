"""A failing job that nothing counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA302", "failure-never-counted", Severity.ERROR, triggers=CLAIM_TRIGGERS, yields_to=("TA301", "TA303"))


def check(timeline: Timeline) -> Iterator[Finding]:
    for run in timeline.jobs:
        ending = run.forgotten_failure
        if ending is None or run.lost_counts:
            continue
        finding = RULE.at(
            run.claim.place,
            "a job whose work fails is rolled back to where it was and counted nowhere: "
            "it is handed out again for ever, ahead of the jobs behind it",
        )
        if ending.failed_at is not None:
            finding = finding.see(ending.failed_at, "the work runs in the transaction of the claim, and may fail here")
        back = timeline.rolled_back_at(run.claim)
        if back is not None:
            finding = finding.see(back.place, "this then rolls the claim back with it")
            if back.block is not None:
                finding = finding.see(back.block, "the transaction is that of this block")
        yield (
            finding.sure(run.claim.sure)
            .of_fault(ending.place, run.root, also="and what is claimed here is no better off")
            .mended(
                "catch the failure, roll back, count it in a new transaction; or count in the claim and commit first"
            )
        )
