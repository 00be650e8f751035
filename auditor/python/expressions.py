"""Expressions of `ast` made into nodes: one small function a kind of expression, in a table by its class.

This runs for every name and every call of a tree: the commonest kinds look into the table and write out their places
themselves, since a call of a function costs as much as all else they do.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from auditor.python.annotations import unquoted
from auditor.python.nodes import (
    Assigned,
    Attribute,
    Await,
    Binary,
    Call,
    Compare,
    Comprehension,
    Conditional,
    Constant,
    Function,
    Items,
    Lambda,
    Logic,
    Mapping,
    Name,
    Not,
    Opaque,
    Parameter,
    Return,
    Starred,
    Subscript,
    Text,
    Yield,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from auditor.python.nodes import Expression, Span


class Template(ast.JoinedStr):
    """A t-string, for a Python whose `ast` has none."""


class Reading(NamedTuple):
    """What is carried along while a function, or what stands outside of all, is read."""

    lines: Sequence[bytes]  #: of the source, in UTF-8
    yields: list[Span]  #: where it yields, as far as it has been read


def expression(node: ast.expr, reading: Reading) -> Expression:
    """The node of an expression."""
    return _TABLE[type(node)](node, reading)


def maybe(node: ast.expr | None, reading: Reading) -> Expression | None:
    return None if node is None else _TABLE[type(node)](node, reading)


def several(values: Sequence[ast.expr], reading: Reading) -> tuple[Expression, ...]:
    return tuple([_TABLE[type(value)](value, reading) for value in values])


def span(node: Any) -> Span:
    """The place of an expression or a statement."""
    return (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)


def _name(node: Any, _: Reading) -> Name:
    return Name(node.id, (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset))


def _attribute(node: Any, reading: Reading) -> Attribute:
    value = node.value
    place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
    return Attribute(_TABLE[type(value)](value, reading), node.attr, place)


def _call(node: Any, reading: Reading) -> Call:
    function = node.func
    return Call(
        _TABLE[type(function)](function, reading),
        tuple([_TABLE[type(value)](value, reading) for value in node.args]),
        keywords(node.keywords, reading) if node.keywords else (),
        (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset),
    )


def keywords(given: Sequence[ast.keyword], reading: Reading) -> tuple[tuple[str | None, Expression], ...]:
    return tuple([(keyword.arg, _TABLE[type(keyword.value)](keyword.value, reading)) for keyword in given])


def _constant(node: Any, _: Reading) -> Expression:
    value = node.value
    place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
    if type(value) is str:
        return Text((value,) if value else (), place)
    if value is None or type(value) in (bool, int, float):
        return Constant(value, place)
    if isinstance(value, bytes):
        return Text((_decoded(value),) if value else (), place)
    return Opaque((), place)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


# Strings with holes


def _joined(node: ast.JoinedStr, reading: Reading) -> Text:
    return Text(_merged(_pieces(node, reading)), span(node))


def _merged(pieces: Iterable[str | Expression]) -> tuple[str | Expression, ...]:
    """The pieces without empty text, and with what stands side by side as one."""
    found: list[str | Expression] = []
    for piece in pieces:
        if isinstance(piece, str) and found and isinstance(found[-1], str):
            found[-1] += piece
        elif piece != "":
            found.append(piece)
    return tuple(found)


def _pieces(node: ast.JoinedStr, reading: Reading) -> Iterator[str | Expression]:
    for value in node.values:
        if isinstance(value, ast.FormattedValue):
            yield from _hole(value, reading)
        elif isinstance(value, ast.Constant):
            yield str(value.value)


def _hole(node: ast.FormattedValue, reading: Reading) -> Iterator[str | Expression]:
    """A string that stands in a hole is read as if it stood outside."""
    value = node.value
    spec = node.format_spec.values if isinstance(node.format_spec, ast.JoinedStr) else []
    if node.conversion in _REPRESENTED or _formats(spec):
        filled = _TABLE[type(value)](value, reading)
        holes = [part for hole in spec if isinstance(hole, ast.FormattedValue) for part in _hole(hole, reading)]
        yield Opaque((filled, *[part for part in holes if not isinstance(part, str)]), filled.span)
    elif type(value) is ast.JoinedStr:
        yield from _pieces(value, reading)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    else:
        yield _TABLE[type(value)](value, reading)


_REPRESENTED = (ord("r"), ord("a"))


def _formats(spec: Sequence[ast.expr]) -> bool:
    return any(not isinstance(part, ast.Constant) or part.value for part in spec)


def _template(node: Any, reading: Reading) -> Text:
    """A t-string hands its holes on as they are; what they are to become is for its reader to say."""
    pieces: list[str | Expression] = []
    formats: list[str] = []
    for value in node.values:
        if isinstance(value, ast.Constant):
            pieces.append(str(value.value))
        else:
            pieces.append(expression(value.value, reading))
            formats.append(_format(value))
    return Text(_merged(pieces), span(node), True, tuple(formats))


def _format(hole: Any) -> str:
    spec = [
        str(part.value) if isinstance(part, ast.Constant) else "{}" for part in getattr(hole.format_spec, "values", [])
    ]
    return (f"!{chr(hole.conversion)}" if hole.conversion > 0 else "") + (":" + "".join(spec) if any(spec) else "")


# Operators


def _unary(node: ast.UnaryOp, reading: Reading) -> Expression:
    value = expression(node.operand, reading)
    if isinstance(node.op, ast.Not):
        return Not(value, span(node))
    if isinstance(value, Constant) and type(value.value) in (int, float) and not isinstance(node.op, ast.Invert):
        number: Any = value.value
        return Constant(-number if isinstance(node.op, ast.USub) else number, span(node))
    return Opaque((value,), span(node))


def _binary(node: ast.BinOp, reading: Reading) -> Expression:
    """A chain `a + b + c + …` leans left as far as it is long: it is read in a loop."""
    chain = [node]
    while isinstance(left := chain[-1].left, ast.BinOp):
        chain.append(left)
    value = expression(chain[-1].left, reading)
    for part in reversed(chain):
        value = Binary(_OPERATORS[type(part.op)], value, expression(part.right, reading), span(part))
    return value


_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.MatMult: "@",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.BitAnd: "&",
}


def operator(node: ast.operator) -> str:
    return _OPERATORS[type(node)]


def _logic(node: ast.BoolOp, reading: Reading) -> Logic:
    return Logic("and" if isinstance(node.op, ast.And) else "or", several(node.values, reading), span(node))


def _compare(node: ast.Compare, reading: Reading) -> Compare:
    operators = tuple([_COMPARISONS[type(compared)] for compared in node.ops])
    return Compare(expression(node.left, reading), operators, several(node.comparators, reading), span(node))


_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


def _conditional(node: ast.IfExp, reading: Reading) -> Conditional:
    return Conditional(
        expression(node.test, reading), expression(node.body, reading), expression(node.orelse, reading), span(node)
    )


# Displays and comprehensions


def _tuple(node: ast.Tuple, reading: Reading) -> Items:
    return Items("tuple", several(node.elts, reading), span(node))


def _list(node: ast.List, reading: Reading) -> Items:
    return Items("list", several(node.elts, reading), span(node))


def _set(node: ast.Set, reading: Reading) -> Items:
    return Items("set", several(node.elts, reading), span(node))


def _dict(node: ast.Dict, reading: Reading) -> Mapping:
    pairs = [
        (maybe(key, reading), expression(value, reading)) for key, value in zip(node.keys, node.values, strict=True)
    ]
    return Mapping(tuple(pairs), span(node))


def _comprehension(node: Any, reading: Reading) -> Comprehension:
    kind = _COMPREHENSIONS[type(node)]
    written = (node.key, node.value) if kind == "dict" else (node.elt,)
    clauses = tuple(
        [
            (expression(clause.target, reading), expression(clause.iter, reading), several(clause.ifs, reading))
            for clause in node.generators
        ]
    )
    results = several([result for result in written if result is not None], reading)
    return Comprehension(kind, results, clauses, span(node), any(clause.is_async for clause in node.generators))


_COMPREHENSIONS: dict[type[ast.expr], str] = {
    ast.ListComp: "list",
    ast.SetComp: "set",
    ast.DictComp: "dict",
    ast.GeneratorExp: "generator",
}


# The rest


def _subscript(node: ast.Subscript, reading: Reading) -> Subscript:
    return Subscript(expression(node.value, reading), expression(node.slice, reading), span(node))


def _slice(node: ast.Slice, reading: Reading) -> Opaque:
    bounds = [bound for bound in (node.lower, node.upper, node.step) if bound is not None]
    return Opaque(several(bounds, reading), span(node))


def _starred(node: ast.Starred, reading: Reading) -> Starred:
    return Starred(expression(node.value, reading), span(node))


def _await(node: ast.Await, reading: Reading) -> Await:
    return Await(expression(node.value, reading), span(node))


def _yield(node: ast.Yield, reading: Reading) -> Yield:
    reading.yields.append(span(node))
    return Yield(maybe(node.value, reading), span(node))


def _yield_from(node: ast.YieldFrom, reading: Reading) -> Yield:
    reading.yields.append(span(node))
    return Yield(expression(node.value, reading), span(node), True)


def _assigned(node: ast.NamedExpr, reading: Reading) -> Assigned:
    return Assigned(expression(node.target, reading), expression(node.value, reading), span(node))


def _lambda(node: ast.Lambda, reading: Reading) -> Lambda:
    given = parameters(node.args, reading)
    inside = Reading(reading.lines, [])
    body = (Return(expression(node.body, inside), span(node.body)),)
    word = (node.lineno, node.col_offset, node.lineno, node.col_offset + len("lambda"))
    return Lambda(Function("<lambda>", given, body, (), None, False, bool(inside.yields), span(node), word), span(node))


def parameters(given: ast.arguments, reading: Reading) -> tuple[Parameter, ...]:
    """The parameters of a function in the order they are written in."""
    places = [("positional", arg) for arg in given.posonlyargs] + [("any", arg) for arg in given.args]
    missing: list[ast.expr | None] = [None] * (len(places) - len(given.defaults))
    found = list(zip(places, [*missing, *given.defaults], strict=True))
    found += [(("args", given.vararg), None)] if given.vararg else []
    found += [(("keyword", arg), default) for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    found += [(("kwargs", given.kwarg), None)] if given.kwarg else []
    return tuple(
        [
            Parameter(arg.arg, kind, annotation(arg.annotation, reading), maybe(default, reading))
            for (kind, arg), default in found
        ]
    )


# Annotations


def annotation(node: ast.expr | None, reading: Reading) -> Expression | None:
    """An annotation; what is quoted in it is read as code, and stands where the string does."""
    return None if node is None else expression(unquoted(node), reading)


_TABLE: dict[type[ast.expr], Callable[[Any, Reading], Expression]] = {
    ast.Attribute: _attribute,
    ast.Await: _await,
    ast.BinOp: _binary,
    ast.BoolOp: _logic,
    ast.Call: _call,
    ast.Compare: _compare,
    ast.Constant: _constant,
    ast.Dict: _dict,
    ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.IfExp: _conditional,
    ast.JoinedStr: _joined,
    ast.Lambda: _lambda,
    ast.List: _list,
    ast.ListComp: _comprehension,
    ast.Name: _name,
    ast.NamedExpr: _assigned,
    ast.Set: _set,
    ast.SetComp: _comprehension,
    ast.Slice: _slice,
    ast.Starred: _starred,
    ast.Subscript: _subscript,
    ast.Tuple: _tuple,
    ast.UnaryOp: _unary,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
    Template: _template,
    getattr(ast, "TemplateStr", Template): _template,
}
