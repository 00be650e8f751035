"""With blocks: what is entered, and what each way out of the block does to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.python import nodes
from auditor.timeline.computing import failures
from auditor.timeline.connections.driver_blocks import NOT_ENTERED
from auditor.timeline.model.connection import Life, unhold
from auditor.timeline.model.invocation import Invocation
from auditor.timeline.model.state import Flow, Frame, State, merge, merge_raises
from auditor.timeline.model.values import (
    NONE,
    TRUE,
    UNKNOWN,
    Block,
    Connection,
    Cursor,
    Either,
    External,
    Instance,
    Items,
    Key,
    Literal,
    Made,
    Pending,
    Pool,
    Raised,
    Text,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

    #: Runs what stands inside a block, from a state and with what the block gave.
    Body = Callable[[State, Value, Flow], list[State]]

_ENTERS = ("enter_context", "enter_async_context")
#: How a block is left whose generator has not come to its yield.
_NOT_ENTERED = Text("not entered")


class Blocks:
    """Walks with statements on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker

    def with_(self, node: nodes.With, state: State, frame: Frame, flow: Flow) -> list[State]:
        return self._item(node, 0, state, frame, flow)

    def _item(self, node: nodes.With, index: int, state: State, frame: Frame, flow: Flow) -> list[State]:
        if index == len(node.items):
            return self.walker.block(node.body, [state], frame, flow)
        expression, target = node.items[index]

        def body(start: State, value: Value, out: Flow) -> list[State]:
            bound = self.walker.assign(target, value, start, frame, out) if target is not None else [start]
            return merge([after for way in bound for after in self._item(node, index + 1, way, frame, out)])

        states: list[State] = []
        ways = self.walker.evaluate(expression, state, frame, flow)
        for after, manager in self.walker.database.told_by_use.entered(expression, target, ways, frame, flow):
            states.extend(self.run(manager, body, after, frame, flow, node.span))
        return merge(states)

    # ExitStack: what is entered stays entered for the rest of the block

    def entered_by(
        self, node: nodes.Node, states: list[State], frame: Frame
    ) -> tuple[nodes.Expression, nodes.Expression | None] | None:
        """What `stack.enter_context(x)` enters and what it is bound to, when the statement is one."""
        target: nodes.Expression | None = None
        if isinstance(node, nodes.Assign) and node.value is not None and len(node.targets) == 1:
            value, target = node.value, node.targets[0]
        elif isinstance(node, nodes.Do):
            value = node.value
        else:
            return None
        call = value.value if isinstance(value, nodes.Await) else value
        if not isinstance(call, nodes.Call) or len(call.arguments) != 1:
            return None
        function = call.function
        if not isinstance(function, nodes.Attribute) or function.name not in _ENTERS:
            return None
        return call.arguments[0], target

    def run_entered(
        self,
        entered: tuple[nodes.Expression, nodes.Expression | None],
        node: nodes.Node,
        rest: tuple[nodes.Node, ...],
        states: list[State],
        frame: Frame,
        flow: Flow,
    ) -> list[State]:
        """The rest of a block, run inside what an ExitStack has entered."""
        block = nodes.With((entered,), rest, False, node.span)
        return self.walker.node(block, states, frame, flow)

    # Running a block

    def run(self, manager: Value, body: Body, state: State, frame: Frame, flow: Flow, span: nodes.Span) -> list[State]:
        """`with manager: body`."""
        if isinstance(manager, Either):
            return merge(
                [
                    after
                    for option in manager.options
                    if option != NONE
                    for after in self.run(option, body, state, frame, flow, span)
                ]
            )
        if isinstance(manager, (Block, Connection, Cursor, Pool)):
            return self._driver(manager, body, state, frame, flow, span)
        if isinstance(manager, Pending):
            return self._generator(manager, body, state, frame, flow, span)
        if isinstance(manager, Instance):
            return self._instance(manager, body, state, frame, flow, span)
        if isinstance(manager, Made):
            return self._library(manager, body, state, frame, flow, span)
        return self._unseen(body, state, flow)

    def _unseen(self, body: Body, state: State, flow: Flow) -> list[State]:
        """What an unseen object opens for its block is over with it, committed or not."""
        return self._around(
            state,
            lambda start, out: body(start, UNKNOWN, out),
            lambda end, _raised, _out: [(_without_what_is_held(state, end), False)],
            flow,
        )

    def _driver(
        self, manager: Value, body: Body, state: State, frame: Frame, flow: Flow, span: nodes.Span
    ) -> list[State]:
        database = self.walker.database.blocks
        states: list[State] = []
        for entered, given, exit_as in database.enter(manager, state, frame, span):
            if exit_as[0] in NOT_ENTERED:
                # What stands in it is looked at all the same: it is what is kept from running.
                body(entered, given, Flow())
                raised = database.why_not(exit_as, state, frame, span)
                flow.raises.append((self.walker.failed(state, raised), raised))
                continue
            states.extend(
                self._around(
                    entered,
                    lambda start, out, given=given: body(start, given, out),  # type: ignore[misc]
                    lambda end, raised, out, exit_as=exit_as: [  # type: ignore[misc]
                        (after, database.swallows(exit_as, end, raised))
                        for after in database.leave(exit_as, end, raised, frame, span, out)
                    ],
                    flow,
                )
            )
        return merge(states)

    def by_hand(self, manager: Block | Connection, name: str, call: Invocation) -> Results:
        """`manager.__enter__()` and `manager.__exit__(…)`: how it is to be left is kept from the one to the other.

        A driver's transaction may have words of its own for it: start(), commit() and rollback().
        """
        database = self.walker.database.blocks
        key = self.walker.keys.of("entered", manager)
        if "enter" in name or name == "start":
            return self._entered_by_hand(manager, key, call)
        kept = call.state.get(key, "exit")
        if not isinstance(kept, Items):
            of_driver = isinstance(manager, Block) and name in ("commit", "rollback")
            return self.walker.database.endings.refused(manager.key, call) if of_driver else [(call.state, UNKNOWN)]
        how, one, other = (part.value for part in kept.items if isinstance(part, (Text, Literal)))
        exit_as = (str(how), int(one or 0), int(other or 0))
        failed = self.walker.raised("python", None, call.span, call.frame)
        given = TRUE if name == "rollback" else call.argument(0, default=NONE)
        ways = [None] if given == NONE else [None, failed] if given == UNKNOWN else [failed]
        return [
            (after.unbind(key), NONE)
            for raised in ways
            for after in database.leave(exit_as, call.state, raised, call.frame, call.span, call.flow)
        ]

    def _entered_by_hand(self, manager: Block | Connection, key: Key, call: Invocation) -> Results:
        database = self.walker.database.blocks
        results: Results = []
        for after, given, exit_as in database.enter(manager, call.state, call.frame, call.span):
            how, one, other = exit_as
            if how in NOT_ENTERED:
                raised = database.why_not(exit_as, call.state, call.frame, call.span)
                call.flow.raises.append((self.walker.failed(call.state, raised), raised))
            else:
                kept = Items("tuple", (Text(how), Literal(one), Literal(other)))
                results.append((after.bind(key, "exit", kept), given))
        return results

    def _around(
        self,
        state: State,
        body: Callable[[State, Flow], list[State]],
        leave: Callable[[State, Raised | None, Flow], list[tuple[State, bool]]],
        flow: Flow,
    ) -> list[State]:
        """Run `body`, and `leave` on each way out of it; `leave` tells whether it swallowed the exception."""
        out = Flow()
        ends = [after for end in merge(body(state, out)) for after, _ in leave(end, None, flow)]
        for before, value in out.returns:
            flow.returns.extend((after, value) for after, _ in leave(before, None, flow))
        flow.breaks.extend(after for before in merge(out.breaks) for after, _ in leave(before, None, flow))
        flow.continues.extend(after for before in merge(out.continues) for after, _ in leave(before, None, flow))
        for before, raised in merge_raises(out.raises):
            for after, swallowed in leave(before, raised, flow):
                if swallowed:
                    ends.append(after)
                else:
                    flow.raises.append((after, raised))
        return merge(ends)

    # Generators made context managers

    def _generator(
        self, manager: Pending, body: Body, state: State, frame: Frame, flow: Flow, span: nodes.Span
    ) -> list[State]:
        """The body runs at the generator's yield: its exceptions are raised there, anything else goes on after it."""
        key = self.walker.keys.of("block", frame.key, span, manager.function.info)

        def on_yield(at: State, value: Value, out: Flow) -> list[State]:
            inner = Flow()
            ends = [end.bind(key, "how", Text("end")) for end in body(at, value, inner)]
            ends.extend(
                before.bind(key, "how", Text("return")).bind(key, "value", result) for before, result in inner.returns
            )
            ends.extend(before.bind(key, "how", Text("break")) for before in inner.breaks)
            ends.extend(before.bind(key, "how", Text("continue")) for before in inner.continues)
            out.raises.extend((end.bind(key, "how", Text("raise")), one) for end, one in merge_raises(inner.raises))
            return merge(ends)

        inner = Flow()
        at_start = Invocation((), (), state.bind(key, "how", _NOT_ENTERED), frame, inner, manager.site)
        results = self.walker.coroutines.pending(manager, at_start, on_yield)
        flow.raises.extend((after.unbind(key), raised) for after, raised in inner.raises)
        states: list[State] = []
        for after, ended_with in results:
            how = after.get(key, "how")
            value = after.get(key, "value") or UNKNOWN
            left = after.unbind(key)
            if how == _NOT_ENTERED and ended_with != NONE:
                states.extend(self._unseen(body, left, flow))  # it was not followed
            elif how == _NOT_ENTERED and manager.manager and manager.function.info.node.is_generator:
                # A generator that comes to its end without its yield is refused by contextlib.
                refused = self.walker.raised("raise", External("builtins.RuntimeError"), span, frame)
                flow.raises.append((self.walker.failed(left, refused), refused))
            elif how == Text("return"):
                flow.returns.append((left, value))
            elif how == Text("break"):
                flow.breaks.append(left)
            elif how == Text("continue"):
                flow.continues.append(left)
            else:
                states.append(left)
        return merge(states)

    # Objects with __enter__ and __exit__

    def _instance(
        self, manager: Instance, body: Body, state: State, frame: Frame, flow: Flow, span: nodes.Span
    ) -> list[State]:
        objects, coroutines = self.walker.objects, self.walker.coroutines
        enter = "__enter__" if objects.class_member(manager, "__enter__") is not None else "__aenter__"
        entered = objects.call_method(manager, enter, Invocation((), (), state, frame, flow, span))
        if entered is None:
            return body(state, UNKNOWN, flow)
        leave_name = enter.replace("enter", "exit")

        def leave(end: State, raised: Raised | None, out: Flow) -> list[tuple[State, bool]]:
            arguments: tuple[Value, ...] = (NONE, NONE, NONE)
            if raised is not None:
                arguments = (raised.type or External("builtins.Exception"), raised, UNKNOWN)
            call = Invocation(arguments, (), end, frame, out, span)
            results = objects.call_method(manager, leave_name, call)
            if results is None:
                return [(end, False)]
            return [
                (after, raised is not None and value == Literal(True))
                for before, result in results
                for after, value in coroutines.awaited(result, call.at(before))
            ]

        states: list[State] = []
        for before, result in entered:
            for after, value in coroutines.awaited(result, Invocation((), (), before, frame, flow, span)):
                states.extend(
                    self._around(after, lambda start, out, value=value: body(start, value, out), leave, flow)  # type: ignore[misc]
                )
        return merge(states)

    # Context managers of libraries

    def _library(
        self, manager: Made, body: Body, state: State, frame: Frame, flow: Flow, span: nodes.Span
    ) -> list[State]:
        name = manager.name.rpartition(".")[2]
        first = manager.arguments[0] if manager.arguments else UNKNOWN
        if name in ("closing", "aclosing"):

            def close(end: State, raised: Raised | None, out: Flow) -> list[tuple[State, bool]]:
                closing = self.walker.objects.attribute(first, "close", end, frame, out, span)
                return [
                    (after, False)
                    for before, method in closing
                    for after, _ in self.walker.calls.apply(method, Invocation((), (), before, frame, out, span))
                ]

            return self._around(state, lambda start, out: body(start, first, out), close, flow)
        if name == "suppress":
            types = Items("tuple", manager.arguments)

            def leave(end: State, raised: Raised | None, out: Flow) -> list[tuple[State, bool]]:
                if raised is None:
                    return [(end, False)]
                answer = failures.catches(types, raised, self.walker)
                caught = [] if answer is False else [(end.with_job(end.job.caught()), True)]
                return caught if answer is True else [*caught, (end, False)]

            return self._around(state, lambda start, out: body(start, UNKNOWN, out), leave, flow)
        if name == "nullcontext":
            return body(state, first, flow)
        return body(state, manager, flow)


def _without_what_is_held(before: State, after: State) -> State:
    """No rows are held any more by the connections that were only known inside a block of an unseen object."""
    for key, connection in after.connections.items():
        unseen = connection.life is Life.GIVEN and connection.made is None and connection.pool is None
        if key not in before.connections and unseen and connection.wrote:
            after = after.connect(key, unhold(connection))
    return after
