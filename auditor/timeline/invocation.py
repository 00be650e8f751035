"""A call as it is made: its arguments, and where and in which state."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.timeline.values import UNKNOWN, Value

if TYPE_CHECKING:
    from auditor.findings import Place
    from auditor.python import nodes
    from auditor.timeline.state import Flow, Frame, State

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
