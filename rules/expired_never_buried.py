"""Jobs that stay running for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA401", "expired-never-buried", Severity.WARNING, triggers=CLAIM_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for whole in timeline.lease_queues():
        # Of several kinds of jobs that are done for the same rows, one may be forgotten.
        queue = next((part for part in whole.parts if part.leaves_lost_jobs), whole)
        if queue.leaves_lost_jobs:
            finding = RULE.at(
                queue.claim.place,
                "nothing takes back a job whose worker has died: it stays marked as taken for ever",
            ).mended("give it a time limit when it is claimed, and take back or bury what is past it")
            for other in queue.claims:
                if other.place != queue.claim.place:
                    finding = finding.see(other.place, "jobs are taken here, too")
        elif queue.leaves_exhausted_jobs is not None:
            finding = RULE.at(
                queue.claim.place,
                "a job whose worker dies at the last attempt is taken by nobody again and buried by nothing: "
                "it stays as it is for ever",
            ).mended("move what is past its time and at its maximum to a last state")
            if queue.leaves_exhausted_jobs.place != queue.claim.place:
                finding = finding.see(queue.leaves_exhausted_jobs.place, "this leaves it out")
        else:
            continue
        yield finding.sure(min(queue.claim.sure, timeline.of_absence))
