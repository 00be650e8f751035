"""What a library offers for others to call in turn: waiting messages are read by one function, marked by another."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from auditor.files import Role
from auditor.findings import Confidence
from auditor.program.catalogue import is_unnamed
from auditor.program.tree import descend
from auditor.program.turns import ALONE
from auditor.python import nodes
from auditor.sql import words
from auditor.sql.queue import Step, StepKind
from auditor.timeline.jobs.guarding import REFUSING, guards
from auditor.timeline.model.connection import Deed
from auditor.timeline.model.events import Ran, Unguarded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.program import Program
    from auditor.program.code import ModuleInfo
    from auditor.timeline.jobs.queues import Told
    from auditor.timeline.model.events import Event


def is_relayed(step: Step, table: str, *names: str) -> bool:
    """Whether a query reads messages that wait in an outbox: its table is called one, or what it stands in is."""
    looks = step.kind is StepKind.LOOK and step.free and step.limited and not step.watches
    return looks and any("outbox" in words.words(name) for name in (table, *names))


def read_and_marked(program: Program, told: Iterable[Told], events: Iterable[Event]) -> Iterator[Unguarded]:
    """Messages that one function reads without a lock, and another marks as sent: two relays send each of them."""
    told = list(told)
    ran = [one for one in told if one.ran is not None]
    if any(isinstance(event, Ran) and guards(event.statement) for event in events):
        return
    yield from _taken_by_callers(program, told)
    yield from _given_to_handlers(program, told)
    claimed = {one.step.table for one in told if one.step.kind is StepKind.CLAIM}
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


def _taken_by_callers(program: Program, told: list[Told]) -> Iterator[Unguarded]:
    """Jobs that one method reads and another marks, without a question, where a loop of the program calls both."""
    looks = [(one, one.ran) for one in told if one.ran is not None and is_offered(one.step, one.symbol)]
    if not looks:
        return
    marks = [(one, one.ran) for one in told if one.ran is not None and _marks(one.step, one.ran)]
    # Where anything else takes jobs of the table, what marks one by its id goes on from there.
    marking = {one.place for one, _ in marks}
    held = {one.step.table for one in told if one.step.kind is StepKind.CLAIM and one.place not in marking}
    if any(map(is_unnamed, held)):
        return
    for (look, read), (mark, ran) in itertools.product(looks, marks):
        apart = look.step.table == mark.step.table and read.call.path == ran.call.path and look.symbol != mark.symbol
        if not apart or mark.step.table in held or read.before.isolation in REFUSING:
            continue
        if _calls_both(program, look.symbol, mark.symbol):
            sure = min(read.before.sure, ran.before.sure, Confidence.MEDIUM)
            yield Unguarded(mark.place, ran.call, look.step.table, look.place, None, False, sure, mark.symbol)


def _given_to_handlers(program: Program, told: list[Told]) -> Iterator[Unguarded]:
    """Jobs that a loop reads and gives to whatever handles them, which marks each by its id and asks nothing."""
    claims: dict[str, list[tuple[Told, Ran]]] = {}
    for one in told:
        if one.step.kind is StepKind.CLAIM and one.ran is not None:
            claims.setdefault(one.step.table, []).append((one, one.ran))
    for look in told:
        marks = claims.get(look.step.table, [])
        if look.ran is None or not marks or look.ran.before.isolation in REFUSING or not _marks_only(marks):
            continue
        function = program.function_at(look.place) if _waits(look.step) else None
        if function is None or function.takes_turns or not _runs_handlers(function.node):
            continue
        mark, ran = marks[0]
        sure = min(look.ran.before.sure, ran.before.sure, Confidence.MEDIUM)
        yield Unguarded(mark.place, ran.call, look.step.table, look.place, None, False, sure, mark.symbol)


def _waits(step: Step) -> bool:
    return step.kind is StepKind.LOOK and step.waiting and not step.by_id and not step.watches


def _marks_only(marks: list[tuple[Told, Ran]]) -> bool:
    """Whether all that takes jobs of a table marks one by its id: none of them is locked, or asked for once more."""
    return all(_marks(mark.step, ran) and mark.step.how == "lease" for mark, ran in marks)


def _runs_handlers(function: nodes.Node) -> bool:
    """Whether each turn of a loop looks up what handles the thing that it goes through, and calls that with it."""
    for loop in (part for part in descend(function) if isinstance(part, nodes.For)):
        if not isinstance(loop.target, nodes.Name):
            continue
        within = list(descend(loop.body))
        found = {
            name.id
            for one in within
            if isinstance(one, nodes.Assign) and isinstance(one.value, (nodes.Call, nodes.Subscript))
            for name in one.targets
            if isinstance(name, nodes.Name)
        }
        for call in (part for part in within if isinstance(part, nodes.Call)):
            called = call.function
            if isinstance(called, nodes.Name) and called.id in found and _names(call, loop.target.id):
                return True
    return False


def _names(call: nodes.Call, name: str) -> bool:
    return any(isinstance(part, nodes.Name) and part.id == name for part in descend(call))


def is_offered(step: Step, symbol: str) -> bool:
    """Whether a query reads jobs that wait, or are due, in a function whose name says more than `get` or `list`."""
    waits = step.kind is StepKind.LOOK and step.free and not (step.watches and step.sweeps)
    return waits and len(words.words(symbol.rpartition(".")[2])) > 1


def _marks(step: Step, ran: Ran) -> bool:
    """Whether a statement takes or ends one job, or gives it its next turn, and asks nothing but its id."""
    takes = step.kind is StepKind.CLAIM or step.gives_turn or (step.kind is StepKind.FINISH and "done" in step.states)
    asks = step.rechecks or step.fence or not set(step.compares).isdisjoint(step.sets)
    proven = any(mark.deed is Deed.HOLD and mark.proves for mark in ran.before.pending)
    return takes and step.by_id and not (asks or proven)


def _calls_both(program: Program, reading: str, marking: str) -> bool:
    """Whether a function with a loop calls both, and nothing there says that one process alone does so."""
    names = {reading.rpartition(".")[2], marking.rpartition(".")[2]}
    for module in (*program.modules, *_not_read(program, names)):
        if module.test or not names <= module.words.names:
            continue
        functions = list(module.functions())
        if any(function.takes_turns for function in functions):
            continue
        if any(names <= one.words.names and any(map(_turns, descend(one.node))) for one in functions):
            return True
    return False


def _not_read(program: Program, names: set[str]) -> Iterator[ModuleInfo]:
    """The files that name both, and of which nothing else had to be read."""
    from auditor.search import mentions

    files = [file for file in program.inventory.files if file.role is not Role.TEST and not program.has_read(file)]
    for file, found in mentions(files, [name.encode() for name in sorted(names)]).items() if files else ():
        module = program.load(file) if len(found) == len(names) and file.language == "python" else None
        if module is not None:
            yield module


def _turns(part: object) -> bool:
    return isinstance(part, (nodes.For, nodes.While))


def _is_alone(program: Program, path: str) -> bool:
    module = program.module_at(path)
    return module is None or any(word in name.lower() for name in module.words.names for word in ALONE)
