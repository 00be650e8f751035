"""Calls that do nothing but compute: walked once for each set of arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.timeline.model.values import (
    Bound,
    Class,
    Either,
    External,
    Function,
    Instance,
    Items,
    Key,
    Literal,
    Made,
    Mapping,
    Quoted,
    Raised,
    Text,
    Unknown,
    Value,
    holds_connection,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.program.code import FunctionInfo
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.model.state import Frame, State, Variables

    #: Each way out of a call with what it returns, and each exception that leaves it.
    Outcome = tuple[list[tuple[State, Value]], list[tuple[State, Raised]]]
    _Asked = tuple[FunctionInfo, tuple[Value, ...], tuple[tuple[str, Value], ...]]
    _Known = tuple[dict[Key, Variables], list[Value], list[Raised]]

#: So many states of the objects concerned are kept apart for one set of arguments.
MOST_KEPT = 4
#: Objects reached from the arguments beyond this many are too many to compare.
MOST_REACHED = 24

_PLAIN = (Text, Literal, Unknown, External, Quoted, Class)


class PureCalls:
    """Remembers calls that left everything as it was, by function, arguments and what the objects concerned hold."""

    def __init__(self) -> None:
        self._known: dict[_Asked, list[_Known]] = {}

    def recall(self, info: FunctionInfo, frame: Frame, call: Invocation) -> Outcome | None:
        """What the call came to before, from where it is made now."""
        known = self._known.get((info, call.positional, call.named)) if _may_be_pure(frame, call) else None
        seen = _seen_by(call) if known else None
        for view, values, raises in known or ():
            if view == seen:
                return [(call.state, value) for value in values], [(call.state, raised) for raised in raises]
        return None

    def remember(self, info: FunctionInfo, frame: Frame, call: Invocation, outcome: Outcome) -> None:
        """Keep what a call came to, if it left everything as it was."""
        results, raises = outcome
        if not _may_be_pure(frame, call) or not _left_alone(call.state, results, raises):
            return
        seen = _seen_by(call)
        known = self._known.setdefault((info, call.positional, call.named), [])
        if seen is not None and len(known) < MOST_KEPT:
            known.append((seen, [value for _, value in results], [raised for _, raised in raises]))


def _may_be_pure(frame: Frame, call: Invocation) -> bool:
    """A function that yields, sees variables of another activation or is given a connection is walked anew."""
    closed_over = len(frame.scopes) > 2
    return (
        frame.on_yield is None and not closed_over and all(holds_connection(value) is None for value in call.everything)
    )


def _left_alone(before: State, results: list[tuple[State, Value]], raises: list[tuple[State, Raised]]) -> bool:
    """Whether nothing changed but for objects that were made on the way and nobody holds."""
    for state in (*(state for state, _ in results), *(state for state, _ in raises)):
        if state.trace is not before.trace or state.frames != before.frames or state.job != before.job:
            return False
        if state.connections != before.connections:
            return False
        if any(state.heap.get(owner) != variables for owner, variables in before.heap.items()):
            return False
    return all(_is_plain(value) or state.heap == before.heap for state, value in results)


def _is_plain(value: Value) -> bool:
    """Whether a value holds no object."""
    if isinstance(value, Items):
        return all(_is_plain(item) for item in value.items)
    if isinstance(value, Mapping):
        return all(_is_plain(item) for _, item in value.pairs)
    if isinstance(value, Either):
        return all(_is_plain(option) for option in value.options)
    return isinstance(value, _PLAIN)


def _seen_by(call: Invocation) -> dict[Key, Variables] | None:
    """What the objects hold that the call can reach through its arguments; None when they are too many."""
    heap = call.state.heap
    seen: dict[Key, Variables] = {}
    waiting = list(_owners(call.everything))
    while waiting:
        owner = waiting.pop()
        if owner in seen or owner not in heap:
            continue
        if len(seen) >= MOST_REACHED:
            return None
        seen[owner] = heap[owner]
        waiting.extend(_owners(heap[owner].values()))
    return seen


def _owners(values: Iterable[Value]) -> Iterator[Key]:
    for value in values:
        if isinstance(value, Instance) or (isinstance(value, Made) and value.key):
            yield value.key
        elif isinstance(value, Items):
            yield from _owners(value.items)
        elif isinstance(value, Mapping):
            yield from _owners(item for _, item in value.pairs)
        elif isinstance(value, Either):
            yield from _owners(value.options)
        elif isinstance(value, Function) and value.bound is not None:
            yield from _owners((value.bound,))
        elif isinstance(value, Bound):
            yield from _owners((value.receiver,))
