"""A call to the outside while a transaction holds rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, SENDING_TRIGGERS, SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule(
    "TA501",
    "outside-call-in-transaction",
    Severity.WARNING,
    triggers=(*CLAIM_TRIGGERS, *SETTING_TRIGGERS, *SENDING_TRIGGERS),
)


_HOLDS = "the transaction holds rows from here on"
_TOLD = "whoever is told of a row here is told before that is committed"


def check(timeline: Timeline) -> Iterator[Finding]:
    for call in timeline.outside_calls():
        if not call.wrote:
            continue
        reached = call.reached
        what, mend = _handed_over(call.name) if reached.reach.hands_over else _waited_for(call.name, reached.reach.what)
        yield (
            RULE.at(call.place, what)
            .see_all(timeline.way_outside(call, begins=_TOLD if reached.of_listener else _HOLDS))
            .sure(call.sure)
            .of_fault(reached.held.begun, reached.connection, reached.root, also="it waits here, too")
            .mended(mend)
        )


def _waited_for(name: str, what: str) -> tuple[str, str]:
    found = (
        f"{name} waits for {what} while a transaction holds rows: "
        "others wait for those, and no row that dies meanwhile is cleared from any table"
    )
    return found, "end the transaction first, or note what is to be done in a table and let another job do it"


def _handed_over(name: str) -> tuple[str, str]:
    found = (
        f"{name} sends a task while the transaction that holds its rows is open: its worker may begin before these are "
        "committed, and a rollback does not call it back"
    )
    return found, "send it after the commit (in Django by transaction.on_commit), or note it in a table for a relay"
