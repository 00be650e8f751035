"""Dependencies that a framework supplies: the code of a generator stands around what it is supplied to.

Facts: FastAPI's pages "Sub-dependencies" (one that several ask for is called once a request), "Classes as
Dependencies", "Dependencies in path operation decorators" and "Global Dependencies", and Taskiq's page "Dependencies".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.timeline.model.invocation import Invocation
from auditor.timeline.model.state import Flow, Frame, State
from auditor.timeline.model.values import Class, Function, Instance, Made, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from auditor.program.code import FunctionInfo
    from auditor.timeline.walking.walker import Walker

    Body = Callable[[State, Flow], list[State]]
    #: What those that were called for this request have given.
    Given = dict[Value, Value]

_ASKS = frozenset({"Depends", "Security", "TaskiqDepends"})


class Provided:
    """Supplies them, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker

    def supplied(
        self, info: FunctionInfo, values: dict[str, Value], frame: Frame, body: Body, state: State, flow: Flow
    ) -> list[State]:
        """Run `body`, an entry point's, with the parameters that a framework supplies, and what its router asks for."""
        around = tuple(self._of_router(info))

        def inside(at: State, out: Flow, given: Given) -> list[State]:
            return self._parameters(info, values, frame, lambda then, flow, _: body(then, flow), at, out, given)

        return self._around(info, around, frame, inside, state, flow, {})

    def _around(
        self,
        info: FunctionInfo,
        providers: tuple[Value, ...],
        frame: Frame,
        body: _Inside,
        state: State,
        flow: Flow,
        given: Given,
    ) -> list[State]:
        """Those that are called for a request, whatever they give."""
        if not providers:
            return body(state, flow, given)
        first, *rest = providers

        def inside(at: State, _value: Value, out: Flow, known: Given) -> list[State]:
            return self._around(info, tuple(rest), frame, body, at, out, known)

        return self._provided(info, first, frame, inside, state, flow, given)

    def _parameters(
        self,
        info: FunctionInfo,
        values: dict[str, Value],
        frame: Frame,
        body: _Inside,
        state: State,
        flow: Flow,
        given: Given,
    ) -> list[State]:
        for name, value in values.items():
            provider = _asked_for(value)
            if provider is None:
                continue
            left = {other: rest for other, rest in values.items() if other != name}

            def inside(at: State, got: Value, out: Flow, known: Given) -> list[State]:
                bound = at.bind(frame.key, name, got)  # noqa: B023
                return self._parameters(info, left, frame, body, bound, out, known)  # noqa: B023

            return self._provided(info, provider, frame, inside, state, flow, given)
        return body(state, flow, given)

    def _provided(
        self, info: FunctionInfo, provider: Value, frame: Frame, body: _With, state: State, flow: Flow, given: Given
    ) -> list[State]:
        known = given.get(provider)
        if known is not None:
            return body(state, known, flow, given)
        function = self._called(provider)
        if function is None:
            return body(state, provider, flow, given)
        calls, coroutines = self.walker.calls, self.walker.coroutines
        outer = frame.outside
        inner = calls.frame_of(function, outer, info.node.name_span)
        wanted = calls.parameters.of_root(function.info, inner, function.bound)
        if function.bound is not None:
            wanted = dict(list(wanted.items())[1:])

        def run(at: State, out: Flow, before: Given) -> list[State]:
            named = tuple((key, at.get(inner.key, key) or value) for key, value in wanted.items())
            call = Invocation((), named, at, outer, out, info.node.name_span)
            if function.info.node.is_generator:

                def on_yield(then: State, value: Value, flow: Flow) -> list[State]:
                    return body(then, value, flow, {**before, provider: value})

                bound = (function.bound,) if function.bound is not None else ()
                return [after for after, _ in calls.run(function, call._replace(positional=bound), on_yield)]
            results = [
                result
                for after, value in calls.apply(self._made(provider, function), call)
                for result in coroutines.awaited(value, call.at(after))
            ]
            return [end for after, value in results for end in body(after, value, out, {**before, provider: value})]

        start = state.bind_all(inner.key, wanted)
        return self._parameters(function.info, wanted, inner, run, start, flow, given)

    def _called(self, provider: Value) -> Function | None:
        """The function that is called: of an object its __call__, of a class its constructor."""
        if isinstance(provider, Function):
            return provider
        if not isinstance(provider, (Instance, Class)):
            return None
        name = "__call__" if isinstance(provider, Instance) else "__init__"
        member = self.walker.objects.class_member(provider, name)
        if not isinstance(member, Function):
            return None
        me = provider if isinstance(provider, Instance) else self.walker.types.me(provider.info)
        return Function(member.info, member.frame, bound=me)

    @staticmethod
    def _made(provider: Value, function: Function) -> Value:
        return provider if isinstance(provider, Class) else function

    def _of_router(self, info: FunctionInfo) -> Iterator[Value]:
        """What is asked for around an entry point by its decorator, its router or its application."""
        for module, expression in self.walker.program.routers.around(info):
            frame = self.walker.names.module_frame(module)
            with self.walker.quietly():
                ways = self.walker.evaluate(expression, self.walker.names.start(), frame, Flow())
            provider = _asked_for(ways[0][1]) if ways else None
            if provider is not None:
                yield provider


def _asked_for(value: Value) -> Value | None:
    """The dependency that a parameter asks for."""
    if isinstance(value, Made) and value.name.rpartition(".")[2] in _ASKS:
        return value.argument(0, "dependency")
    return None


if TYPE_CHECKING:
    _Inside = Callable[[State, Flow, Given], list[State]]
    _With = Callable[[State, Value, Flow, Given], list[State]]
