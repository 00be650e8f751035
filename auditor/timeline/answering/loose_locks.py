"""Row locks that hold nothing: they end with their own statement, or with the function that takes them for others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.sql.meaning import Kind
from auditor.sql.queue import StepKind
from auditor.sql.words import words
from auditor.timeline.model.connection import Status
from auditor.timeline.model.events import END_OF_BLOCK, Began, Ended, Opened, Ran, Worked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.timeline.model.events import Event

_STRENGTHS = ("update", "no key update")
_READS = frozenset({Kind.SELECT, Kind.SHOW})


class LooseLock(NamedTuple):
    """Rows that a statement locks, and what ends the lock; None where no transaction is open."""

    ran: Ran
    ended: Ended | None


def loose_locks(events: Iterable[Event]) -> Iterator[LooseLock]:
    """Locks of rows that are no claim of jobs, and that nobody can have used."""
    every = list(events)
    ran = [event for event in every if isinstance(event, Ran)]
    locking = [one for one in ran if _only_locks(one)]
    if locking:
        found = [*_in_no_transaction(every, locking), *_let_go_at_return(every, ran, locking)]
        yield from {one.ran.place: one for one in reversed(found)}.values()


def _only_locks(ran: Ran) -> bool:
    """Whether a statement reads rows and locks them; what skips those that others have may only ask for them."""
    if any(step.kind is StepKind.CLAIM for step in ran.steps):
        return False
    locks = [query.lock for query in ran.statement.queries if query.role == "top" and query.lock is not None]
    return ran.statement.kind is Kind.SELECT and any(
        lock.strength in _STRENGTHS and not lock.skip_locked for lock in locks
    )


def _in_no_transaction(events: list[Event], locking: list[Ran]) -> Iterator[LooseLock]:
    """On a connection that the same function has opened: no caller can have begun a transaction on it."""
    own = _opened(events)
    for one in locking:
        idle = one.before.status is Status.IDLE and one.after.status is Status.IDLE and not one.before.pipeline
        nowait = any(query.lock is not None and query.lock.nowait for query in one.statement.queries)
        if idle and not nowait and not one.ignored and (one.connection, one.symbol) in own:
            yield LooseLock(one, None)


def _opened(events: list[Event]) -> frozenset[tuple[int, str]]:
    """The connections, each with the function that has opened or borrowed it."""
    return frozenset((event.connection, event.symbol) for event in events if isinstance(event, Opened))


def _let_go_at_return(events: list[Event], ran: list[Ran], locking: list[Ran]) -> Iterator[LooseLock]:
    """In a transaction that begins and ends in a function which is called to lock, and does nothing else."""
    began = {(event.place, event.symbol) for event in events if isinstance(event, Began)}
    wrote = {(one.connection, one.before.begun) for one in ran if one.statement.kind not in _READS}
    opened = _opened(events)
    worked = {event.symbol for event in events if isinstance(event, Worked)}
    ends = [event for event in events if isinstance(event, Ended)]
    # Inside somebody else's transaction the lock is handed up.
    inner = {event.symbol for event in ends if event.how == "release"}
    for one in locking:
        begun = one.before.begun
        if begun is None or not one.caller or (one.connection, begun) in wrote or not _locks_by_name(one.symbol):
            continue
        own = (begun, one.symbol) in began or (one.connection, one.symbol) in opened
        if not own or one.symbol in worked or one.symbol in inner:
            continue
        for end in ends:
            same = end.symbol == one.symbol and end.connection == one.connection
            if same and end.how == "commit" and end.by == END_OF_BLOCK and not end.before.passed:
                yield LooseLock(one, end)
                break


_TAKES = frozenset({"acquire", "claim", "reserve", "obtain", "grab", "take"})


def _locks_by_name(symbol: str) -> bool:
    """acquire_lock(), lock_account(), get_for_update(): called to lock, and nothing else."""
    said = [word for word in words(symbol.rpartition(".")[2]) if word not in ("try", "a")]
    if not said or "and" in said:
        return False
    return said[0] in _TAKES or said[0] == "lock" or said[-2:] == ["for", "update"]
