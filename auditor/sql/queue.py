"""What a statement means to a job queue, told from its structure: claims, counts, finishes, requeues, reapers.

Nothing is parsed here, so that code which stands for SQL, an ORM's, can build the same structures and ask the same.
A step says what a statement would mean *if* its table is a job table; whether it is, the program knows: job tables are
those that something claims from.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

from auditor.sql import words
from auditor.sql.meaning import HOLE_OPEN, Comparison, Kind, Query, Span, Statement, Term, TermKind
from auditor.sql.queue_view import (
    VALUES,
    View,
    asked_in,
    asked_states,
    asks_advisory,
    asks_for_free,
    assigned,
    cleared,
    compared,
    fence_of,
    has_some_left,
    how_locked,
    inside,
    is_bound,
    is_bounded,
    is_capped,
    is_fixed,
    leaves_out_held,
    may_stay,
    named_from_outside,
    names_one,
    names_something,
    names_worker,
    overdue,
    put_off,
    raises_attempts,
    renewed,
    resets_attempts,
    set_states,
    state_set,
    stores_whole,
    taken_by,
    takes_many,
    waits_for_time,
    waits_once,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class StepKind(str, enum.Enum):
    """What a statement does to a job."""

    CLAIM = "claim"  #: takes a job
    LOOK = "look"  #: reads which jobs wait, or have stalled, and locks none of them
    COUNT = "count"  #: raises its attempts, in whatever statement
    FINISH = "finish"  #: marks it done, or deletes it by its id
    FAIL = "fail"  #: marks it failed
    REQUEUE = "requeue"  #: gives one job back to the queue
    EXTEND = "extend"  #: a heartbeat: prolongs a lease, or says that the worker lives
    REAP = "reap"  #: gives stalled jobs back
    ENQUEUE = "enqueue"  #: makes a job
    RUN_LOG = "run log"  #: writes down that a job is run
    BURY = "bury"  #: moves jobs to a final state, given up
    BOUND = "bound"  #: holds attempts against a maximum, in whatever statement


class Step(NamedTuple):
    """One step. Columns are named where the statement has them, and empty where not."""

    kind: StepKind
    table: str  #: its name as the statement has it, hole marks and all; empty where none is seen
    span: Span
    schema: str = ""
    how: str = ""  #: a claim: "row lock", "lease", "delete" or "advisory lock"
    skip_locked: bool = False
    locked: str = ""  #: how the rows that a claim picks are locked, see how_locked; or not at all
    column: str = ""  #: a count: the column that is raised
    counts: bool = False  #: raises the attempts in the same statement
    resets: bool = False  #: sets the attempts back to none
    bounded: bool = False  #: holds the attempts against a maximum, in a condition or a CASE
    delayed: bool = False  #: a claim waits for the run-at column; anything else sets it
    until: str = ""  #: the time limit that is stored
    clock: str = ""  #: and the clock it is reckoned from: now, clock_timestamp, …
    token: str = ""  #: the column that says who holds the job
    fence: str = ""  #: the column in the conditions that proves the job is still ours
    by_id: bool = False  #: the conditions name one job
    one: bool = False  #: and name it by a single value
    by_worker: bool = False  #: the conditions name who holds the jobs
    watches: str = ""  #: a reaper: the column whose age it looks at
    extends: str = ""  #: a heartbeat: the column it renews
    #: A heartbeat: whether it stops at some time, whatever the worker says. A query for jobs: it asks for some left.
    capped: bool = False
    sets: tuple[str, ...] = ()  #: the columns of an UPDATE that are set
    renews: tuple[str, ...] = ()  #: and those among them that are given another value each time, whatever their names
    compares: tuple[str, ...] = ()  #: the columns that must hold what the caller was once given
    tells_error: bool = False  #: writes down what went wrong
    fixed_error: bool = False  #: and in words that are the same whatever that was
    returns: bool = False
    rechecks: bool = False  #: an UPDATE whose own conditions ask for the state again
    picks: str = ""  #: how the query that picks the rows hangs under the claim: Query.role, or nothing
    materialized: bool = False  #: and whether it is a MATERIALIZED CTE
    limited: bool = False  #: a LIMIT on what is taken
    many: bool = False  #: it may take several jobs at once: there is no LIMIT 1
    free: bool = False  #: its conditions ask for jobs that nobody has
    once: bool = False  #: a lock: and for such as wait to be done, and have no turns
    asks: tuple[str, ...] = ()  #: the states that its conditions ask for
    waiting: bool = False  #: and leave out all that are not among those in which a job waits
    states: tuple[str, ...] = ()  #: the states that are set: queued, running, done, failed, dead
    state_in: str = ""  #: the column of states that is set, or asked for where none is set
    named: tuple[str, ...] = ()  #: the columns that its conditions hold against a value from outside

    @property
    def sweeps(self) -> bool:
        """Whether what looks like a claim looks after jobs that have stalled or failed, and takes none that wait."""
        return not self.free or (bool(self.asks) and "queued" not in self.asks)

    @property
    def takes_stalled(self) -> bool:
        """Whether a claim asks for nothing but jobs that others have."""
        return bool(self.asks) and set(self.asks) <= words.HELD

    @property
    def is_put_off(self) -> bool:
        """Whether a job that is due is made to begin later: for so long nobody else takes it."""
        return self.delayed and bool(self.until) and not words.is_until(self.until)

    @property
    def gives_turn(self) -> bool:
        """Whether a step makes a row have its turn later, and says of it nothing else."""
        plain = not (self.states or self.counts or self.tells_error)
        return self.kind is StepKind.REQUEUE and self.delayed and plain

    @property
    def times_out(self) -> bool:
        """What takes jobs back: whether it does so once a time is up, and not because a worker is gone."""
        return not self.by_worker and (bool(self.watches) or (self.delayed and words.is_run_at(self.until)))


def queue_steps(statement: Statement) -> tuple[Step, ...]:
    """What the statement means to a queue; nothing for almost all statements."""
    steps = [step for inner in statement.body for step in queue_steps(inner)]
    if statement.queries:
        steps.extend(_steps(View(statement.queries)))
    return tuple(steps)


_LOCKS = ("update", "no key update")


def _steps(view: View) -> Iterator[Step]:
    for index, query in enumerate(view.queries):
        if query.verb is Kind.INSERT:
            yield from _inserted(query)
            yield from _counted(view, query)
        elif query.verb is Kind.UPDATE:
            yield from _updated(view, index, query)
        elif query.verb is Kind.DELETE:
            yield from _deleted(view, index, query)
        elif query.verb is Kind.SELECT and not view.feeds_change(index):
            yield from _selected(view, query)
    yield from _bounds(view)


def _table_of(query: Query) -> str:
    return query.target.name if query.target else ""


def _schema_of(query: Query) -> str:
    return query.target.schema if query.target else ""


# UPDATE


def _updated(view: View, index: int, query: Query) -> Iterator[Step]:
    conditions = view.conditions(index)
    step = _changed(view, index, query, conditions)
    kinds = _kinds_of_update(step, query, conditions)
    for kind in kinds:
        if kind is StepKind.CLAIM:
            yield step._replace(how="lease")
        else:
            yield step._replace(kind=kind, delayed=bool(assigned(query, words.is_run_at)))
    locked = step.skip_locked and step.returns and not step.by_id and not words.is_people(step.table)
    if not kinds and locked and _fills(query, conditions):
        # Out of the queue, by a column of its own: who is to put it back is not known by that.
        yield step._replace(how="delete")
    yield from _counted(view, query)


def _changed(view: View, index: int, query: Query, conditions: list[Comparison]) -> Step:
    """All that an UPDATE tells, whatever kind of step it is."""
    pickers = view.pickers(index)
    picker = next((one for one in pickers if one.lock), pickers[0] if pickers else None)
    until = assigned(query, words.is_until) or put_off(query, conditions)
    return Step(
        StepKind.CLAIM,
        _table_of(query),
        query.span,
        _schema_of(query),
        skip_locked=any(one.lock.skip_locked for one in pickers if one.lock),
        locked="advisory" if asks_advisory(conditions) else how_locked(picker),
        counts=raises_attempts(query),
        resets=resets_attempts(query),
        bounded=is_bounded([*conditions, *query.cases]),
        delayed=waits_for_time(conditions),
        until=until,
        clock=_clock(query, until or assigned(query, words.is_heartbeat)),
        token=assigned(query, words.is_token) or taken_by(query, picker),
        fence=fence_of(query),
        by_id=names_one(query),
        one=names_one(query, "="),
        by_worker=names_worker(conditions),
        watches=overdue(conditions),
        extends=_renewed(query),
        capped=is_capped(query, until),
        sets=tuple(made.column for made in query.assignments),
        renews=renewed(query),
        compares=compared(query),
        tells_error=bool(assigned(query, words.is_error)),
        fixed_error=is_fixed(query, words.is_error),
        returns=bool(query.returning),
        rechecks=asks_for_free(query.conditions),
        picks=picker.role if picker else "",
        materialized=bool(picker and picker.materialized),
        limited=bool(picker and picker.limit),
        many=not names_one(query) and takes_many(picker),
        free=asks_for_free(conditions),
        asks=tuple(sorted(asked_states(conditions))),
        waiting=leaves_out_held(conditions),
        states=tuple(sorted(set_states(query))),
        state_in=state_set(query) or asked_in(conditions),
        named=named_from_outside(conditions),
    )


def _renewed(query: Query) -> str:
    """The column by which a job's worker lives on; one that is set into the past lets go of the job, or ages it."""
    column = assigned(query, words.is_heartbeat) or assigned(query, words.is_until)
    values = [made.value for made in query.assignments if made.column == column]
    past = any(value.kind is TermKind.NOW and any(_is_less(part) for part in value.parts) for value in values)
    return "" if past else column


def _is_less(part: Term) -> bool:
    """Whether what a clock is moved by leads back."""
    negative = part.kind in (TermKind.LITERAL, TermKind.CAST) and any(
        one.kind is TermKind.LITERAL and one.text.lstrip().startswith("-") for one in inside(part)
    )
    return part.kind is TermKind.SUBTRACT or negative


def _clock(query: Query, column: str) -> str:
    """The clock that a column is set by."""
    values = (made.value for made in query.assignments if made.column == column)
    return next((part.text for value in values for part in inside(value) if part.kind is TermKind.NOW), "")


def _kinds_of_update(step: Step, query: Query, conditions: list[Comparison]) -> list[StepKind]:
    states = set(step.states)
    table = _table_of(query)
    people = words.is_people(table)
    if _is_claim(step, query, conditions) and not people:
        return [StepKind.CLAIM]
    kinds = []
    stalled = not step.by_id and bool(step.watches or words.HELD & asked_states(conditions))
    released = "queued" in states or (not states and cleared(query, words.is_token) and not step.token)
    if released:
        kinds.append(StepKind.REAP if stalled else StepKind.REQUEUE)
    if "dead" in states or ("failed" in states and (step.bounded or stalled)):
        kinds.append(StepKind.BURY)
    elif "failed" in states or (not states and assigned(query, words.is_error) and step.counts):
        kinds.append(StepKind.FAIL)
    ended = assigned(query, words.is_finished) or (step.counts and step.by_id and _says_whether_done(query))
    if "done" in states or (not states and not released and ended):
        kinds.append(StepKind.FINISH)
    # One that asks for its worker's running jobs renews them all.
    own = step.by_worker and not step.watches
    if not kinds and step.extends and not people and (own or not stalled):
        kinds.append(StepKind.EXTEND)
    # What becomes of jobs that have stalled, or whose worker is gone, may come from outside.
    if (
        not kinds
        and not step.by_id
        and (step.by_worker or (step.watches and stalled))
        and not step.states
        and assigned(query, words.is_status, *VALUES)
    ):
        kinds.append(StepKind.BURY)
    delays = assigned(query, words.is_run_at)
    if not kinds and delays and step.by_id:
        kinds.append(StepKind.REQUEUE)
    return kinds


def _says_whether_done(query: Query) -> bool:
    """Whether a column of truth values is set to what came of the attempt: delivered = %s."""
    given = (TermKind.PARAMETER, TermKind.HOLE)
    return any(made.value.kind in given and words.flagged(made.column, True) == "done" for made in query.assignments)


def _is_claim(step: Step, query: Query, conditions: list[Comparison]) -> bool:
    """Whether an UPDATE takes jobs: it marks them as held, and asks for such as nobody holds."""
    states = set(step.states)
    if states & {"queued", "done", "failed", "dead"} or (step.by_id and stores_whole(query)):
        return False
    if assigned(query, words.is_error) and "running" not in states:
        return False  # what went wrong is told of a job that was tried, whatever the state is called that it ends in
    started = assigned(query, words.is_started)
    # A holder that may stay who it was is nobody who takes the job: somebody changes what is said of it.
    # And a nonce that each write renews tells whose write it was, and takes nothing either.
    holder = bool(step.token) and not may_stay(query, step.token) and not words.is_nonce(step.token)
    held = holder or bool(step.until or started)
    # A state that comes from outside is a mark where the rows were locked to be taken, and not to be ended.
    ends = step.takes_stalled or bool(assigned(query, words.is_finished))
    unknown = step.skip_locked and step.returns and not ends and bool(assigned(query, words.is_status, *VALUES))
    marks = "running" in states or held or unknown
    free = asks_for_free(conditions) or bool(step.watches)
    picked = step.skip_locked or (bool(step.picks) and step.limited)
    if step.by_id:
        # By id it is the second half of select-then-update; a time limit alone is a heartbeat.
        queue = words.is_queue(_table_of(query)) or bool(assigned(query, words.tells_of_queue, TermKind.FALSE))
        takes = "running" in states or (holder and not step.fence) or step.is_put_off
        # Of a table that has a name of its own it is enough that what is taken must still wait.
        waits = step.rechecks and "queued" in step.asks and HOLE_OPEN not in step.table
        return takes and (held or step.counts or queue or waits)
    return marks and (free or picked)


def _fills(query: Query, conditions: list[Comparison]) -> bool:
    """Whether it fills in a column that was empty in what it took, whatever that is called; not by which it is done."""
    empty = {one.column for one in conditions if one.operator == "is" and one.value.kind is TermKind.NULL}
    return any(made.column in empty and not words.is_finished(made.column) for made in query.assignments)


def _counted(view: View, query: Query) -> Iterator[Step]:
    if not raises_attempts(query):
        return
    made = next(one for one in query.assignments if words.is_attempts(one.column))
    conditions = [found for one in view.queries for found in (*one.conditions, *one.cases)]
    yield Step(
        StepKind.COUNT,
        _table_of(query),
        made.span,
        _schema_of(query),
        column=made.column,
        counts=True,
        bounded=is_bounded(conditions),
        fence=fence_of(query),
        by_id=names_one(query),
        returns=bool(query.returning),
    )


# DELETE, SELECT, INSERT


def _deleted(view: View, index: int, query: Query) -> Iterator[Step]:
    """DELETE … RETURNING of what a query picks is a claim; DELETE by id is how many queues finish."""
    conditions = view.conditions(index)
    step = _changed(view, index, query, conditions)
    old = any(found.operator in ("<", "<=") and words.is_past(found.column) for found in conditions)
    purges = bool(step.watches or {"done", "failed", "dead"} & asked_states(conditions)) or (old and not step.free)
    # What a CTE deletes may come back through the rows that were locked for it.
    handed_on = query.role == "cte" and step.skip_locked and view.queries[0].verb is Kind.SELECT
    if handed_on or (step.returns and (step.skip_locked or (step.picks and step.limited))):
        if not purges:
            yield step._replace(how="delete")
    elif step.by_id and not words.is_people(_table_of(query)):
        yield step._replace(kind=StepKind.FINISH)


def _selected(view: View, query: Query) -> Iterator[Step]:
    """SELECT … FOR UPDATE of what waits in a queue; of one row by its id it is no claim."""
    if query.target is None or names_one(query):
        return
    lock = query.lock
    advisory = asks_advisory(query.conditions)
    if lock is not None and lock.strength in _LOCKS:
        queue_like = asks_for_free(query.conditions) or (words.is_queue(_table_of(query)) and query.limit is not None)
        if not (queue_like or (lock.skip_locked and (query.limit is not None or query.conditions))):
            return
        how, span = "row lock", lock.span
    elif advisory and (asks_for_free(query.conditions) or query.limit is not None):
        how, span = "advisory lock", query.span
    elif lock is None and not advisory and query.role == "top" and not query.open_tail and _looks_for_jobs(query):
        how, span = "", query.span
    else:
        return
    yield Step(
        StepKind.CLAIM if how else StepKind.LOOK,
        _table_of(query),
        span,
        _schema_of(query),
        how=how,
        skip_locked=bool(lock and lock.skip_locked),
        locked=how_locked(query),
        bounded=is_bounded(query.conditions),
        capped=has_some_left(query.conditions),
        delayed=waits_for_time(query.conditions),
        watches=overdue(query.conditions),
        returns=True,
        picks=query.role if query.role != "top" else "",
        materialized=query.materialized,
        limited=query.limit is not None,
        many=takes_many(query),
        free=asks_for_free(query.conditions),
        once=waits_once(query, query.conditions),
        asks=tuple(sorted(asked_states(query.conditions))),
        waiting=leaves_out_held(query.conditions),
        state_in=asked_in(query.conditions),
        named=named_from_outside(query.conditions),
    )


def _looks_for_jobs(query: Query) -> bool:
    """Whether a query without a lock asks for jobs that wait, some at a time, or for those that have stalled."""
    held = words.HELD & asked_states(query.conditions)
    if names_something(query):
        return bool(held)
    some = query.limit is not None or words.is_queue(_table_of(query))
    # What waits, and is due, is there to be done, whatever the table is called.
    due = "queued" in asked_states(query.conditions) and waits_for_time(query.conditions)
    waits = asks_for_free(query.conditions) and (some or due)
    return waits or bool(held) or _asks_for_turns(query) or _asks_for_the_next(query)


def _asks_for_turns(query: Query) -> bool:
    """Whether a query asks for what has its turn by now: schedules, or whatever says when its next one is."""
    if not waits_for_time(query.conditions):
        return False
    due = any(words.is_run_at(found.column) and words.is_next(found.column) for found in query.conditions)
    return due or words.is_schedule(_table_of(query))


def _asks_for_the_next(query: Query) -> bool:
    """Whether a query asks for the first in some order of what a queue holds, whatever state it is in."""
    one = query.limit is not None and query.limit.text == "1" and query.ordered
    queue = words.is_worked_off(_table_of(query)) or any(words.names_queue(found.column) for found in query.conditions)
    return one and queue and not asked_states(query.conditions)


def _inserted(query: Query) -> Iterator[Step]:
    """An INSERT makes a job, or writes down that one is run."""
    table = _table_of(query)
    columns = [made.column for made in query.assignments]
    if words.is_run_log(table) and any(words.is_job_id(column) for column in columns):
        yield Step(StepKind.RUN_LOG, table, query.span, _schema_of(query), returns=bool(query.returning))
    elif words.is_queue(table) or any(
        words.is_run_at(column) or words.is_attempts(column) or words.is_maximum(column) for column in columns
    ):
        states = tuple(sorted(set_states(query)))
        delayed = bool(assigned(query, words.is_run_at))
        yield Step(StepKind.ENQUEUE, table, query.span, _schema_of(query), states=states, delayed=delayed)


def _bounds(view: View) -> Iterator[Step]:
    """Every place where attempts are held against a maximum."""
    for query in view.queries:
        for found in (*query.conditions, *query.cases):
            if is_bound(found):
                yield Step(
                    StepKind.BOUND,
                    _table_of(query),
                    found.span,
                    _schema_of(query),
                    bounded=True,
                    by_id=names_one(query),
                )
