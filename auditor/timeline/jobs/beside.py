"""What statements do to jobs beside the steps of a queue: they change a claimed one, or lock one that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.program.holders import tells_holder
from auditor.program.tree import descend
from auditor.python import nodes
from auditor.sql.meaning import Kind, Query, Statement
from auditor.sql.queue_view import named_from_outside, names_one
from auditor.sql.tokens import tokenize
from auditor.sql.words import is_flag, is_queue, is_status
from auditor.timeline.model.connection import ONLY_HELD, READ, ConnectionState, Deed, Mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.findings import Place
    from auditor.program.code import FunctionInfo
    from auditor.timeline.model.state import Frame
    from auditor.timeline.walking.walker import Walker

_CHANGES = frozenset({Kind.INSERT, Kind.UPDATE, Kind.DELETE, Kind.MERGE, Kind.TRUNCATE})


def marks_beside(
    walker: Walker,
    statement: Statement,
    after: ConnectionState,
    tables: tuple[str, ...],
    place: Place,
    frame: Frame,
    looked: frozenset[str] = frozenset(),
) -> Iterator[Mark]:
    """What is done to a job, or to a table whose jobs were claimed in this transaction, and is no step of a queue.

    `looked` are the tables of which jobs were looked for, or taken, before: what is locked of them are jobs, however
    called.
    """
    claimed = {mark.table for mark in after.pending if mark.deed is Deed.CLAIM}
    if statement.kind in _CHANGES:
        one = any(names_one(query, "=") for query in statement.queries)
        yield from (Mark(Deed.CHANGE, place, table, one=one) for table in tables if table in claimed)
        return
    locks = [query for query in statement.queries if query.lock is not None and names_one(query)]
    held = [table for table in tables if table in claimed | looked or is_queue(table)] if locks else []
    if held:
        asked = any(map(_asks, locks)) or _reads(statement)
        # Who looks at what was read of the job does so while the lock is held.
        checks, under = walker.program.holder_checks, tuple(_under(_running(frame), after.begun))
        proves = asked or checks.asked_by(under)
        only_held = not asked and checks.asks_only_held(under)
        how = ONLY_HELD if only_held else ""
        yield from (Mark(Deed.HOLD, place, table, how, proves=proves) for table in held)
        return
    if locks and _reads(statement):
        # Who holds what the jobs belong to holds them all.
        yield from (Mark(Deed.HOLD, place, table) for table in tables)
        return
    if tables and any(map(_locks_all, statement.queries)):
        yield from (Mark(Deed.HOLD, place, table) for table in tables if table in claimed or is_queue(table))
        return
    read = [query for query in statement.queries if query.verb is Kind.SELECT and names_one(query, "=")]
    if read and statement.kind is Kind.SELECT and walker.program.holder_checks.compared_by(_running(frame)):
        yield from (Mark(Deed.HOLD, place, table, how=READ) for table in tables if table in claimed or is_queue(table))


def locks_among(marks: tuple[Mark, ...]) -> Iterator[Mark]:
    """The rows that are locked, where it is not known whether a transaction is open: who locks rows has begun one."""
    for mark in marks:
        if mark.deed is Deed.HOLD:
            yield mark
        elif mark.deed is Deed.CLAIM and mark.how == "row lock":
            yield Mark(Deed.HOLD, mark.place, mark.table)


def _locks_all(query: Query) -> bool:
    """Whether a query locks all that is somebody's, whatever state it is in: an account's jobs, to delete them."""
    waits = query.lock is not None and not query.lock.skip_locked
    named = named_from_outside(query.conditions)
    return (
        waits and query.limit is None and bool(named) and not any(is_status(found.column) for found in query.conditions)
    )


def _asks(query: Query) -> bool:
    """Whether a query for one job asks more of it than its id."""
    return any(tells_holder(found.column) or is_flag(found.column) for found in query.conditions)


def _reads(statement: Statement) -> bool:
    """Whether a query names what tells who holds the job among what it reads."""
    for token in tokenize(statement.text):
        if token.value.lower() == "from":
            return False
        if tells_holder(token.value):
            return True
    return False


def _under(running: Iterable[FunctionInfo], begun: Place | None) -> Iterator[FunctionInfo]:
    """The functions, up to the one whose block is the transaction: whoever called that has looked before, or later.

    What a generator yields to is done under its lock.
    """
    for function in running:
        yield function
        if begun is None or function.module.path != begun.path or function.node.is_generator:
            continue
        if _has_block(function, begun):
            return


def _has_block(function: FunctionInfo, begun: Place) -> bool:
    """Whether a transaction that begins there is a block of the function."""
    blocks = (part for part in descend(function.node) if isinstance(part, nodes.With))
    return any(function.module.place(context.span) == begun for block in blocks for context, _ in block.items)


def _running(frame: Frame) -> Iterator[FunctionInfo]:
    running = dict.fromkeys((frame.function, *reversed(frame.stack)))
    return (function for function in running if function is not None)
