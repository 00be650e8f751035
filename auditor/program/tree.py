"""Going through the trees of Python files, and what a function is made of, told in one go through its module."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from auditor.frozen import dataclass
from auditor.python import nodes
from auditor.python.record import Record, getter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Fields of these types hold no nodes.
_PLAIN = frozenset({"str", "bool", "int", "Span", "str | None", "tuple[str, ...]", "bool | int | float | None"})


def _below(kind: type[Record]) -> Callable[[Any], tuple[Any, ...]]:
    """What takes out of a node those that hang in it, the last first."""
    names = [name for name in reversed(kind.__match_args__) if kind.__annotations__[name] not in _PLAIN]
    return getter(tuple(names)) if names else lambda _node: ()


#: By class of nodes, what takes out the nodes that hang in one. What is not here is no node.
_CHILDREN: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    kind: _below(kind) for kind in vars(nodes).values() if isinstance(kind, type) and issubclass(kind, Record)
}


def descend(node: object, into_functions: bool = True) -> Iterator[object]:
    """Every node in a tree, itself first, in source order; `into_functions` False leaves nested bodies out."""
    stack: list[Any] = [node]
    while stack:
        top = stack.pop()
        kind = type(top)
        if kind is tuple:
            stack += top[::-1]
            continue
        below = _CHILDREN.get(kind)
        if below is None:
            continue
        yield top
        if not into_functions and kind in _SCOPES and top is not node:
            continue
        stack += below(top)


_SCOPES = (nodes.Function, nodes.Class, nodes.Lambda)


def bodies_of(part: nodes.Node) -> Iterator[tuple[nodes.Node, ...]]:
    """The bodies of statements that stand in another one; a function's or class's own is a scope of its own."""
    if isinstance(part, (nodes.If, nodes.While, nodes.For)):
        yield part.body
        yield part.orelse
    elif isinstance(part, nodes.With):
        yield part.body
    elif isinstance(part, nodes.Try):
        yield part.body
        for handler in part.handlers:
            yield handler.body
        yield part.orelse
        yield part.final
    elif isinstance(part, nodes.Match):
        for case in part.cases:
            yield case.body


def statements_in(body: tuple[nodes.Node, ...]) -> Iterator[nodes.Node]:
    """The statements of one scope, with those that stand in others of them."""
    for part in body:
        yield part
        for inner in bodies_of(part):
            yield from statements_in(inner)


@dataclass(slots=True)
class Words:
    """What a function, with all that is nested in it, is made of; or a whole module."""

    names: set[str] = field(default_factory=set)  #: of variables and attributes
    keywords: set[str] = field(default_factory=set)  #: of arguments
    texts: list[nodes.Text] = field(default_factory=list)  #: but for those that are only told to people
    called: set[str] = field(default_factory=set)  #: names that are called as they are
    imports: list[nodes.Import] = field(default_factory=list)
    compares: list[nodes.Compare] = field(default_factory=list)
    #: What is held against a constant, or passed by keyword as one: `status=pending`.
    equal: set[str] = field(default_factory=set)
    chosen: set[str] = field(default_factory=set)  #: names of what is taken out of a collection, or found by its name
    calls_item: bool = False  #: it calls what it takes out of a collection

    def take(self, inner: Words) -> None:
        """Add what stands in a nested function."""
        self.names |= inner.names
        self.keywords |= inner.keywords
        self.texts += inner.texts
        self.called |= inner.called
        self.chosen |= inner.chosen
        self.equal |= inner.equal
        self.imports += inner.imports
        self.compares += inner.compares
        self.calls_item |= inner.calls_item


_LEAVE = object()


def words_of(body: tuple[nodes.Node, ...]) -> tuple[Words, dict[int, Words]]:
    """The words of a module, and those of each function in it by the id of its node.

    A function's annotations and defaults belong to what is around it, its decorators to both.
    """
    whole = words = Words()
    by_function: dict[int, Words] = {}
    open_: list[Words] = [whole]
    stack: list[Any] = [body]
    told: set[int] = set()
    while stack:
        top = stack.pop()
        kind = type(top)
        # Most of a tree is names and attributes.
        if kind is nodes.Name:
            words.names.add(top.id)
        elif kind is nodes.Attribute:
            words.names.add(top.name)
            stack.append(top.value)
        elif kind is tuple:
            stack += top[::-1]
        elif top is _LEAVE:
            inner = open_.pop()
            words = open_[-1]
            words.take(inner)
        elif kind is nodes.Function:
            # What the head says is read first, while what is around it is still open.
            stack += (_LEAVE, top.body, top.decorators, _Enter(top), top.parameters, top.returns)
        elif kind is _Enter:
            words = by_function.setdefault(id(top.function), Words())
            open_.append(words)
        elif (below := _CHILDREN.get(kind)) is not None:
            note = _NOTES.get(kind)
            if note is not None and id(top) not in told:
                note(top, words)
            if kind in _TELLS and _only_tells(top):
                told.update(id(part) for part in descend(top) if isinstance(part, nodes.Text))
            stack += below(top)
    return whole, by_function


#: What may hold strings that are only told to people.
_TELLS = frozenset({nodes.Call, nodes.Raise})
#: Methods of loggers.
_LOGS = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical"})


def _only_tells(node: object) -> bool:
    """Whether strings in it are told to people, whatever they mention: an error that is raised, a message to a log."""
    if isinstance(node, nodes.Call):
        return isinstance(node.function, nodes.Attribute) and node.function.name in _LOGS
    return isinstance(node, nodes.Raise)


class _Enter:
    __slots__ = ("function",)

    def __init__(self, function: nodes.Function) -> None:
        self.function = function


def _note_text(text: nodes.Text, words: Words) -> None:
    words.texts.append(text)


def _note_call(call: nodes.Call, words: Words) -> None:
    for name, value in call.keywords:
        if name is not None:
            words.keywords.add(name)
        if name:
            words.equal.update(f"{name}={said}" for said in _constants(value))
    if isinstance(call.function, nodes.Name):
        words.called.add(call.function.id)
    elif isinstance(call.function, nodes.Subscript):
        words.calls_item = True


def _note_assign(assign: nodes.Assign, words: Words) -> None:
    if _chooses(assign.value):
        words.chosen.update(target.id for target in assign.targets if isinstance(target, nodes.Name))


def _note_import(imported: nodes.Import, words: Words) -> None:
    words.imports.append(imported)


def _note_compare(compare: nodes.Compare, words: Words) -> None:
    words.compares.append(compare)
    if isinstance(compare.left, nodes.Attribute):
        words.equal.update(f"{compare.left.name}={said}" for right in compare.rights for said in _constants(right))


_NOTES: dict[type, Callable[[Any, Words], None]] = {
    nodes.Text: _note_text,
    nodes.Call: _note_call,
    nodes.Assign: _note_assign,
    nodes.Import: _note_import,
    nodes.Compare: _note_compare,
}

#: What gives something by a name that is only known at run time.
_CHOICES = frozenset({"get", "getattr", "import_string", "get_callable", "load_object", "attrgetter"})


def last_name(expression: object) -> str:
    """The last name of a dotted one; empty for anything else."""
    if isinstance(expression, nodes.Name):
        return expression.id
    return expression.name if isinstance(expression, nodes.Attribute) else ""


def literal(expression: object) -> str | None:
    """What a string literal says; None for one with holes, an empty one and anything else."""
    pieces = expression.pieces if isinstance(expression, nodes.Text) else ()
    return pieces[0] if len(pieces) == 1 and isinstance(pieces[0], str) else None


def _chooses(value: object) -> bool:
    """Whether it is one of several things, by a key or a name: `handlers[job.kind]`, `getattr(module, job.name)`."""
    if isinstance(value, nodes.Call):
        return last_name(value.function) in _CHOICES
    return isinstance(value, nodes.Subscript)


def _constants(value: object) -> Iterator[str]:
    """How a constant is written, or the last name of one; of a list those in it."""
    if isinstance(value, nodes.Attribute):
        yield value.name
    elif (text := literal(value)) is not None:
        yield text
    elif isinstance(value, nodes.Constant):
        yield str(value.value)
    elif isinstance(value, nodes.Items):
        for item in value.items:
            yield from _constants(item)
