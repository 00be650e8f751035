"""The model behind a field that leads to another one: `task__status` asks for a column of the task's table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.timeline.model.values import Class, Made, Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from auditor.program.code import ClassInfo

#: Fields that hold the key of one row of another table.
FOREIGN = ("ForeignKey", "OneToOneField", "ForeignKeyField")


def leads_to(declared: Made | None, classes: Iterable[ClassInfo]) -> ClassInfo | None:
    """The class that a foreign key is declared for, by itself or by a name that only one class has."""
    if declared is None or declared.name.rpartition(".")[2] not in FOREIGN:
        return None
    target = declared.arguments[0] if declared.arguments else dict(declared.keywords).get("to")
    if isinstance(target, Class):
        return target.info
    if not isinstance(target, Text):
        return None
    last = target.value.rpartition(".")[2]
    found = [info for info in classes if info.node.name == last]
    return found[0] if len(found) == 1 else None
