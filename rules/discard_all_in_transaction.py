"""DISCARD ALL inside a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA205", "discard-all-in-transaction", Severity.ERROR, triggers=(rb"discard\s+all",))


def check(timeline: Timeline) -> Iterator[Finding]:
    for ran in timeline.discards():
        if ran.statement.kind != "discard" or not ran.before.in_transaction:
            continue
        finding = RULE.at(ran.place, "DISCARD ALL cannot run inside a transaction: it always fails here")
        if ran.before.begun == ran.place:
            finding = finding.see(
                ran.before.made or ran.call, "outside autocommit the driver begins a transaction first"
            )
        elif ran.before.begun is not None:
            finding = finding.see(ran.before.begun, "the transaction begins here")
        yield finding.sure(ran.before.sure).mended(
            "run it in autocommit; or set the tenant locally, which needs no cleanup"
        )
