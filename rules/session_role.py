"""A role that outlives its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import ROLE_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA105", "session-role", Severity.ERROR, triggers=ROLE_TRIGGERS)

_HEIRS = {
    "pool": "the next job to borrow this connection starts here, still in this role",
    "kept": "the next call finds the connection as it was left, still in this role",
    "caller": "whoever passed the connection goes on with it, still in this role",
    "loop": "the next turn runs this first, still in this role",
}


def check(timeline: Timeline) -> Iterator[Finding]:
    for leak in timeline.leaks():
        if not leak.is_role or leak.lost_cleanup is not None:
            continue
        finding = RULE.at(
            leak.set_at,
            "the role is set for the session: it outlives the job and reaches the next one on this connection",
        )
        if leak.kept_at is not None and leak.kept_at == leak.set_at:
            finding = finding.see(leak.connection.made or leak.set_at, "in autocommit it is kept at once")
        elif leak.kept_at is not None and timeline.ends_block(leak.kept_at):
            finding = finding.see(leak.kept_at, "the end of this block commits, and keeps it")
        elif leak.kept_at is not None:
            finding = finding.see(leak.kept_at, "the commit keeps it")
        if leak.heir is not None:
            finding = finding.see(leak.heir, _HEIRS[leak.kind])
        local = "SET LOCAL ROLE" if leak.name == "role" else "SET LOCAL SESSION AUTHORIZATION"
        yield finding.sure(leak.sure).mended(
            f"take it on for the transaction only, inside the one that does the work: {local}"
        )
