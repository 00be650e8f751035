"""Connections whose objects remember in which schema they work: no end of a transaction changes that."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.program.tree import descend
from auditor.python import nodes
from auditor.timeline.model.entries import Entry
from auditor.timeline.model.events import LeftPointed, PointedBack
from auditor.timeline.model.values import NONE, Bound, Unknown, options_of

if TYPE_CHECKING:
    from auditor.findings import Place
    from auditor.timeline.connections.database import Database
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.model.state import State
    from auditor.timeline.model.values import Key, Value
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

#: What a value is read from that tells the schema which an object remembers.
_REMEMBERED = "the schema of the object"
FOUND = Unknown(setting=_REMEMBERED)
#: Entry points that are given their schema anew each time.
_ANEW = (Entry.VIEW, Entry.MIDDLEWARE)


class Pointing:
    """Follows what they remember, on behalf of a walk."""

    def __init__(self, walker: Walker, database: Database) -> None:
        self.walker = walker
        self.database = database

    def told(self, key: Key, call: Invocation) -> Results:
        """`set_tenant(tenant)`, `set_schema(name)`."""
        before = self.database.state_of(key, call.state)
        if not _is_found(call.argument(0)):
            # What it was found in is what it remembered before the first.
            pointed = before.pointed or call.place
            return [(call.state.connect(key, replace(before, pointed=pointed)), NONE)]
        state = call.state.connect(key, replace(before, pointed=None))
        if before.pointed is not None:
            state = self.walker.see(PointedBack(call.place, key, before.pointed, call.frame.symbol), state)
        return [(state, NONE)]

    def told_home(self, key: Key, call: Invocation) -> Results:
        """`set_schema_to_public()`: nothing of a tenant is left."""
        before = self.database.state_of(key, call.state)
        return [(call.state.connect(key, replace(before, pointed=None)), NONE)]

    def may_fail(self, call: Invocation) -> None:
        """Code that is not followed may fail, and leave what it finds pointed to a tenant as it is."""
        pointed = any(connection.pointed is not None for connection in call.state.connections.values())
        if pointed and not _tells_of_failure(call):
            raised = self.walker.raised("python", None, call.span, call.frame)
            call.flow.raises.append((self.walker.failed(call.state, raised), raised))

    def left(self, how: str, state: State, place: Place, symbol: str) -> State:
        """An entry point is left: those that come after it find what its connections remember."""
        for key, connection in state.connections.items():
            anew = how == "raise" and self.walker.entry in _ANEW
            if connection.pointed is not None and not anew:
                event = LeftPointed(place, key, connection.pointed, how == "raise", symbol)
                state = self.walker.see(event, state)
        return state


def _tells_of_failure(call: Invocation) -> bool:
    """Whether it is called where a failure is handled, which is mostly to tell of it."""
    function = call.frame.function
    tried = [part for part in descend(function.node) if isinstance(part, nodes.Try)] if function is not None else []
    handlers = [part for one in tried for handler in one.handlers for part in descend(handler)]
    return any(isinstance(part, nodes.Call) and part.span == call.span for part in handlers)


def _is_found(value: Value) -> bool:
    """Whether a value is the schema, or the tenant, that was found: `previous`, `previous.schema_name`."""
    if isinstance(value, Bound):
        return _is_found(value.receiver)
    options = [option for option in options_of(value) if option != NONE]
    return bool(options) and all(isinstance(one, Unknown) and one.setting == _REMEMBERED for one in options)
