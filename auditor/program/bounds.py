"""Where Python code compares the number of attempts with a maximum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.program.code import descend
from auditor.python import nodes

if TYPE_CHECKING:
    from auditor.program.code import ModuleInfo

#: What the names of attempt counters are made of.
_COUNTERS = ("attempt", "retr", "tries", "failure", "fail_count", "deliver", "error_count", "receive_count", "read_ct")


def compares_attempts(module: ModuleInfo) -> bool:
    """Whether a module has a comparison by size in which the name of an attempt counter stands."""
    return any(
        any(operator in ("<", "<=", ">", ">=") for operator in part.operators)
        and any(_is_counter(side) for side in (part.left, *part.rights))
        for part in descend(module.facts.module)
        if isinstance(part, nodes.Compare)
    )


def _is_counter(expression: nodes.Expression) -> bool:
    """A name, attribute or key that counts attempts; what is added to it changes nothing."""
    for part in descend(expression):
        name = ""
        if isinstance(part, nodes.Name):
            name = part.id
        elif isinstance(part, nodes.Attribute):
            name = part.name
        elif isinstance(part, nodes.Text) and len(part.pieces) == 1 and isinstance(part.pieces[0], str):
            name = part.pieces[0]
        if any(word in name.lower() for word in _COUNTERS):
            return True
    return False
