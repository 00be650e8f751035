"""Leases that run out while their job runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Confidence, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA404", "lease-without-heartbeat", Severity.WARNING, triggers=CLAIM_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for queue in timeline.lease_queues():
        taker = queue.retaken_by
        if taker is None or not taker.step.times_out or queue.is_prolonged:
            continue
        finding = RULE.at(
            queue.claim.place,
            "nothing prolongs the lease while the job runs: one that takes longer is run a second time beside itself",
        )
        if taker.place != queue.claim.place:
            finding = finding.see(taker.place, "here it is given to others when the time is up")
        # How long the work takes is not seen.
        yield finding.sure(Confidence.LOW).mended(
            "prolong it from a connection of its own while the work runs, or stop the work before the lease ends"
        )
