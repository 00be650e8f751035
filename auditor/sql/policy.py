"""What a policy comes to when the tenant setting is missing, or empty as PostgreSQL leaves it behind.

The expression is evaluated for a row that has a tenant: its columns are not NULL and not ''. What a row or another
setting decides is left open, and carried through as every possibility.

AND and OR: PostgreSQL promises no order of evaluation, and its planner looks at stable functions before any row is
seen. So where one side is certain to decide and the other raises, the outcome is "depends". Where the deciding side
is only the row's data, some row makes it raise: if no row is shown either, the outcome is "raises".
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from auditor.sql.logic import Value


class Outcome(str, enum.Enum):
    """What happens to a row that has a tenant."""

    HIDES = "hides"
    SHOWS = "shows"
    RAISES = "raises"
    DEPENDS = "depends"


class Outcomes(NamedTuple):
    """What an expression comes to in both cases, and the names of all settings it reads, tenant's or not."""

    missing: Outcome
    empty: Outcome
    settings: tuple[str, ...]
    reads_tenant: bool


def outcomes(expression: str, functions: Mapping[str, str], is_tenant: Callable[[str], bool]) -> Outcomes:
    """What a policy's expression comes to.

    `functions` are the SQL functions it may call: the name in lower case, and the expression they return. Never raises:
    what cannot be read depends.
    """
    from auditor.sql.evaluate import Situation

    found = []
    settings: dict[str, None] = {}
    for state in (None, ""):
        situation = Situation(functions, is_tenant, state)
        try:
            found.append(_outcome(situation.value_of(expression)))
        except RecursionError:
            found.append(Outcome.DEPENDS)
        settings |= situation.settings
    missing, empty = found
    return Outcomes(missing, empty, tuple(settings), any(is_tenant(name) for name in settings))


def _outcome(value: Value) -> Outcome:
    from auditor.sql import logic

    value = logic.truth(value)
    if value <= logic.HIDING:
        return Outcome.HIDES
    if value == logic.TRUE:
        return Outcome.SHOWS
    if logic.RAISE_ in value and not value & {logic.TRUE_, logic.MAY_SHOW_}:
        return Outcome.RAISES
    return Outcome.DEPENDS
