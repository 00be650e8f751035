"""Stalled jobs that are given back without end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA308", "recovery-uncounted", Severity.ERROR, triggers=CLAIM_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for recovery in timeline.endless_recoveries():
        if recovery.reaper.place == recovery.claim.place:
            again = RULE.at(
                recovery.claim.place,
                "jobs whose time is up are claimed again and nothing counts how often: "
                "a job that kills its process is run for ever",
            )
            mend = "count at the claim, take only what is below its maximum, and bury the rest"
            yield again.sure(recovery.claim.sure).mended(mend)
            continue
        what = "looks at the count" if recovery.counted else "counts"
        finding = RULE.at(
            recovery.reaper.place,
            f"stalled jobs go back to the queue and nothing on that way {what}: "
            "a job that kills its process is run for ever",
        ).see(recovery.claim.place, "and are claimed again here")
        yield finding.sure(min(recovery.reaper.sure, recovery.claim.sure)).mended(
            "count at the claim, and give back only what is below its maximum; bury the rest"
        )
