"""What a library offers for others to call in turn: waiting messages are read by one function, marked by another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.findings import Confidence
from auditor.program.catalogue import is_unnamed
from auditor.program.turns import ALONE
from auditor.sql import words
from auditor.sql.queue import Step, StepKind
from auditor.timeline.jobs.guarding import REFUSING, guards
from auditor.timeline.model.events import Ran, Unguarded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.program import Program
    from auditor.timeline.jobs.queues import Told
    from auditor.timeline.model.events import Event


def is_relayed(step: Step, table: str, *names: str) -> bool:
    """Whether a query reads messages that wait in an outbox: its table is called one, or what it stands in is."""
    looks = step.kind is StepKind.LOOK and step.free and step.limited and not step.watches
    return looks and any("outbox" in words.words(name) for name in (table, *names))


def read_and_marked(program: Program, told: Iterable[Told], events: Iterable[Event]) -> Iterator[Unguarded]:
    """Messages that one function reads without a lock, and another marks as sent: two relays send each of them."""
    ran = [one for one in told if one.ran is not None]
    claimed = {one.step.table for one in told if one.step.kind is StepKind.CLAIM}
    if any(isinstance(event, Ran) and guards(event.statement) for event in events):
        return
    for look in ran:
        assert look.ran is not None
        path = look.ran.call.path
        names = (*look.symbol.split("."), path)
        if not is_relayed(look.step, look.step.table, *names) or look.ran.before.isolation in REFUSING:
            continue
        if look.step.table in claimed or any(map(is_unnamed, claimed)) or _is_alone(program, path):
            continue
        marks = (
            one
            for one in ran
            if one.step.kind is StepKind.FINISH
            and one.step.by_id
            and one.step.table == look.step.table
            and one.ran is not None
            and one.ran.call.path == path
            and one.symbol != look.symbol
        )
        mark = next(marks, None)
        if mark is not None and mark.ran is not None:
            sure = min(look.ran.before.sure, mark.ran.before.sure, Confidence.MEDIUM)
            call = mark.ran.call
            yield Unguarded(mark.place, call, look.step.table, look.place, None, False, sure, mark.symbol)


def _is_alone(program: Program, path: str) -> bool:
    module = program.module_at(path)
    return module is None or any(word in name.lower() for name in module.words.names for word in ALONE)
