"""A call as it is made: its arguments, and where and in which state."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.program.tree import last_name
from auditor.python import nodes
from auditor.timeline.model.rendered import parts_of
from auditor.timeline.model.values import (
    MOST_OPTIONS,
    UNKNOWN,
    Bound,
    External,
    Function,
    Items,
    Made,
    Mapping,
    Text,
    Unknown,
    Value,
    from_row,
    options_of,
)

if TYPE_CHECKING:
    from auditor.findings import Place
    from auditor.timeline.model.state import Flow, Frame, State

Keywords = tuple[tuple[str, Value], ...]


#: Stands among the named arguments for others that are not known: `**options`.
OPEN = "**"


class Invocation(NamedTuple):
    """What a callee is given. Exceptions that leave the call go to `flow`."""

    positional: tuple[Value, ...]
    named: Keywords
    state: State
    frame: Frame
    flow: Flow
    span: nodes.Span

    def argument(self, index: int, *names: str, default: Value = UNKNOWN) -> Value:
        """The argument at `index`, or the one passed by one of `names`; an index of -1 is by name only."""
        if 0 <= index < len(self.positional):
            return self.positional[index]
        found = next((value for name, value in self.named if name in names), None)
        if found is None:
            return UNKNOWN if self.is_open else default
        return found

    def given(self, index: int, *names: str) -> bool:
        """Whether that argument is passed at all."""
        return 0 <= index < len(self.positional) or any(name in names for name, _ in self.named)

    @property
    def is_open(self) -> bool:
        """Whether more named arguments may be passed than are known."""
        return any(name == OPEN for name, _ in self.named)

    @property
    def options(self) -> dict[str, Value]:
        return dict(self.named)

    @property
    def everything(self) -> tuple[Value, ...]:
        return (*self.positional, *(value for _, value in self.named))

    @property
    def place(self) -> Place:
        return self.frame.module.place(self.span)

    def passing(self, *positional: Value, named: Keywords = ()) -> Invocation:
        """The same call with other arguments."""
        return self._replace(positional=positional, named=named)

    def at(self, state: State) -> Invocation:
        """The same call from another state."""
        return self._replace(state=state)


#: What a middleware calls so that the request goes on, under its name in Starlette and in Django.
_GOES_ON = frozenset({"call_next", "get_response"})


def goes_on(node: nodes.Call) -> bool:
    """Whether a call lets a request go on: to whatever is behind a middleware."""
    function = node.function
    name = function.id if isinstance(function, nodes.Name) else getattr(function, "name", "")
    if name == "handler" and [last_name(given) for given in node.arguments] == ["request"]:
        return True  # aiohttp, Pyramid
    # ASGI: app(scope, receive, send)
    return name in _GOES_ON or (name == "app" and len(node.arguments) == 3 and isinstance(function, nodes.Attribute))


def positional_ways(given: list[tuple[nodes.Expression, Value]]) -> list[tuple[Value, ...]]:
    """What is passed by position, as many ways as there are collections that `*` may spread."""
    ways: list[tuple[Value, ...]] = [()]
    for expression, value in given:
        spreads = isinstance(expression, nodes.Starred)
        options: list[tuple[Value, ...]] = [_spread(option) for option in options_of(value)] if spreads else [(value,)]
        if len(options) * len(ways) > MOST_OPTIONS:
            options = [(Unknown(row=from_row(value)),)]
        ways = [(*way, *option) for way in ways for option in options]
    return ways


def named_ways(given: list[tuple[str | None, Value]]) -> list[Keywords]:
    """What is passed by name, as many ways as there are dicts that `**` may spread."""
    ways: list[Keywords] = [()]
    for name, value in given:
        options: list[Keywords] = [((name, value),)] if name is not None else [_named(one) for one in options_of(value)]
        if len(options) * len(ways) > MOST_OPTIONS:
            options = [((OPEN, Unknown(row=from_row(value))),)]
        ways = [(*way, *option) for way in ways for option in options]
    return ways


def _named(value: Value) -> Keywords:
    if not isinstance(value, Mapping):
        return ((OPEN, Unknown(row=from_row(value))),)
    pairs = tuple((key.value, item) for key, item in value.pairs if isinstance(key, Text))
    return (*pairs, (OPEN, UNKNOWN)) if value.open else pairs


def _spread(value: Value) -> tuple[Value, ...]:
    value = parts_of(value)
    if not isinstance(value, Items) or (value.open and not value.items):
        return (Unknown(row=from_row(value)),)
    return (*value.items, Unknown(row=from_row(value))) if value.open else value.items


def called_name(callee: Value) -> str:
    if isinstance(callee, Bound):
        return f"{callee.name}()"
    if isinstance(callee, (External, Made)):
        return f"{callee.name.rpartition('.')[2]}()"
    if isinstance(callee, Function):
        return f"{callee.info.node.name}()"
    return "a call that is not followed"
