"""What keeps other workers from a job that one has in hand: a lock, a change of its state, or nothing."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from auditor.findings import Confidence
from auditor.sql.meaning import Kind, Statement, TermKind
from auditor.sql.queue import Step, StepKind
from auditor.sql.queue_view import asks_for_free, assigned, fence_of, names_one
from auditor.sql.tokens import tokenize
from auditor.sql.words import flagged, is_id, is_status
from auditor.timeline.model.connection import ONLY_HELD, READ, Deed, Mark
from auditor.timeline.model.events import Taken, Unguarded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.findings import Place
    from auditor.timeline.model.connection import ConnectionState
    from auditor.timeline.model.state import Job

#: Levels at which PostgreSQL refuses the second of two updates of what both have read.
REFUSING = frozenset({"serializable", "repeatable read"})
#: What tells how many rows a statement has changed.
ANSWERS = frozenset({"rowcount", "statusmessage"})
#: What takes a job, or ends it.
_TAKES = (StepKind.CLAIM, StepKind.FINISH, StepKind.FAIL)


class Seen(NamedTuple):
    """A statement that ran: where, by which call, in which function, in which state of its connection."""

    statement: Statement
    steps: tuple[Step, ...]
    place: Place
    call: Place
    symbol: str
    before: ConnectionState
    answered: bool = False  #: somebody looks at how many rows it has changed


def guards(statement: Statement) -> bool:
    """Whether a statement takes a lock that says more than a row's: an advisory one, or one of a whole table."""
    return statement.kind is Kind.LOCK or any(
        call.name.startswith(("pg_advisory", "pg_try_advisory")) for call in statement.calls
    )


def judge(job: Job, seen: Seen, pending: tuple[Mark, ...]) -> tuple[Job, Unguarded | Taken | None]:
    """The job after a statement, and what is told of it where nothing kept others from it.

    `pending` are the deeds of all transactions that are open: a row lock among them is still held.
    """
    if guards(seen.statement):
        return replace(job, guarded=True, looked=()), None
    told: Unguarded | Taken | None = None
    for step in seen.steps:
        if step.kind is StepKind.LOOK:
            job = _looked(job, step, seen)
        elif step.kind is StepKind.CLAIM and not step.by_id:
            told = told or _picked(job, step, seen)
            job = replace(job, looked=(), freed=None)
        elif step.kind in _TAKES and step.by_id:
            told = told or _freed(job, step, seen, pending) or _unlocked(job, step, seen, pending)
            job = replace(job, looked=tuple(mark for mark in job.looked if mark.table != step.table))
        elif step.by_id and step.gives_turn:
            told = told or _given_turn(job, step, seen, pending)
            job = replace(job, looked=tuple(mark for mark in job.looked if mark.table != step.table))
    asked = set(locked_and_asked(seen.statement))
    job = replace(job, looked=tuple(mark for mark in job.looked if mark.table not in asked)) if asked else job
    for step in moves(seen.statement) if not seen.steps else ():
        told = told or _freed(job, step, seen, pending)
    for step in flags(seen.statement) if not seen.steps else ():
        if any(mark.how == _DUE and mark.table == step.table for mark in job.looked):
            told = told or _unlocked(job, step, seen, pending)
    return job, told


def flags(statement: Statement) -> Iterator[Step]:
    """Changes by which one row is known to be done with, where it was looked for as one that is not: fired = TRUE."""
    for query in statement.queries:
        done = any(
            made.value.kind is TermKind.TRUE and flagged(made.column, True) == "done" for made in query.assignments
        )
        if query.verb is Kind.UPDATE and query.target is not None and done and names_one(query):
            rechecks = asks_for_free(query.conditions)
            yield Step(StepKind.FINISH, query.target.name, query.span, by_id=True, rechecks=rechecks, states=("done",))


def moves(statement: Statement) -> Iterator[Step]:
    """Changes of one job's state, to which one is only known at run time."""
    for query in statement.queries:
        table = query.target
        if query.verb is Kind.UPDATE and table is not None and names_one(query) and assigned(query, is_status):
            yield Step(StepKind.FINISH, table.name, query.span, by_id=True, fence=fence_of(query))


def locked_and_asked(statement: Statement) -> Iterator[str]:
    """The tables of which a query locks one row by its id, and asks once more whether it still waits."""
    for query in statement.queries:
        locked = query.lock is not None and names_one(query) and asks_for_free(query.conditions)
        if locked and query.target is not None:
            yield query.target.name


#: What a query begins with that asks how many there are, or whether there is one.
_ASKS = frozenset({"1", "true", "count", "exists", "max", "min", "sum", "avg"})


def only_asks(statement: Statement) -> bool:
    """Whether a query reads no rows, and only tells of them: how many there are, in all or of each kind."""
    read = [token.value.lower() for token in tokenize(statement.text)[1:]]
    read = read[: read.index("from")] if "from" in read else read
    called = {name for name, after in itertools.pairwise(read) if after == "("}
    return bool(read) and (read[0] in _ASKS or ("over" not in read and not _ASKS.isdisjoint(called)))


def _looked(job: Job, step: Step, seen: Seen) -> Job:
    if (
        job.guarded
        or (step.watches and step.sweeps)
        or seen.before.isolation in REFUSING
        or not step.table
        or (step.asks and not step.free)
        or only_asks(seen.statement)
    ):
        return job
    if not (step.free or step.asks) and not _takes_off(seen.statement):
        return job
    how = _DUE if step.delayed else "" if step.free or step.asks else _NEXT
    mark = Mark(Deed.CLAIM, seen.place, step.table, how, sure=min(seen.before.sure, Confidence.MEDIUM))
    return replace(job, looked=(*(known for known in job.looked if known.table != step.table), mark))


#: What is found where the next is looked for, whatever state it is in: to delete it is to take it.
_NEXT = "next"
#: What is found where the time that has come tells which: a flag beside it says that it was done with.
_DUE = "due"


def _takes_off(statement: Statement) -> bool:
    """Whether a query reads the first that came, and more of it than its id: what is only counted away is read so."""
    read = [token.value.lower() for token in tokenize(statement.text)]
    columns = read[1 : read.index("from")] if "from" in read else []
    return read[-1:] != ["desc"] and "desc" not in read[-4:-2] and any(not is_id(one, "") for one in columns)


def _picked(job: Job, step: Step, seen: Seen) -> Unguarded | None:
    """An UPDATE of what a query without a lock picks: whoever waits for the row takes it a second time."""
    picks = step.how == "lease" and step.picks and step.limited
    if not picks or step.locked or step.rechecks or job.guarded or seen.before.isolation in REFUSING:
        return None
    sure = seen.before.sure
    return Unguarded(seen.place, seen.call, step.table, seen.place, None, False, sure, seen.symbol)


def _unlocked(job: Job, step: Step, seen: Seen, pending: tuple[Mark, ...]) -> Unguarded | Taken | None:
    """A job that was only looked for is taken, or is done: had anything asked once more whether it is free?"""
    look = next((mark for mark in job.looked if mark.table == step.table), None)
    if look is None:
        return None
    if step.rechecks or step.fence or _is_proven(job, step, pending):
        return Taken(seen.place, look.place) if step.kind is StepKind.CLAIM else None
    if look.how == _NEXT and (step.kind is not StepKind.FINISH or step.states or step.returns or seen.answered):
        return None
    given_up = step.kind not in (StepKind.CLAIM, StepKind.REQUEUE) and "done" not in step.states
    done = any(mark.how == ONLY_HELD and mark.table == step.table for mark in pending)
    told = Unguarded(seen.place, seen.call, step.table, look.place, None, False, look.sure, seen.symbol)
    return replace(told, given_up=given_up, if_kept=done)


def _given_turn(job: Job, step: Step, seen: Seen, pending: tuple[Mark, ...]) -> Unguarded | Taken | None:
    """A row that was due is given its next turn: had anything asked once more whether it still has this one?"""
    asked = not set(step.compares).isdisjoint(step.sets)
    return None if asked else _unlocked(job, step, seen, pending)


def _is_proven(job: Job, step: Step, pending: tuple[Mark, ...]) -> bool:
    """Whether a job is held by now, or was locked by its id and asked whether somebody else has it."""
    return any(claim.table == step.table for claim in job.claims) or _is_locked_again(step, pending)


def _is_locked_again(step: Step, pending: tuple[Mark, ...]) -> bool:
    """Whether the job's row was locked by its id, and asked whether somebody else has it by now.

    Who takes one asks also whether it is done.
    """
    no_proof = {READ, ONLY_HELD} if step.kind is StepKind.CLAIM else {READ}
    return any(
        mark.deed is Deed.HOLD and mark.proves and mark.how not in no_proof and mark.table == step.table
        for mark in pending
    )


def _freed(job: Job, step: Step, seen: Seen, pending: tuple[Mark, ...]) -> Unguarded | None:
    """A job is taken, or done, whose row lock a commit has ended."""
    freed = job.freed
    if (
        freed is None
        or (freed.batch and not freed.turned)
        or freed.claim.table != step.table
        or step.rechecks
        or step.fence
    ):
        return None
    if _is_locked_again(step, pending) or any(mark.deed is Deed.CLAIM and mark.table == step.table for mark in pending):
        return None
    sure = min(freed.claim.sure, seen.before.sure)
    place, found, at = seen.place, freed.claim.place, freed.place
    return Unguarded(place, seen.call, step.table, found, at, freed.batch, sure, seen.symbol, freed.called)
