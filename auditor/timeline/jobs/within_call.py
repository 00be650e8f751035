"""What a SQL function does to rows that it locks: to its caller it is one statement, and the locks last as long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.meaning import Kind, Statement
from auditor.sql.queue_view import names_one

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.program import Program
    from auditor.timeline.jobs.leases import At

#: So many SQL functions are followed into each other.
_DEEPEST = 6


def changed_in_its_call(program: Program, claim: At) -> bool:
    """Whether the SQL function that locks a row changes rows of that table by their ids before it is over."""
    return any(
        _changes(inner, claim.step.table)
        for body in _bodies_with(program, claim.ran.statement, claim, ())
        for inner in body
    )


def _bodies_with(
    program: Program, statement: Statement, claim: At, above: tuple[str, ...]
) -> Iterator[tuple[Statement, ...]]:
    """The bodies of the functions that a statement calls in which the claim stands, and of those that call them."""
    for call in statement.calls:
        found = program.catalogue.function(call.name)
        if found is None or call.name in above or len(above) >= _DEEPEST:
            continue
        body = program.body_of(found.function)
        own = any(found.locate(step.span) == claim.place for inner in body for step in program.queue_steps(inner))
        deeper = [one for inner in body for one in _bodies_with(program, inner, claim, (*above, call.name))]
        if own or deeper:
            yield body
            yield from deeper


def _changes(statement: Statement, table: str) -> bool:
    return any(
        query.verb in (Kind.UPDATE, Kind.DELETE)
        and query.target is not None
        and query.target.name == table
        and names_one(query)
        for query in statement.queries
    )
