"""Walks statements: from each state at the start of a piece of code to the states at its end, exceptions as edges."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from auditor.python import nodes
from auditor.timeline.computing import failures
from auditor.timeline.connections.database import Database
from auditor.timeline.connections.upgrades import Upgrades
from auditor.timeline.leaving.scout import Scout
from auditor.timeline.mappers.mapper import Mapper
from auditor.timeline.mappers.models import Models
from auditor.timeline.mappers.records import Records
from auditor.timeline.model.entries import Entry
from auditor.timeline.model.rendered import parts_of
from auditor.timeline.model.state import Flow, Frame, Keys, State, TooMuchError, merge, merge_raises
from auditor.timeline.model.values import (
    NONE,
    UNKNOWN,
    Class,
    Either,
    Instance,
    Items,
    Key,
    Literal,
    Made,
    Mapping,
    Raised,
    Row,
    Unknown,
    Value,
    either,
    from_row,
    options_of,
)
from auditor.timeline.walking.after_writes import AfterWrites
from auditor.timeline.walking.blocks import Blocks
from auditor.timeline.walking.calls import Calls
from auditor.timeline.walking.constructing import Constructing
from auditor.timeline.walking.coroutines import Coroutines
from auditor.timeline.walking.evaluate import Evaluator
from auditor.timeline.walking.library import Library
from auditor.timeline.walking.loops import Loops
from auditor.timeline.walking.names import Names
from auditor.timeline.walking.objects import Objects
from auditor.timeline.walking.operators import compare, truth_of
from auditor.timeline.walking.scratch import Scratch
from auditor.timeline.walking.stand_ins import StandIns
from auditor.timeline.walking.told_apart import assume_closed, assume_kind, kept_in
from auditor.timeline.walking.types import Types
from auditor.timeline.walking.unseen import Unseen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from auditor.program.program import Program
    from auditor.timeline.model.events import Event

#: Expressions looked at for one entry point before the rest of it is given up.
BUDGET = 40_000
#: And so many in all, beyond which each entry point that is left has only the least.
TOTAL_BUDGET = 400_000
LEAST_BUDGET = 4_000
#: Where the least of many has come to so many, those that are left have only the last of it: an audit has to end.
LEAST_TOTAL = 1_000_000
LAST_BUDGET = 1_000
#: An entry point that has come by no connection for so long is not going to.
DRY_BUDGET = 6_000
#: Nor are the others, where so many steps have led to none: each is given up sooner.
DRY_TOTAL = 250_000
LEAST_DRY_BUDGET = 1_200


class Walker:
    """Walks a program from its entry points. What it sees is left in `events`, in the order it was first seen."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.keys = Keys()
        self.events: dict[Event, None] = {}
        #: The same while what is walked is not meant to leave any.
        self.kept = self.events
        self.steps = 0
        self.budget = BUDGET
        self._left = TOTAL_BUDGET
        self._dry_left = DRY_TOTAL
        self._dry_budget = DRY_BUDGET
        #: This entry point has come by a connection.
        self._saw = False
        self.root = ""
        self.entry = Entry.OTHER
        #: What is opened now outlives what is walked: a module or an object keeps it for whoever comes.
        self.lasting = False
        #: The call on the line that is walked, when nobody looks at what it returns.
        self.for_effect: nodes.Span = nodes.NOWHERE
        self.names = Names(self)
        self.objects = Objects(self)
        self.stand_ins = StandIns(self)
        self.types = Types(self)
        self.evaluator = Evaluator(self)
        self.calls = Calls(self)
        self.constructing = Constructing(self)
        self.coroutines = Coroutines(self)
        self.unseen = Unseen(self)
        self.library = Library(self)
        self.database = Database(self)
        self.mapper = Mapper(self)
        self.records = Records(self)
        self.scout = Scout(self)
        self.after_writes = AfterWrites(self)
        self.scratch = Scratch(self)
        self.models = Models(self)
        self.upgrades = Upgrades(self)
        self.blocks = Blocks(self)
        self.loops = Loops(self)
        self._dispatch: dict[type, Callable[[Any, State, Frame, Flow], list[State]]] = {
            nodes.Do: self._do,
            nodes.Assign: self._assign,
            nodes.Augment: self._augment,
            nodes.Return: self._return,
            nodes.Raise: self._raise,
            nodes.If: self._if,
            nodes.While: self.loops.while_,
            nodes.For: self.loops.for_,
            nodes.With: self.blocks.with_,
            nodes.Try: self._try,
            nodes.Match: self._match,
            nodes.Break: self._break,
            nodes.Continue: self._continue,
            nodes.Assert: self._assert,
            nodes.Delete: self._delete,
            nodes.Scope: self._nothing,
            nodes.Import: self.names.bind_import,
            nodes.Function: self.names.define_function,
            nodes.Class: self.names.define_class,
        }

    def step(self) -> None:
        """Count a piece of work; raises TooMuchError when the entry point has had its share."""
        self.steps += 1
        if self.steps > (self.budget if self._saw else self._dry_budget):
            raise TooMuchError

    def begin(self, entry: Entry = Entry.OTHER) -> None:
        """The next entry point, of that kind: what the others have taken is not there for it."""
        self.entry = entry
        self._left -= self.steps
        if not self._saw:
            self._dry_left -= self.steps
            self._dry_budget = DRY_BUDGET if self._dry_left > 0 else LEAST_DRY_BUDGET
        self.steps = 0
        self._saw = False
        least = LEAST_BUDGET if self._left > -LEAST_TOTAL else LAST_BUDGET
        self.budget = max(min(BUDGET, self._left), least)

    @contextmanager
    def within(self, budget: int) -> Iterator[Callable[[], int]]:
        """What is walked inside has a budget of its own; how much of it was taken is told by what this gives."""
        before = self.steps, self.budget, self._saw
        self.steps, self.budget, self._saw = 0, budget, True
        taken = 0
        try:
            yield lambda: taken or self.steps
        finally:
            taken = self.steps
            self.steps, self.budget, self._saw = before

    def see(self, event: Event, state: State) -> State:
        """Keep an event, and remember it as a part of the way that led here."""
        self.events.setdefault(event)
        self._saw = True
        return state.saw(event)

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """What is walked inside only finds a value: it happens nowhere, so it leaves no events."""
        events, self.events = self.events, {}
        try:
            yield
        finally:
            self.events = events

    @contextmanager
    def aloud(self) -> Iterator[None]:
        """What is walked inside happens, though it is met while something else only finds a value."""
        events, self.events = self.events, self.kept
        try:
            yield
        finally:
            self.events = events

    @contextmanager
    def as_root(self, root: str, lasting: bool = False) -> Iterator[None]:
        """What is walked inside happens on behalf of the entry point of that name, or makes what all of them find."""
        before, self.root, self.lasting = (self.root, self.lasting), root, lasting
        try:
            yield
        finally:
            self.root, self.lasting = before

    # Blocks of statements

    def block(self, body: tuple[nodes.Node, ...], states: list[State], frame: Frame, flow: Flow) -> list[State]:
        """The states at the end of `body`, started in each of `states`."""
        for index, node in enumerate(body):
            if not states:
                break
            rest = self.blocks.entered_by(node, states, frame)
            if rest is not None:
                # ExitStack.enter_context: what is left of the block runs inside of it.
                return self.blocks.run_entered(rest, node, body[index + 1 :], states, frame, flow)
            states = self.node(node, states, frame, flow)
        return states

    def node(self, node: nodes.Node, states: list[State], frame: Frame, flow: Flow) -> list[State]:
        """The states after one statement."""
        self.step()
        walk = self._dispatch[type(node)]
        return merge([after for state in states for after in walk(node, state, frame, flow)])

    def evaluate(self, node: nodes.Expression, state: State, frame: Frame, flow: Flow) -> list[tuple[State, Value]]:
        """Each way through an expression."""
        return self.evaluator.value(node, state, frame, flow)

    # Simple statements

    def _do(self, node: nodes.Do, state: State, frame: Frame, flow: Flow) -> list[State]:
        value = node.value.value if isinstance(node.value, nodes.Await) else node.value
        self.for_effect = value.span
        return [after for after, _ in self.evaluate(node.value, state, frame, flow)]

    def _assign(self, node: nodes.Assign, state: State, frame: Frame, flow: Flow) -> list[State]:
        if node.value is None:
            return [state]
        states: list[State] = []
        for after, value in self.evaluate(node.value, state, frame, flow):
            if node.annotation is not None and isinstance(value, (Unknown, Literal)) and value in (UNKNOWN, NONE):
                typed = self.types.typed(node.annotation, frame, self.keys.of("annotated", frame.key, node.span))
                value = value if typed == UNKNOWN else typed if value == UNKNOWN else value
            ways = [after]
            for target in node.targets:
                ways = [then for way in ways for then in self.assign(target, value, way, frame, flow)]
            states.extend(ways)
        return states

    def assign(self, target: nodes.Expression, value: Value, state: State, frame: Frame, flow: Flow) -> list[State]:
        """`target = value`: variables, attributes, items of what is known, unpacking."""
        if isinstance(target, nodes.Name):
            value = self.database.connecting.held_as(target.id, value, frame, frame.function or frame.module)
            value = self.database.told_by_use.variable(target.id, value, frame)
            return [state.bind(self.names.owner_of(target.id, frame), target.id, value)]
        if isinstance(target, nodes.Attribute):
            states: list[State] = []
            for after, receiver in self.evaluate(target.value, state, frame, flow):
                states.extend(self.objects.set_attribute(receiver, target.name, value, after, frame, flow, target.span))
            return states
        if isinstance(target, nodes.Items):
            return self._unpack(target, value, state, frame, flow)
        if isinstance(target, nodes.Starred):
            return self.assign(target.value, UNKNOWN, state, frame, flow)
        if isinstance(target, nodes.Subscript):
            return self._set_item(target, value, state, frame, flow)
        return [state]

    def _unpack(self, target: nodes.Items, value: Value, state: State, frame: Frame, flow: Flow) -> list[State]:
        known: tuple[Value, ...] | None = None
        value = parts_of(value)
        if isinstance(value, Items) and value.open and len(value.items) == len(target.items) == 2:
            value = Items("tuple", value.items)
        starred = any(isinstance(item, nodes.Starred) for item in target.items)
        if isinstance(value, Items) and len(value.items) == len(target.items) and not starred and not value.open:
            known = value.items
        elif isinstance(value, Either):
            return [then for option in value.options for then in self._unpack(target, option, state, frame, flow)]
        states = [state]
        for index, item in enumerate(target.items):
            part = known[index] if known else Unknown(row=from_row(value))
            states = [then for way in states for then in self.assign(item, part, way, frame, flow)]
        return states

    def _set_item(self, target: nodes.Subscript, value: Value, state: State, frame: Frame, flow: Flow) -> list[State]:
        states: list[State] = []
        for after, (holder, key) in self.evaluator.each((target.value, target.key), state, frame, flow):
            kept = self.scratch.set_item(target, holder, key, value, after)
            if kept is not None:
                states.append(kept)
                continue
            if isinstance(holder, (Unknown, Made)):
                # A dict that comes from elsewhere: this much of it is known from here on.
                holder = Mapping((), open=True)
            if isinstance(holder, Mapping):
                pairs = (*(pair for pair in holder.pairs if pair[0] != key), (key, value))
                states.extend(self.rebind(target.value, Mapping(pairs, holder.open), after, frame, flow))
            else:
                states.append(after)
        return states

    def rebind(self, place: nodes.Expression, value: Value, state: State, frame: Frame, flow: Flow) -> list[State]:
        """A collection that was changed in place: what names it names the changed one."""
        if isinstance(place, nodes.Name):
            owner = self.names.holder_of(place.id, state, frame)
            if owner is None:
                return [state]
            self.names.remember(owner, place.id, value)
            return [state.bind(owner, place.id, value)]
        if isinstance(place, nodes.Attribute):
            return self.assign(place, value, state, frame, flow)
        return [state]

    def _augment(self, node: nodes.Augment, state: State, frame: Frame, flow: Flow) -> list[State]:
        both = nodes.Binary(node.operator, node.target, node.value, node.span)
        return [
            then
            for after, value in self.evaluate(both, state, frame, flow)
            for then in self.assign(node.target, value, after, frame, flow)
        ]

    def _return(self, node: nodes.Return, state: State, frame: Frame, flow: Flow) -> list[State]:
        if node.value is None:
            flow.returns.append((state, NONE))
        else:
            flow.returns.extend(self.evaluate(node.value, state, frame, flow))
        return []

    def _break(self, node: nodes.Break, state: State, frame: Frame, flow: Flow) -> list[State]:
        flow.breaks.append(state)
        return []

    def _continue(self, node: nodes.Continue, state: State, frame: Frame, flow: Flow) -> list[State]:
        flow.continues.append(state)
        return []

    def _nothing(self, node: nodes.Node, state: State, frame: Frame, flow: Flow) -> list[State]:
        return [state]

    def _delete(self, node: nodes.Delete, state: State, frame: Frame, flow: Flow) -> list[State]:
        for target in node.targets:
            if isinstance(target, nodes.Name):
                state = state.bind(self.names.owner_of(target.id, frame), target.id, UNKNOWN)
        return [state]

    def _assert(self, node: nodes.Assert, state: State, frame: Frame, flow: Flow) -> list[State]:
        states: list[State] = []
        for after, value in self.evaluator.test(node.test, state, frame, flow):
            assumed = self.assume(node.test, True, after, frame) if self.evaluator.truth(value) is not False else None
            if assumed is not None:
                states.append(assumed)
        return states

    # Branches

    def _if(self, node: nodes.If, state: State, frame: Frame, flow: Flow) -> list[State]:
        states: list[State] = []
        for after, value in self.evaluator.test(node.test, state, frame, flow):
            truth = self.evaluator.truth(value)
            for way, body in ((True, node.body), (False, node.orelse)):
                if truth is not None and truth is not way:
                    continue
                assumed = self.assume(node.test, way, after, frame)
                if assumed is not None:
                    states.extend(self.block(body, [assumed], frame, flow))
        return states

    def _match(self, node: nodes.Match, state: State, frame: Frame, flow: Flow) -> list[State]:
        states: list[State] = []
        for after, subject in self.evaluate(node.subject, state, frame, flow):
            going = [after]
            for case in node.cases:
                ahead: list[State] = []
                for before in going:
                    answer = self._matches(case, subject, before, frame, flow)
                    if answer is not False:
                        bound = before.bind_all(frame.key, dict.fromkeys(case.names, Unknown(row=from_row(subject))))
                        if case.guard is not None:
                            ways = [then for then, _ in self.evaluate(case.guard, bound, frame, flow)]
                        else:
                            ways = [bound]
                        states.extend(self.block(case.body, ways, frame, flow))
                    if answer is not True:
                        ahead.append(before)
                going = ahead
            states.extend(going)
        return states

    def _matches(self, case: nodes.Case, subject: Value, state: State, frame: Frame, flow: Flow) -> bool | None:
        if case.always:
            return True
        answers = []
        for expression in case.values:
            values = [value for _, value in self.evaluate(expression, state, frame, Flow())]
            answers.append(compare("==", subject, values[0]) if values else None)
        if True in answers:
            return True if case.guard is None else None
        return False if answers and all(answer is False for answer in answers) else None

    def assume(self, test: nodes.Expression, truth: bool, state: State, frame: Frame) -> State | None:
        """What is known once `test` has come out true (or false); None when it can't have."""
        if isinstance(test, nodes.Not):
            return self.assume(test.value, not truth, state, frame)
        if isinstance(test, nodes.Logic) and (test.operator == "and") is truth:
            narrowed: State | None = state
            for part in test.values:
                narrowed = self.assume(part, truth, narrowed, frame) if narrowed is not None else None
            return narrowed
        if isinstance(test, nodes.Compare):
            if len(test.operators) != 1 or not _is_none(test.rights[0]) or test.operators[0] not in _NONE_TESTS:
                return state
            return self._assume_place(
                test.left, truth is not _NONE_TESTS[test.operators[0]], state, frame, of_none=True
            )
        if isinstance(test, nodes.Call):
            return assume_kind(test, truth, state, frame, self)
        if isinstance(test, nodes.Attribute) and test.name == "closed" and truth:
            return assume_closed(test.value, state, frame, self)
        return self._assume_place(test, truth, state, frame, of_none=False)

    def _assume_place(
        self, place: nodes.Expression, there: bool, state: State, frame: Frame, of_none: bool
    ) -> State | None:
        """`place` is something (or nothing): narrows a variable, and drops a claim that found no job.

        `of_none` tells that it was compared with None, and not just tried for truth.
        """
        if isinstance(place, nodes.Assigned):
            place = place.target
        found = kept_in(place, state, frame, self)
        if found is None:
            return state
        owner, name = found
        # What an object keeps may be set by others: only a job that it keeps is told apart.
        value = self.names.lookup(name, state, frame) if isinstance(place, nodes.Name) else state.get(owner, name)
        options = list(options_of(value)) if value is not None else []
        if not isinstance(place, nodes.Name) and not any(_claimed_on(option) for option in options):
            return state
        kept = [option for option in options if _can_be(option, there, of_none)]
        if not kept:
            return None
        claimed = [key for option in kept if (key := _claimed_on(option))]
        if claimed and not there:
            state = self.database.endings.no_job(state, claimed[0])
            kept = [
                NONE if _claimed_on(option) and not (isinstance(option, Row) and option.many) else option
                for option in kept
            ]
        return state.bind(owner, name, either(kept)) if kept != options else state

    # Exceptions

    def _raise(self, node: nodes.Raise, state: State, frame: Frame, flow: Flow) -> list[State]:
        if node.value is None:
            current = state.get(frame.key, "<exception>")
            raised = current if isinstance(current, Raised) else self.raised("raise", None, node.span, frame)
            flow.raises.append((state, raised))
            return []
        for after, value in self.evaluate(node.value, state, frame, flow):
            if isinstance(value, Raised):
                flow.raises.append((self.failed(after, value), value))
                continue
            raised = self.raised("raise", failures.class_of(value), node.span, frame)
            flow.raises.append((self.failed(after, raised), raised))
        return []

    def raised(self, kind: str, type_: Value | None, span: nodes.Span, frame: Frame) -> Raised:
        return Raised(kind, type_, frame.module.path, span)

    def failed(self, state: State, raised: Raised) -> State:
        """An exception goes off: a job in hand has failed, unless it already had."""
        if state.job.claims and state.job.worked and state.job.failed is None and raised.kind != "exit":
            return state.with_job(replace(state.job, failed=raised))
        return state

    def _try(self, node: nodes.Try, state: State, frame: Frame, flow: Flow) -> list[State]:
        inner = Flow()
        body = Flow()
        done = self.block(node.body, [state], frame, body)
        done = self.block(node.orelse, done, frame, inner)
        for after, raised in merge_raises(body.raises):
            done.extend(self._handle(node.handlers, after, raised, frame, inner))
        inner.returns.extend(body.returns)
        inner.breaks.extend(body.breaks)
        inner.continues.extend(body.continues)
        return self._finally(node.final, merge(done), inner, frame, flow)

    def _handle(
        self, handlers: tuple[nodes.Handler, ...], state: State, raised: Raised, frame: Frame, flow: Flow
    ) -> list[State]:
        done: list[State] = []
        for handler in handlers:
            types = (
                [UNKNOWN]
                if handler.type is None
                else [value for _, value in self.evaluate(handler.type, state, frame, Flow())]
            )
            answer = True if handler.type is None else failures.catches(types[0] if types else UNKNOWN, raised, self)
            if answer is False:
                continue
            bound = state.caught(raised).bind(frame.key, "<exception>", raised)
            if handler.name:
                bound = bound.bind(frame.key, handler.name, raised)
            done.extend(self.block(handler.body, [bound], frame, flow))
            if answer is True:
                return done
        flow.raises.append((state, raised))
        return done

    def _finally(
        self, final: tuple[nodes.Node, ...], done: list[State], inner: Flow, frame: Frame, flow: Flow
    ) -> list[State]:
        """`finally` runs on every way out; what it raises or returns itself takes over."""
        if not final:
            flow.raises.extend(inner.raises)
            flow.returns.extend(inner.returns)
            flow.breaks.extend(inner.breaks)
            flow.continues.extend(inner.continues)
            return done
        for state, raised in merge_raises(inner.raises):
            flow.raises.extend((after, raised) for after in self.block(final, [state], frame, flow))
        for state, value in inner.returns:
            flow.returns.extend((after, value) for after in self.block(final, [state], frame, flow))
        flow.breaks.extend(self.block(final, merge(inner.breaks), frame, flow))
        flow.continues.extend(self.block(final, merge(inner.continues), frame, flow))
        return self.block(final, done, frame, flow)

    # What the parts share

    def yielded(self, state: State, value: Value, frame: Frame, flow: Flow, span: nodes.Span) -> list[State]:
        """A yield: what the other side does happens here."""
        if frame.on_yield is not None:
            return frame.on_yield(state, value, flow)
        return self.unseen.handed_out(state, value, frame, flow, span)

    def elements(self, source: Value) -> list[Value]:
        """What a loop over `source` may be given, turn by turn, as far as it is known."""
        if isinstance(source, Items):
            known = list(source.items)
            # The rows of a query are objects of one model.
            rows = [one for one in known if isinstance(one, Instance) and self.models.managers.is_model(one.info)]
            return [*known, UNKNOWN] if (source.open and len(rows) < len(known)) or not known else known
        if isinstance(source, Mapping):
            return [key for key, _ in source.pairs] or [UNKNOWN]
        if isinstance(source, Row):
            return [source.item or replace(source, many=False)]
        if isinstance(source, Either):
            return [either([element for option in source.options for element in self.elements(option)])]
        if isinstance(source, Class):
            return self.objects.enum_members(source)
        return [Unknown(row=from_row(source))]


#: Comparisons with None, and whether they are true of it.
_NONE_TESTS = {"is": True, "==": True, "is not": False, "!=": False}


def _is_none(node: nodes.Expression) -> bool:
    return isinstance(node, nodes.Constant) and node.value is None


def _claimed_on(value: Value) -> Key:
    """The connection that a job was claimed on, which is None where there was none; 0 for anything else."""
    if isinstance(value, Row) and not value.claimed:
        return 0
    return value.key if isinstance(value, Row) else value.claim if isinstance(value, Instance) else 0


def _asks(value: Value) -> bool:
    """Whether a value is what a library function was asked for, which it may not have: `current_tenant.get()`."""
    return isinstance(value, Made) and value.name.rpartition(".")[2].partition("_")[0] in ("get", "getenv", "find")


def _can_be(value: Value, there: bool, of_none: bool) -> bool:
    """Whether a value can be something (or nothing): not None, or true."""
    if value == NONE:
        return not there
    if of_none:
        return there or isinstance(value, Unknown) or bool(_claimed_on(value)) or _asks(value)
    truth = truth_of(value)
    return truth is None or truth is there
