"""What a job does outside, and does again when it is run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA504", "repeatable-side-effect", Severity.NOTE, triggers=CLAIM_TRIGGERS, yields_to=("TA501",))


def check(timeline: Timeline) -> Iterator[Finding]:
    for call in timeline.repeatable_calls():
        finding = RULE.at(
            call.place,
            f"{call.name} reaches {call.what} once more when the job is run once more, "
            "and nothing that it is given tells the receiver that this is the same job",
        ).see(call.claim, "the job is claimed for a while here")
        if call.retaken_by != call.claim:
            finding = finding.see(call.retaken_by, "after that this hands it on, even when its worker is still at it")
        yield finding.sure(call.sure).mended(
            "pass a key that is the same for each attempt, such as the job's id, for the receiver to know it by"
        )
