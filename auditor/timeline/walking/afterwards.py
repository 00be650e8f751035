"""What a framework calls after an entry point, on the same connection, before the next request or task comes.

Facts: Django's pages "Middleware" (a factory is given `get_response` once and returns what is called with each request;
of the older kind process_request is called, then process_response) and "Signals"; Celery's pages "Signals" and "Tasks";
Dramatiq's reference of Middleware. A signal's listeners are told after a failure, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.program.signals import AFTER_REQUEST, AFTER_TASK
from auditor.timeline.model.entries import Entry, makes_middleware
from auditor.timeline.model.invocation import Invocation
from auditor.timeline.model.state import Flow, State, passed
from auditor.timeline.model.values import UNKNOWN, Class, Function, Value, options_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.program.code import FunctionInfo
    from auditor.timeline.model.state import Frame
    from auditor.timeline.walking.walker import Walker

#: By a method, those of the same class of which the first that is there is called after it.
_NEXT = {
    "process_request": ("process_response",),
    "process_view": ("process_response", "__call__"),
    "before_process_message": ("after_process_message",),
    "before_start": ("after_return",),
    "initial": ("finalize_response",),
    "prepare": ("on_finish",),
    "setup": ("finalize_response",),
}
#: What is told when the request or task is over.
_OVER = {
    Entry.MIDDLEWARE: AFTER_REQUEST,
    Entry.VIEW: AFTER_REQUEST,
    Entry.TASK: AFTER_TASK,
}
_OVER_METHODS = frozenset({"after_process_message"})


class Afterwards:
    """Walks it, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._listeners: dict[Entry, tuple[FunctionInfo, ...]] = {}

    def after(
        self, info: FunctionInfo, values: dict[str, Value], frame: Frame, ends: list[State], flow: Flow
    ) -> list[State]:
        """The states in which the request or task that an entry point belongs to is over."""
        entry = self.walker.entry
        if info.owner is not None and info.node.name in _NEXT:
            ends = self._next(info, values, frame, ends, flow)
        if entry not in _OVER:
            return ends
        if makes_middleware(info):
            ends = self._made(frame, ends, flow, info)
        return self._told(info, entry, frame, ends, flow)

    def _made(self, frame: Frame, ends: list[State], flow: Flow, info: FunctionInfo) -> list[State]:
        """What the factory returns is called with a request."""
        made = [
            (state, option)
            for state, value in flow.returns
            for option in options_of(value)
            if isinstance(option, Function) and option.info.nested
        ]
        if not made:
            return ends
        flow.returns.clear()
        for state, function in made:
            call = Invocation((UNKNOWN,), (), state, frame, flow, info.node.name_span)
            ends = [*ends, *self._run(function, call)]
        return ends

    def _run(self, function: Function, call: Invocation) -> list[State]:
        calls, coroutines = self.walker.calls, self.walker.coroutines
        return [
            end for then, value in calls.apply(function, call) for end, _ in coroutines.awaited(value, call.at(then))
        ]

    def _next(
        self, info: FunctionInfo, values: dict[str, Value], frame: Frame, ends: list[State], flow: Flow
    ) -> list[State]:
        """The request goes on, and comes back through another method of the same object."""
        assert info.owner is not None
        me, *rest = values.values()
        members = (self.walker.objects.class_member(Class(info.owner), name) for name in _NEXT[info.node.name])
        then = next((member for member in members if isinstance(member, Function)), None)
        if then is None:
            return ends
        ends = [*ends, *(state for state, _ in flow.returns)]
        flow.returns.clear()
        bound = replace(then, bound=me)
        call = Invocation((*rest[:1], UNKNOWN), (), State(), frame, flow, info.node.name_span)
        return [after for end in ends for after in self._run(bound, call.at(passed(end)))]

    # Listeners

    def _told(self, info: FunctionInfo, entry: Entry, frame: Frame, ends: list[State], flow: Flow) -> list[State]:
        listeners = [one for one in self._listening(entry) if one is not info]
        if not listeners:
            return ends
        return flow.followed_by(lambda state: self._tell(listeners, state, frame, info), ends)

    def _tell(self, listeners: list[FunctionInfo], state: State, frame: Frame, info: FunctionInfo) -> list[State]:
        """The states after all of them were told; where nothing was left on a connection it is none of theirs."""
        states = [state]
        for listener in listeners:
            if not any(setting.kept.is_value for one in state.connections.values() for setting in one.settings):
                break
            module = self.walker.names.module_frame(listener.module)
            me = self.walker.types.me(listener.owner) if listener.owner is not None else None
            given = tuple(
                (one.name, UNKNOWN) for one in listener.node.parameters[bool(me) :] if not one.kind.endswith("args")
            )
            function = Function(listener, module.key, bound=me)
            told = [
                after
                for before in states
                for after in self._run(
                    function, Invocation((), given, passed(before), frame, Flow(), info.node.name_span)
                )
            ]
            states = told or states
        return states

    def _listening(self, entry: Entry) -> tuple[FunctionInfo, ...]:
        known = self._listeners.get(entry)
        if known is None:
            known = self._listeners[entry] = tuple(self._find(entry))
        return known

    def _find(self, entry: Entry) -> Iterator[FunctionInfo]:
        for function, signals in self.walker.program.listeners.items():
            if signals & _OVER[entry]:
                yield function
        if entry is Entry.TASK:
            for module in self.walker.program.modules:
                if not module.words.names.isdisjoint({"Middleware", "dramatiq"}):
                    yield from (one for one in module.functions() if one.node.name in _OVER_METHODS and one.owner)
