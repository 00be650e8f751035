"""Heartbeats that nobody hears, or that anybody may send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Confidence, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA405", "heartbeat-in-work-transaction", Severity.ERROR, triggers=CLAIM_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for queue in timeline.lease_queues():
        for beat in queue.beats:
            if queue.hides(beat):
                finding = RULE.at(
                    beat.place,
                    "the heartbeat runs in the transaction of the work: nobody sees it before the work is over",
                ).mended("send it on a connection of its own, and commit it at once")
                if beat.ran.before.begun is not None:
                    finding = finding.see(beat.ran.before.begun, "the transaction begins here")
            elif queue.lets_anyone_prolong(beat):
                finding = (
                    RULE.at(
                        beat.place,
                        "the heartbeat asks for the id alone: a worker that lost the job prolongs the lease of another",
                    )
                    .see(queue.claim.place, "the job is claimed here")
                    .mended(f"add {queue.proof}, as the claim has set it, to the conditions")
                )
                if queue.fences_on_demand(beat):
                    # Who calls it may always give the proof.
                    finding = finding.sure(Confidence.LOW)
            else:
                continue
            yield finding.see_call(beat.ran.call, "it runs here").sure(beat.sure)
