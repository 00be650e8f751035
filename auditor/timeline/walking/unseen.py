"""Work that is handed to code that is not seen: with a connection it may use it, with a job it may do the job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.findings import Confidence
from auditor.timeline.connections.sessions import ELSEWHERE
from auditor.timeline.leaving.outside import SENDING, dotted, is_client, outside
from auditor.timeline.model.connection import Autocommit, ConnectionState, Deed, Mark, Status
from auditor.timeline.model.events import Stranded, Worked
from auditor.timeline.model.invocation import called_name
from auditor.timeline.model.state import passed
from auditor.timeline.model.values import (
    Bound,
    External,
    Function,
    Made,
    Pool,
    Unknown,
    connection_among,
    from_row,
)
from auditor.timeline.walking.carried import Carried
from auditor.timeline.walking.objects import MAKES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.findings import Place
    from auditor.python import nodes
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.model.state import Flow, Frame, State
    from auditor.timeline.model.values import Key, Value
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

#: Methods of loggers, wherever a logger comes from: what they are given is only told.
_LOGS = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical"})
#: Methods of collections: what they are given is kept for later.
_KEEPS = frozenset({"append", "appendleft", "add", "discard", "extend", "setdefault"})
#: What both do with a job is no work on it.
_NO_WORK = _LOGS | _KEEPS | MAKES
#: Methods of queues in memory, whosever queue it is.
_HANDS_ON = frozenset({"put_nowait"})
#: Verbs for doing what a job asks for, whatever comes of it.
_WORKS = frozenset({"run", "execute", "handle", "process", "perform", "work", "call", "invoke", "dispatch", "apply"})
#: Verbs for reading what a job asks for, and for writing it down, where what comes of it is wanted.
_CONVERTS = frozenset(
    {"load", "loads", "decode", "deserialize", "deserialise", "unpickle", "parse"}
    | {"dump", "dumps", "encode", "serialize", "serialise", "pickle"}
)


class Unseen:
    """Says what may become of what is given to code that is not followed, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._carried = Carried(walker)

    def opaque(self, callee: Value, call: Invocation) -> Results:
        """A call that is not followed. Given a connection it may use it; given a job it may do the job's work."""
        key = connection_among(call.everything)
        row = any(from_row(value) for value in call.everything)
        if row and key is None:
            call = call.at(self.walker.scout.hand_on(callee, call))
        for value in call.everything:
            self.shared(value)
        given = self._annotated(callee, row)
        if not isinstance(callee, External):
            call = call.at(passed(call.state))
        if key is None and not (row and self._for_effect(callee, call)):
            self.walker.database.pointing.may_fail(call)
            return [(call.state, given)]
        keys = (key,) if key is not None else ()
        state = self.work(call.state, call.place, called_name(callee), keys, call.frame)
        raised = self.walker.raised("python", None, call.span, call.frame)
        call.flow.raises.append((self.walker.failed(state, raised), raised))
        for shared in self._shared_claims(state) if key is None and dotted(callee) is None else ():
            self.walker.database.endings.may_fail(shared, state, call.flow, call.span, call.frame)
        if key is None:
            return [(state, given)]
        self.walker.database.endings.may_fail(key, state, call.flow, call.span, call.frame)
        ways = [state]
        if isinstance(callee, Unknown):
            # What a decorator is put around, or a callback, does the work, and commits it as any work is.
            ways += self.walker.database.endings.kept_by_user(key, state, call.frame, call.span)
        return [(way, given) for way in ways]

    def handed_out(self, state: State, value: Value, frame: Frame, flow: Flow, span: nodes.Span) -> list[State]:
        """A yield to code that is not seen: it may work on what it is given, and fail."""
        key = self._carried.along_with(value, state, frame)
        manager = frame.function is not None and frame.function.is_manager
        keys = (key,) if key is not None else ()
        state = self.work(passed(state), frame.module.place(span), "the code that uses this", keys, frame)
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

    def gone_on(self, state: State, place: Place, frame: Frame) -> State:
        """What was asked for goes on in code that is not seen, on other connections than one that was given back."""
        state = passed(state)
        stranded = state.job.stranded
        if stranded is None:
            return state
        event = Stranded(place, *stranded, (), Confidence.MEDIUM, frame.symbol)
        return self.walker.see(event, state.with_job(replace(state.job, stranded=None)))

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

    def _shared_claims(self, state: State) -> Iterator[Key]:
        """The connections that all code of the process finds by itself, where their transaction has claimed the job.

        The job's own statements run in that transaction, too, and one that fails aborts it.
        """
        for key, connection in state.connections.items():
            claimed = any(mark.deed is Deed.CLAIM for mark in connection.pending)
            if claimed and connection.in_transaction and self.walker.database.held.is_held(key):
                yield key

    @staticmethod
    def _lent(connection: ConnectionState, place: Place) -> Place | None:
        """Where work may have begun a transaction that is not seen."""
        driver = drivers.by_name(connection.driver)
        begins = driver is not None and driver.begins_by_itself and connection.autocommit is Autocommit.OFF
        return place if begins and connection.status is Status.IDLE else None

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
        name = called_name(callee).removesuffix("()")
        if name in SENDING or name.rpartition(".")[2] in _HANDS_ON:
            return False  # another process or task works on it, and may count it
        if isinstance(callee, Unknown) and _only_converts(callee) and call.span != self.walker.for_effect:
            return False
        if isinstance(callee, Unknown) or _does_work(callee) or _leaves(callee):
            return True
        makes = isinstance(callee, Function) and callee.info.gives_value
        makes = makes or (isinstance(callee, Bound) and callee.name in _NO_WORK)
        return call.span == self.walker.for_effect and not makes

    def shared(self, value: Value) -> None:
        if isinstance(value, Pool):
            self.walker.database.share(value.key)


def _leaves(callee: Value) -> bool:
    """Whether what is called leaves the process, and is work whatever it answers."""
    name = dotted(callee)
    return name is not None and outside(name) is not None


def _only_converts(callee: Unknown) -> bool:
    """Whether what is called says by its name that it makes something of what it is given: `self._load(payload)`."""
    return _verb(callee.called) in _CONVERTS


def _does_work(callee: Value) -> bool:
    """Whether what is called says by its name that it does something: `handler.run(job)`, `process_job(job)`."""
    if not isinstance(callee, (Bound, Function)):
        return False
    name = callee.name if isinstance(callee, Bound) else callee.info.node.name
    return _verb(name) in _WORKS


def _verb(name: str) -> str:
    return name.strip("_").split("_")[0]
