"""What a function is told and never looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.program.tree import descend
from auditor.python import nodes

if TYPE_CHECKING:
    from auditor.program.code import FunctionInfo


def unread_parameters(function: FunctionInfo) -> frozenset[str]:
    """The parameters whose names stand nowhere in a function's body; where it looks at all its names, none."""
    told = {parameter.name for parameter in function.node.parameters}
    read = {part.id for part in descend(function.node.body) if isinstance(part, nodes.Name)}
    return frozenset() if read & {"locals", "vars"} else frozenset(told - read)
