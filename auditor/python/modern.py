"""Syntax newer than the running Python, brought into the tree that a newer `ast` would give.

The source is rewritten, line by line, into what every Python we run on parses (`auditor.python.rewrite`). The tree of
that is then mended: marks become what they stand for, and columns are moved back to where they were.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from typing import TYPE_CHECKING

from auditor.python.expressions import Template
from auditor.python.rewrite import rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable

    from auditor.python.rewrite import Content, Edit, Mark

    #: By line: (column in the rewritten source, column in the source), rising.
    Columns = dict[int, list[tuple[int, int]]]


def parse_modern(source: str) -> ast.Module | None:
    """The tree of a source, or None where it has nothing that is newer than Python 3.10.

    Raises ScanError or what `ast.parse` raises; the line numbers of both are right.
    """
    edits, marks = rewrite(source)
    if not edits:
        return None
    rewritten, columns = _apply(source, edits)
    tree = ast.parse(rewritten)
    _mend(tree, marks, columns)
    return tree


_FAR = 1 << 60


def _apply(source: str, edits: Iterable[Edit]) -> tuple[str, Columns]:
    """The edited source, and how its columns go back."""
    parts: list[str] = []
    columns: Columns = {}
    line, read = 1, 0
    old = new = 0  # columns, in bytes
    for edit in edits:
        for kept, written in ((source[read : edit.start],) * 2, (source[edit.start : edit.end], edit.text)):
            old, new = _column(old, kept), _column(new, written)
            line += written.count("\n")
            columns.setdefault(line, []).append((new, old))
            parts.append(written)
        read = edit.end
    parts.append(source[read:])
    return "".join(parts), columns


def _column(column: int, text: str) -> int:
    """The column, in bytes, behind a text that begins at `column`."""
    last = text[text.rfind("\n") + 1 :]
    return len(last.encode("utf-8", "surrogatepass")) + (column if len(last) == len(text) else 0)


def _mend(tree: ast.Module, marks: dict[str, Mark], columns: Columns) -> None:
    """Put back what marks stand for, and every column."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        _move(node, columns)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                value = _meant(value, marks)
                setattr(node, name, value)
                waiting.append(value)
            elif isinstance(value, list):
                value[:] = [_meant(item, marks) if isinstance(item, ast.AST) else item for item in value]
                waiting += [item for item in value if isinstance(item, ast.AST)]


def _move(node: ast.AST, columns: Columns) -> None:
    first = isinstance(node, ast.stmt)
    for line, column in (("lineno", "col_offset"), ("end_lineno", "end_col_offset")):
        known = columns.get(getattr(node, line, 0))
        if known:
            setattr(node, column, _original(known, getattr(node, column), first))


def _original(known: list[tuple[int, int]], column: int, first: bool) -> int:
    """The column before the edits. What stands inside an edit is where its end is, at most.

    What begins where something was taken away stands behind that, or before it if it is to be `first`.
    """
    at = bisect_right(known, (column, -1 if first else _FAR)) - 1
    if first and at + 1 < len(known) and known[at + 1][0] == column:
        at += 1
    if at < 0:
        return column
    moved = known[at][1] + column - known[at][0]
    return min(moved, known[at + 1][1]) if at + 1 < len(known) else moved


def _meant(node: ast.AST, marks: dict[str, Mark]) -> ast.AST:
    """What a marked call stands for; any other node as it is."""
    mark = marks.get(node.func.id) if type(node) is ast.Call and type(node.func) is ast.Name else None
    if mark is None:
        return node
    assert isinstance(node, ast.Call)
    if mark.content is None:
        return ast.copy_location(ast.Starred(node.args[0], ast.Load()), node)
    return _joined(node, mark.content, Template if mark.template else ast.JoinedStr)


def _joined(node: ast.Call, content: Iterable[Content], kind: type[ast.JoinedStr]) -> ast.JoinedStr:
    values: list[ast.expr] = []
    for piece in content:
        if isinstance(piece, str):
            value: ast.expr = ast.Constant(piece)
        else:
            spec = _joined(node, piece.spec, ast.JoinedStr) if piece.spec else None
            value = ast.FormattedValue(
                node.args[piece.argument], ord(piece.conversion) if piece.conversion else -1, spec
            )
        values.append(ast.copy_location(value, node))
    return ast.copy_location(kind(values), node)
