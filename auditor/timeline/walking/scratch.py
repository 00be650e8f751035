"""What frameworks let code keep for a request, for a job or for the whole application, under names of its own.

`flask.g.conn`, `request.state.session`, `request.ctx.conn`, `ctx["conn"]` are found again on the same path, whatever
object they were set on: there is one of each at a time. What an application opens when it starts, a pool, is found by
everybody: `app.state.pool`, `app["pool"]`, `ctx["pool"]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.program.kept import ITEMS, STATES, item_name
from auditor.program.tree import last_name
from auditor.timeline.model.values import (
    NONE,
    UNKNOWN,
    Bound,
    Connection,
    External,
    Made,
    Pool,
    Text,
    Unknown,
    Value,
    either,
    from_row,
    options_of,
)

if TYPE_CHECKING:
    from auditor.python import nodes
    from auditor.timeline.model.state import State
    from auditor.timeline.walking.walker import Walker

_APPLICATION_CONTEXTS = frozenset({"flask.g", "quart.g", "flask.globals.g", "quart.globals.g"})
_APPLICATIONS = frozenset({"flask.current_app", "quart.current_app"})
#: What is opened by functions that are called so lives as long as the application.
_STARTS = ("start", "init", "lifespan", "open", "connect", "setup", "boot", "context")


class Scratch:
    """Keeps it, and finds it again, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self.key = walker.keys.of("scratch")
        self._declared: dict[str, Value] = {}

    # Attributes

    def attribute(self, receiver: Value, name: str, state: State) -> Value | None:
        """`g.conn`, `request.state.conn`: what was kept there; None of anything else, or if nothing was."""
        where = self._attribute_name(receiver, name)
        return self._found(where, state) if where else None

    def set_attribute(self, receiver: Value, name: str, value: Value, state: State) -> State | None:
        """The state once a value is kept under such a name; None for any other receiver."""
        where = self._attribute_name(receiver, name)
        return state.bind(self.key, where, value) if where else None

    @staticmethod
    def _attribute_name(receiver: Value, name: str) -> str:
        if isinstance(receiver, External):
            if receiver.name in _APPLICATIONS:
                return f"state.{name}"
            return f"g.{name}" if receiver.name in _APPLICATION_CONTEXTS else ""
        if isinstance(receiver, Bound) and receiver.name in STATES and not from_row(receiver):
            return f"state.{name}"
        return ""

    # Items

    def item(self, node: nodes.Subscript, key: Value, state: State) -> Value | None:
        """`ctx["conn"]`, `request.app["pool"]`."""
        where = _item(node, key)
        return self._found(where, state) if where else None

    def set_item(self, target: nodes.Subscript, holder: Value, key: Value, value: Value, state: State) -> State | None:
        """The state once a value is kept under such a key; None for any other collection."""
        where = _item(target, key) if isinstance(holder, (Unknown, Made, Bound)) and not from_row(holder) else ""
        return state.bind(self.key, where, value) if where else None

    def method(self, receiver: Value, name: str, arguments: tuple[Value, ...], state: State) -> Value | None:
        """`g.get("conn")`, `g.pop("conn", None)`."""
        if not isinstance(receiver, External) or name not in ("get", "pop", "setdefault") or not arguments:
            return None
        first = arguments[0]
        if not isinstance(first, Text) or first.holes:
            return None
        return self.asked(receiver, first.value, arguments[1:2] or (NONE,), state)

    def asked(self, receiver: Value, name: str, default: tuple[Value, ...], state: State) -> Value | None:
        """`getattr(g, "conn", None)`: what was kept; else it may be there all the same, or not."""
        if not isinstance(receiver, External) or receiver.name not in _APPLICATION_CONTEXTS:
            return None
        kept = self.attribute(receiver, name, state)
        return kept if kept is not None else either([External(f"{receiver.name}.{name}"), *default])

    # Finding it

    def _found(self, where: str, state: State) -> Value | None:
        kept = state.get(self.key, where) or self.walker.names.base_attribute(self.key, where)
        if kept is None:
            kept = self.declared(where)
        if kept is not None:
            # A function that only hands it on gives another thing on another path.
            self.walker.database.used += 1
        return kept

    def declared(self, where: str) -> Value | None:
        """What some function keeps under a name for as long as the application lives."""
        assigned = self.walker.program.kept.get(where, ())
        if not assigned:
            return None
        if where not in self._declared:
            self._declared[where] = UNKNOWN
            found: list[Value] = []
            for function, expression in assigned:
                starts = any(word in function.node.name.lower() for word in _STARTS)
                values = self.walker.calls.evaluate_in(function, expression)
                found.extend(
                    option
                    for value in values
                    for option in options_of(value)
                    if isinstance(option, Pool) or (starts and isinstance(option, Connection))
                )
            self._declared[where] = either([one for one in found if one not in (NONE, UNKNOWN)] or [UNKNOWN])
        value = self._declared[where]
        return None if value == UNKNOWN else value


def _item(node: nodes.Subscript, key: Value) -> str:
    if last_name(node.value) not in ITEMS:
        return ""
    if isinstance(key, Text):
        return "" if key.holes else item_name(key.value)
    # aiohttp: app[POOL], POOL being a key of its own.
    named = last_name(node.key)
    return item_name(named) if named else ""
