"""Jobs that are looked after through another table: what tells of their time stands beside the state they are in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.queue_view import asked_states
from auditor.sql.words import is_moment
from auditor.timeline.events import Event, Ran

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.sql.meaning import Query, Statement

#: States of jobs that somebody has.
_HELD = frozenset({"running", "active"})
_BY_SIZE = frozenset({"<", "<=", ">", ">="})


def looked_after_beside(events: Iterable[Event]) -> frozenset[str]:
    """The tables whose jobs in hand are asked for where rows of another table are looked for by their age."""
    ran = {event.statement for event in events if isinstance(event, Ran) and len(event.statement.queries) > 1}
    return frozenset(table for statement in ran for table in _asked_beside(statement))


def _asked_beside(statement: Statement) -> Iterator[str]:
    top = next((query for query in statement.queries if query.role == "top"), None)
    if top is None or top.target is None or not any(map(_asks_age, statement.queries)):
        return
    for query in statement.queries:
        if query.role != "top" and _HELD & asked_states(query.conditions):
            yield from (table.name for table in query.tables if table.name != top.target.name)


def _asks_age(query: Query) -> bool:
    return any(found.operator in _BY_SIZE and is_moment(found.column) for found in query.conditions)
