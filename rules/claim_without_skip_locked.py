"""Claims that let two workers have the same job, or make them queue for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, WAITING_CALL_TRIGGERS, WAITING_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule(
    "TA409",
    "claim-without-skip-locked",
    Severity.ERROR,
    triggers=(*CLAIM_TRIGGERS, *WAITING_TRIGGERS, *WAITING_CALL_TRIGGERS),
    yields_to=("TA410", "TA411"),
)
MEND = "pick the job with FOR UPDATE SKIP LOCKED in the statement that marks it as taken"


def check(timeline: Timeline) -> Iterator[Finding]:
    for job in timeline.unguarded_jobs():
        if job.freed_at is not None:
            continue
        if job.found_at == job.place:
            finding = RULE.at(
                job.place,
                "the job is picked without a lock: whoever waits for its row takes it a second time, "
                "so that two workers run it",
            )
        else:
            finding = RULE.at(
                job.found_at, "waiting jobs are read without a lock: two workers read the same ones, and both run them"
            ).see(job.place, "it is marked here, and nothing asks again whether it is still free")
        yield finding.sure(job.sure).mended(MEND)
    for claim in timeline.claims_of_jobs():
        if claim.step.locked == "wait" and not claim.step.sweeps:
            yield (
                RULE.at(
                    claim.place,
                    "the claim waits for jobs that others hold: workers queue behind each other, one at a time",
                )
                .as_severe(Severity.WARNING)
                .sure(claim.sure)
                .mended("add SKIP LOCKED")
            )
