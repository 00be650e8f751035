"""What a SQL function's statements do with what its caller passes: parameters and variables are values, no columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.meaning import Query, Term, TermKind

if TYPE_CHECKING:
    from auditor.sql.meaning import Function, Statement


def body_of(function: Function) -> tuple[Statement, ...]:
    """The statements of a function, in which the names of its parameters and variables stand for values."""
    names = frozenset(name.lower() for name in (*function.parameters, *function.variables) if name)
    if not names:
        return function.body
    return tuple(
        statement._replace(queries=tuple(_given(query, names) for query in statement.queries))
        for statement in function.body
    )


def _given(query: Query, names: frozenset[str]) -> Query:
    # A name that is also the column's own is ambiguous, and PostgreSQL takes it for the column.
    conditions = tuple(found._replace(value=_value(found.value, names - {found.column})) for found in query.conditions)
    assignments = tuple(made._replace(value=_value(made.value, names - {made.column})) for made in query.assignments)
    return query._replace(conditions=conditions, assignments=assignments)


def _value(term: Term, names: frozenset[str]) -> Term:
    if term.kind is TermKind.COLUMN and term.text in names:
        return term._replace(kind=TermKind.PARAMETER)
    return term._replace(parts=tuple(_value(part, names) for part in term.parts)) if term.parts else term
