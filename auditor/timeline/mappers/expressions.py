"""What the ORMs of Django and Tortoise are told about columns: lookups, Q, F and reckoning, as parts of SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.words import is_status
from auditor.timeline.mappers.written import Piece, around, joined, name, plain, where
from auditor.timeline.model.invocation import OPEN
from auditor.timeline.model.values import (
    FALSE,
    NONE,
    UNKNOWN,
    Items,
    Literal,
    Made,
    Query,
    Text,
    Value,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from auditor.timeline.model.invocation import Keywords

#: The value of a field of a row, as Python reads it from an object.
FIELD = "<field>"
#: What an operator makes of columns and values.
OPERATED = "<operated>"

_COMPARES = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "exact": "=", "iexact": "="}
_LIKE = frozenset(
    {"contains", "icontains", "startswith", "istartswith", "endswith", "iendswith", "regex", "iregex", "search"}
)
_LOOKUPS = frozenset({*_COMPARES, *_LIKE, "in", "isnull", "range"})


def is_expression(value: Value) -> bool:
    """Whether an operator on the value makes SQL of it."""
    if not isinstance(value, Made):
        return False
    return value.name in (FIELD, OPERATED) or value.name.startswith(("django.db.models.", "tortoise.expressions."))


class Expressions:
    """Writes them for the fields of one model.

    `column` tells the column of a field; `subquery` writes a query inside of another; `related` tells the table that
    a field leads to.
    """

    def __init__(
        self,
        column: Callable[[str], str],
        subquery: Callable[[Query], Piece],
        related: Callable[[str], tuple[str, Expressions] | None],
    ) -> None:
        self._column = column
        self._subquery = subquery
        self._related = related

    def column(self, field: str) -> str:
        return name(self._column(field))

    def conditions(self, positional: tuple[Value, ...], named: Keywords) -> tuple[Piece, ...]:
        """The arguments of filter()."""
        found = [self._q(value) for value in positional]
        found += [self._lookup(field, value) for field, value in named]
        return tuple(found)

    def negated(self, positional: tuple[Value, ...], named: Keywords) -> tuple[Piece, ...]:
        """The arguments of exclude()."""
        inner = self.conditions(positional, named)
        return (around("NOT (", joined(" AND ", inner), ")"),) if inner else ()

    def _q(self, value: Value) -> Piece:
        if isinstance(value, Made) and value.name.rpartition(".")[2] == "Q":
            inner = self.conditions(value.arguments, value.keywords)
            return around("(", joined(" AND ", inner), ")") if inner else Piece("TRUE")
        if isinstance(value, Made) and value.name == OPERATED:
            operator, left, right = value.arguments
            if operator in (Text("&"), Text("|")):
                word = " AND " if operator == Text("&") else " OR "
                return around("(", joined(word, [self._q(left), self._q(right)]), ")")
        return Piece("%s", (value,))

    def _lookup(self, field: str, value: Value) -> Piece:
        path = field.split("__")
        lookup = path.pop() if len(path) > 1 and path[-1] in _LOOKUPS else "exact"
        if field == OPEN or len(path) > 1:
            # Of a related row, or computed: it narrows, and nobody can tell how.
            return self._of_related(path, lookup, value) or Piece("%s", (value,))
        column = self.column(path[0])
        if lookup == "isnull":
            return Piece(f"{column} IS {'NOT ' if value == FALSE else ''}NULL")
        if lookup == "in":
            return self._among(column, value)
        if lookup == "range":
            ends = value.items if isinstance(value, Items) and len(value.items) == 2 else (UNKNOWN, UNKNOWN)
            return around(f"{column} BETWEEN ", joined(" AND ", [self.operand(end) for end in ends]))
        if lookup in _LIKE:
            return around(f"{column} LIKE ", self.operand(value))
        if value == NONE:
            return Piece(f"{column} IS NULL")
        return around(f"{column} {_COMPARES[lookup]} ", self.operand(value))

    def _of_related(self, path: list[str], lookup: str, value: Value) -> Piece | None:
        """The state that the row is asked for to which a field leads: that tells who looks after its jobs."""
        if len(path) != 2 or not is_status(path[1]):
            return None
        related = self._related(path[0])
        if related is None:
            return None
        table, there = related
        condition = there.conditions((), ((f"{path[1]}__{lookup}", value),))
        return around(f"{self.column(path[0])} IN (SELECT id FROM {name(table)}", where(condition), ")")

    def _among(self, column: str, value: Value) -> Piece:
        if isinstance(value, Query):
            return around(f"{column} IN (", self._subquery(value), ")")
        if isinstance(value, Items) and value.items and not value.open:
            return around(f"{column} IN (", joined(", ", [self.operand(item) for item in value.items]), ")")
        return Piece(f"{column} = ANY(%s)", (value,))

    def operand(self, value: Value) -> Piece:
        """A value that a column is compared with."""
        if isinstance(value, Made) and value.name == FIELD:
            return Piece("%s", (value,))
        return self.assigned(value)

    def assigned(self, value: Value) -> Piece:
        """A value that a column is set to."""
        if isinstance(value, Query):
            return around("(", self._subquery(value), ")")
        if isinstance(value, Made):
            last = value.name.rpartition(".")[2]
            first = value.arguments[0] if value.arguments else UNKNOWN
            if value.name == OPERATED:
                return self._operated(value)
            if last == "F" and isinstance(first, Text):
                return Piece(self.column(first.value))
            if last == "Value":
                return self.operand(first)
            if last == "Now" and value.name.startswith("django.db.models.functions"):
                return Piece("statement_timestamp()")
        options = options_of(value)
        return plain(value) if len(options) == 1 else Piece("%s", (value,))

    def _operated(self, value: Made) -> Piece:
        operator, left, right = value.arguments
        if not isinstance(operator, Text) or operator.value not in ("+", "-", "*"):
            return Piece("%s", (value,))
        return joined(f" {operator.value} ", [self._part(left), self._part(right)])

    def _part(self, value: Value) -> Piece:
        if isinstance(value, Made) and value.name == FIELD and isinstance(value.arguments[0], Text):
            return Piece(self.column(value.arguments[0].value))
        return self.assigned(value)


def field(field_name: str, row: bool) -> Made:
    """The value of a field, of a row that a claim has returned or of any other."""
    return Made(FIELD, (Text(field_name),), row=row)


def as_number(value: Value | None) -> Piece | None:
    """What stands behind LIMIT."""
    return None if value is None else plain(value) if isinstance(value, Literal) else Piece("%s", (value,))
