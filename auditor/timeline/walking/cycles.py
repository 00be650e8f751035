"""What a framework calls before and after an entry point, for the same request or job: its hooks, and around them work.

A hook that leaves something on a connection is followed by work that may commit it, and by the hooks that are called
when the request is over. Of all the work there may be, a few functions are taken: those that commit come first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.program.hooks import Turn
from auditor.program.tree import descend
from auditor.python import nodes
from auditor.timeline.model.invocation import Invocation
from auditor.timeline.model.state import Flow, State, merge
from auditor.timeline.model.values import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.program.code import ClassInfo, FunctionInfo
    from auditor.timeline.model.state import Frame
    from auditor.timeline.walking.walker import Walker

#: So much work is walked for one hook, and so many hooks before work.
MOST_WORK, MOST_HOOKS = 3, 3


class Cycles:
    """Walks them, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker

    # Who belongs together

    def work(self, info: FunctionInfo) -> list[FunctionInfo]:
        """Some of the functions that a hook or a dependency is called for, where they do not ask for it by name."""
        hooks, routers = self.walker.program.hooks, self.walker.program.routers
        found: list[FunctionInfo] = []
        cycle, turn = hooks.turns.get(info, (None, None))
        if cycle is not None and turn is Turn.BEFORE:
            found = [one for one in hooks.of(cycle, Turn.WORK) if hooks.is_called_for(info, one)]
        elif info.owner is not None and info.node.name == "__call__":
            names = {info.owner.node.name, *self._objects(info.owner)}
            found = [*self._given(names), *(one for name in sorted(names) for one in routers.functions(name))]
        elif info.owner is None:
            found = list(routers.functions(info.node.name))
        used = [one for one in dict.fromkeys(found) if one is not info and one in self.walker.program.relevance]
        used.sort(key=lambda one: ("commit" not in one.words.names, one.module is not info.module))
        return used[:MOST_WORK]

    def _objects(self, owner: ClassInfo) -> Iterator[str]:
        """The names at the top of modules for objects of a class."""
        for module in self.walker.program.modules:
            for name, bound in module.bound.items():
                for part in bound:
                    if isinstance(part, nodes.Assign) and isinstance(part.value, nodes.Call):
                        called = part.value.function
                        if isinstance(called, nodes.Name) and called.id == owner.node.name:
                            yield name

    def _given(self, names: set[str]) -> Iterator[FunctionInfo]:
        """The functions whose parameters speak of one of these names."""
        for module in self.walker.program.modules:
            if not module.words.names.isdisjoint(names):
                for function in module.functions():
                    if function.node.name != "__init__" and any(
                        isinstance(part, nodes.Name) and part.id in names for part in descend(function.node.parameters)
                    ):
                        yield function

    # Walking them

    def before(self, info: FunctionInfo, frame: Frame, state: State) -> list[State]:
        """The states in which the work of a request or job begins."""
        hooks = self.walker.program.hooks
        cycle, turn = hooks.turns.get(info, (None, None))
        if cycle is None or turn is not Turn.WORK:
            return [state]
        program = self.walker.program
        called = [
            hook
            for hook in hooks.of(cycle, Turn.BEFORE)
            if hook in program.sources and hook in program.relevance and hooks.is_called_for(hook, info)
        ]
        return self._called(called[:MOST_HOOKS], [state], frame, info)

    def after(self, info: FunctionInfo, frame: Frame, ends: list[State], flow: Flow) -> list[State]:
        """The states in which the request or job is over, whose work an entry point was."""
        hooks = self.walker.program.hooks
        cycle, turn = hooks.turns.get(info, (None, None))
        if cycle is None or turn is not Turn.WORK:
            return ends
        called = [hook for hook in hooks.of(cycle, Turn.AFTER) if hooks.is_called_for(hook, info)]
        if not called:
            return ends
        return flow.followed_by(lambda state: self._over(called, state, frame, info), ends)

    def _over(self, called: list[FunctionInfo], state: State, frame: Frame, info: FunctionInfo) -> list[State]:
        """Where nothing was set or done on a connection, what is over is none of the hooks' business."""
        busy = any(one.settings or one.in_transaction for one in state.connections.values())
        return self._called(called, [state], frame, info) if busy else [state]

    def _called(
        self, hooks: Iterable[FunctionInfo], states: list[State], frame: Frame, info: FunctionInfo
    ) -> list[State]:
        for hook in hooks:
            after = [then for state in states for then in self._call(hook, state, frame, info)]
            states = merge(after) or states
        return states

    def _call(self, hook: FunctionInfo, state: State, frame: Frame, info: FunctionInfo) -> list[State]:
        calls, coroutines = self.walker.calls, self.walker.coroutines
        found, state = self.walker.names.start_of(hook, state)
        me = self.walker.types.me(hook.owner) if hook.owner is not None and not hook.is_static else None
        given = tuple(
            (one.name, UNKNOWN)
            for one in hook.node.parameters[bool(me) :]
            if not one.kind.endswith("args") and one.default is None
        )
        call = Invocation((), given, state, frame, Flow(), info.node.name_span)
        found = replace(found, bound=me)
        return [end for then, value in calls.apply(found, call) for end, _ in coroutines.awaited(value, call.at(then))]
