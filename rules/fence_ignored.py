"""Fences that nobody looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA403", "fence-ignored", Severity.ERROR, triggers=CLAIM_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for finish, work in timeline.ignored_fences():
        yield (
            RULE.at(
                finish.place,
                "nobody looks whether this has changed a row: a worker that lost the job changes none here, "
                "and commits its work all the same",
            )
            .see(work, "the work is in the same transaction")
            .see_call(finish.ran.call, "what this returns is dropped")
            .sure(finish.sure)
            .mended("where it has changed no row, raise, so that the work is rolled back")
        )
