"""What a statement does to a connection, SQL functions that it calls included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.frozen import dataclass
from auditor.program.relevance import SESSION_SETTINGS
from auditor.sql.meaning import Change, Kind, SettingChange, Span, Statement, TermKind
from auditor.sql.queue import Step, StepKind
from auditor.sql.tokens import holes_in
from auditor.timeline.computing.bindings import Bindings
from auditor.timeline.computing.states_given import StatesGiven
from auditor.timeline.jobs.in_functions import proven
from auditor.timeline.model import connection as change
from auditor.timeline.model.connection import ConnectionState, Deed, Life, Mark, Status
from auditor.timeline.model.events import SettingSet, Where
from auditor.timeline.model.settings import NOTHING, Held, Holding
from auditor.timeline.model.values import UNKNOWN, Text

if TYPE_CHECKING:
    from auditor.findings import Confidence, Place
    from auditor.program.catalogue import SqlFunction
    from auditor.timeline.computing.bindings import Resolved
    from auditor.timeline.walking.walker import Walker

Locate = Callable[[Span], "Place"]
Outcome = tuple["ConnectionState | None", tuple[SettingSet, ...], "Done"]

#: SQL functions that call each other are followed so deep.
DEEPEST = 6


_DEEDS = {
    StepKind.CLAIM: Deed.CLAIM,
    StepKind.COUNT: Deed.COUNT,
    StepKind.FINISH: Deed.FINISH,
    StepKind.FAIL: Deed.FINISH,
    StepKind.REQUEUE: Deed.FINISH,
    StepKind.BURY: Deed.FINISH,
    StepKind.RUN_LOG: Deed.RUN_LOG,
    StepKind.ENQUEUE: Deed.WORK,
    StepKind.REAP: Deed.HOLD,
    StepKind.EXTEND: Deed.BEAT,
}


@dataclass(frozen=True, slots=True)
class Done:
    """What statements did for a queue, as steps and as marks."""

    steps: tuple[Step, ...] = ()
    marks: tuple[Mark, ...] = ()
    places: tuple[Place, ...] = ()  #: of the steps

    def and_then(self, more: Done) -> Done:
        if not more.steps:
            return self
        return Done((*self.steps, *more.steps), (*self.marks, *more.marks), (*self.places, *more.places))

    def sure(self, confidence: Confidence) -> Done:
        """The same, no surer than the connection it was done on."""
        return replace(self, marks=tuple(replace(mark, sure=confidence) for mark in self.marks))


NOTHING_DONE = Done()


def is_refused(statement: Statement, state: ConnectionState) -> bool:
    """Whether PostgreSQL always answers the statement with an error in this state."""
    kind = statement.kind
    if kind is Kind.DISCARD:
        return state.in_transaction and statement.name.lower() == "all"
    if kind not in (Kind.SAVEPOINT, Kind.RELEASE, Kind.ROLLBACK_TO):
        return False
    if not state.in_transaction:
        return state.status is Status.IDLE
    # Of a connection that was given there may be savepoints that are not known.
    known = state.life is not Life.GIVEN and not holes_in(statement.name)
    return kind is not Kind.SAVEPOINT and known and statement.name not in state.savepoints


class Effects:
    """Applies statements to connection states on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._states = StatesGiven()
        #: The names of the SQL functions that were run.
        self.entered: set[str] = set()

    def of(self, statement: Statement, state: ConnectionState, bindings: Bindings, locate: Locate) -> Outcome:
        """The state after the statement, the settings it changed, the deeds it did; no state: it always fails."""
        place = locate(statement.span)
        if is_refused(statement, state):
            return None, (), NOTHING_DONE
        if statement.kind is Kind.DISCARD and statement.name.lower() == "all":
            return change.reset_all(state, place), (), NOTHING_DONE
        ended = self._transaction(statement, state, place)
        if ended is not None:
            return ended, (), NOTHING_DONE
        after, told = self._settings(statement, state, bindings, locate)
        inside, more, done = self._called(statement, after, bindings, locate, ())
        return inside, (*told, *more), self.steps(statement, bindings, locate).and_then(done).sure(state.sure)

    def _transaction(self, statement: Statement, state: ConnectionState, place: Place) -> ConnectionState | None:
        """What statements that begin and end transactions do; None for all others."""
        kind = statement.kind
        if kind is Kind.BEGIN:
            return change.begin(state, place, statement.isolation)
        if kind is Kind.COMMIT:
            after = change.commit(state, place)[0]
        elif kind is Kind.ROLLBACK:
            after = change.rollback(state, place)
        elif kind is Kind.SAVEPOINT:
            return change.savepoint(state, statement.name) if state.in_transaction else state
        elif kind is Kind.RELEASE:
            return change.release(state, statement.name)
        elif kind is Kind.ROLLBACK_TO:
            return change.rollback_to(state, statement.name, place)
        elif kind is Kind.SET_TRANSACTION:
            return replace(state, isolation=statement.isolation or state.isolation)
        else:
            return None
        return change.begin(after, place) if statement.chain else after

    # Settings

    def _settings(
        self, statement: Statement, state: ConnectionState, bindings: Bindings, locate: Locate
    ) -> tuple[ConnectionState, tuple[SettingSet, ...]]:
        told: list[SettingSet] = []
        for changed in statement.settings:
            if changed.change is Change.RESET_ALL:
                state = change.reset_all(state, locate(changed.span), change.KEPT_BY_RESET_ALL)
                told.extend(
                    self._cleared(name, locate(changed.span)) for name in (*(one.name for one in state.settings), "all")
                )
                continue
            setting = self.setting(changed, bindings, locate)
            told.append(setting)
            if setting.where is Where.UNKNOWN or not _matters(setting.name):
                continue
            held = replace(NOTHING, origin=setting.place)
            if not setting.clears:
                held = Held(Holding.VALUE, setting.value, setting.place, of_task=setting.of_task)
            state = change.set_setting(state, setting.name, held, setting.where is Where.LOCAL, setting.place)
        return state, tuple(told)

    def _cleared(self, name: str, place: Place) -> SettingSet:
        tenant = self.walker.program.catalogue.is_tenant(name)
        return SettingSet(name, tenant, Where.SESSION, clears=True, value="", place=place, as_statement=True)

    def setting(self, changed: SettingChange, bindings: Bindings, locate: Locate) -> SettingSet:
        """A change of a setting, what comes from outside being filled in; its name is … where it is not known."""
        lowered = (bindings.resolve(changed.name).text or bindings.name_of(changed.name)).lower()
        value = bindings.listed(changed.value)
        local = bindings.resolve(changed.local)
        where = Where.UNKNOWN if local.is_true is None else Where.LOCAL if local.is_true else Where.SESSION
        return SettingSet(
            lowered,
            self.walker.program.catalogue.is_tenant(lowered),
            where,
            # What is put back as it was found leaves nothing of this job's.
            clears=changed.change is Change.RESET or _clears(lowered, value) or value.read == lowered,
            value=value.text if value.text is not None else "…",
            place=locate(changed.span),
            as_statement=not changed.called,
            bound=changed.value.kind is TermKind.PARAMETER and not changed.called,
            interpolated=value.raw,
            of_task=value.of_task,
        )

    # Queues

    def steps(self, statement: Statement, bindings: Bindings, locate: Locate) -> Done:
        """What a statement does for a queue."""
        done = NOTHING_DONE
        for step in self.walker.program.queue_steps(self._states.fill(statement, bindings)):
            step = step._replace(table=bindings.name(step.table))
            # What a statement does to many jobs at once is about others than the one in hand; it holds their rows.
            many = step.kind in (StepKind.REQUEUE, StepKind.BURY) and not step.by_id
            deed = Deed.HOLD if many else _DEEDS.get(step.kind)
            place = locate(step.span)
            mark = None if deed is None else _mark(deed, step, place)
            done = done.and_then(Done((step,), (mark,) if mark is not None else (), (place,)))
        return done

    # SQL functions

    def _called(
        self, statement: Statement, state: ConnectionState, bindings: Bindings, locate: Locate, above: tuple[str, ...]
    ) -> tuple[ConnectionState, tuple[SettingSet, ...], Done]:
        """The bodies of the program's own SQL functions that a statement calls, and of a DO block."""
        told: tuple[SettingSet, ...] = ()
        done = NOTHING_DONE
        for body, where, function in self._bodies(statement, locate, above):
            names = (*above, function.function.name) if function is not None else above
            inner_bindings = bindings if function is None else Bindings(Text(""), UNKNOWN)
            before, within = state, NOTHING_DONE
            for inner in body:
                state, changed = self._settings(inner, state, inner_bindings, where)
                state, more, deeds = self._called(inner, state, inner_bindings, where, names)
                told = (*told, *changed, *more)
                within = within.and_then(self.steps(inner, inner_bindings, where)).and_then(deeds)
            if function is not None:
                state = _restored(function, before, state)
                within = replace(within, steps=proven(within.steps, function.function, body))
            done = done.and_then(within)
        return state, told, done

    def _bodies(
        self, statement: Statement, locate: Locate, above: tuple[str, ...]
    ) -> Iterator[tuple[tuple[Statement, ...], Locate, SqlFunction | None]]:
        if statement.kind in (Kind.EXPLAIN, Kind.PREPARE, Kind.DECLARE, Kind.COPY):
            yield statement.body, locate, None
        if statement.kind is Kind.DO and statement.function is not None:
            yield statement.function.body, locate, None
        for call in statement.calls:
            found = self.walker.program.catalogue.function(call.name)
            if found is not None and call.name not in above and len(above) < DEEPEST:
                self.entered.add(call.name.lower())
                yield self.walker.program.body_of(found.function), found.locate, found


def _mark(deed: Deed, step: Step, place: Place) -> Mark:
    return Mark(deed, place, step.table, step.how, counts=step.counts, many=step.many, one=step.one)


def _restored(function: SqlFunction, before: ConnectionState, after: ConnectionState) -> ConnectionState:
    """A function's SET attributes end with its call, and take local changes of the same setting with them."""
    for changed in function.function.settings:
        name = changed.name.text.lower()
        if any(setting.name == name for setting in after.settings):
            after = after.with_setting(before.setting(name))
    return after


def _matters(name: str) -> bool:
    return "." in name or name in SESSION_SETTINGS


#: What a door is shut with that a setting opens, such as one past row security: it says nobody's name.
_OFF = ("false", "off", "no")


def _clears(name: str, value: Resolved) -> bool:
    """Whether setting to the value leaves no tenant, and no other role."""
    if value.is_null or value.text == "" or (value.text or "").lower() in _OFF:
        return True
    if name == "search_path":
        # A path that is the same for all jobs is what a tenant's is taken back with.
        return value.text is not None or value.deployed
    return (
        name in ("role", "session_authorization")
        and value.text is not None
        and value.text.lower() in ("none", "default")
    )
