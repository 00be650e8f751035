"""By which columns one row of a table is known, whatever these are called: its primary key, and what is unique."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.words import is_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from auditor.sql.meaning import Query, Statement


class Keys:
    """Filled with what definitions and models tell, and told to the statements that name rows by them."""

    def __init__(self) -> None:
        self._of: dict[str, frozenset[str]] = {}
        #: Statements as they are told now, by those that were read; the latter are kept, so that their ids stay theirs.
        self._told: dict[int, tuple[Statement, Statement]] = {}

    def add(self, table: str, columns: Iterable[str]) -> None:
        known = self._of.get(table, frozenset())
        found = known.union(column for column in columns if not is_id(column, table))
        if found != known:
            self._of[table] = found
            self._told.clear()

    def take_over(self, other: Keys) -> None:
        for table, columns in other._of.items():
            self.add(table, columns)

    def told_to(self, statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The statements, which know the keys that they name a row by; the same ones, where there are none."""
        if not self._of:
            return statements
        told = tuple(map(self._with_keys, statements))
        same = all(one is other for one, other in zip(told, statements, strict=True))
        return statements if same else told

    def _with_keys(self, statement: Statement) -> Statement:
        if not (statement.queries or statement.body):
            return statement
        known = self._told.get(id(statement))
        if known is None:
            queries = tuple(map(self._of_query, statement.queries))
            body = self.told_to(statement.body)
            changed = queries != statement.queries or body is not statement.body
            told = statement._replace(queries=queries, body=body) if changed else statement
            known = self._told[id(statement)] = (statement, told)
        return known[1]

    def _of_query(self, query: Query) -> Query:
        keys = self._of.get(query.target.name, frozenset()) if query.target is not None else frozenset()
        named = tuple(sorted(keys.intersection(found.column for found in query.conditions)))
        return query._replace(keys=named) if named else query
