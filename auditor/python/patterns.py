"""The patterns of a match statement, down to what the audit asks of them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from auditor.python.expressions import expression, span
from auditor.python.nodes import Constant

if TYPE_CHECKING:
    from auditor.python.expressions import Reading
    from auditor.python.nodes import Expression


def values(pattern: ast.pattern, reading: Reading) -> tuple[Expression, ...]:
    """What the pattern is equal to; nothing where it matches anything else too."""
    if isinstance(pattern, ast.MatchValue):
        return (expression(pattern.value, reading),)
    if isinstance(pattern, ast.MatchSingleton):
        return (Constant(pattern.value, span(pattern)),)
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        return values(pattern.pattern, reading)
    if isinstance(pattern, ast.MatchOr):
        choices = [values(choice, reading) for choice in pattern.patterns]
        return tuple([value for choice in choices for value in choice]) if all(choices) else ()
    return ()


def names(pattern: ast.pattern) -> tuple[str, ...]:
    """What the pattern binds, each name once."""
    found: dict[str, None] = {}
    waiting: list[ast.AST] = [pattern]
    while waiting:
        node = waiting.pop()
        waiting += reversed(list(ast.iter_child_nodes(node)))
        name = node.rest if isinstance(node, ast.MatchMapping) else getattr(node, "name", None)
        if isinstance(node, ast.pattern) and name:
            found[name] = None
    return tuple(found)


def matches_all(pattern: ast.pattern) -> bool:
    """It is a wildcard or binds whatever comes."""
    if isinstance(pattern, ast.MatchAs):
        return pattern.pattern is None or matches_all(pattern.pattern)
    return isinstance(pattern, ast.MatchOr) and any(matches_all(choice) for choice in pattern.patterns)
