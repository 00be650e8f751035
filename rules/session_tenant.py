"""A tenant that outlives its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA101", "session-tenant", Severity.ERROR, triggers=SETTING_TRIGGERS)

_HEIRS = {
    "pool": "the next job to borrow this connection starts here, still as this tenant",
    "kept": "the next call finds the connection as it was left, still as this tenant",
    "caller": "whoever passed the connection goes on with it, still as this tenant",
    "loop": "the next turn runs this first, still as this tenant",
}


def check(timeline: Timeline) -> Iterator[Finding]:
    for leak in timeline.leaks():
        if leak.tenant is None or leak.lost_cleanup is not None:
            continue
        finding = RULE.at(
            leak.set_at,
            f"{leak.name} is set for the session: it outlives the job and reaches the next one on this connection",
        )
        if leak.kept_at is not None and leak.kept_at == leak.set_at:
            finding = finding.see(leak.connection.made or leak.set_at, "in autocommit it is kept at once")
        elif leak.kept_at is not None and timeline.ends_block(leak.kept_at):
            finding = finding.see(leak.kept_at, "the end of this block commits, and keeps it")
        elif leak.kept_at is not None:
            finding = finding.see(leak.kept_at, "the commit keeps it")
        if leak.heir is not None:
            finding = finding.see(leak.heir, _HEIRS[leak.kind])
        yield finding.sure(min(leak.sure, leak.tenant)).mended(
            f"set it for the transaction only, inside the one that does the work: set_config('{leak.name}', …, true)"
        )
