"""What functions keep in an application, or hand to what it calls: `app.state.pool = …`, `ctx["pool"] = …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.program.tree import descend, last_name, literal
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from auditor.program.code import FunctionInfo, ModuleInfo

#: Attributes of an application, of a request or of a worker's context that hold what code keeps there.
STATES = frozenset({"state", "ctx", "context"})
#: Names of what is a dict of such things.
ITEMS = frozenset({"app", "application", "ctx", "context", "request"})
#: What things are kept on as attributes: a state, or the application itself.
_HOLDERS = STATES | {"app", "application", "current_app"}
_WORDS = ITEMS | _HOLDERS

Kept = dict[str, list[tuple["FunctionInfo", nodes.Expression]]]


def item_name(key: str) -> str:
    """Under which name what stands under a key is kept."""
    return f"[{key}]"


def kept_by(modules: Iterable[ModuleInfo]) -> Kept:
    """What is kept, by its name: the functions that do, and the values."""
    found: Kept = {}
    for module in modules:
        if module.words.names.isdisjoint(_WORDS):
            continue
        for function in module.functions():
            if function.words.names.isdisjoint(_WORDS):
                continue
            for part in descend(function.node, into_functions=False):
                if isinstance(part, nodes.Assign) and part.value is not None:
                    for target in part.targets:
                        name = _name_of(target)
                        if name:
                            found.setdefault(name, []).append((function, part.value))
    return found


def _name_of(target: nodes.Expression) -> str:
    if isinstance(target, nodes.Attribute) and last_name(target.value) in _HOLDERS:
        return f"state.{target.name}"
    if not isinstance(target, nodes.Subscript) or last_name(target.value) not in ITEMS:
        return ""
    key = literal(target.key) or last_name(target.key)
    return item_name(key) if key else ""
