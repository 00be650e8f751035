"""Rows that stand for a lock with a time limit, such as keys of idempotent requests: taken over, once it has run out.

Who takes one sets how long it lasts; who comes later takes it over where that time is up; who ends it marks or deletes
the row. Where the end names nothing but the key, whoever lost the lock ends that of the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.sql import words
from auditor.sql.meaning import Kind
from auditor.sql.queue_view import asked_states, assigned, overdue, set_states
from auditor.timeline.jobs.leases import ENDS, At
from auditor.timeline.model.events import Ran

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.findings import Place
    from auditor.sql.meaning import Query
    from auditor.timeline.jobs.queues import Told
    from auditor.timeline.model.events import Event


class TakenOver(NamedTuple):
    """Where a lock that has run out is taken over, and the columns that are set anew with it."""

    place: Place
    table: str
    path: str
    symbol: str
    sets: frozenset[str]


class LooseEnd(NamedTuple):
    """The ends of such a lock that name nothing but its key, and where others take it over."""

    ends: tuple[At, ...]
    taken_over: TakenOver


def loose_ends(told: Iterable[Told], events: Iterable[Event], leased: Iterable[str]) -> Iterator[LooseEnd]:
    """The locks of each table whose ends do not ask whose they are by now; queues with leases are told of elsewhere."""
    ran = [event for event in events if isinstance(event, Ran)]
    looking = {event.symbol for event in ran if any(one.verb is Kind.SELECT for one in event.statement.queries)}
    known = set(leased)
    steps = [At(one.step, one.ran, one.place) for one in told if one.ran is not None and one.step.kind in ENDS]
    for taken in {(one.table, one.path): one for one in taken_over(ran)}.values():
        if taken.table in known:
            continue
        mine = [at for at in steps if at.step.table == taken.table and at.ran.call.path == taken.path]
        if any(_is_fenced(at, taken) for at in mine):
            continue  # who asks in one place knows of it
        loose = {at.place: at for at in mine if _is_loose(at, taken)}
        if loose:
            # What looks first may have seen that the lock has run out: the rest is more telling.
            order = sorted(loose.values(), key=lambda at: (at.ran.symbol in looking, at.place))
            yield LooseEnd(tuple(order), taken)


def _is_fenced(at: At, taken: TakenOver) -> bool:
    """Whether an end also asks for what is set anew with each lock, but for the state."""
    step = at.step
    return step.by_id and (bool(step.fence) or any(column in taken.sets for column in step.compares))


def _is_loose(at: At, taken: TakenOver) -> bool:
    step = at.step
    # Before it takes the lock, a function clears away what is left of another.
    later = at.ran.symbol != taken.symbol or at.place.line > taken.place.line
    return step.by_id and step.one and not step.watches and not at.is_held and later


def taken_over(events: Iterable[Event]) -> Iterator[TakenOver]:
    """Where locks that have run out are taken over."""
    ran = [event for event in events if isinstance(event, Ran)]
    inserts = [(event, query) for event in ran for query in event.statement.queries if query.verb is Kind.INSERT]
    for event in ran:
        for query in event.statement.queries:
            if query.target is None or not _is_run_out(query):
                continue
            made = query
            if query.verb is Kind.DELETE:
                # What has run out goes, and the same function puts its own there, where nobody else's is.
                again = (one for other, one in inserts if other.symbol == event.symbol and _are_alike(one, query))
                made = next(again, query)
            if _takes(made, query, event.symbol):
                table = event.tables[0] if len(event.tables) == 1 else query.target.name
                yield TakenOver(event.place, table, event.call.path, event.symbol, _set_anew(made, _key_of(query)))


def _set_anew(made: Query, key: str) -> frozenset[str]:
    """The columns that each lock sets anew, but for its state; of an INSERT that may find a row, those it changes."""
    columns = [one.column for one in made.assignments if not words.is_status(one.column) and one.column != key]
    twice = frozenset(one for one in columns if columns.count(one) > 1)
    return twice if made.verb is Kind.INSERT and not key else frozenset(columns)


def _is_run_out(query: Query) -> bool:
    """Whether it is about one row whose time is up, among those that are kept for a time."""
    if query.verb not in (Kind.INSERT, Kind.UPDATE, Kind.DELETE) or not words.is_until(overdue(query.conditions)):
        return False
    return query.verb is Kind.INSERT or bool(_key_of(query))


def _key_of(query: Query) -> str:
    table = query.target.name if query.target is not None else ""
    named = (found.column for found in query.conditions if found.operator == "=" and not found.optional)
    return next((one for one in named if words.is_id(one, table) or one in query.keys), "")


def _are_alike(one: Query, other: Query) -> bool:
    return one.target is not None and other.target is not None and one.target[:2] == other.target[:2]


_LOCKS = frozenset({"lock", "locks", "acquire", "lease", "leases", "mutex", "idempotency", "idempotent", "claim"})


def _takes(made: Query, query: Query, symbol: str) -> bool:
    """Whether it makes a lock anew: with a time limit, and with a holder or a state in which something is done."""
    table = made.target.name if made.target is not None else ""
    if made.verb is Kind.DELETE or words.is_people(table) or not assigned(made, words.is_until):
        return False
    if assigned(made, words.is_token):
        return True
    if words.HELD & (set_states(made) | asked_states(query.conditions)):
        return True
    called = {*words.words(table), *words.words(symbol.rpartition(".")[2])}
    return bool(assigned(made, words.is_status)) and not _LOCKS.isdisjoint(called)
