"""Attempts that only the error handler counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Place, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA304", "crash-never-counted", Severity.WARNING, triggers=CLAIM_TRIGGERS, yields_to=("TA308",))


def check(timeline: Timeline) -> Iterator[Finding]:
    told = set()
    for run in timeline.jobs:
        count = run.counted_by_handler
        if count is None or timeline.reaper_counts(run.claim.table) or not timeline.comes_back(run):
            continue
        told.add(run.claim.table)
        finding = _finding(count.place, run.claim.place).sure(min(count.sure, run.claim.sure))
        recovery = timeline.recovery(run.claim)
        yield finding if recovery is None else finding.see(recovery, "this puts it back, uncounted")
    for queue in timeline.lease_queues():
        last = queue.counted_on_failure
        if last is not None and queue.table not in told:
            yield _finding(last.place, queue.claim.place).sure(min(last.sure, queue.claim.sure, timeline.of_absence))


def _finding(count: Place, claim: Place) -> Finding:
    return (
        RULE.at(
            count,
            "attempts are counted only when an error is caught: a job that kills its process is never counted, "
            "and kills every worker in turn",
        )
        .see(claim, "the job is claimed here, uncounted")
        .mended("count in the claim, and commit it before the work begins")
    )
