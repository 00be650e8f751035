"""A cleanup that is rolled back, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import ROLE_TRIGGERS, SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA111", "cleanup-not-committed", Severity.ERROR, triggers=(*SETTING_TRIGGERS, *ROLE_TRIGGERS))


def check(timeline: Timeline) -> Iterator[Finding]:
    for leak, lost in timeline.lost_cleanups():
        if lost.refused:
            what = (
                f"this cleanup of {leak.name} is refused after an error, and the connection goes on with the old value"
            )
        elif lost.left_open:
            what = f"this cleanup of {leak.name} is left uncommitted: the next rollback here brings the old value back"
        else:
            what = f"this cleanup of {leak.name} is rolled back, and the connection goes on with the old value"
        finding = RULE.at(lost.place, what).see(leak.set_at, "set here, for the session")
        if leak.kept_at is not None and leak.kept_at != leak.set_at:
            finding = finding.see(leak.kept_at, "committed here, and kept")
        if lost.undone_at is not None:
            finding = finding.see(
                lost.undone_at,
                "when this fails, the transaction is aborted and refuses what follows"
                if lost.refused
                else "what is open is rolled back here, the cleanup with it",
            )
        if leak.heir is not None:
            finding = finding.see(leak.heir, "the next user of the connection starts here, with the old value")
        yield finding.sure(min(leak.sure, leak.tenant or leak.sure)).mended(
            "set the value for the transaction only, which needs no cleanup; or roll back first and commit the cleanup"
            if lost.refused
            else "set the value for the transaction only, which needs no cleanup; or commit the cleanup"
        )
