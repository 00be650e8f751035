"""A role that outlives its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import ROLE_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA105", "session-role", Severity.ERROR, triggers=ROLE_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for leak in timeline.leaks():
        if not leak.is_role or leak.lost_cleanup is not None:
            continue
        finding = RULE.at(
            leak.set_at,
            "the role is set for the session: it outlives the job and reaches the next one on this connection",
        ).see_all(timeline.way_of_leak(leak, still="in this role"))
        local = "SET LOCAL ROLE" if leak.name == "role" else "SET LOCAL SESSION AUTHORIZATION"
        yield finding.sure(leak.sure).mended(
            f"take it on for the transaction only, inside the one that does the work: {local}"
        )
