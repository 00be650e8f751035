"""A role that outlives its job."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.rule import Finding, Rule, Severity, Timeline

RULE = Rule(
    "TA105",
    "session-role",
    Severity.ERROR,
    triggers=(rb"set\s+(?:session\s+)?role", rb"set\s+session\s+authorization", rb"set_config"),
)


def check(timeline: Timeline) -> Iterator[Finding]:
    for leak in timeline.leaks():
        if not leak.is_role or leak.lost_cleanup is not None:
            continue
        finding = RULE.at(leak.set_at, "the role is set for the session: the next job on this connection still has it")
        if leak.kept_at is not None and leak.kept_at != leak.set_at:
            finding = finding.see(leak.kept_at, "the commit keeps it")
        if leak.heir is not None:
            finding = finding.see(leak.heir, "the next user of the connection starts here, still with this role")
        yield finding.sure(leak.sure).mended("SET LOCAL ROLE, inside the transaction of the work")
