"""Annotations whose types stand in quotes."""

from __future__ import annotations

import ast


def unquoted(node: ast.expr) -> ast.expr:
    """The annotation with what is quoted in it as code. It changes the node it is given."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _parsed(node, node.value)
    if isinstance(node, ast.Subscript):
        _unquote_arguments(node)
    elif isinstance(node, (ast.Tuple, ast.List)):
        node.elts = [unquoted(item) for item in node.elts]
    elif isinstance(node, ast.BinOp):
        node.left, node.right = unquoted(node.left), unquoted(node.right)
    return node


def _unquote_arguments(node: ast.Subscript) -> None:
    name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    if name == "Annotated" and isinstance(node.slice, ast.Tuple) and node.slice.elts:
        node.slice.elts[0] = unquoted(node.slice.elts[0])
    elif name not in ("Annotated", "Literal"):
        node.slice = unquoted(node.slice)


def _parsed(node: ast.Constant, code: str) -> ast.expr:
    if not code.strip():
        return node
    try:
        # In brackets, lines and indentation mean nothing; the line end keeps a comment from taking the bracket in.
        parsed = ast.parse(f"({code}\n)", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return node
    for inner in ast.walk(parsed):
        if hasattr(inner, "lineno"):
            ast.copy_location(inner, node)
    return unquoted(parsed)
