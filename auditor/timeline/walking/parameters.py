"""What the parameters of a function hold: arguments, defaults, and what annotations say of those nobody passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.timeline.mappers.by_use import ByUse
from auditor.timeline.model.invocation import OPEN
from auditor.timeline.model.state import Flow, Frame, State
from auditor.timeline.model.values import (
    UNKNOWN,
    Class,
    Items,
    Literal,
    Made,
    Mapping,
    Text,
    Value,
    either,
    holds_connection,
)
from auditor.timeline.walking.types import asks_framework, is_supplied, says_anything

if TYPE_CHECKING:
    from auditor.program.code import ClassInfo, FunctionInfo
    from auditor.python import nodes
    from auditor.timeline.model.invocation import Invocation, Keywords
    from auditor.timeline.walking.walker import Walker


class Parameters:
    """Binds parameters on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self.by_use = ByUse(walker)

    def bind(self, info: FunctionInfo, frame: Frame, call: Invocation) -> State:
        """The state of `call` with the parameters of `info` bound in `frame`."""
        bound, missing = match(info.node.parameters, call.positional, call.named)
        for parameter in info.node.parameters:
            if bound.get(parameter.name) == UNKNOWN:
                bound[parameter.name] = self._typed(info, parameter, frame)
        for parameter in missing:
            bound[parameter.name] = self._unfilled(info, parameter, frame)
        return call.state.bind_all(frame.key, bound)

    def of_root(self, info: FunctionInfo, frame: Frame, me: Value | None = None) -> dict[str, Value]:
        """What the parameters of an entry point hold, nobody being seen to call it.

        `me` is its self where that is known: a method's, or that of what a decorator has put around a method.
        """
        values: dict[str, Value] = {}
        for index, parameter in enumerate(info.node.parameters):
            if index == 0 and info.owner is not None and not info.is_static:
                values[parameter.name] = self._owner(info, info.owner, me)
            elif parameter.kind == "args":
                values[parameter.name] = Items("tuple", (me,) if me is not None and index == 0 else (), open=True)
            elif me is not None and index == 0:
                values[parameter.name] = me
            elif parameter.kind == "kwargs":
                values[parameter.name] = Mapping((), open=True)
            else:
                value = self._unfilled(info, parameter, frame)
                # A default is only what a parameter holds when the caller has nothing to say.
                unseen = isinstance(value, Made) and not is_supplied(value) and asks_framework(value)
                plain = isinstance(value, (Literal, Text)) or unseen
                values[parameter.name] = self._typed(info, parameter, frame) if plain else value
        return values

    def receiver(self, info: FunctionInfo) -> Value | None:
        """What a decorator's wrapper is called with first, where it is put around a method of a class."""
        if info.owner is None or not info.is_classmethod:
            return None if info.owner is None else self.walker.types.me(info.owner)
        return Class(self.walker.models.managers.concrete(info.owner))

    def _owner(self, info: FunctionInfo, owner: ClassInfo, me: Value | None) -> Value:
        """What a method is called on."""
        managers = self.walker.models.managers
        if info.is_classmethod:
            return Class(managers.concrete(owner))
        return me or managers.stand_in(owner) or self.walker.types.me(owner)

    def _seen_by(self, info: FunctionInfo) -> State:
        """A state with the variables that a function sees where it is defined, if that is inside another one."""
        return self.walker.names.start_of(info, State())[1] if info.nested else State()

    def _unfilled(self, info: FunctionInfo, parameter: nodes.Parameter, frame: Frame) -> Value:
        """What a parameter holds when no argument is given for it: its default, else what its annotation says."""
        value: Value = UNKNOWN
        if parameter.default is not None:
            outer = frame if info in self.walker.names.handed else self.walker.names.module_frame(info.module)
            with self.walker.quietly():
                ways = self.walker.evaluate(parameter.default, self._seen_by(info), outer, Flow())
            value = either([way for _, way in ways]) if ways else UNKNOWN
        return self._typed(info, parameter, frame) if value == UNKNOWN else value

    def _typed(self, info: FunctionInfo, parameter: nodes.Parameter, frame: Frame) -> Value:
        key = self.walker.keys.of("given", info, parameter.name)
        if parameter.annotation is None or says_anything(parameter.annotation):
            value = self.walker.database.connecting.named(parameter.name, info, key)
            if value == UNKNOWN:
                value = self.walker.database.told_by_use.parameter(parameter.name, info, key)
            model = self.by_use.model(info, parameter.name) if value == UNKNOWN else None
            value = self.walker.types.instance(model) if model is not None else value
        else:
            value = self.walker.types.typed(parameter.annotation, frame, key)
        connection = holds_connection(value)
        if connection is not None:
            self.walker.scout.received[connection] = frame.calls
        return value


def match(
    parameters: tuple[nodes.Parameter, ...], positional: tuple[Value, ...], named: Keywords
) -> tuple[dict[str, Value], list[nodes.Parameter]]:
    """Arguments by parameter name, and the parameters that got none."""
    waiting = list(positional)
    keywords = dict(named)
    bound: dict[str, Value] = {}
    missing: list[nodes.Parameter] = []
    for parameter in parameters:
        if parameter.kind == "args":
            bound[parameter.name] = Items("tuple", tuple(waiting))
            waiting = []
        elif parameter.kind == "kwargs":
            is_open = keywords.pop(OPEN, None) is not None
            bound[parameter.name] = Mapping(tuple((Text(name), value) for name, value in keywords.items()), is_open)
        elif waiting and parameter.kind != "keyword":
            bound[parameter.name] = waiting.pop(0)
        elif parameter.name in keywords and parameter.kind != "positional":
            bound[parameter.name] = keywords.pop(parameter.name)
        elif OPEN in keywords and parameter.kind != "positional":
            bound[parameter.name] = UNKNOWN
        else:
            missing.append(parameter)
    return bound, missing
