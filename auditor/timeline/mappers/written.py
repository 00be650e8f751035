"""The SQL that an ORM writes for its calls: text with placeholders, and the values that fill them.

What an ORM is asked to do becomes a statement like any other, so that everything that is known of statements holds for
it too. Only what the audit asks of a statement is written: tables, conditions, what is set, locks and limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.timeline.model.values import NONE, Items, Literal, Text, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Texts longer than this are no states, kinds or names.
_LONGEST = 60


class Piece(NamedTuple):
    """A part of a statement, and the values of its placeholders in order."""

    text: str
    values: tuple[Value, ...] = ()


def plain(value: Value) -> Piece:
    """A value: written out where it is a constant, else a placeholder."""
    if value == NONE:
        return Piece("NULL")
    if isinstance(value, Literal):
        return Piece(str(value.value).upper() if isinstance(value.value, bool) else str(value.value))
    if (
        isinstance(value, Text)
        and not value.holes
        and len(value.value) <= _LONGEST
        and not set(value.value) & set("'%\\")
    ):
        return Piece(f"'{value.value}'")
    return Piece("%s", (value,))


def name(column: str) -> str:
    """A table or column as SQL names it."""
    return (
        column
        if column.isidentifier() and column == column.lower()
        else '"' + column.replace('"', "").replace("%", "") + '"'
    )


def joined(separator: str, pieces: Iterable[Piece]) -> Piece:
    parts = list(pieces)
    return Piece(separator.join(part.text for part in parts), tuple(value for part in parts for value in part.values))


def around(before: str, piece: Piece, after: str = "") -> Piece:
    return Piece(before + piece.text + after, piece.values)


def where(conditions: Sequence[Piece]) -> Piece:
    return around(" WHERE ", joined(" AND ", conditions)) if conditions else Piece("")


def select(
    table: str,
    conditions: Sequence[Piece],
    columns: str = "*",
    order: Sequence[str] = (),
    limit: Piece | None = None,
    lock: str = "",
) -> Piece:
    """SELECT columns FROM table WHERE … ORDER BY … LIMIT … FOR UPDATE …"""
    parts = [Piece(f"SELECT {columns} FROM {name(table)}"), where(conditions)]
    if order:
        parts.append(Piece(" ORDER BY " + ", ".join(order)))
    if limit is not None:
        parts.append(around(" LIMIT ", limit))
    if lock:
        parts.append(Piece(f" {lock}"))
    return joined("", parts)


def update(table: str, sets: Sequence[tuple[str, Piece]], conditions: Sequence[Piece]) -> Piece:
    """UPDATE table SET column = …, … WHERE …"""
    changes = joined(", ", [around(f"{name(column)} = ", value) for column, value in sets])
    return joined("", [around(f"UPDATE {name(table)} SET ", changes), where(conditions)])


def insert(table: str, sets: Sequence[tuple[str, Piece]]) -> Piece:
    """INSERT INTO table (…) VALUES (…)"""
    if not sets:
        return Piece(f"INSERT INTO {name(table)} DEFAULT VALUES")
    columns = ", ".join(name(column) for column, _ in sets)
    return around(f"INSERT INTO {name(table)} ({columns}) VALUES (", joined(", ", [value for _, value in sets]), ")")


def delete(table: str, conditions: Sequence[Piece]) -> Piece:
    """DELETE FROM table WHERE …"""
    return joined("", [Piece(f"DELETE FROM {name(table)}"), where(conditions)])


def statement(piece: Piece) -> tuple[Text, Items]:
    """The text to execute, and its parameters."""
    return Text(piece.text), Items("tuple", piece.values)
