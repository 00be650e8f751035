"""Calls that reach outside while a transaction is open or a job is in hand: met on the way, or looked for.

A function that has nothing to do with a database is not followed by a walk. When it is called in a transaction that
keeps others waiting, or for a job that may be run again, it is looked through apart: what it does to the state is of no
interest, only whether it, or what it calls, leaves the process.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from auditor.findings import Confidence
from auditor.python import nodes
from auditor.timeline.leaving.behind import FAR, Behind
from auditor.timeline.leaving.outside import (
    SENDING,
    Outside,
    dotted,
    hands_on,
    is_a_letter,
    is_idle,
    is_keyed,
    outside,
    outside_method,
    stays_here,
    tells_row,
    waits_for_job,
)
from auditor.timeline.model.connection import Deed
from auditor.timeline.model.entries import Entry
from auditor.timeline.model.events import Reached, Repeated
from auditor.timeline.model.state import Flow, TooMuchError
from auditor.timeline.model.values import Bound, Function, Instance, Unknown, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.findings import Place
    from auditor.program.code import FunctionInfo
    from auditor.timeline.model.connection import ConnectionState, Mark
    from auditor.timeline.model.invocation import Invocation, Keywords
    from auditor.timeline.model.state import State
    from auditor.timeline.model.values import Key
    from auditor.timeline.walking.walker import Walker

    _Asked = tuple[FunctionInfo, Value | None, tuple[Value, ...], Keywords]

#: Expressions looked at for one function that is not followed otherwise, and for all of them together.
STEPS = 1_500
ALL_STEPS = 60_000
#: What sends a task when it is told to.
_BROKERS = ("celery.", "dramatiq.", "huey.")
#: A function is looked through for so many different arguments.
MOST_ASKED = 3


class _Met(NamedTuple):
    """A call that reaches outside, and the calls around it."""

    place: Place
    name: str
    reach: Outside
    calls: tuple[Place, ...]
    keyed: bool
    tells_row: bool = False  #: a task is told of a row, by what the object has that stands for it


class Scout:
    """Notices calls that reach outside on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._behind = Behind(walker)
        self._left = ALL_STEPS
        self._known: dict[_Asked, tuple[_Met, ...]] = {}
        self._asked: dict[FunctionInfo, int] = {}
        #: What is found in the function that is looked through just now.
        self._found: list[_Met] | None = None
        #: The calls in which a connection came from where it is not known.
        self.received: dict[Key, tuple[Place, ...]] = {}
        #: The connections in whose transactions nobody waits for what is walked.
        self._elsewhere: frozenset[Key] = frozenset()

    @contextmanager
    def beside(self, state: State) -> Iterator[None]:
        """What is walked inside runs in a thread or task of its own: no transaction of its start waits for it."""
        outer = self._elsewhere
        self._elsewhere = outer | {key for key, one in state.connections.items() if one.in_transaction}
        try:
            yield
        finally:
            self._elsewhere = outer

    def meet(self, callee: Value, call: Invocation) -> State:
        """A call into a library, or of something unknown: the state after it, if it reaches outside."""
        name, reach = self._reach(callee, call)
        if reach is None and isinstance(callee, Bound) and isinstance(callee.receiver, Unknown):
            return self._look_behind(self._behind.called_so(callee.receiver.called, callee.name), call)
        if reach is None and self._holds_job(call.state):
            reach = waits_for_job(name, call.argument(0, "fut"))
        if reach is None or is_idle(name, call.argument(0)):
            return call.state
        # What calls this is never taken for a function that only computes.
        self.walker.database.used += 1
        if not self._matters(call.state):
            return call.state
        keyed = is_keyed(call.everything, (*call.named, *_as_parameters(callee, call)))
        tells = reach.hands_over and self._is_sent_at_once(callee) and tells_row(call.everything)
        return self._note(_Met(call.place, name, reach, call.frame.calls, keyed, tells), call)

    def _reach(self, callee: Value, call: Invocation) -> tuple[str, Outside | None]:
        name = dotted(callee)
        if name is not None:
            return name, None if stays_here(callee) else outside(name)
        if not isinstance(callee, Bound):
            return "", None
        if isinstance(callee.receiver, Instance):
            bases = sorted(self.walker.objects.library_names(callee.receiver.info))
            found = [f"{base}.{callee.name}" for base in bases]
            return next(((base, reach) for base in found if (reach := outside(base))), ("", None))
        reach = outside_method(callee)
        if reach is None and isinstance(callee.receiver, Unknown) and not call.positional:
            called = callee.receiver.called
            loads = (part.loads for part in call.frame.module.imports)
            return f"{called}.{callee.name}", is_a_letter(callee.name, called, loads)
        return callee.name, None if reach is not None and self._sends_by_itself(callee) else reach

    def _sends_by_itself(self, callee: Bound) -> bool:
        """Whether a task's class has its own way of sending it: after the commit, most often."""
        if not isinstance(callee.receiver, Function):
            return False
        info, objects = callee.receiver.info, self.walker.objects
        frame = self.walker.names.module_frame(info.module)
        given = [
            objects.constant(value, frame)
            for decorator in info.node.decorators
            if isinstance(decorator, nodes.Call)
            for name, value in decorator.keywords
            if name == "base"
        ]
        return any(isinstance(objects.class_member(base, name), Function) for base in given for name in SENDING)

    def _is_sent_at_once(self, callee: Value) -> bool:
        """Whether a task is one of a library that is known to send it when it is told to, whatever is committed."""
        if not isinstance(callee, Bound) or not isinstance(callee.receiver, Function):
            return False
        info, objects = callee.receiver.info, self.walker.objects
        frame = self.walker.names.module_frame(info.module)
        targets = (one.function if isinstance(one, nodes.Call) else one for one in info.node.decorators)
        named = (dotted(objects.constant(target, frame)) or "" for target in targets)
        return any(name.startswith(_BROKERS) for name in named) and not self._some_wait

    @cached_property
    def _some_wait(self) -> bool:
        """Whether the program has a class of tasks with a way of its own to send them: it may be that of any task."""
        classes = (cls for cls in self.walker.program.classes() if any("Task" in base for base in cls.base_names))
        return any(not SENDING.isdisjoint(cls.members) for cls in classes)

    def hand_on(self, callee: Value, call: Invocation) -> State:
        """A job that is given to something that only its names tell of: the state after it, if they say it is sent.

        The transaction that has claimed the job must be open: what is sent in another need not wait for anybody.
        """
        name, called = _named(callee)
        reach = hands_on(name, called) if name else None
        if reach is None or not self._holds_job(call.state):
            return call.state
        keyed = is_keyed(call.everything, call.named)
        return self._note(
            _Met(call.place, f"{called}.{name}" if called else name, reach, call.frame.calls, keyed), call
        )

    def look_through(self, function: Function, call: Invocation) -> State:
        """A call of a function that is not followed: the state after it, if it reaches outside."""
        if not self._matters(call.state):
            return call.state
        state = call.state
        for met in self._look(function, call):
            through = (*call.frame.calls, call.place, *met.calls)
            state = self._note(met._replace(calls=through), call.at(state))
        return state

    def look_behind(self, info: FunctionInfo, call: Invocation) -> State:
        """A call of a method that an interface leaves open: the state after it, if who answers reaches outside."""
        if not self._matters(call.state):
            return call.state
        return self._look_behind(self._behind.open_method(info), call)

    def _look_behind(self, methods: tuple[Function, ...], call: Invocation) -> State:
        """The same where it is one of these methods that answers.

        Where another of them may ask the database, it is a matter of who keeps something, and not of who is asked.
        """
        found: list[_Met] = []
        for method in methods:
            me = (method.bound,) if method.bound is not None else ()
            met = self._look(replace(method, bound=None), call.passing(*me))
            far = [one for one in met if one.reach.what in FAR and one.reach.sure is Confidence.HIGH]
            if not far and method.info.node.body and method.info in self.walker.program.relevance:
                return call.state
            answers = f"{method.info.owner.node.name}.{method.info.node.name}" if method.info.owner else far[0].name
            found.extend(one._replace(name=answers) for one in far[:1])
        if not found:
            return call.state
        through = (*call.frame.calls, call.place, *found[0].calls)
        reach = found[0].reach._replace(sure=Confidence.MEDIUM)
        return self._note(found[0]._replace(calls=through, reach=reach), call)

    def _matters(self, state: State) -> bool:
        return bool(_leased(state)) or any(True for _ in self._waiting(state))

    def _holds_job(self, state: State) -> bool:
        """Whether a transaction is open that has taken a job."""
        return any(_claims(one) for _, one in self._waiting(state))

    def _waiting(self, state: State) -> Iterator[tuple[Key, ConnectionState]]:
        """The connections whose transactions hold rows until what is walked is done."""
        for key, connection in state.connections.items():
            if connection.holds and key not in self._elsewhere:
                yield key, connection

    def _note(self, met: _Met, call: Invocation) -> State:
        if self._found is not None:
            self._found.append(met)
            return call.state
        state = call.state
        claims = _leased(state)
        if claims and met.reach.repeats and not met.keyed and met.reach.sure is Confidence.HIGH:
            repeated = Repeated(met.place, met.name, met.reach, claims, met.calls, call.frame.symbol)
            state = self.walker.see(repeated, state)
        for key, connection in tuple(self._waiting(state)):
            if self._is_here(key, met):
                place, through = _told_at(met, connection)
                event = Reached(
                    place,
                    key,
                    connection,
                    met.name,
                    met.reach,
                    met.place,
                    through,
                    met.keyed,
                    _claims(connection),
                    self.walker.entry is Entry.TASK,
                    self.walker.entry is Entry.WRITTEN,
                    met.tells_row,
                    self.walker.root,
                    call.frame.symbol,
                )
                state = self.walker.see(event, state)
        return state

    def _is_here(self, key: Key, met: _Met) -> bool:
        """Whether a call is made while a function runs that got the connection from where it is not known.

        Once that has returned, its caller may have ended the transaction by another name.
        """
        received = self.received.get(key, ())
        return met.calls[: len(received)] == received

    # Looking through what is not followed

    def _look(self, function: Function, call: Invocation) -> tuple[_Met, ...]:
        asked = (function.info, function.bound, call.positional, call.named)
        known = self._known.get(asked)
        if known is not None:
            return known
        times = self._asked.get(function.info, 0)
        if times >= MOST_ASKED or self._left <= 0:
            return ()
        self._asked[function.info] = times + 1
        self._known[asked] = ()  # what calls itself finds nothing more
        found = self._walk(function, call)
        self._known[asked] = found
        return found

    def _walk(self, function: Function, call: Invocation) -> tuple[_Met, ...]:
        walker = self.walker
        inner = walker.calls.frame_of(function, call.frame, call.span)
        outer, self._found = self._found, []
        steps, budget = walker.steps, walker.budget
        walker.budget = steps + min(STEPS, self._left)
        try:
            with walker.quietly():
                walker.calls.walked(function.info, inner, call._replace(flow=Flow()))
        except TooMuchError:
            pass
        finally:
            self._left -= walker.steps - steps
            walker.steps, walker.budget = steps, budget
            found, self._found = self._found, outer
        depth = len(inner.calls)
        return tuple(dict.fromkeys(met._replace(calls=met.calls[depth:]) for met in found))


def _as_parameters(callee: Value, call: Invocation) -> Keywords:
    """The arguments of a task that is sent, by the names that its own parameters give them."""
    if not isinstance(callee, Bound) or not isinstance(callee.receiver, Function):
        return ()
    parameters = (one.name for one in callee.receiver.info.node.parameters if one.name != "self")
    return tuple(zip(parameters, call.positional, strict=False))


def _claims(connection: ConnectionState) -> bool:
    """Whether its transaction is the one that took a job."""
    return any(mark.deed is Deed.CLAIM for mark in connection.pending)


def _named(callee: Value) -> tuple[str, str]:
    """What something that is not followed is called, and what its owner is."""
    if isinstance(callee, Unknown):
        return callee.called, ""
    if isinstance(callee, Bound) and isinstance(callee.receiver, Unknown):
        return callee.name, callee.receiver.called
    if isinstance(callee, Function) and callee.info.is_left_open and callee.info.owner is not None:
        return callee.info.node.name, callee.info.owner.node.name
    return "", ""


def _leased(state: State) -> tuple[Mark, ...]:
    """The claims of the job in hand that a time limit or a mark holds, so that it may be taken again."""
    return tuple(claim for claim in state.job.claims if claim.how == "lease")


def _told_at(met: _Met, connection: ConnectionState) -> tuple[Place, tuple[Place, ...]]:
    """The call to speak of, and those inside it: the first on the way out that is made after the transaction wrote."""
    shared = 0
    for one, other in zip(connection.held_in, met.calls, strict=False):
        if one != other:
            break
        shared += 1
    way = (*met.calls[shared:], met.place)
    return way[0], way[1:]
