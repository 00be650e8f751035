"""Leases by a clock that stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA408", "transaction-clock-lease", Severity.WARNING, triggers=CLAIM_TRIGGERS, yields_to=("TA405", "TA407"))


def check(timeline: Timeline) -> Iterator[Finding]:
    for lease in timeline.stale_clocks():
        finding = RULE.at(
            lease.place,
            f"{lease.step.clock}() is the time at which the transaction began: the lease is shorter than it says, "
            "by all that ran before",
        )
        if lease.ran.before.begun is not None:
            finding = finding.see(lease.ran.before.begun, "the transaction begins here")
        yield finding.sure(lease.sure).mended("reckon by clock_timestamp()")
