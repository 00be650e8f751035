"""Calls: arguments are bound, the function is walked where it is called, and connection and state follow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.program.tree import last_name
from auditor.python import nodes
from auditor.timeline.computing import collections, dialects, strings
from auditor.timeline.mappers import orm
from auditor.timeline.model.invocation import Invocation, goes_on, named_ways, positional_ways
from auditor.timeline.model.state import Flow, Frame, State, merge_raises, merge_values, unsure
from auditor.timeline.model.values import (
    NONE,
    UNKNOWN,
    Block,
    Bound,
    Built,
    Class,
    Clause,
    Connection,
    Cursor,
    Either,
    External,
    Field,
    Function,
    Instance,
    Items,
    Key,
    Literal,
    Mapping,
    Pending,
    Pool,
    Row,
    Super,
    Text,
    Value,
    from_row,
    holds_connection,
)
from auditor.timeline.walking.after_writes import is_told_of_rows
from auditor.timeline.walking.parameters import Parameters
from auditor.timeline.walking.pure import PureCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from auditor.program.code import FunctionInfo
    from auditor.timeline.model.invocation import Keywords
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.pure import Outcome
    from auditor.timeline.walking.walker import Walker

    #: What happens at a generator's yield: see `Frame.on_yield`.
    OnYield = Callable[[State, Value, Flow], list[State]]

#: Calls nested deeper than this are not followed.
DEEPEST = 16
#: How a class enters and leaves what its own context manager stands for.
_BY_HAND = frozenset({"__enter__", "__aenter__", "__exit__", "__aexit__"})
#: What a transaction of a driver is begun and ended with by hand.
_OF_TRANSACTION = frozenset({"start", "commit", "rollback"})


class Calls:
    """Applies what is called to its arguments, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self.parameters = Parameters(walker)
        self.pure = PureCalls()
        #: The activations that a function sees, by where it was defined.
        self.scopes_of: dict[tuple[FunctionInfo, Key], tuple[Key, ...]] = {}
        #: What functions with a cache have returned, by their arguments.
        self._first: dict[tuple[FunctionInfo, tuple[Value, ...], Keywords], Value] = {}
        #: Functions that were walked because something calls them.
        self.entered: set[FunctionInfo] = set()

    # Evaluating a call

    def evaluate(self, node: nodes.Call, state: State, frame: Frame, flow: Flow) -> Results:
        """Each way through a call: what is called, its arguments, then the call itself."""
        if isinstance(node.function, nodes.Name) and node.function.id == "super" and frame.owner is not None:
            return [(state, self._super(state, frame))]
        answer = dialects.answered(last_name(node.function) or "")
        if answer is not None:
            return [(state, Literal(answer))]
        results: Results = []
        for before, callee in self.walker.evaluate(node.function, state, frame, flow):
            for call in self._invocations(node, before, frame, flow):
                if goes_on(node):
                    call = call.at(self.walker.unseen.gone_on(call.state, call.place, frame))
                changed = self._changed_in_place(node, callee, call)
                results.extend(self.apply(callee, call) if changed is None else changed)
        return merge_values(results)

    def _super(self, state: State, frame: Frame) -> Value:
        assert frame.owner is not None
        first = frame.function.node.parameters[0].name if frame.function and frame.function.node.parameters else ""
        return Super(frame.owner, state.get(frame.key, first) or UNKNOWN)

    def _invocations(self, node: nodes.Call, state: State, frame: Frame, flow: Flow) -> Iterator[Invocation]:
        expressions = [*node.arguments, *(value for _, value in node.keywords)]
        for after, got in self.walker.evaluator.each(expressions, state, frame, flow):
            given = list(zip(node.arguments, got, strict=False))
            names = [name for name, _ in node.keywords]
            named = named_ways(list(zip(names, got[len(node.arguments) :], strict=True)))
            for positional in positional_ways(given):
                for keywords in named:
                    yield Invocation(positional, keywords, after, frame, flow, node.span)

    def _changed_in_place(self, node: nodes.Call, callee: Value, call: Invocation) -> Results | None:
        """`collection.append(x)` and its like: what names the collection names the changed one from here on."""
        if not isinstance(callee, Bound) or not isinstance(node.function, nodes.Attribute):
            return None
        change = collections.changed(callee.receiver, callee.name, call.positional, call.named)
        if change is None:
            return None
        collection, value = change
        states = self.walker.rebind(node.function.value, collection, call.state, call.frame, call.flow)
        return [(after, value) for after in states]

    # Applying

    def apply(self, callee: Value, call: Invocation) -> Results:
        """Call `callee`: each way out of the call, with what it returns."""
        if isinstance(callee, Either):
            options = [option for option in callee.options if option != NONE]
            return merge_values([result for option in options for result in self.apply(option, call)])
        if isinstance(callee, Function):
            return self._function(callee, call)
        if isinstance(callee, Class):
            return self.walker.constructing.construct(callee, call)
        if isinstance(callee, Instance):
            called = self.walker.objects.call_method(callee, "__call__", call)
            return called if called is not None else self.walker.unseen.opaque(callee, call)
        if isinstance(callee, External):
            return self.walker.library.call(callee.name, call)
        if isinstance(callee, Bound):
            return self._bound(callee, call)
        if isinstance(callee, Field):
            return self._bound(Bound(callee.row, callee.column), call)
        if isinstance(callee, (Pool, Connection)):
            made = self.walker.database.sessions.called(callee, call)
            return made if made is not None else self.walker.unseen.opaque(callee, call)
        return self.walker.unseen.opaque(callee, call)

    def _function(self, function: Function, call: Invocation) -> Results:
        bound = (function.bound,) if function.bound is not None else ()
        positional = (*bound, *function.arguments, *call.positional)
        named = (*function.keywords, *call.named)
        plain = replace(function, bound=None, arguments=(), keywords=())
        node = function.info.node
        if node.is_async or node.is_generator:
            manager = function.manager or function.info.is_manager
            return [(call.state, Pending(plain, positional, named, call.span, call.frame.key, manager))]
        ready = call._replace(positional=positional, named=named)
        return self._cached(plain, ready) if function.info.is_cached else self.run(plain, ready)

    def _cached(self, function: Function, call: Invocation) -> Results:
        """The first call makes the value for all that follow: what it opens outlives the job, wherever that begins."""
        info = function.info
        mark = (info, call.positional, call.named)
        known = self._first.get(mark)
        key = holds_connection(known) if known is not None else None
        if known is not None and (key is None or key in call.state.connections):
            return [(call.state, known)]
        nowhere = replace(self.walker.names.module_frame(info.module), stack=call.frame.stack)
        once = call._replace(frame=nowhere, span=info.node.name_span)
        with self.walker.as_root(f"start {info.dotted}", lasting=True):
            results = self.run(function, once)
        if len(results) == 1:
            self._first[mark] = results[0][1]
        return results

    def run(self, function: Function, call: Invocation, on_yield: OnYield | None = None) -> Results:
        """Walk a function's body with its arguments bound: each way out with what it returns."""
        if function.guessed:
            return self._guessed(function, call, on_yield)
        info = function.info
        if info in call.frame.stack or len(call.frame.stack) >= DEEPEST:
            return self.walker.unseen.opaque(function, call)
        if info.is_left_open:
            call = call.at(self.walker.scout.look_behind(info, call))
        if on_yield is None and not self._matters(info, call):
            self.entered.add(info)
            seen = self.in_turn(info, self.walker.scout.look_through(function, call))
            return self._as_said(info, self.walker.unseen.opaque(function, call.at(seen)))
        self.entered.add(info)
        if info.is_left_open and any(from_row(value) for value in call.everything):
            return self.walker.unseen.opaque(function, call)
        inner = self.frame_of(function, call.frame, call.span, on_yield)
        known = self.pure.recall(info, inner, call)
        if known is None:
            used = self.walker.database.used
            known = self.walked(info, inner, call)
            if used == self.walker.database.used:
                self.pure.remember(info, inner, call, known)
        results, raises = known
        call.flow.raises.extend(raises)
        return self._as_said(info, results)

    def _as_said(self, info: FunctionInfo, results: Results) -> Results:
        """What a function says that it returns is what it does, where nothing else is known of that."""
        if not isinstance(info.node.returns, nodes.Subscript):
            return results
        return [(after, self.walker.types.returned(info, value)) for after, value in results]

    def _guessed(self, function: Function, call: Invocation, on_yield: OnYield | None) -> Results:
        """What is done by a function that is only likely to be meant is not sure, nor is what comes of it."""
        plain, raised = replace(function, guessed=False), len(call.flow.raises)
        used = on_yield and (lambda at, value, out: on_yield(unsure(at), value, out))
        results = [(unsure(after), value) for after, value in self.run(plain, call, used)]
        call.flow.raises[raised:] = [(unsure(after), one) for after, one in call.flow.raises[raised:]]
        return results

    def _matters(self, info: FunctionInfo, call: Invocation) -> bool:
        """Whether a function is followed: it may use a database, or hands on what does to whoever asks its object."""
        if info in self.walker.program.relevance or info.is_small:
            return True
        if info.sets_attributes and any(self._is_mapped(one, call.state) for one in call.everything):
            return True
        makes = info.node.name in ("__init__", "__post_init__")
        if makes and call.frame.function is None and info in self.walker.program.sources:
            return True  # what its methods do on a connection, they do with what it was made with
        return makes and any(
            isinstance(one, Pool) or holds_connection(one) is not None or is_told_of_rows(one)
            for one in call.everything
        )

    @staticmethod
    def _is_mapped(value: Value, state: State) -> bool:
        """Whether something is an object that a mapper has fetched, or an object that keeps one."""
        held = state.heap.get(value.key, {}).values() if isinstance(value, Instance) else ()
        return any(
            (isinstance(one, Row) and bool(one.table)) or (isinstance(one, Instance) and one.row)
            for one in (value, *held)
        )

    def walked(self, info: FunctionInfo, inner: Frame, call: Invocation) -> Outcome:
        """Each way out of a function's body, with its arguments bound."""
        ready = self.parameters.bind(info, inner, call)
        out = Flow()
        ends = self.body(info, ready, inner, out)
        results = [*out.returns, *((end, NONE) for end in ends)]
        return (
            merge_values([(self.left(after, inner), value) for after, value in results]),
            merge_raises([(self.left(after, inner), raised) for after, raised in out.raises]),
        )

    def body(self, info: FunctionInfo, state: State, frame: Frame, flow: Flow) -> list[State]:
        """The states at the end of a function's body, which runs inside the blocks that its decorators open."""

        def plain(start: State, out: Flow) -> list[State]:
            return self.walker.block(info.node.body, [start], frame, out)

        state = self.in_turn(info, state)
        run: Callable[[State, Flow], list[State]] = plain
        for block in reversed(self.walker.database.held.around(info, state)):
            run = self._within(block, run, info, frame)
        return run(state, flow)

    def in_turn(self, info: FunctionInfo, state: State) -> State:
        """The state in a function that takes a lock outside of the database, or is called by a decorator that does."""
        if state.job.guarded or not (info.takes_turns or any(self._decorating(info, state))):
            return state
        return state.with_job(replace(state.job, guarded=True))

    def _decorating(self, info: FunctionInfo, state: State) -> Iterator[bool]:
        frame = self.walker.names.module_frame(info.module)
        for decorator in info.node.decorators:
            target = decorator.function if isinstance(decorator, nodes.Call) else decorator
            named = self.walker.objects.constant(target, frame, state)
            yield isinstance(named, Function) and named.info.takes_turns

    def _within(
        self, block: Block, run: Callable[[State, Flow], list[State]], info: FunctionInfo, frame: Frame
    ) -> Callable[[State, Flow], list[State]]:
        def body(state: State, flow: Flow) -> list[State]:
            return self.walker.blocks.run(
                block, lambda start, _value, out: run(start, out), state, frame, flow, info.node.name_span
            )

        return body

    def frame_of(self, function: Function, caller: Frame, span: nodes.Span, on_yield: OnYield | None = None) -> Frame:
        """The activation of a function that is called from `caller`."""
        info = function.info
        key = self.walker.keys.of_activation("call", caller.key, span, info)
        outer = self.scopes_of.get((info, function.frame), (self.walker.names.module_key(info.module),))
        scopes = [part for part in info.node.body if isinstance(part, nodes.Scope)]
        return Frame(
            key,
            info.module,
            info,
            info.owner,
            (key, *outer),
            (*caller.stack, info),
            on_yield,
            # What is walked from its own definition is not called by anything that is seen.
            caller.calls if span == info.node.name_span else (*caller.calls, caller.module.place(span)),
            frozenset(name for part in scopes if part.kind == "global" for name in part.names),
            frozenset(name for part in scopes if part.kind == "nonlocal" for name in part.names),
        )

    @staticmethod
    def left(state: State, frame: Frame) -> State:
        """What is known once a function was left: no more of its variables, unless something keeps them."""
        assert frame.function is not None
        return state if frame.function.keeps_frame else state.unbind(frame.key)

    def evaluate_in(self, function: FunctionInfo, expression: nodes.Expression) -> list[Value]:
        """What an expression comes to somewhere in a function: its parameters are what their annotations say."""
        names = self.walker.names
        outer = names.module_frame(function.module)
        frame = self.frame_of(Function(function, outer.key), outer, function.node.name_span)
        with self.walker.quietly(), self.walker.as_root(f"start {function.dotted}", lasting=True):
            start = names.start().bind_all(frame.key, self.parameters.of_root(function, frame))
            ways = self.walker.evaluate(expression, start, frame, Flow())
            results = [self._settled(way, after, frame) for after, way in ways]
        for after, _ in ways[:1]:
            names.keep(after.unbind(frame.key))
        return results

    def _settled(self, value: Value, state: State, frame: Frame) -> Value:
        """A coroutine that was not awaited is what it returns once it is."""
        if isinstance(value, Pending) and not value.manager:
            ways = self.walker.coroutines.awaited(value, Invocation((), (), state, frame, Flow(), value.site))
            return ways[0][1] if ways else UNKNOWN
        return value

    def _bound(self, callee: Bound, call: Invocation) -> Results:
        receiver = orm.receiver_of(callee.receiver, callee.name)
        if isinstance(receiver, (Block, Connection)) and callee.name in _BY_HAND:
            return self.walker.blocks.by_hand(receiver, callee.name, call)
        if isinstance(receiver, Block) and receiver.kind == "inside":
            return self.walker.database.blocks.inside.call(receiver, callee.name, call)
        if isinstance(receiver, Block) and receiver.kind in ("transaction", "task") and callee.name in _OF_TRANSACTION:
            return self.walker.blocks.by_hand(receiver, callee.name, call)
        if isinstance(receiver, Block) and receiver.how:
            return self.walker.database.sessions.by_hand(receiver, callee.name, call)
        if isinstance(receiver, (Connection, Cursor, Pool)):
            return self.walker.database.call(receiver, callee.name, call)
        of_record = self.walker.records.call(receiver, callee.name, call)
        if of_record is not None:
            return of_record
        of_model = self.walker.models.call(receiver, callee.name, call)
        if of_model is not None:
            return of_model
        if isinstance(receiver, Text):
            made = strings.statement_of(receiver, callee.name, call.named)
            if made is not None:
                return [(call.state, made)]
            return [(call.state, strings.call_method(receiver, callee.name, call.positional, call.named))]
        if isinstance(receiver, (Built, Clause)):
            return self.walker.mapper.method(receiver, callee.name, call)
        if isinstance(receiver, (Items, Mapping, Row)):
            return [(call.state, collections.read(receiver, callee.name, call.positional))]
        connecting = self.walker.database.connecting
        guessed = connecting.of_unseen_pool(receiver, callee.name, call) or connecting.guess(
            receiver, callee.name, call
        )
        return guessed if guessed is not None else self.walker.library.method(callee, call)
