"""Reapers that look past the heartbeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA413", "reaper-ignores-heartbeat", Severity.WARNING, triggers=CLAIM_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for queue in timeline.lease_queues():
        found = queue.unheard_heartbeat
        if found is None:
            continue
        taker, beat = found
        yield (
            RULE.at(
                taker.place,
                f"stalled jobs are told by {taker.step.watches}, which no heartbeat renews: "
                "a long job that is well is run a second time beside itself",
            )
            .see(beat.place, f"the heartbeat renews {beat.step.extends}")
            .sure(min(taker.sure, beat.sure))
            .mended(f"look at {beat.step.extends} instead")
        )
