"""Failed jobs that are tried again at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA306", "retry-at-once", Severity.NOTE, triggers=CLAIM_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for retry in timeline.retries_at_once():
        yield (
            RULE.at(
                retry.place,
                "a failed job goes back to the queue with nothing to wait for: all its attempts are gone in a moment, "
                "while what failed is still down",
            )
            .see_call(retry.ran.call, "it runs here")
            .sure(retry.sure)
            .mended("set the time of the next attempt, further away with each, and let the claim wait for it")
        )
