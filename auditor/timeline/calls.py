"""Calls: arguments are bound, the function is walked where it is called, and connection and state follow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.findings import Confidence
from auditor.python import nodes
from auditor.timeline import collections, orm, strings
from auditor.timeline.connection import Autocommit, ConnectionState, Deed, Mark, Status
from auditor.timeline.events import Stranded, Worked
from auditor.timeline.invocation import OPEN, Invocation, called_name, goes_on, named_ways, positional_ways
from auditor.timeline.objects import MAKES
from auditor.timeline.outside import is_client
from auditor.timeline.parameters import Parameters
from auditor.timeline.pure import PureCalls
from auditor.timeline.sessions import ELSEWHERE
from auditor.timeline.state import NO_JOB, Flow, Frame, State, merge_raises, merge_values
from auditor.timeline.values import (
    NONE,
    UNKNOWN,
    Asked,
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
    Made,
    Mapping,
    Pending,
    Pool,
    Query,
    Row,
    Super,
    Text,
    Unknown,
    Value,
    from_row,
    holds_connection,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from auditor.findings import Place
    from auditor.program.code import ClassInfo, FunctionInfo
    from auditor.timeline.evaluate import Results
    from auditor.timeline.invocation import Keywords
    from auditor.timeline.pure import Outcome
    from auditor.timeline.walker import Walker

    #: What happens at a generator's yield: see `Frame.on_yield`.
    OnYield = Callable[[State, Value, Flow], list[State]]

#: Calls nested deeper than this are not followed.
DEEPEST = 16
#: Methods of loggers, wherever a logger comes from: what they are given is only told.
_LOGS = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical"})
#: Methods of collections: what they are given is kept for later.
_KEEPS = frozenset({"append", "appendleft", "add", "discard", "extend", "setdefault"})
#: What both do with a job is no work on it.
_NO_WORK = _LOGS | _KEEPS | MAKES
#: Verbs for doing what a job asks for, whatever comes of it.
_WORKS = frozenset({"run", "execute", "handle", "process", "perform", "work", "call", "invoke", "dispatch", "apply"})
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
        results: Results = []
        for before, callee in self.walker.evaluate(node.function, state, frame, flow):
            for call in self._invocations(node, before, frame, flow):
                if goes_on(node):
                    call = call.at(self._gone_on(call.state, call.place, frame))
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
            return self._construct(callee, call)
        if isinstance(callee, Instance):
            called = self.walker.objects.call_method(callee, "__call__", call)
            return called if called is not None else self.opaque(callee, call)
        if isinstance(callee, External):
            return self.walker.library.call(callee.name, call)
        if isinstance(callee, Bound):
            return self._bound(callee, call)
        if isinstance(callee, Field):
            return self._bound(Bound(callee.row, callee.column), call)
        if isinstance(callee, (Pool, Connection)):
            made = self.walker.database.sessions.called(callee, call)
            return made if made is not None else self.opaque(callee, call)
        return self.opaque(callee, call)

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
        info = function.info
        if info in call.frame.stack or len(call.frame.stack) >= DEEPEST:
            return self.opaque(function, call)
        if on_yield is None and not self._matters(info, call):
            self.entered.add(info)
            return self.opaque(function, call.at(self.walker.scout.look_through(function, call)))
        self.entered.add(info)
        if info.is_left_open and any(from_row(value) for value in call.everything):
            return self.opaque(function, call)
        inner = self.frame_of(function, call.frame, call.span, on_yield)
        known = self.pure.recall(info, inner, call)
        if known is None:
            used = self.walker.database.used
            known = self.walked(info, inner, call)
            if used == self.walker.database.used:
                self.pure.remember(info, inner, call, known)
        results, raises = known
        call.flow.raises.extend(raises)
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
        return makes and any(isinstance(one, Pool) or holds_connection(one) is not None for one in call.everything)

    @staticmethod
    def _is_mapped(value: Value, state: State) -> bool:
        """Whether something is an object that a mapper has fetched, or an object that keeps one."""
        held = state.heap.get(value.key, {}).values() if isinstance(value, Instance) else ()
        return any(isinstance(one, Row) and bool(one.table) for one in (value, *held))

    def walked(self, info: FunctionInfo, inner: Frame, call: Invocation) -> Outcome:
        """Each way out of a function's body, with its arguments bound."""
        ready = self.parameters.bind(info, inner, call)
        out = Flow()
        ends = self.body(info, ready, inner, out)
        results = [*out.returns, *((end, NONE) for end in ends)]
        return (
            merge_values([(self._left(after, inner), value) for after, value in results]),
            merge_raises([(self._left(after, inner), raised) for after, raised in out.raises]),
        )

    def body(self, info: FunctionInfo, state: State, frame: Frame, flow: Flow) -> list[State]:
        """The states at the end of a function's body, which runs inside the blocks that its decorators open."""

        def plain(start: State, out: Flow) -> list[State]:
            return self.walker.block(info.node.body, [start], frame, out)

        run: Callable[[State, Flow], list[State]] = plain
        for block in reversed(self.walker.database.held.around(info, state)):
            run = self._within(block, run, info, frame)
        return run(state, flow)

    def _within(
        self, block: Block, run: Callable[[State, Flow], list[State]], info: FunctionInfo, frame: Frame
    ) -> Callable[[State, Flow], list[State]]:
        def body(state: State, flow: Flow) -> list[State]:
            return self.walker.blocks.run(
                block, lambda start, _value, out: run(start, out), state, frame, flow, info.node.name_span
            )

        return body

    def pending(self, pending: Pending, call: Invocation, on_yield: OnYield | None = None) -> Results:
        """Run what was called earlier and only runs now, from the state and place of `call`."""
        return self.run(pending.function, call.passing(*pending.arguments, named=pending.keywords), on_yield)

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
    def _left(state: State, frame: Frame) -> State:
        assert frame.function is not None
        return state if frame.function.keeps_frame else state.unbind(frame.key)

    # Objects

    def _construct(self, cls: Class, call: Invocation) -> Results:
        objects = self.walker.objects
        if objects.is_enum(cls.info):
            return [(call.state, UNKNOWN)]
        made = self.walker.database.connecting.make_derived(cls.info, call)
        if made is not None:
            return made
        query = self.walker.models.managers.query(cls.info, call.argument(0, "model"))
        if query is not None:
            return [(call.state, query)]
        key = self.walker.keys.of("object", call.frame.key, call.span, cls.info)
        instance = Instance(cls.info, key, any(from_row(value) for value in call.everything))
        init = objects.class_member(instance, "__init__")
        if objects.is_exception(cls.info):
            return [(call.state, instance)]
        of_model = self.walker.models.made(instance, call) if not isinstance(init, Function) else None
        if of_model is not None:
            return of_model
        if isinstance(init, Function):
            return [(after, instance) for after, _ in self.apply(replace(init, bound=instance), call)]
        if any(base.takes_fields for base in objects.lineage(cls.info)):
            return self._construct_fields(instance, call)
        return [(call.state, instance)]

    def _construct_fields(self, instance: Instance, call: Invocation) -> Results:
        """The constructor that a dataclass, NamedTuple or model gets from its fields."""
        objects = self.walker.objects
        names = [
            field.targets[0].id
            for base in reversed(list(objects.lineage(instance.info)))
            for field in base.fields
            if isinstance(field.targets[0], nodes.Name)
        ]
        values: dict[str, Value] = {}
        if from_row(call.options.get(OPEN, UNKNOWN)):
            values = dict.fromkeys(names, Unknown(row=True))
        values.update(zip(names, call.positional, strict=False))
        values.update((name, value) for name, value in call.named if name in names)
        ready = call.at(call.state.bind_all(instance.key, values)).passing()
        after = objects.call_method(instance, "__post_init__", ready)
        return [(then, instance) for then, _ in after] if after is not None else [(ready.state, instance)]

    def construct_typed(self, instance: Instance | Connection, info: ClassInfo) -> None:
        """Run a constructor nobody is seen to call, so that the object has what its annotations and defaults give."""
        init = self.walker.objects.class_member(instance, "__init__")
        if not isinstance(init, Function):
            return
        names = self.walker.names
        frame = self.frame_of(init, names.module_frame(init.info.module), init.info.node.name_span)
        values = self.parameters.of_root(init.info, frame, instance)
        out = Flow()
        start = names.start().bind_all(frame.key, values)
        with self.walker.as_root(f"new {info.dotted}", lasting=True):
            ends = self.walker.block(init.info.node.body, [start], frame, out)
        ends = [*ends, *(after for after, _ in out.returns)]
        if ends:
            names.keep(self._left(ends[0], frame))

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
            ways = self.awaited(value, Invocation((), (), state, frame, Flow(), value.site))
            return ways[0][1] if ways else UNKNOWN
        return value

    # Coroutines and generators

    def awaited(self, value: Value, call: Invocation) -> Results:
        """`await value`: a coroutine runs now; anything else already has."""
        if isinstance(value, Either):
            return [result for option in value.options for result in self.awaited(option, call)]
        if isinstance(value, Block) and value.kind == "borrow":
            return list(self.walker.database.pools.acquire(value.key, call.state, call.frame, value.site))
        if isinstance(value, Block) and value.kind == "borrow cursor":
            taken = self.walker.database.pools.acquire(value.key, call.state, call.frame, value.site)
            return [(after, self.walker.database.cursor_of(connection)) for after, connection in taken]
        if isinstance(value, Block) and value.kind in ("transaction", "task"):
            # It begins, and is ended by hand.
            return [(after, value) for after, _ in self.walker.blocks.by_hand(value, "start", call)]
        if isinstance(value, Asked):
            return self.walker.records.send(value, call, many=True)
        if isinstance(value, Query):
            return self.walker.models.rows(value, call)
        if isinstance(value, Pending) and not value.manager and not value.function.info.node.is_generator:
            return self.pending(value, call)
        return [(call.state, value)]

    def delegated(self, value: Value, call: Invocation) -> Results:
        """`yield from value`: the inner generator's yields are the outer one's."""

        def on_yield(after: State, got: Value, out: Flow) -> list[State]:
            return self.walker.yielded(after, got, call.frame, out, call.span)

        if isinstance(value, Pending):
            return self.pending(value, call, on_yield)
        return [(after, UNKNOWN) for after in on_yield(call.state, UNKNOWN, call.flow)]

    def spawn(self, callee: Value, call: Invocation) -> None:
        """Something that runs beside what is walked: a thread, a task. It has its own way, from here on."""
        apart = call._replace(state=call.state.with_job(NO_JOB), flow=Flow())
        for value in call.everything:
            self._shared(value)
        ends: Results = []
        with self.walker.scout.beside(call.state):
            if isinstance(callee, Pending):
                ends = list(self.pending(callee, apart))
            elif isinstance(callee, (Function, Bound, Class, Instance)):
                ends = [
                    way for after, value in self.apply(callee, apart) for way in self.awaited(value, apart.at(after))
                ]
        for after in (*(state for state, _ in ends), *(state for state, _ in apart.flow.raises)):
            if after.job.claims:
                self.walker.database.endings.job_ends(after, call.place, call.frame.symbol)

    def handed_out(self, state: State, value: Value, frame: Frame, flow: Flow, span: nodes.Span) -> list[State]:
        """A yield to code that is not seen: it may work on what it is given, and fail."""
        key = holds_connection(value)
        key = self._committed_by(value, state) if key is None else key
        manager = frame.function is not None and frame.function.is_manager
        keys = (key,) if key is not None else ()
        state = self.work(state, frame.module.place(span), "the code that uses this", keys, frame)
        if manager or key is not None:
            raised = self.walker.raised("python", None, span, frame)
            flow.raises.append((self.walker.failed(state, raised), raised))
        elif from_row(value):
            # Whoever fails with the job in hand, or asks for no other, closes the generator where it stands.
            closed = self.walker.raised("raise", External("builtins.GeneratorExit"), span, frame)
            flow.raises.append((self.walker.failed(state, closed), closed))
        if key is None:
            return [state]
        self.walker.database.endings.may_fail(key, state, flow, span, frame)
        return [state, *self.walker.database.endings.kept_by_user(key, state, frame, span)]

    def _committed_by(self, value: Value, state: State) -> Key | None:
        """The connection that an object keeps, whose class commits: whoever is given the object can have it do so."""
        if not isinstance(value, Instance):
            return None
        if not any(info.commits for info in self.walker.objects.lineage(value.info)):
            return None
        kept = state.heap.get(value.key, {}).values()
        return next((key for one in kept if (key := holds_connection(one)) is not None), None)

    def _gone_on(self, state: State, place: Place, frame: Frame) -> State:
        """What was asked for goes on in code that is not seen, on other connections than one that was given back."""
        stranded = state.job.stranded
        if stranded is None:
            return state
        event = Stranded(place, *stranded, (), Confidence.MEDIUM, frame.symbol)
        return self.walker.see(event, state.with_job(replace(state.job, stranded=None)))

    # What is not followed

    def opaque(self, callee: Value, call: Invocation) -> Results:
        """A call that is not followed. Given a connection it may use it; given a job it may do the job's work."""
        key = next((found for value in call.everything if (found := holds_connection(value)) is not None), None)
        row = any(from_row(value) for value in call.everything)
        if row and key is None:
            call = call.at(self.walker.scout.hand_on(callee, call))
        for value in call.everything:
            self._shared(value)
        given = self._annotated(callee, row)
        if key is None and not (row and self._for_effect(callee, call)):
            return [(call.state, given)]
        keys = (key,) if key is not None else ()
        state = self.work(call.state, call.place, called_name(callee), keys, call.frame)
        raised = self.walker.raised("python", None, call.span, call.frame)
        call.flow.raises.append((self.walker.failed(state, raised), raised))
        if key is None:
            return [(state, given)]
        self.walker.database.endings.may_fail(key, state, call.flow, call.span, call.frame)
        ways = [state]
        if isinstance(callee, Unknown):
            # What a decorator is put around, or a callback, does the work, and commits it as any work is.
            ways += self.walker.database.endings.kept_by_user(key, state, call.frame, call.span)
        return [(way, given) for way in ways]

    def _annotated(self, callee: Value, row: bool) -> Value:
        """What a call that is not followed gives: the client of a library, where the function says so."""
        holder = callee.receiver if isinstance(callee, Bound) else callee
        if isinstance(holder, Made) and holder.name == ELSEWHERE:
            return holder  # a session of another database
        if not isinstance(callee, Function) or callee.info.node.returns is None:
            return Unknown(row=row)
        frame = self.walker.names.module_frame(callee.info.module)
        given = self.walker.types.typed(callee.info.node.returns, frame, self.walker.keys.of("returned", callee.info))
        return replace(given, row=row) if isinstance(given, Made) and is_client(given.name) else Unknown(row=row)

    def _for_effect(self, callee: Value, call: Invocation) -> bool:
        """Whether a call that is given a job does its work: it is no function that only makes something of it."""
        if isinstance(callee, Unknown) or _does_work(callee):
            return True
        makes = isinstance(callee, Function) and callee.info.gives_value
        makes = makes or (isinstance(callee, Bound) and callee.name in _NO_WORK)
        return call.span == self.walker.for_effect and not makes

    def _shared(self, value: Value) -> None:
        if isinstance(value, Pool):
            self.walker.database.share(value.key)

    def work(self, state: State, place: Place, what: str, keys: tuple[Key, ...], frame: Frame) -> State:
        """Work of the job in hand that may fail, in whatever transaction is open."""
        mark = Mark(Deed.WORK, place)
        for key, connection in state.connections.items():
            worked = (
                replace(connection, touched=True, lent=self._lent(connection, place)) if key in keys else connection
            )
            if connection.in_transaction and (key in keys or connection.pending):
                worked = worked.marked(mark)
            state = state.connect(key, worked)
        state = state.with_job(state.job.begun(by_call=True))
        return self.walker.see(Worked(place, what, keys, frame.symbol), state)

    @staticmethod
    def _lent(connection: ConnectionState, place: Place) -> Place | None:
        """Where work may have begun a transaction that is not seen."""
        driver = drivers.by_name(connection.driver)
        begins = driver is not None and driver.begins_by_itself and connection.autocommit is Autocommit.OFF
        return place if begins and connection.status is Status.IDLE else None

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


def _does_work(callee: Value) -> bool:
    """Whether what is called says by its name that it does something: `handler.run(job)`, `process_job(job)`."""
    if not isinstance(callee, (Bound, Function)):
        return False
    name = callee.name if isinstance(callee, Bound) else callee.info.node.name
    return name.strip("_").split("_")[0] in _WORKS
