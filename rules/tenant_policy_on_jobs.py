"""Row security that hides every job from the worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, POLICY_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA601", "tenant-policy-on-jobs", Severity.ERROR, triggers=(*POLICY_TRIGGERS, *CLAIM_TRIGGERS))


def check(timeline: Timeline) -> Iterator[Finding]:
    for hidden in timeline.hidden_queues():
        yield (
            RULE.at(
                hidden.policy,
                f"{hidden.table} is under a policy that needs a tenant: "
                "a worker that has none yet sees no jobs at all, and no error",
            )
            .see(hidden.claim, "the worker claims here, before it knows whose job it is")
            .sure(hidden.sure)
            .mended(
                "leave the queue out of the tenant's policy, or add one for the worker's role: TO worker USING (true)"
            )
        )
