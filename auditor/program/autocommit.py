"""Whether what a module puts in autocommit can be what others are given.

A connection that a function opens, uses and drops is nobody else's: that it is in autocommit says nothing of the
sessions that other functions are handed. What a function hands out, keeps or was handed itself may be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.program.tree import descend, last_name, statements_in
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.program.code import ModuleInfo

_WORD = "autocommit"
#: Calls that open what the caller then has for itself.
_OPENERS = frozenset(
    {"connect", "connection", "begin", "acquire", "getconn", "raw_connection", "create_engine", "create_async_engine"}
)
#: Calls that give what works on the thing that they are called on.
_VIEWS = _OPENERS | {"cursor", "execution_options", "session", "transaction", "begin_nested"}
_SCOPES = (nodes.Function, nodes.Class)


def hands_out_autocommit(module: ModuleInfo) -> bool:
    """Whether a module puts something in autocommit that may reach those who do not see it being opened."""
    bodies = [module.facts.module.body, *(one.node.body for one in module.classes())]
    if any(_says(head) for body in bodies for statement in statements_in(body) for head in _heads(statement)):
        return True
    return any(_leaves(info.node) for info in module.functions())


def _heads(statement: nodes.Node) -> tuple[object, ...]:
    """What a statement is made of, without the statements that stand in it."""
    if isinstance(statement, (nodes.If, nodes.While)):
        return (statement.test,)
    if isinstance(statement, nodes.For):
        return (statement.iterable,)
    if isinstance(statement, nodes.With):
        return tuple(context for context, _ in statement.items)
    if isinstance(statement, nodes.Match):
        return (statement.subject,)
    return () if isinstance(statement, (nodes.Try, *_SCOPES)) else (statement,)


# What says it


def _says(head: object) -> bool:
    """Whether something is put in autocommit: reading whether something is, or turning it off, is not that."""
    parts = list(descend(head))
    off = {
        id(key)
        for part in parts
        if isinstance(part, nodes.Mapping)
        for key, value in part.pairs
        if key is not None and _is_off(value)
    }
    return any(_switches(part) for part in parts if id(part) not in off)


def _switches(part: object) -> bool:
    if isinstance(part, nodes.Text):
        return len(part.pieces) == 1 and str(part.pieces[0]).lower() == _WORD
    if isinstance(part, nodes.Call):
        if last_name(part.function) == f"set_{_WORD}":
            return not (part.arguments and _is_off(part.arguments[0]))
        return any(name is not None and _WORD in name and not _is_off(value) for name, value in part.keywords)
    if isinstance(part, nodes.Assign):
        named = any(isinstance(target, nodes.Attribute) and target.name == _WORD for target in part.targets)
        return named and part.value is not None and not _is_off(part.value)
    return last_name(part).endswith(_WORD.upper())


def _is_off(value: object) -> bool:
    """Whether it is off, or what somebody else says."""
    return (isinstance(value, nodes.Constant) and value.value is False) or last_name(value) == _WORD


# Who has it then


def _leaves(function: nodes.Function) -> bool:
    """Whether what a function puts in autocommit may be used by those who did not see that."""
    asked = (one for one in function.parameters if _WORD in one.name)
    if any(one.default is None or not _is_off(one.default) for one in asked):
        return True
    statements = list(statements_in(function.body))
    said = [one for one in statements if any(_says(head) for head in _heads(one))]
    if not said:
        return False
    mine = set(_opened(statements)) - _escaping(function, statements)
    return not all(_is_own(one, mine) for one in said)


def _opened(statements: list[nodes.Node]) -> Iterator[str]:
    """The names under which a function has what it opened."""
    for one in statements:
        if isinstance(one, nodes.Assign) and _opens(one.value):
            yield from (target.id for target in one.targets if isinstance(target, nodes.Name))
        elif isinstance(one, nodes.With):
            yield from (
                target.id for context, target in one.items if isinstance(target, nodes.Name) and _opens(context)
            )


def _opens(value: object) -> bool:
    return any(isinstance(part, nodes.Call) and last_name(part.function) in _OPENERS for part in descend(value))


def _is_own(statement: nodes.Node, mine: set[str]) -> bool:
    """Whether what a statement puts in autocommit is what its function has for itself."""
    if isinstance(statement, nodes.With):
        return all(
            not _says(context) or (_opens(context) and (target is None or last_name(target) in mine))
            for context, target in statement.items
        )
    if isinstance(statement, nodes.Assign):
        (target, *more) = statement.targets
        owner = target.value if isinstance(target, nodes.Attribute) else target
        return not more and isinstance(owner, nodes.Name) and owner.id in mine
    if isinstance(statement, nodes.Do):
        return _base(statement.value) in mine
    return False


def _base(expression: object) -> str:
    """The name that a chain of calls and attributes begins with."""
    while not isinstance(expression, nodes.Name):
        if isinstance(expression, (nodes.Await, nodes.Attribute)):
            expression = expression.value
        elif isinstance(expression, nodes.Call):
            expression = expression.function
        else:
            return ""
    return expression.id


def _escaping(function: nodes.Function, statements: list[nodes.Node]) -> set[str]:
    """The names of what a function hands out or keeps, in any form that can still be worked with."""
    names = {name for one in statements if isinstance(one, nodes.Scope) for name in one.names}
    for one in statements:
        if isinstance(one, nodes.Return):
            names |= _handed(one.value)
        elif isinstance(one, nodes.Assign):
            kept = not all(isinstance(target, nodes.Name) for target in one.targets)
            names |= _handed(one.value) if kept or isinstance(one.value, nodes.Name) else set()
        for part in descend(_heads(one)):
            if isinstance(part, nodes.Yield):
                names |= _handed(part.value)
            elif isinstance(part, nodes.Call) and (not isinstance(one, nodes.Do) or _keeps(part)):
                given = (*part.arguments, *(value for _, value in part.keywords))
                names |= {name for value in given for name in _handed(value)}
    return names


def _keeps(call: nodes.Call) -> bool:
    """Whether what is made by a call, or the object that it is a method of, may keep what it is given."""
    return last_name(call.function)[:1].isupper() or _base(call.function) in ("self", "cls")


def _handed(value: object) -> set[str]:
    """The names of what is handed on with a value: itself, what it holds, or what works on it."""
    if isinstance(value, nodes.Name):
        return {value.id}
    if isinstance(value, nodes.Items):
        return {name for item in value.items for name in _handed(item)}
    if isinstance(value, nodes.Mapping):
        return {name for _, item in value.pairs for name in _handed(item)}
    if isinstance(value, (nodes.Await, nodes.Starred)):
        return _handed(value.value)
    if isinstance(value, nodes.Call) and last_name(value.function) in _VIEWS:
        return {_base(value)}
    return set()
