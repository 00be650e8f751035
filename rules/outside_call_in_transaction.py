"""A call to the outside while a transaction holds rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA501", "outside-call-in-transaction", Severity.WARNING, triggers=(*CLAIM_TRIGGERS, *SETTING_TRIGGERS))


def check(timeline: Timeline) -> Iterator[Finding]:
    for call in timeline.outside_calls():
        if not call.wrote:
            continue
        finding = RULE.at(
            call.place,
            f"{call.name} waits for {call.reached.reach.what} while a transaction holds rows: "
            "others wait for those, and no row that dies meanwhile is cleared from any table",
        )
        held = call.reached.held
        way = timeline.way_outside(call, begins="the transaction holds rows from here on")
        yield (
            finding.see_all(way)
            .sure(call.sure)
            .of_fault(held.begun, call.reached.connection, call.reached.root, also="it waits here, too")
            .mended("end the transaction first, or note what is to be done in a table and let another job do it")
        )
