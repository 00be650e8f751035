"""Jobs that are looked after elsewhere than in their own table: by a row beside, or by what says so by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.queue_view import asked_states
from auditor.sql.words import HELD, is_moment
from auditor.timeline.model.events import Event, Ran

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.program.program import Program
    from auditor.sql.meaning import Query, Statement

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
        if query.role != "top" and HELD & asked_states(query.conditions):
            yield from (table.name for table in query.tables if table.name != top.target.name)


def _asks_age(query: Query) -> bool:
    return any(found.operator in _BY_SIZE and is_moment(found.column) for found in query.conditions)


#: What jobs are called whose worker is gone, in the names of what brings them back.
_LOST = frozenset(
    {
        "stalled",
        "stale",
        "stuck",
        "lost",
        "orphan",
        "orphans",
        "orphaned",
        "running",
        "expired",
        "zombie",
        "zombies",
        "dead",
        "abandoned",
        "interrupted",
        "crashed",
        "hung",
    }
)
_BRINGS_BACK = frozenset(
    {
        "requeue",
        "recover",
        "reclaim",
        "rescue",
        "reap",
        "restart",
        "reset",
        "resume",
        "release",
        "return",
        "restore",
        "unlock",
        "sweep",
        "abandon",
        "fail",
    }
)
#: Those that say so also of what is only looked for: `rescue()` goes through `stale_runs()`.
_SURELY_LOST = _LOST - {"running", "expired", "dead", "interrupted"}
#: So many calls lie between the name that says so and the statement.
_BETWEEN = 2


def sweeps_by_name(program: Program, moves: dict[str, frozenset[str]]) -> frozenset[str]:
    """The tables that `requeue_stalled_jobs()` and its like take jobs back in, one by one, by a function of `moves`.

    `moves` tells for each table the names of the functions that put a job of it back by its id. What these are called
    on may not be seen; who wrote such a name has thought of workers that die.
    """
    if not moves:
        return frozenset()
    functions = [function for module in program.modules if not module.test for function in module.functions()]
    finding = {function.node.name for function in functions if _words(function.node.name) & _SURELY_LOST}
    reached: frozenset[str] = frozenset()
    for function in functions:
        words = _words(function.node.name)
        if words & _BRINGS_BACK and (words & _LOST or finding & function.words.names):
            reached |= function.words.names
    for _ in range(_BETWEEN - 1):
        inner = (function.words.names for function in functions if function.node.name in reached)
        reached = reached.union(*inner)
    return frozenset(table for table, names in moves.items() if names & reached)


def _words(name: str) -> set[str]:
    return set(name.lower().strip("_").split("_"))
