"""Statements of `ast` made into nodes: one small function a kind of statement, in a table by its class.

A statement may leave one node, several (`import a, b`) or none (`pass`, a docstring); so each function adds to a list.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from auditor.python import patterns
from auditor.python.expressions import (
    Reading,
    annotation,
    expression,
    keywords,
    maybe,
    operator,
    parameters,
    several,
    span,
)
from auditor.python.nodes import (
    Assert,
    Assign,
    Augment,
    Break,
    Case,
    Class,
    Continue,
    Delete,
    Do,
    For,
    Function,
    Handler,
    If,
    Import,
    Match,
    Module,
    Raise,
    Return,
    Scope,
    Text,
    Try,
    While,
    With,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from auditor.python.nodes import Node, Span

    Found = list[Node]


def lower(tree: ast.Module, lines: Sequence[bytes]) -> Module:
    """The module of a tree. `lines` are those of its source, in UTF-8 and without their ends.

    Raises RecursionError where it is nested deeper than Python calls may be.
    """
    return Module(_block(tree.body, Reading(lines, [])))


def _block(statements: Sequence[ast.stmt], reading: Reading) -> tuple[Node, ...]:
    found: Found = []
    for statement in statements:
        _TABLE[type(statement)](statement, reading, found)
    return tuple(found)


# Simple statements


def _expr(node: ast.Expr, reading: Reading, found: Found) -> None:
    value = expression(node.value, reading)
    if type(value) is not Text or not all(isinstance(piece, str) for piece in value.pieces):
        found.append(Do(value, span(node)))


def _assign(node: ast.Assign, reading: Reading, found: Found) -> None:
    value = expression(node.value, reading)
    found.append(Assign(several(node.targets, reading), value, None, span(node)))


def _annotated(node: ast.AnnAssign, reading: Reading, found: Found) -> None:
    target, kind = expression(node.target, reading), annotation(node.annotation, reading)
    found.append(Assign((target,), maybe(node.value, reading), kind, span(node)))


def _alias(node: Any, reading: Reading, found: Found) -> None:
    found.append(Assign((expression(node.name, reading),), expression(node.value, reading), None, span(node)))


def _augment(node: ast.AugAssign, reading: Reading, found: Found) -> None:
    target, value = expression(node.target, reading), expression(node.value, reading)
    found.append(Augment(target, operator(node.op), value, span(node)))


def _return(node: ast.Return, reading: Reading, found: Found) -> None:
    found.append(Return(maybe(node.value, reading), span(node)))


def _raise(node: ast.Raise, reading: Reading, found: Found) -> None:
    found.append(Raise(maybe(node.exc, reading), span(node)))


def _assert(node: ast.Assert, reading: Reading, found: Found) -> None:
    found.append(Assert(expression(node.test, reading), span(node)))


def _delete(node: ast.Delete, reading: Reading, found: Found) -> None:
    found.append(Delete(several(node.targets, reading), span(node)))


def _break(node: ast.Break, _: Reading, found: Found) -> None:
    found.append(Break(span(node)))


def _continue(node: ast.Continue, _: Reading, found: Found) -> None:
    found.append(Continue(span(node)))


def _pass(*_: object) -> None:
    """Leaves nothing."""


def _scope(node: ast.Global | ast.Nonlocal, _: Reading, found: Found) -> None:
    kind = "global" if isinstance(node, ast.Global) else "nonlocal"
    found.append(Scope(kind, tuple(node.names), span(node)))


def _import(node: ast.Import, _: Reading, found: Found) -> None:
    for alias in node.names:
        module = alias.name if alias.asname else alias.name.partition(".")[0]
        found.append(Import(module, None, alias.asname or module, 0, alias.name, span(alias)))


def _import_from(node: ast.ImportFrom, _: Reading, found: Found) -> None:
    module, level = node.module or "", node.level
    for alias in node.names:
        found.append(Import(module, alias.name, alias.asname or alias.name, level, module, span(alias)))


# Branches and loops


def _if(node: ast.If, reading: Reading, found: Found) -> None:
    """A chain of elif nests as deep as it is long: it is read in a loop, from its end."""
    chain = [node]
    while len(orelse := chain[-1].orelse) == 1 and isinstance(orelse[0], ast.If):
        chain.append(orelse[0])
    rest = _block(chain[-1].orelse, reading)
    for branch in reversed(chain):
        rest = _branch(branch, rest, reading)
    found += rest


def _branch(node: ast.If, orelse: tuple[Node, ...], reading: Reading) -> tuple[Node, ...]:
    body = _block(node.body, reading)
    if _checks_types(node.test):
        return (*_imports(body), *orelse)
    if isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not) and _checks_types(node.test.operand):
        return (*body, *_imports(orelse))
    return (If(expression(node.test, reading), body, orelse, span(node)),)


def _checks_types(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return bool(name == "TYPE_CHECKING")


def _imports(body: Sequence[Node]) -> Iterator[Import]:
    """The imports of a block that only type checkers run: they name the types of annotations."""
    for node in body:
        if isinstance(node, Import):
            yield node
        elif isinstance(node, If):
            yield from _imports(node.body + node.orelse)
        elif isinstance(node, Try):
            handled = [inner for handler in node.handlers for inner in handler.body]
            yield from _imports([*node.body, *handled, *node.orelse, *node.final])


def _while(node: ast.While, reading: Reading, found: Found) -> None:
    test = expression(node.test, reading)
    found.append(While(test, _block(node.body, reading), _block(node.orelse, reading), span(node)))


def _for(node: ast.For | ast.AsyncFor, reading: Reading, found: Found) -> None:
    target, iterable = expression(node.target, reading), expression(node.iter, reading)
    body, orelse = _block(node.body, reading), _block(node.orelse, reading)
    found.append(For(target, iterable, body, orelse, isinstance(node, ast.AsyncFor), span(node)))


def _match(node: ast.Match, reading: Reading, found: Found) -> None:
    subject = expression(node.subject, reading)
    found.append(Match(subject, tuple([_case(case, reading) for case in node.cases]), span(node)))


def _case(node: ast.match_case, reading: Reading) -> Case:
    pattern, guard = node.pattern, maybe(node.guard, reading)
    always = guard is None and patterns.matches_all(pattern)
    return Case(patterns.values(pattern, reading), patterns.names(pattern), guard, _block(node.body, reading), always)


# Blocks that are left in more than one way


def _with(node: ast.With | ast.AsyncWith, reading: Reading, found: Found) -> None:
    items = tuple([(expression(item.context_expr, reading), maybe(item.optional_vars, reading)) for item in node.items])
    found.append(With(items, _block(node.body, reading), isinstance(node, ast.AsyncWith), span(node)))


def _try(node: Any, reading: Reading, found: Found) -> None:
    body = _block(node.body, reading)
    handlers = tuple([_handler(handler, reading) for handler in node.handlers])
    orelse, final = _block(node.orelse, reading), _block(node.finalbody, reading)
    found.append(Try(body, handlers, orelse, final, span(node)))


def _handler(node: ast.ExceptHandler, reading: Reading) -> Handler:
    return Handler(maybe(node.type, reading), node.name, _block(node.body, reading), span(node))


# Functions and classes


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, reading: Reading, found: Found) -> None:
    decorators = several(node.decorator_list, reading)
    given, returns = parameters(node.args, reading), annotation(node.returns, reading)
    inside = Reading(reading.lines, [])
    body = _block(node.body, inside)
    is_async, yields = isinstance(node, ast.AsyncFunctionDef), bool(inside.yields)
    place = span(node)
    found.append(
        Function(node.name, given, body, decorators, returns, is_async, yields, place, _name_span(node, reading))
    )


def _class(node: ast.ClassDef, reading: Reading, found: Found) -> None:
    decorators, bases = several(node.decorator_list, reading), several(node.bases, reading)
    named, body = keywords(node.keywords, reading), _block(node.body, reading)
    found.append(Class(node.name, bases, named, decorators, body, span(node), _name_span(node, reading)))


_HEAD = re.compile(rb"(?:async[ \t\f]+)?(?:def|class)[ \t\f]+([^\s(:\[\\]+)")


def _name_span(node: ast.stmt, reading: Reading) -> Span:
    """The place of the name that is defined; of the first word, should the name stand on another line."""
    line = node.lineno
    head = _HEAD.match(reading.lines[line - 1], node.col_offset)
    return (line, head.start(1), line, head.end(1)) if head else (line, node.col_offset, line, node.col_offset + 5)


_STATEMENTS: dict[str, Callable[[Any, Reading, Found], None]] = {
    "AnnAssign": _annotated,
    "Assert": _assert,
    "Assign": _assign,
    "AsyncFor": _for,
    "AsyncFunctionDef": _function,
    "AsyncWith": _with,
    "AugAssign": _augment,
    "Break": _break,
    "ClassDef": _class,
    "Continue": _continue,
    "Delete": _delete,
    "Expr": _expr,
    "For": _for,
    "FunctionDef": _function,
    "Global": _scope,
    "If": _if,
    "Import": _import,
    "ImportFrom": _import_from,
    "Match": _match,
    "Nonlocal": _scope,
    "Pass": _pass,
    "Raise": _raise,
    "Return": _return,
    "Try": _try,
    "TryStar": _try,
    "TypeAlias": _alias,
    "While": _while,
    "With": _with,
}

#: By class; TryStar and TypeAlias are not known to every Python.
_TABLE = {getattr(ast, name): read for name, read in _STATEMENTS.items() if hasattr(ast, name)}
