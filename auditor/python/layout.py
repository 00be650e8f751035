"""What a tree does not tell of a file: the comments that speak to the audit, and where long statements end."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from auditor.python.nodes import Comment
from auditor.python.scan import ScanError, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TOOL = "tenant-audit"


def comments(source: str) -> tuple[Comment, ...]:
    """The comments that name the tool. Those inside the holes of f-strings are not looked for."""
    return tuple(_comments(source)) if TOOL in source else ()


def _comments(source: str) -> Iterator[Comment]:
    try:
        for token in tokens(source):
            if token.kind == "comment" and TOOL in token.text:
                before = source[source.rfind("\n", 0, token.start) + 1 : token.start]
                line = source.count("\n", 0, token.start) + 1
                yield Comment(token.text, line, len(before.encode()), not before.strip())
    except ScanError:
        return


def long_statements(tree: ast.Module, lines: Sequence[bytes]) -> tuple[tuple[int, int], ...]:
    """(first line, last line) of the simple statements, headers and decorators that span more than one line."""
    found: list[tuple[int, int]] = []
    waiting: list[Any] = list(tree.body)
    while waiting:
        node = waiting.pop()
        inside = [inner for field in _BLOCKS for inner in getattr(node, field, ())]
        waiting += inside
        found += [(decorator.lineno, decorator.end_lineno) for decorator in getattr(node, "decorator_list", ())]
        place = node.pattern if isinstance(node, ast.match_case) else node
        if not inside:
            found.append((place.lineno, place.end_lineno))
        elif place.end_lineno > place.lineno or isinstance(node, ast.match_case):
            found.append((place.lineno, _header_end(lines, place, inside[0])))
    return tuple(sorted({(first, last) for first, last in found if last > first}))


_BLOCKS = ("body", "cases", "handlers", "orelse", "finalbody")


def _header_end(lines: Sequence[bytes], node: Any, first: Any) -> int:
    """The line of the colon that ends the header of a compound statement."""
    begin = first.pattern if isinstance(first, ast.match_case) else first
    start: int = node.lineno
    last: int = begin.lineno
    if last <= start + 1 or lines[start - 1].rstrip().endswith(b":"):
        return start
    return start + _lines_to_colon(b"\n".join(lines[start - 1 : last])[node.col_offset :].decode(errors="replace"))


def _lines_to_colon(text: str) -> int:
    depth = lambdas = 0
    try:
        for token in tokens(text):
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            lambdas += depth <= 0 and token.text == "lambda"
            if token.text == ":" and depth <= 0:
                if not lambdas:
                    return text.count("\n", 0, token.start)
                lambdas -= 1
    except ScanError:
        pass
    return 0
