"""States of jobs that reach a statement from outside: `SET status = %s`, where the caller passes 'done'; errors too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql import words
from auditor.sql.meaning import Query, Statement, Term, TermKind

if TYPE_CHECKING:
    from auditor.timeline.computing.bindings import Bindings

_OPEN = (TermKind.PARAMETER, TermKind.HOLE)


class StatesGiven:
    """Statements with the states that are passed to them written in; equal ones are the same statement."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[tuple[str, ...], ...]], Statement] = {}

    def fill(self, statement: Statement, bindings: Bindings) -> Statement:
        """The statement as the server would get it, as far as states go, and what went wrong."""
        terms = [term for query in statement.queries for term in _states_of(query)]
        if not terms:
            return statement
        texts = tuple(bindings.alternatives(term) for term in terms)
        if not any(texts):
            return statement
        key = (id(statement), texts)
        if key not in self._known:
            given = {term: options for term, options in zip(terms, texts, strict=True) if options}
            self._known[key] = statement._replace(queries=tuple(_filled(query, given) for query in statement.queries))
        return self._known[key]


def _states_of(query: Query) -> list[Term]:
    """What stands for a state, or for an error, and comes from outside."""
    told = (words.is_status, words.is_error)
    values = [made.value for made in query.assignments if any(named(made.column) for named in told)]
    values += [found.value for found in query.conditions if words.is_status(found.column)]
    return [term for value in values for term in _open_in(value)]


def _open_in(term: Term) -> list[Term]:
    if term.kind in _OPEN:
        return [term]
    return [found for part in term.parts for found in _open_in(part)]


def _filled(query: Query, given: dict[Term, tuple[str, ...]]) -> Query:
    assignments = tuple(made._replace(value=_fill(made.value, given)) for made in query.assignments)
    conditions = tuple(found._replace(value=_fill(found.value, given)) for found in query.conditions)
    return query._replace(assignments=assignments, conditions=conditions)


def _fill(term: Term, given: dict[Term, tuple[str, ...]]) -> Term:
    if term in given:
        literals = tuple(term._replace(kind=TermKind.LITERAL, text=text) for text in given[term])
        # Which of several it is depends on the way that was taken, as in a CASE.
        return literals[0] if len(literals) == 1 else term._replace(kind=TermKind.CASE, text="", parts=literals)
    return term._replace(parts=tuple(_fill(part, given) for part in term.parts)) if term.parts else term
