"""Attempts that only the error handler counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA304", "crash-never-counted", Severity.WARNING, triggers=CLAIM_TRIGGERS, yields_to=("TA308",))


def check(timeline: Timeline) -> Iterator[Finding]:
    for run in timeline.jobs:
        count = run.counted_by_handler
        if count is None or timeline.reaper_counts(run.claim.table) or not timeline.comes_back(run):
            continue
        finding = (
            RULE.at(
                count.place,
                "attempts are counted only when an error is caught: a job that kills its process is never counted, "
                "and kills every worker in turn",
            )
            .see(run.claim.place, "the job is claimed here, uncounted")
            .sure(min(count.sure, run.claim.sure))
            .mended("count in the claim, and commit it before the work begins")
        )
        recovery = timeline.recovery(run.claim)
        yield finding if recovery is None else finding.see(recovery, "this puts it back, uncounted")
