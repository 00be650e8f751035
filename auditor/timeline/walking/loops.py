"""Loops: the second turn is the next job."""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.program.relevance import is_sql
from auditor.python import nodes
from auditor.timeline.model.connection import Deed
from auditor.timeline.model.invocation import Invocation
from auditor.timeline.model.state import Flow, Frame, State, merge
from auditor.timeline.model.values import (
    UNKNOWN,
    Asked,
    Bound,
    Built,
    Class,
    Connection,
    Cursor,
    Function,
    Instance,
    Items,
    Made,
    Mapping,
    Pending,
    Pool,
    Query,
    Row,
    Text,
    Value,
    either,
    from_row,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from auditor.timeline.model.connection import ConnectionState
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

#: Turns of a loop that are walked when it does not come to rest before.
TURNS = 3
#: A loop over statements or functions is walked for each of them, up to so many.
UNROLLED = 32
#: A migration's loop for each of its elements, which are mostly tables.
UNROLLED_ONCE = 256


class Turns(enum.Enum):
    """What the turns of a loop are about."""

    ENDLESS = enum.auto()  #: whatever comes, as in a worker's loop
    EACH = enum.auto()  #: one known element, walked by itself
    SETTINGS = enum.auto()  #: the settings that one job sets or clears, by their names
    LIST = enum.auto()  #: the elements of a collection
    JOBS = enum.auto()  #: the rows of a claim


class Loops:
    """Walks loops on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker

    def while_(self, node: nodes.While, state: State, frame: Frame, flow: Flow) -> list[State]:
        exits: list[State] = []

        def turn(start: State, out: Flow) -> list[State]:
            going: list[State] = []
            for after, value in self.walker.evaluator.test(node.test, start, frame, flow):
                truth = self.walker.evaluator.truth(value)
                stop = self.walker.assume(node.test, False, after, frame) if truth is not True else None
                go = self.walker.assume(node.test, True, after, frame) if truth is not False else None
                if stop is not None:
                    done.append(stop)
                if go is not None:
                    going.append(go)
            return self.walker.block(node.body, merge(going), frame, out)

        done: list[State] = []
        left = self._until_rest([state], turn, frame, flow, exits, node.span, Turns.ENDLESS)
        # What still turns when the turns are up may stop at the next test.
        done.extend(after for last in left for after in self._stopping(node, last, frame))
        done = self.walker.block(node.orelse, merge(done), frame, flow)
        return merge([left_behind(state, end) for end in (*done, *exits)])

    def _stopping(self, node: nodes.While, state: State, frame: Frame) -> list[State]:
        stops = []
        for after, value in self.walker.evaluator.test(node.test, state, frame, Flow()):
            stop = self.walker.assume(node.test, False, after, frame)
            if self.walker.evaluator.truth(value) is not True and stop is not None:
                stops.append(stop)
        return stops

    def for_(self, node: nodes.For, state: State, frame: Frame, flow: Flow) -> list[State]:
        states: list[State] = []
        for after, iterable in self.walker.evaluate(node.iterable, state, frame, flow):
            for option in options_of(iterable):
                for before, source in self._fetched(option, after, frame, flow, node.iterable.span):
                    states.extend(self._over(node, source, before, frame, flow))
        return merge(states)

    def _fetched(self, source: Value, state: State, frame: Frame, flow: Flow, span: nodes.Span) -> Results:
        """A query of an ORM is sent when somebody goes through its rows."""
        if isinstance(source, Query):
            return self.walker.models.rows(source, Invocation((), (), state, frame, flow, span))
        if isinstance(source, Asked):
            return self.walker.records.send(source, Invocation((), (), state, frame, flow, span), many=True)
        if isinstance(source, Built) and source.session is not None:
            return self.walker.mapper.method(source, "all", Invocation((), (), state, frame, flow, span))
        return [(state, source)]

    def _over(self, node: nodes.For, source: Value, state: State, frame: Frame, flow: Flow) -> list[State]:
        if isinstance(source, Pending) and source.function.info.node.is_generator:
            return self._over_generator(node, source, state, frame, flow)
        if isinstance(source, Cursor):
            source = self.walker.database.cursors.fetched(source, state, many=True)
        known = isinstance(source, (Items, Mapping)) and not source.open
        exits: list[State] = []
        elements = self.walker.elements(source)
        if known and isinstance(source, Items) and not source.items:
            return self.walker.block(node.orelse, [state], frame, flow)
        names = any(map(self._names_setting, elements))
        if known and (
            (len(elements) <= UNROLLED and (names or _sets_attributes(frame) or any(map(_is_told_apart, elements))))
            or (len(elements) <= UNROLLED_ONCE and self.walker.upgrades.running)
        ):
            states = [state]
            for element in elements:
                states = self._once(node, element, states, frame, flow, exits, Turns.SETTINGS if names else Turns.EACH)
            return merge([*self.walker.block(node.orelse, states, frame, flow), *exits])
        element = either(elements)

        def turn(start: State, out: Flow) -> list[State]:
            return self.walker.block(node.body, self.walker.assign(node.target, element, start, frame, out), frame, out)

        parts = isinstance(node.iterable, (nodes.Attribute, nodes.Subscript, nodes.Call)) and _of_one_job(source, state)
        turns = Turns.JOBS if from_row(source) and not parts else Turns.LIST
        empty = self._without_jobs(source, state, parts=parts)
        seen: list[State] = []
        self._until_rest([state], turn, frame, flow, exits, node.span, turns, seen)
        ends = merge([empty, *(left_behind(state, end) for end in seen)])
        return merge([*self.walker.block(node.orelse, ends, frame, flow), *(left_behind(state, end) for end in exits)])

    def _names_setting(self, element: Value) -> bool:
        """Whether an element is the name of a tenant's setting, or begins with one: `(name, value)`."""
        if isinstance(element, Items):
            return bool(element.items) and self._names_setting(element.items[0])
        if not isinstance(element, Text) or element.holes:
            return False
        return self.walker.program.catalogue.is_tenant(element.value) is not None

    def _without_jobs(self, source: Value, state: State, *, parts: bool) -> State:
        """A loop over no jobs at all has claimed none; nor has one over no part of a list that was made of jobs."""
        no_job = self.walker.database.endings.no_job
        if isinstance(source, Row) and source.claimed:
            return no_job(state, source.key)
        if parts or not (isinstance(source, Items) and source.open and from_row(source)):
            return state
        for key, one in tuple(state.connections.items()):
            if any(mark.deed is Deed.CLAIM and mark.many for mark in one.pending):
                state = no_job(state, key)
        return state

    def _once(
        self,
        node: nodes.For,
        element: Value,
        states: list[State],
        frame: Frame,
        flow: Flow,
        exits: list[State],
        turns: Turns,
    ) -> list[State]:
        """One turn with one known element, from each state."""
        ends: list[State] = []
        for start in states:
            out = Flow()
            bound = self.walker.assign(node.target, element, start, frame, out)
            after = [*self.walker.block(node.body, bound, frame, out), *out.continues]
            ends.extend(self.turn_over(start, end, frame, node.span, turns) for end in after)
            self._leave(out, flow, exits)
        return merge(ends)

    def _until_rest(
        self,
        start: list[State],
        turn: Callable[[State, Flow], list[State]],
        frame: Frame,
        flow: Flow,
        exits: list[State],
        span: nodes.Span,
        turns: Turns,
        ends: list[State] | None = None,
    ) -> list[State]:
        """Turn until no new state comes up; the states that still turned when the turns were up.

        `exits` gets the states that broke out, `ends` those at the end of any turn.
        """
        seen = list(start)
        frontier = list(start)
        for _ in range(TURNS):
            fresh: list[State] = []
            for state in frontier:
                out = Flow()
                after = [*turn(state, out), *out.continues]
                fresh.extend(self.turn_over(state, end, frame, span, turns) for end in after)
                self._leave(out, flow, exits)
            fresh = merge(fresh)
            if ends is not None:
                ends.extend(fresh)
            frontier = [state for state in fresh if not any(state == known for known in seen)]
            seen.extend(frontier)
            if not frontier:
                return []
        return frontier

    @staticmethod
    def _leave(out: Flow, flow: Flow, exits: list[State]) -> None:
        flow.raises.extend(out.raises)
        flow.returns.extend(out.returns)
        exits.extend(out.breaks)

    def _over_generator(self, node: nodes.For, source: Pending, state: State, frame: Frame, flow: Flow) -> list[State]:
        """A loop over a generator of the project: its body runs at the generator's yields."""
        key = self.walker.keys.of("loop", frame.key, node.span)

        def on_yield(at: State, value: Value, out: Flow) -> list[State]:
            body = Flow()
            bound = self.walker.assign(node.target, value, at, frame, body)
            after = [*self.walker.block(node.body, bound, frame, body), *body.continues]
            out.raises.extend(body.raises)
            # Whoever leaves the loop closes the generator: its blocks see an exception.
            leaving = self.walker.raised("exit", None, node.span, frame)
            for end in body.breaks:
                out.raises.append((end.bind(key, "left", Text("break")), leaving))
            for end, result in body.returns:
                out.raises.append((end.bind(key, "left", Text("return")).bind(key, "value", result), leaving))
            # A job whose claim the generator still holds is over when that goes on.
            over = from_row(value) and not any(_holds_claim(one) for one in at.connections.values())
            turns = Turns.JOBS if over else Turns.ENDLESS
            return merge([self.turn_over(at, end, frame, node.span, turns) for end in after])

        inner = Flow()
        ends = [
            after
            for after, _ in self.walker.coroutines.pending(
                source, Invocation((), (), state, frame, inner, node.span), on_yield
            )
        ]
        exits: list[State] = []
        for after, raised in inner.raises:
            left = after.get(key, "left")
            if left is None or raised.kind != "exit":
                flow.raises.append((after.unbind(key), raised))
            elif left == Text("break"):
                exits.append(after.unbind(key))
            else:
                flow.returns.append((after.unbind(key), after.get(key, "value") or UNKNOWN))
        return merge([*self.walker.block(node.orelse, merge(ends), frame, flow), *exits])

    # Between two turns

    def turn_over(self, before: State, after: State, frame: Frame, span: nodes.Span, turns: Turns) -> State:
        """The end of a turn: the job it was about is over, and what it left on its connections is inherited."""
        over_jobs = turns is Turns.JOBS
        if after.job.claims and (after.job.claims != before.job.claims or over_jobs):
            after = self.walker.database.endings.job_ends(after, frame.module.place(span), frame.symbol)
        freed = after.job.freed if over_jobs and after.job.freed != before.job.freed else None
        freed = freed._replace(turned=True) if freed is not None and freed.batch else None
        # Of a batch whose objects are written back together, what was done about a failure is yet to be sent.
        batch = after.waiting and after.job.claims == before.job.claims
        failed = (after if batch else before).job.failed
        after = after.with_job(replace(before.job, freed=freed or before.job.freed, failed=failed))
        for key, connection in after.connections.items():
            known = before.connections.get(key) or self.walker.database.held.found(key)
            if known is None:
                continue
            settings = tuple(
                setting
                if turns is Turns.SETTINGS or (turns is Turns.LIST and setting.is_constant)
                else setting.aged(next((old for old in known.settings if old.name == setting.name), None))
                for setting in connection.settings
            )
            if settings != connection.settings:
                after = after.connect(key, replace(connection, settings=settings))
        return after


def _of_one_job(source: Value, state: State) -> bool:
    """Whether what is asked of a claim's row can only be what one job has several of."""
    if isinstance(source, Row) or not state.job.claims:
        return False
    return not any(claim.many for claim in state.job.claims)


def left_behind(start: State, end: State) -> State:
    """The end of a loop: what comes behind it is no further turn, and inherits nothing from the last one."""
    for key, connection in end.connections.items():
        known = start.connections.get(key)
        before = {setting.name: setting for setting in known.settings} if known is not None else {}
        settings = tuple(
            setting.taken_over() if setting.name not in before or not before[setting.name].kept.inherited else setting
            for setting in connection.settings
        )
        if settings != connection.settings:
            end = end.connect(key, replace(connection, settings=settings))
    return end


def _sets_attributes(frame: Frame) -> bool:
    """Whether the function that is running sets attributes by names which it goes through."""
    return frame.function is not None and "setattr" in frame.function.words.called


def _is_told_apart(value: Value) -> bool:
    """Whether it matters which element of a collection a turn is about: a statement, a function, an object."""
    if isinstance(value, Items):
        return any(_is_told_apart(item) for item in value.items)
    if isinstance(value, Text):
        return is_sql(value.value)
    return isinstance(value, (Function, Class, Instance, Bound, Connection, Pool, Made))


def _holds_claim(connection: ConnectionState) -> bool:
    """Whether a claim is open on the connection: its transaction is yet to end."""
    return any(mark.deed is Deed.CLAIM for mark in connection.pending)
