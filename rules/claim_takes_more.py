"""Claims that may take more jobs than they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA412", "claim-takes-more", Severity.WARNING, triggers=CLAIM_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for claim in timeline.claims_of_jobs():
        step = claim.step
        if step.picks != "in" or not step.limited or step.locked in ("", "perhaps") or step.materialized:
            continue
        if step.how == "row lock" and step.sweeps:
            continue  # what goes through a table in batches, to clear it, is to take everything in the end
        yield (
            RULE.at(
                claim.place,
                "the claim takes id IN (SELECT … LIMIT …): where the planner runs that again for each row, "
                "it takes every job that waits",
            )
            .sure(claim.sure)
            .mended("write = ANY(ARRAY(SELECT … LIMIT …)), or pick the jobs in a CTE that is MATERIALIZED")
        )
