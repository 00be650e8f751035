"""Heartbeats without an end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Confidence, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA406", "heartbeat-without-limit", Severity.NOTE, triggers=CLAIM_TRIGGERS, yields_to=("TA405", "TA413"))


def check(timeline: Timeline) -> Iterator[Finding]:
    for queue in timeline.lease_queues():
        beat = queue.unlimited_heartbeat
        if beat is None or timeline.limits_time_near(beat):
            continue
        yield (
            RULE.at(
                beat.place,
                "the heartbeat goes on as long as its worker lives: a job that hangs keeps its lease for ever",
            )
            .sure(Confidence.LOW)  # that nothing else stops the job is not seen
            .mended("set a deadline at the claim, and prolong with least(clock_timestamp() + …, deadline)")
        )
