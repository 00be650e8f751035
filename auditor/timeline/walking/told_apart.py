"""Code that asks with isinstance() what it was given: a pool or a connection, a text or what cannot end one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor import drivers
from auditor.python import nodes
from auditor.timeline.connections.connecting import POOLS
from auditor.timeline.model.state import Flow
from auditor.timeline.model.values import (
    FALSE,
    NONE,
    TRUE,
    UNKNOWN,
    Connection,
    External,
    Instance,
    Made,
    Pool,
    Text,
    Unknown,
    either,
    from_row,
    options_of,
)
from auditor.timeline.walking.types import PLAIN

if TYPE_CHECKING:
    from auditor.timeline.model.state import Frame, State
    from auditor.timeline.model.values import Key, Value
    from auditor.timeline.walking.walker import Walker

#: What may turn out to be of any type.
_ANYTHING = (Unknown, External, Made)


def is_of_driver(value: Value, cls: Value, walker: Walker) -> Value:
    """Whether a value is of the driver's class `cls`, as far as that tells pools and connections apart."""
    if value == NONE:
        return FALSE
    known = drivers.typed_as(cls.name) if isinstance(cls, External) else None
    if known is None or not isinstance(value, (Connection, Pool)):
        return UNKNOWN
    if isinstance(value, Pool) is not (known[1] in POOLS):
        return FALSE
    same = isinstance(value, Pool) and walker.database.pools.known[value.key].driver is known[0]
    return TRUE if same else UNKNOWN


def assume_kind(test: nodes.Call, truth: bool, state: State, frame: Frame, walker: Walker) -> State | None:
    """What is known once `isinstance(place, cls)` has come out true (or false); None when it can't have."""
    if not (isinstance(test.function, nodes.Name) and test.function.id == "isinstance" and len(test.arguments) == 2):
        return state
    place, cls = test.arguments
    found = kept_in(place, state, frame, walker)
    if found is None:
        return state
    owner, name = found
    with walker.quietly():
        ways = walker.evaluate(place, state, frame, Flow())
    options = [option for _, value in ways for option in options_of(value)]
    of_class = walker.objects.constant(cls, frame)
    asked = cls.items if isinstance(cls, nodes.Items) else (cls,)
    plain = _plain_of([walker.objects.constant(one, frame) for one in asked])
    if plain:
        kept = _told_plain(options, plain, truth)
    else:
        untrue = FALSE if truth else TRUE
        kept = [option for option in options if is_of_driver(option, of_class, walker) != untrue]
    if kept == options:
        return state
    return state.bind(owner, name, either(kept)) if kept else None


def _plain_of(asked: list[Value]) -> tuple[str, ...]:
    """The types that are asked about, where nothing but such is whose values cannot break out of quotes."""
    names = tuple(one.name for one in asked if isinstance(one, External) and one.name in PLAIN)
    return names if len(names) == len(asked) else ()


def _told_plain(options: list[Value], names: tuple[str, ...], truth: bool) -> list[Value]:
    """What a value can be that is of one of these types, or of none of them."""
    if not truth:
        return [one for one in options if not (isinstance(one, Made) and one.name in names)]
    return [
        Made(names[0], (one,)) if isinstance(one, _ANYTHING) and not _is_plain(one) and not from_row(one) else one
        for one in options
        if one != NONE and not isinstance(one, Text)
    ]


def _is_plain(value: Value) -> bool:
    return isinstance(value, Made) and value.name in PLAIN


def assume_closed(place: nodes.Expression, state: State, frame: Frame, walker: Walker) -> State:
    """What is known once `connection.closed` has come out true: nothing is left on it, and it has no next user."""
    with walker.quietly():
        found = [value for _, value in walker.evaluate(place, state, frame, Flow())]
    one = found[0] if len(found) == 1 else None
    known = state.connections.get(one.key) if isinstance(one, Connection) else None
    if not isinstance(one, Connection) or known is None or known.in_transaction or state.job.claims:
        return state
    return walker.database.endings.closed(one.key, state)


def kept_in(place: nodes.Expression, state: State, frame: Frame, walker: Walker) -> tuple[Key, str] | None:
    """Whose variable or attribute is asked about, and its name."""
    if isinstance(place, nodes.Name):
        owner = walker.names.holder_of(place.id, state, frame)
        return (owner, place.id) if owner is not None else None
    if not isinstance(place, nodes.Attribute) or not isinstance(place.value, nodes.Name):
        return None
    receiver = walker.names.lookup(place.value.id, state, frame)
    return (receiver.key, place.name) if isinstance(receiver, Instance) else None
