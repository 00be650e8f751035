"""A cleanup that is rolled back, or refused."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.rule import SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

RULE = Rule("TA111", "cleanup-not-committed", Severity.ERROR, triggers=SETTING_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for leak in timeline.leaks():
        if leak.lost_cleanup is None or (leak.tenant is None and not leak.is_role):
            continue
        finding = RULE.at(
            leak.lost_cleanup,
            f"this cleanup of {leak.name} never takes effect: the connection goes on with the old value",
        ).see(leak.set_at, "set here, for the session")
        if leak.kept_at is not None:
            finding = finding.see(leak.kept_at, "kept from here on")
        if leak.heir is not None:
            finding = finding.see(leak.heir, "the next user of the connection starts here")
        yield finding.sure(min(leak.sure, leak.tenant or leak.sure)).mended(
            "commit the cleanup, or better: set the value for the transaction only, which needs none"
        )
