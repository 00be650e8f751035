"""Trees in few words, so that a test can say what it expects on one line; and trees without their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from auditor.python import nodes
from auditor.python.read import read_python
from auditor.python.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from auditor.python.nodes import PythonFacts


def facts_of(source: str | bytes) -> PythonFacts:
    """The facts of a source that can be read."""
    facts = read_python(source.encode() if isinstance(source, str) else source)
    assert isinstance(facts, nodes.PythonFacts), facts
    return facts


def compact(source: str | bytes) -> str:
    """The nodes of a source, a line each, those inside blocks with an indentation."""
    return "\n".join(_block(facts_of(source).module.body, ""))


def without_columns(item: Any) -> Any:
    """Any part of a tree as plain tuples, spans cut down to their lines."""
    if isinstance(item, Record):
        return (type(item).__name__, *(_field(item, name) for name in item.__match_args__))
    return tuple(map(without_columns, item)) if isinstance(item, tuple) else item


def _field(node: Record, name: str) -> Any:
    value = getattr(node, name)
    return (value[0], value[2]) if name in ("span", "name_span") else without_columns(value)


def all_nodes(item: Any) -> Iterator[Any]:
    """Every node of a tree, in any order."""
    waiting = [item]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Record):
            yield item
            waiting += [getattr(item, name) for name in item.__match_args__]
        elif isinstance(item, tuple):
            waiting += item


def show(node: Any) -> str:
    """An expression; nothing for None."""
    return "" if node is None else _SHOWN[type(node)](node)


def _list(items: Any) -> str:
    return ", ".join(map(show, items))


def _keywords(pairs: Any) -> list[str]:
    return [f"{name}={show(value)}" if name else f"**{show(value)}" for name, value in pairs]


def _text(node: nodes.Text) -> str:
    written = "".join(piece if isinstance(piece, str) else f"{{{show(piece)}}}" for piece in node.pieces)
    formats = " ".join(map(repr, node.formats))
    return ("t" if node.template else "") + repr(written) + (f"[{formats}]" if formats else "")


def _items(node: nodes.Items) -> str:
    opening, closing = {"tuple": ("(", ")"), "list": ("[", "]"), "set": ("{", "}")}[node.kind]
    return opening + _list(node.items) + closing


def _comprehension(node: nodes.Comprehension) -> str:
    clauses = ""
    for target, iterable, conditions in node.clauses:
        clauses += f" for {show(target)} in {show(iterable)}" + "".join(f" if {show(test)}" for test in conditions)
    return f"{'async ' if node.is_async else ''}{node.kind}({_list(node.results)}{clauses})"


def _compare(node: nodes.Compare) -> str:
    pairs = zip(node.operators, node.rights, strict=True)
    return f"({show(node.left)}{''.join(f' {operator} {show(right)}' for operator, right in pairs)})"


def _yield(node: nodes.Yield) -> str:
    return f"(yield {'from ' if node.delegated else ''}{show(node.value)})"


_SHOWN: dict[type, Callable[[Any], str]] = {
    nodes.Name: lambda node: node.id,
    nodes.Attribute: lambda node: f"{show(node.value)}.{node.name}",
    nodes.Constant: lambda node: repr(node.value),
    nodes.Text: _text,
    nodes.Call: lambda node: (
        f"{show(node.function)}({', '.join([*map(show, node.arguments), *_keywords(node.keywords)])})"
    ),
    nodes.Starred: lambda node: f"*{show(node.value)}",
    nodes.Await: lambda node: f"(await {show(node.value)})",
    nodes.Yield: _yield,
    nodes.Items: _items,
    nodes.Mapping: lambda node: (
        "{" + ", ".join(f"{show(key)}: {show(value)}" if key else f"**{show(value)}" for key, value in node.pairs) + "}"
    ),
    nodes.Binary: lambda node: f"({show(node.left)} {node.operator} {show(node.right)})",
    nodes.Logic: lambda node: f"({f' {node.operator} '.join(map(show, node.values))})",
    nodes.Not: lambda node: f"(not {show(node.value)})",
    nodes.Compare: _compare,
    nodes.Conditional: lambda node: f"({show(node.body)} if {show(node.test)} else {show(node.orelse)})",
    nodes.Subscript: lambda node: f"{show(node.value)}[{show(node.key)}]",
    nodes.Lambda: lambda node: f"(lambda{_head(node.function)}: {show(node.function.body[0].value)})",
    nodes.Comprehension: _comprehension,
    nodes.Assigned: lambda node: f"({show(node.target)} := {show(node.value)})",
    nodes.Opaque: lambda node: f"?({_list(node.parts)})",
}


def _parameter(given: nodes.Parameter) -> str:
    annotation = f": {show(given.annotation)}" if given.annotation else ""
    default = f" = {show(given.default)}" if given.default else ""
    kind = "" if given.kind == "any" else f"{given.kind} "
    return kind + given.name + annotation + default


def _head(node: nodes.Function) -> str:
    generator = "*" if node.is_generator else ""
    returns = f" -> {show(node.returns)}" if node.returns else ""
    return f"{generator}({', '.join(map(_parameter, node.parameters))}){returns}"


def _block(body: Any, indent: str) -> Iterator[str]:
    for node in body:
        yield from (indent + line for line in _STATEMENTS[type(node)](node))


def _inner(body: Any, word: str = "") -> Iterator[str]:
    if word and body:
        yield word
    yield from _block(body, "  ")


def _assign(node: nodes.Assign) -> Iterator[str]:
    annotation = f": {show(node.annotation)}" if node.annotation else ""
    value = f" = {show(node.value)}" if node.value else ""
    yield " = ".join(map(show, node.targets)) + annotation + value


def _if(node: nodes.If | nodes.While) -> Iterator[str]:
    yield f"{type(node).__name__.lower()} {show(node.test)}"
    yield from _inner(node.body)
    yield from _inner(node.orelse, "else")


def _for(node: nodes.For) -> Iterator[str]:
    yield f"{'async ' if node.is_async else ''}for {show(node.target)} in {show(node.iterable)}"
    yield from _inner(node.body)
    yield from _inner(node.orelse, "else")


def _with(node: nodes.With) -> Iterator[str]:
    items = [show(manager) + (f" as {show(target)}" if target else "") for manager, target in node.items]
    yield f"{'async ' if node.is_async else ''}with {', '.join(items)}"
    yield from _inner(node.body)


def _try(node: nodes.Try) -> Iterator[str]:
    yield "try"
    yield from _inner(node.body)
    for handler in node.handlers:
        yield f"except {show(handler.type)}{f' as {handler.name}' if handler.name else ''}".rstrip()
        yield from _inner(handler.body)
    yield from _inner(node.orelse, "else")
    yield from _inner(node.final, "finally")


def _match(node: nodes.Match) -> Iterator[str]:
    yield f"match {show(node.subject)}"
    for case in node.cases:
        guard = f" if {show(case.guard)}" if case.guard else ""
        yield f"  case [{_list(case.values)}] ({', '.join(case.names)}){guard}{' always' if case.always else ''}"
        yield from _block(case.body, "    ")


def _import(node: nodes.Import) -> Iterator[str]:
    source = "." * node.level + node.module
    loads = f" (loads {node.loads})" if node.loads != node.module else ""
    yield (
        f"from {source} import {node.attribute} as {node.name}"
        if node.attribute
        else (f"import {source} as {node.name}{loads}")
    )


def _function(node: nodes.Function) -> Iterator[str]:
    yield from (f"@{show(decorator)}" for decorator in node.decorators)
    yield f"{'async ' if node.is_async else ''}def {node.name}{_head(node)}"
    yield from _inner(node.body)


def _class(node: nodes.Class) -> Iterator[str]:
    yield from (f"@{show(decorator)}" for decorator in node.decorators)
    yield f"class {node.name}({', '.join([*map(show, node.bases), *_keywords(node.keywords)])})"
    yield from _inner(node.body)


_STATEMENTS: dict[type, Callable[[Any], Iterator[str]]] = {
    nodes.Do: lambda node: iter([f"do {show(node.value)}"]),
    nodes.Assign: _assign,
    nodes.Augment: lambda node: iter([f"{show(node.target)} {node.operator}= {show(node.value)}"]),
    nodes.Return: lambda node: iter([f"return {show(node.value)}".rstrip()]),
    nodes.Raise: lambda node: iter([f"raise {show(node.value)}".rstrip()]),
    nodes.If: _if,
    nodes.While: _if,
    nodes.For: _for,
    nodes.With: _with,
    nodes.Try: _try,
    nodes.Match: _match,
    nodes.Break: lambda node: iter(["break"]),
    nodes.Continue: lambda node: iter(["continue"]),
    nodes.Assert: lambda node: iter([f"assert {show(node.test)}"]),
    nodes.Delete: lambda node: iter([f"del {_list(node.targets)}"]),
    nodes.Scope: lambda node: iter([f"{node.kind} {', '.join(node.names)}"]),
    nodes.Import: _import,
    nodes.Function: _function,
    nodes.Class: _class,
}
