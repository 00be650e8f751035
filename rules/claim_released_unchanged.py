"""Claims whose row lock is let go before the job has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Confidence, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA411", "claim-released-unchanged", Severity.ERROR, triggers=CLAIM_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for job in timeline.unguarded_jobs():
        if job.freed_at is None:
            continue
        what = (
            "the first commit ends the locks of all jobs that were claimed together: the others are free again, "
            "and are run twice"
            if job.batch
            else "the claim's row lock ends with its transaction, and the row is as it was: "
            "the job is free again before it is done"
        )
        finding = RULE.at(job.found_at, what).see(job.freed_at, "the lock goes with its transaction here")
        if job.freed_by is not None:
            finding = finding.see(job.freed_by, "and is called here, while jobs are at hand")
        yield (
            finding.see(job.place, "and here a job is taken or ended that others may have by now")
            .sure(job.sure)
            .mended("mark what was claimed as taken in the transaction that locks it, or claim one job at a time")
        )
    for lock in timeline.loose_locks:
        if lock.ended is None:
            continue
        yield (
            RULE.at(
                lock.ran.place,
                "the row lock ends with the transaction of the function that takes it: whoever called it for the lock "
                "goes on without one",
            )
            .see(lock.ended.place, "the lock goes with its transaction here")
            .sure(min(lock.ran.before.sure, Confidence.MEDIUM))
            .mended("leave the transaction open while the work is done, or mark the row as taken in it")
        )
