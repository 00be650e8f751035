"""Which columns of a model tell one row from all others: the only one of its primary key, and those that are unique."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.python import nodes
from auditor.timeline.model.values import Literal, Made

if TYPE_CHECKING:
    from collections.abc import Iterable

    from auditor.timeline.model.values import Value


def is_key(member: nodes.Node, members: Iterable[nodes.Node]) -> bool:
    """Whether a column is such a one, going by how a class declares it among its members."""
    if _says(member, "unique"):
        return True
    return _says(member, "primary_key") and sum(_says(one, "primary_key") for one in members) == 1


def _says(member: nodes.Node, option: str) -> bool:
    made = member.value if isinstance(member, nodes.Assign) else None
    given = made.keywords if isinstance(made, nodes.Call) else ()
    return any(name == option and isinstance(value, nodes.Constant) and value.value is True for name, value in given)


def keys_of(columns: Iterable[Value]) -> frozenset[Made]:
    """Those among the columns with which a table is made."""
    made = [column for column in columns if isinstance(column, Made)]
    primary = [column for column in made if _is_told(column, "primary_key")]
    unique = (column for column in made if _is_told(column, "unique"))
    return frozenset((*unique, *(primary if len(primary) == 1 else ())))


def _is_told(column: Made, option: str) -> bool:
    return dict(column.keywords).get(option) == Literal(True)
