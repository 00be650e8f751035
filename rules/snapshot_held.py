"""A call to the outside while a transaction holds a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule(
    "TA502",
    "snapshot-held",
    Severity.WARNING,
    triggers=(*CLAIM_TRIGGERS, *SETTING_TRIGGERS, rb"repeatable[ _]read", rb"serializable"),
)


def check(timeline: Timeline) -> Iterator[Finding]:
    for call in timeline.outside_calls():
        if call.wrote:
            continue
        finding = RULE.at(
            call.place,
            f"{call.name} waits for {call.reached.reach.what} while a {call.reached.held.isolation} transaction "
            "holds its snapshot: no row that dies meanwhile is cleared from any table",
        )
        way = timeline.way_outside(call, begins="the transaction takes its snapshot here")
        mend = "end the transaction before the call, or read what is needed at once"
        yield finding.see_all(way).sure(call.sure).mended(mend)
