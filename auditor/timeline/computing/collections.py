"""What the methods of tuples, lists, sets and dicts give, and what they leave behind."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.timeline.model.values import NONE, UNKNOWN, Items, Mapping, Text, Unknown, Value, either, from_row

if TYPE_CHECKING:
    from auditor.timeline.model.invocation import Keywords

#: A collection that grows turn by turn is cut here, so that loops come to rest.
LONGEST = 32


def read(receiver: Value, name: str, arguments: tuple[Value, ...]) -> Value:
    """Methods of tuples, lists and dicts that only read."""
    if isinstance(receiver, Mapping):
        if name in ("get", "pop", "setdefault") and arguments:
            known = receiver.get(arguments[0])
            if known is not None:
                return known
            if not isinstance(arguments[0], Text) or arguments[0].holes:
                options = [value for _, value in receiver.pairs]
                return either(options) if options else Unknown(row=from_row(receiver))
            return arguments[1] if len(arguments) > 1 else (UNKNOWN if receiver.open else NONE)
        if name == "items":
            return Items("list", tuple(Items("tuple", pair) for pair in receiver.pairs), receiver.open)
        if name == "values":
            return Items("list", tuple(value for _, value in receiver.pairs), receiver.open)
        if name == "keys":
            return Items("list", tuple(key for key, _ in receiver.pairs), receiver.open)
        if name == "copy":
            return receiver
    if isinstance(receiver, Items) and name == "copy":
        return receiver
    return Unknown(row=from_row(receiver))


def changed(receiver: Value, name: str, arguments: tuple[Value, ...], named: Keywords) -> tuple[Value, Value] | None:
    """What a collection is after a method that changes it, and what the method returns; None for other methods."""
    if isinstance(receiver, Items) and receiver.kind != "tuple":
        if name in ("append", "add", "appendleft") and arguments:
            if len(receiver.items) >= LONGEST:
                return replace(receiver, open=True), NONE
            return replace(receiver, items=(*receiver.items, arguments[0])), NONE
        if name == "extend" and arguments:
            more = arguments[0]
            items = more.items if isinstance(more, Items) else ()
            is_open = receiver.open or (more.open if isinstance(more, Items) else True)
            return replace(receiver, items=(*receiver.items, *items)[:LONGEST], open=is_open), NONE
        if name in ("insert", "remove", "clear", "pop", "popleft", "sort", "discard"):
            return replace(receiver, open=True), either(list(receiver.items)) if receiver.items else UNKNOWN
    if isinstance(receiver, Mapping):
        if name == "update":
            more = arguments[0] if arguments else Mapping(())
            pairs = more.pairs if isinstance(more, Mapping) else ()
            added = (*pairs, *((Text(key), value) for key, value in named))
            keys = {key for key, _ in added}
            kept = tuple(pair for pair in receiver.pairs if pair[0] not in keys)
            return Mapping((*kept, *added), receiver.open or not isinstance(more, Mapping)), NONE
        if name == "setdefault" and len(arguments) == 2 and receiver.get(arguments[0]) is None:
            return Mapping((*receiver.pairs, (arguments[0], arguments[1])), receiver.open), arguments[1]
    return None
