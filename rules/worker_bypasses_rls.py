"""Work for a tenant in a role that row security does not bind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import POLICY_TRIGGERS, ROLE_TRIGGERS, SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule(
    "TA604",
    "worker-bypasses-rls",
    Severity.WARNING,
    triggers=(*POLICY_TRIGGERS, *SETTING_TRIGGERS, *ROLE_TRIGGERS),
)


def check(timeline: Timeline) -> Iterator[Finding]:
    for bypass in timeline.bypasses():
        yield (
            RULE.at(
                bypass.taken_at,
                f"the role {bypass.role} {bypass.right.what}: no policy binds it, "
                "and work for one tenant reaches the rows of all",
            )
            .see(
                bypass.right.place, f"{bypass.role} {bypass.right.what}" if not bypass.right.by_owning else "the owner"
            )
            .see(bypass.work_at, f"work for a tenant on {bypass.table}, which is under its policy")
            .sure(bypass.sure)
            .mended("do the work in a role that owns nothing and has no BYPASSRLS, or force row security on the owner")
        )
