"""A tenant that outlives its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA101", "session-tenant", Severity.ERROR, triggers=SETTING_TRIGGERS, yields_to=("TA110",))


def check(timeline: Timeline) -> Iterator[Finding]:
    for leak in timeline.leaks():
        if leak.tenant is None or leak.lost_cleanup is not None:
            continue
        finding = (
            RULE.at(
                leak.set_at,
                f"{leak.name} is set for the session: it outlives the job and reaches the next one on this connection",
            )
            .see_call(timeline.sent_at(leak.set_at), "it is sent here")
            .see_all(timeline.way_of_leak(leak, still="as this tenant"))
        )
        yield finding.sure(min(leak.sure, leak.tenant)).mended(
            f"set it for the transaction only, inside the one that does the work: set_config('{leak.name}', …, true)"
        )
