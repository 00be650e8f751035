"""Jobs that are claimed however often they have failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA305", "attempts-unbounded", Severity.WARNING, triggers=CLAIM_TRIGGERS, yields_to=("TA308",))


def check(timeline: Timeline) -> Iterator[Finding]:
    for unbounded in timeline.unbounded_claims():
        finding = RULE.at(
            unbounded.claim.place,
            "the claim takes a job however often it has been tried, and nothing moves it to a final state",
        )
        if unbounded.recovery is not None:
            finding = RULE.at(
                unbounded.claim.place,
                "the maximum is only looked at when a failure is caught: one that kills its process always comes back",
            )
            if unbounded.recovery != unbounded.claim.place:
                finding = finding.see(unbounded.recovery, "this puts it back whatever its count")
        if unbounded.counted_at is not None and unbounded.counted_at != unbounded.claim.place:
            finding = finding.see(unbounded.counted_at, "attempts are counted here")
        yield finding.sure(unbounded.claim.sure).mended(
            "add attempts < max_attempts to the claim, and bury what has reached it"
        )
