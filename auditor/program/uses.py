"""What variables and attributes are told to be by how they are used, where nothing else tells what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.program.tree import descend, last_name
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from auditor.program.code import ClassInfo, FunctionInfo

#: Methods that take a statement made by text(), and the word that nothing else is made by.
_TAKES = frozenset({"execute", "exec", "scalar", "scalars", "stream"})
_TEXT = "text"
_CLOSES = frozenset({"close", "aclose", "remove"})


class Use(NamedTuple):
    """What takes statements of text(): from coroutines or not, and whether the same function closes it."""

    awaited: bool
    closed: bool


def of_function(info: FunctionInfo) -> Mapping[str, Use]:
    """The variables of a function to which it gives statements that it makes by text()."""
    return {name: use for name, use in _uses(info.node) if "." not in name}


def is_awaited(info: FunctionInfo, name: str) -> bool:
    """Whether a function waits for what the methods of one of its variables give."""
    awaited = (part.value for part in descend(info.node, into_functions=False) if isinstance(part, nodes.Await))
    return any(isinstance(call, nodes.Call) and _named(call) == name for call in awaited)


def of_class(info: ClassInfo) -> Mapping[str, Use]:
    """The same of the attributes of a class's objects."""
    methods = [member for member in info.members.values() if isinstance(member, nodes.Function)]
    found = {name: use for method in methods for name, use in _uses(method) if name.startswith("self.")}
    return {name.removeprefix("self."): use for name, use in found.items()}


def _uses(node: nodes.Function) -> Iterator[tuple[str, Use]]:
    parts = list(descend(node, into_functions=False))
    calls = [part for part in parts if isinstance(part, nodes.Call) and isinstance(part.function, nodes.Attribute)]
    made = {
        target.id
        for part in parts
        if isinstance(part, nodes.Assign) and _makes_text(part.value)
        for target in part.targets
        if isinstance(target, nodes.Name)
    }
    awaited = {id(part.value) for part in parts if isinstance(part, nodes.Await)}
    closed = {_named(call) for call in calls if _method(call) in _CLOSES}
    for call in calls:
        first = call.arguments[0] if call.arguments else None
        given = _makes_text(first) or (isinstance(first, nodes.Name) and first.id in made)
        name = _named(call)
        if given and name and _method(call) in _TAKES:
            yield name, Use(id(call) in awaited, name in closed)


def _makes_text(value: object) -> bool:
    """`text(…)`, and what is put to its parameters: `text(…).bindparams(…)`."""
    while isinstance(value, nodes.Call) and isinstance(value.function, nodes.Attribute):
        if value.function.name == _TEXT:
            return True
        value = value.function.value
    return isinstance(value, nodes.Call) and last_name(value.function) == _TEXT


def _method(call: nodes.Call) -> str:
    return last_name(call.function)


def _named(call: nodes.Call) -> str:
    """What a method is called on: `db`, `self.db`; empty for anything longer."""
    on = call.function.value if isinstance(call.function, nodes.Attribute) else None
    if isinstance(on, nodes.Name):
        return on.id
    if isinstance(on, nodes.Attribute) and isinstance(on.value, nodes.Name) and on.value.id == "self":
        return f"self.{on.name}"
    return ""
