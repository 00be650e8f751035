"""Questions about the queries of a statement that queues are told by: what they set, ask for, and lock."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from auditor.sql import words
from auditor.sql.meaning import HOLE_CLOSE, HOLE_OPEN, Assignment, Comparison, Kind, Query, Table, Term, TermKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: What a value that comes from outside, or is written out, is made of.
VALUES = (TermKind.PARAMETER, TermKind.HOLE, TermKind.LITERAL)


class View:
    """The queries of one statement, and what can be asked of them together."""

    def __init__(self, queries: tuple[Query, ...]) -> None:
        self.queries = queries

    def feeds_change(self, index: int) -> bool:
        """Whether a query is there for an UPDATE or DELETE of the same table, around it or beside it."""
        changes = (query for query in self.queries if query.verb in (Kind.UPDATE, Kind.DELETE))
        return any(same_table(query.target, self.queries[index].target) for query in changes)

    def pickers(self, index: int) -> list[Query]:
        """The SELECTs that pick rows for a change of their table."""
        target = self.queries[index].target
        return [query for query in self.queries if query.verb is Kind.SELECT and same_table(query.target, target)]

    def conditions(self, index: int) -> list[Comparison]:
        """All that decides which rows are changed: the query's own conditions and those of its pickers."""
        own = self.queries[index].conditions
        return [*own, *(found for query in self.pickers(index) for found in query.conditions)]


_HOLE = re.compile(f"{HOLE_OPEN}[^{HOLE_CLOSE}]*{HOLE_CLOSE}")


def same_table(one: Table | None, other: Table | None) -> bool:
    """Whether two names in one statement mean the same table; two holes are taken for the same name."""
    if one is None or other is None:
        return False
    names = {_HOLE.sub(HOLE_OPEN, table.name) for table in (one, other)}
    schemas = {_HOLE.sub(HOLE_OPEN, table.schema) for table in (one, other)} - {""}
    return len(names) == 1 and len(schemas) < 2


def inside(term: Term) -> Iterator[Term]:
    """A term and all it is made of."""
    pending = [term]
    while pending:
        term = pending.pop()
        yield term
        pending.extend(term.parts)


def states_in(term: Term) -> set[str]:
    """The states that a value may name, through casts and CASE."""
    found = {words.state_of(part.text) for part in inside(term) if part.kind is TermKind.LITERAL}
    return found - {""}


#: What a column of truth values is set to or held against.
_TRUTH = {TermKind.TRUE: True, TermKind.FALSE: False}


def set_states(query: Query) -> set[str]:
    """The states that are set, by name or by a column that is true or false."""
    named = {state for made in query.assignments if words.is_status(made.column) for state in states_in(made.value)}
    if "running" in named and _is_sent(query):
        named = (named - {"running"}) | {"done"}
    flags = [made for made in query.assignments if made.value.kind in _TRUTH]
    told = {words.flagged(made.column, _TRUTH[made.value.kind]) for made in flags} - {""}
    # That something is sent or done is said of what a job is about, too; with another state, or of what waits in an
    # outbox, or of a mail that it is sent, it is the job's.
    certain = len(told) > 1 or (query.target is not None and words.is_mailbox(query.target.name))
    goes = query.target is not None and (words.is_mail(query.target.name) or words.is_schedule(query.target.name))
    certain = certain or (goes and any(map(_goes_out, flags)))
    return named or ({"done"} if "done" in told and certain else told - {"done"})


def _goes_out(made: Assignment) -> bool:
    return made.value.kind is TermKind.TRUE and words.tells_sent(made.column)


def _is_sent(query: Query) -> bool:
    """Whether what is dispatched goes out and is done with: an event or a mail, with the time at which it went."""
    literals = {part.text.lower() for made in query.assignments for part in inside(made.value)}
    return "dispatched" in literals and any(words.is_finished(made.column) for made in query.assignments)


def asked_in(conditions: Iterable[Comparison]) -> str:
    """The column by which conditions ask for a state; nothing where there are several."""
    columns = {found.column for found in conditions if words.is_status(found.column)}
    return columns.pop() if len(columns) == 1 else ""


def asked_states(conditions: Iterable[Comparison]) -> set[str]:
    """The states that conditions ask for; what they exclude does not count."""
    conditions = list(conditions)
    asked = (found for found in conditions if words.is_status(found.column) and found.operator in ("=", "in"))
    named = {state for found in asked for state in states_in(found.value)}
    flags = [found for found in conditions if found.value.kind in _TRUTH and found.operator in _IS]
    told = {words.flagged(found.column, _TRUTH[found.value.kind] is _IS[found.operator]) for found in flags}
    return named or told - {""}


def leaves_out_held(conditions: Iterable[Comparison]) -> bool:
    """Whether conditions ask, whatever else holds, for a state in which a job waits, or has failed."""
    asked = [found for found in conditions if words.is_status(found.column) and found.operator in ("=", "in")]
    return any(not found.optional and {"queued"} <= states_in(found.value) <= {"queued", "failed"} for found in asked)


def stores_whole(query: Query) -> bool:
    """Whether an UPDATE writes down a job as its object is, in whatever state: who has it, and when it was done."""
    given = (TermKind.PARAMETER, TermKind.HOLE)
    told = (words.is_status, words.is_finished)
    taken = (words.is_token, words.is_until, words.is_started)
    return all(assigned(query, named, *given) for named in told) and any(
        assigned(query, named, *given) for named in taken
    )


_IS = {"=": True, "is": True, "is not": False, "<>": False}


def resets_attempts(query: Query) -> bool:
    """Whether an attempts column is set to 0, as for a job that somebody wants done once more."""
    return any(words.is_attempts(made.column) and made.value.text == "0" for made in query.assignments)


def raises_attempts(query: Query) -> bool:
    """Whether an attempts column goes up by something, or one that counts down goes down."""
    if query.verb is Kind.INSERT and not any(made.value.kind is TermKind.ADD for made in query.assignments):
        return False
    for made in query.assignments:
        if not words.is_attempts(made.column):
            continue
        kind = TermKind.SUBTRACT if words.is_left(made.column) else TermKind.ADD
        if any(part.kind is kind and words.is_attempts(part.text) for part in inside(made.value)):
            return True
        # A number from outside, or from the query that picked the row: it was raised there.
        if made.value.kind in (TermKind.PARAMETER, TermKind.HOLE):
            return True
        if query.verb is Kind.UPDATE and made.value.kind is TermKind.COLUMN and words.is_attempts(made.value.text):
            return True
    return False


def assigned(query: Query, named: Callable[[str], bool], *kinds: TermKind) -> str:
    """The first column of that name which is set to a value of one of these kinds, or to anything but NULL."""
    for made in query.assignments:
        fits = made.value.kind in kinds if kinds else made.value.kind not in (TermKind.NULL, TermKind.DEFAULT)
        if named(made.column) and fits:
            return made.column
    return ""


def state_set(query: Query) -> str:
    """The column of states that is set: of several the one that is given a state, as no code of an answer is."""
    given = (made for made in query.assignments if words.is_status(made.column) and states_in(made.value))
    return next((made.column for made in given), assigned(query, words.is_status))


def may_stay(query: Query, column: str) -> bool:
    """Whether a column is set to what it holds already, where nothing else is given: COALESCE(%s, owner)."""
    values = (made.value for made in query.assignments if made.column == column)
    kinds = (TermKind.CASE, TermKind.CALL)
    return any(
        value.kind in kinds and any(part.kind is TermKind.COLUMN and part.text == column for part in value.parts)
        for value in values
    )


def cleared(query: Query, named: Callable[[str], bool]) -> bool:
    return bool(assigned(query, named, TermKind.NULL))


def is_fixed(query: Query, named: Callable[[str], bool]) -> bool:
    """Whether columns of that name are set, and to nothing but values that are written out."""
    kinds = {made.value.kind for made in query.assignments if named(made.column)}
    return TermKind.LITERAL in kinds and kinds <= {TermKind.LITERAL, TermKind.NULL, TermKind.DEFAULT}


def names_one(query: Query, *operators: str) -> bool:
    """Whether the conditions name one row by a value from outside, or some by a list of them."""
    table = query.target.name if query.target else ""
    return any(
        (words.is_id(found.column, table) or found.column in query.keys)
        and found.operator in (operators or ("=", "in"))
        and not found.optional
        and any(part.kind in VALUES for part in inside(found.value))
        for found in query.conditions
    )


def names_something(query: Query) -> bool:
    """Whether the conditions name what is looked for by a value from outside: somebody's invitation, one payment."""
    return any(True for _ in _named(query))


def named_from_outside(conditions: Iterable[Comparison]) -> tuple[str, ...]:
    """The columns that conditions hold against a value from outside."""
    return tuple(sorted({found.column for found in _from_outside(conditions)}))


def _from_outside(conditions: Iterable[Comparison]) -> Iterator[Comparison]:
    given = (TermKind.PARAMETER, TermKind.HOLE)
    return (found for found in conditions if found.operator == "=" and found.value.kind in given)


def _named(query: Query) -> Iterator[Comparison]:
    """The conditions that name what is looked for, and no part of the queue."""
    given = _from_outside(query.conditions)
    return (found for found in given if not found.optional and not words.is_of_queue(found.column))


def names_worker(conditions: Iterable[Comparison]) -> bool:
    """Whether conditions name who holds the jobs: one worker, or a list or query of them."""
    kinds = (TermKind.QUERY, TermKind.COLUMN, *VALUES)
    return any(
        words.is_token(found.column)
        and found.operator in ("=", "in", "not in")
        and any(part.kind in kinds for part in inside(found.value))
        for found in conditions
    )


def asks_advisory(conditions: Iterable[Comparison]) -> bool:
    """Whether conditions take an advisory lock for each row."""
    return any(part.text.startswith("pg_try_advisory") for found in conditions for part in inside(found.value))


def taken_by(query: Query, picker: Query | None) -> str:
    """The column that was NULL in the rows that a locking query picks, and is set to a value from outside."""
    if picker is None or picker.lock is None or not picker.lock.skip_locked:
        return ""
    null = {found.column for found in picker.conditions if found.operator == "is" and found.value.kind is TermKind.NULL}
    given = (TermKind.PARAMETER, TermKind.HOLE)
    return next((made.column for made in query.assignments if made.column in null and made.value.kind in given), "")


def how_locked(query: Query | None) -> str:
    """How a query that picks jobs locks them: waits for those that others hold, skips them, or is refused.

    What is put in at run time may be a lock: "perhaps". Jobs of one parent are taken in their order: "in turn".
    """
    if query is None or query.lock is None:
        return "perhaps" if query is not None and query.open_tail else ""
    if query.lock.skip_locked or query.lock.nowait:
        return "skip" if query.lock.skip_locked else "refuse"
    return "in turn" if _names_parent(query) else "wait"


def _names_parent(query: Query) -> bool:
    """Whether what is looked for is all of one thing that is known by its id: a session, an order, a run."""
    return any(words.is_key(found.column) for found in _named(query))


def takes_many(query: Query | None) -> bool:
    """Whether a query may pick more than one row: its LIMIT is not a plain 1."""
    return query is None or query.limit is None or query.limit.text != "1"


def is_capped(query: Query, until: str) -> bool:
    """Whether a heartbeat ends some day: the lease is held down to a deadline, or the conditions look at the start."""
    held = any(
        part.kind is TermKind.CALL and part.text == "least" for made in query.assignments for part in inside(made.value)
    )
    limits = (words.is_started, words.is_attempts, lambda name: words.is_until(name) and name != until)
    return held or any(
        found.operator in ("<", "<=", ">", ">=") and any(named(found.column) for named in limits)
        for found in query.conditions
    )


def fence_of(query: Query) -> str:
    """The column that proves the job is still held: a token, the number of the attempt, or when it began."""
    for named in (words.is_token, words.is_bare_token, words.is_attempts, words.is_started, words.is_until):
        for found in query.conditions:
            equal = found.operator == "=" and not found.optional and found.value.kind is not TermKind.NULL
            alive = named is words.is_until and found.operator in (">", ">=") and not found.optional
            if named(found.column) and (equal or alive) and not words.is_maximum(found.value.text):
                return found.column
    return _version_of(query)


def _version_of(query: Query) -> str:
    """The column that every change raises, and that must be what the caller last saw."""
    raised = {made.column for made in query.assignments if made.value.kind is TermKind.ADD}
    seen = (found.column for found in query.conditions if found.operator == "=" and not found.optional)
    return next((column for column in seen if column in raised or words.is_version(column)), "")


def renewed(query: Query) -> tuple[str, ...]:
    """The columns that a change gives a value of its own: one from outside, one that is made, or the next number."""
    fresh = (TermKind.PARAMETER, TermKind.HOLE, TermKind.CALL, TermKind.ADD)
    made = (one for one in query.assignments if any(part.kind in fresh for part in inside(one.value)))
    return tuple(one.column for one in made if not words.is_status(one.column))


def compared(query: Query) -> tuple[str, ...]:
    """The columns that must hold a value from outside for a row to be changed."""
    given = (TermKind.PARAMETER, TermKind.HOLE, TermKind.COLUMN)
    return tuple(
        found.column
        for found in query.conditions
        if found.operator == "=" and not found.optional and any(part.kind in given for part in inside(found.value))
    )


def is_bound(found: Comparison) -> bool:
    """attempts < maximum, in whatever direction."""
    if found.operator not in ("<", "<=", ">", ">=", "=") or found.value.kind is TermKind.NOW:
        return False
    if words.is_attempts(found.column):
        limit = found.value.kind in VALUES or any(words.is_maximum(part.text) for part in inside(found.value))
        return limit and (found.operator != "=" or words.is_maximum(found.value.text))
    return words.is_maximum(found.column) and any(words.is_attempts(part.text) for part in inside(found.value))


def _is_below(found: Comparison) -> bool:
    """attempts < maximum: there are some left."""
    below = ("<", "<=") if words.is_attempts(found.column) else (">", ">=")
    return is_bound(found) and found.operator in below


def is_bounded(conditions: Iterable[Comparison]) -> bool:
    return any(is_bound(found) for found in conditions)


def has_some_left(conditions: Iterable[Comparison]) -> bool:
    """Whether conditions ask for jobs that may be tried once more."""
    return any(map(_is_below, conditions))


_TIMES = (TermKind.NOW, TermKind.CAST, TermKind.QUERY, *VALUES)


def waits_for_time(conditions: Iterable[Comparison]) -> bool:
    """Whether a run-at column is held against the time, or the last attempt must be long enough ago."""
    for found in conditions:
        due = found.operator in ("<", "<=") and found.value.kind in _TIMES
        tried = words.is_started(found.column) and "attempt" in found.column and bool(found.value.parts)
        if due and (words.is_run_at(found.column) or tried):
            return True
    return False


def put_off(query: Query, conditions: Sequence[Comparison]) -> str:
    """The column by which a job that is due, and waits, is put off: it is its lease, and no turn of a schedule."""
    waits = waits_once(query, conditions) or any(map(_is_unsent, conditions))
    if not waits and not is_bounded(conditions):
        return ""
    due = {found.column for found in conditions if found.operator in ("<", "<=") and found.value.kind in _TIMES}
    return assigned(query, lambda column: words.is_run_at(column) and column in due)


def waits_once(query: Query, conditions: Sequence[Comparison]) -> bool:
    """Whether conditions ask for what waits to be done, and not for what has its next turn: what is only scheduled."""
    if query.target is None or words.is_schedule(query.target.name):
        return False
    asked = (found for found in conditions if words.is_status(found.column) and found.operator in ("=", "in"))
    named = {part.text.lower() for found in asked for part in inside(found.value) if part.kind is TermKind.LITERAL}
    return "queued" in asked_states(conditions) and named != {"scheduled"}


def _is_unsent(found: Comparison) -> bool:
    return found.operator == "is" and found.value.kind is TermKind.NULL and words.is_sent(found.column)


def overdue(conditions: Sequence[Comparison]) -> str:
    """The column whose age shows that a job has stalled."""
    held = bool(words.HELD & asked_states(conditions))
    for named in (words.is_until, words.is_heartbeat, words.is_started, _is_time):
        for found in conditions:
            old = found.operator in ("<", "<=") and found.value.kind in _TIMES
            aged = named is not _is_time or (found.value.kind is TermKind.NOW and bool(found.value.parts))
            # A time that the program reckons, of jobs that somebody has.
            aged = aged or (held and found.value.kind in VALUES and words.is_moment(found.column))
            if named(found.column) and old and aged and not words.is_run_at(found.column):
                return found.column
    return ""


def _is_time(column: str) -> bool:
    """Any other column, such as updated_at: of interest only where it is held against a time long ago."""
    return bool(column)


def asks_for_free(conditions: Iterable[Comparison]) -> bool:
    """Whether conditions ask for jobs that nobody has: queued, without a holder, due, or failed and tried again."""
    conditions = list(conditions)
    asked = asked_states(conditions)
    return (
        "queued" in asked
        or ("failed" in asked and any(map(_is_below, conditions)))
        or waits_for_time(conditions)
        or any(
            found.operator == "is" and found.value.kind is TermKind.NULL and any(named(found.column) for named in _HELD)
            for found in conditions
        )
    )


_HELD = (words.is_token, words.is_until, words.is_started, words.is_finished)
