"""A policy that shows everything where the tenant is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import POLICY_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA605", "policy-fails-open", Severity.ERROR, triggers=POLICY_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for judged in timeline.policies():
        if not judged.shows:
            continue
        yield (
            RULE.at(judged.place, f"where {judged.setting} is not set, this policy shows the rows of every tenant")
            .sure(judged.sure)
            .mended("let a missing tenant hide every row, and give maintenance a role of its own")
        )
