"""Functions that are followed wherever they are called, because what they give tells much and takes little to see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.program.tree import descend, literal
from auditor.python import nodes
from auditor.sql.words import is_attempts, is_status

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Types in which nothing of a text is left but what they allow.
_NARROW = frozenset({"UUID", "int"})
#: What only makes a value plain takes no more statements than these.
_MOST = 6


def is_small(node: nodes.Function) -> bool:
    """A lambda, one that only gives what it knows, or raises where that is not there yet, or one that only converts.

    So is one that says in a dict what is to be written of a job: its state, or its count.
    """
    body = node.body
    if node.name == "<lambda>":
        return True
    given = body[-1].value if body and isinstance(body[-1], nodes.Return) else None
    plain = isinstance(given, (nodes.Name, nodes.Attribute)) or _only_asks(given)
    return (plain and all(map(_only_guards, body[:-1]))) or _only_converts(node) or _gives_columns(body)


def _only_asks(given: object) -> bool:
    """`variable.get()` and `getattr(local, "tenant", None)`: what a thread or a task keeps."""
    if not isinstance(given, nodes.Call) or given.keywords:
        return False
    called, simple = given.function, (nodes.Name, nodes.Text, nodes.Constant)
    asks = isinstance(called, nodes.Attribute) and isinstance(called.value, nodes.Name) and called.name == "get"
    asks = asks or (isinstance(called, nodes.Name) and called.id == "getattr")
    return asks and all(isinstance(argument, simple) for argument in given.arguments)


def _only_guards(part: nodes.Node) -> bool:
    """An assertion, or a condition under which something is raised, and the list of what is allowed."""
    if isinstance(part, nodes.Assign):
        listed = part.value.items if isinstance(part.value, nodes.Items) else ()
        return bool(listed) and all(isinstance(item, (nodes.Text, nodes.Constant)) for item in listed)
    if isinstance(part, nodes.If):
        return not part.orelse and all(isinstance(inner, nodes.Raise) for inner in part.body)
    return isinstance(part, nodes.Assert)


def _only_converts(node: nodes.Function) -> bool:
    """`return str(UUID(text))`, `text.replace("'", "''")`: it gives what cannot end a literal, nothing, or raises."""
    parts = list(_flat(node.body))
    simple = (nodes.Assign, nodes.Return, nodes.Raise, nodes.Assert)
    if len(parts) > _MOST or not all(isinstance(part, simple) for part in parts) or _gives_in(node.body):
        return False
    calls = [part for part in descend(node) if isinstance(part, nodes.Call)]
    return any(_called(call) in _NARROW or _doubles_quotes(call) for call in calls)


def _doubles_quotes(call: nodes.Call) -> bool:
    return _called(call) == "replace" and [literal(argument) for argument in call.arguments] == ["'", "''"]


def _gives_columns(body: tuple[nodes.Node, ...]) -> bool:
    """`return {"attempts": job.attempts + 1, …}`, with little before it."""
    given = body[-1].value if body and isinstance(body[-1], nodes.Return) else None
    if not isinstance(given, nodes.Mapping) or len(list(_flat(body))) > _MOST:
        return False
    names = {literal(key) or "" for key, _ in given.pairs}
    return any(is_attempts(name) or is_status(name) for name in names)


def _flat(body: tuple[nodes.Node, ...]) -> Iterator[nodes.Node]:
    """The statements of a body, those under its conditions and handlers too."""
    for part in body:
        if isinstance(part, nodes.Try):
            for inner in (part.body, part.orelse, part.final, *(handler.body for handler in part.handlers)):
                yield from _flat(inner)
        elif isinstance(part, nodes.If):
            yield from _flat((*part.body, *part.orelse))
        else:
            yield part


def _gives_in(body: tuple[nodes.Node, ...]) -> bool:
    """Whether it gives something all the same where its value is none of the type."""
    tried = (part for part in body if isinstance(part, nodes.Try))
    rescue = [part for one in tried for handler in one.handlers for part in _flat(handler.body)]
    return not all(isinstance(part, nodes.Raise) or _gives_nothing(part) for part in rescue)


def _gives_nothing(part: nodes.Node) -> bool:
    if not isinstance(part, nodes.Return):
        return False
    return part.value is None or (isinstance(part.value, nodes.Constant) and part.value.value is None)


def _called(call: nodes.Call) -> str:
    called = call.function
    return called.id if isinstance(called, nodes.Name) else called.name if isinstance(called, nodes.Attribute) else ""
