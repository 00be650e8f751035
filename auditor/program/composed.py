"""What a module makes of its texts that define policies, before anybody sends them.

Generators of migrations return their SQL, or print it: no call of a driver tells that it is SQL, and its parts stand in
variables, helpers and templates. They are put together here as far as one file tells; what it does not tell are holes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from auditor.program.naming import Scopes
from auditor.program.origins import Origin
from auditor.program.tree import descend, last_name
from auditor.python import nodes
from auditor.sql.meaning import hole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from auditor.program.code import ModuleInfo
    from auditor.program.naming import Scope

#: So many texts are told of one expression at most, and so far are names and helpers followed.
MOST_OPTIONS = 4
FAR = 9
#: So many parts are looked at for one module: what is left then are holes.
MOST_PARTS = 100_000
#: What gives the text it is given, as far as SQL is concerned.
_SAME = frozenset({"SQL", "text", "DDL", "dedent", "cleandoc", "str", "as_string"})
#: Methods of a text that give it without what they are given.
_STRIPS = frozenset({"strip", "lstrip", "rstrip", "removeprefix", "removesuffix"})
_BRACES = re.compile(r"\{\{|\}\}|\{(\w*)[^{}]*\}")
_PERCENT = re.compile(r"%%|%(?:\((\w+)\))?[-#0 +.\d]*[sdir]")
#: Placeholders that tell what they are, wherever their template is filled in.
_NAMED = re.compile(r"\{[A-Za-z_]\w*\}|%\(\w+\)s")


class Stretch(NamedTuple):
    """Characters of a literal: those of its piece `piece`, from `skip` on."""

    value: str
    span: nodes.Span
    piece: int
    skip: int


#: A text in stretches; None is a hole.
Composed = tuple[Stretch | None, ...]
HOLE: Composed = (None,)


class Composition(NamedTuple):
    place: nodes.Span
    text: str
    origins: tuple[Origin, ...]


def compositions(module: ModuleInfo, wanted: str) -> Iterator[Composition]:
    """The texts of a module with `wanted`, which is in lower case, in them, each put together as far as it is told.

    What is only told to people is left out, as everywhere.
    """
    composer = _Composer(module, wanted)
    seeds = {part.span: part for part in module.words.texts if composer.begins(_literal(part))}
    used: set[nodes.Span] = set()
    for place, options in composer.all():
        fresh: set[nodes.Span] = set()
        for made in options:
            begun = {piece.span for piece in made if piece is not None and wanted in piece.value.lower()}
            if begun and begun <= seeds.keys() and not begun & used:
                fresh |= begun
                yield _written(place, made, module)
        used |= fresh
    for span, seed in seeds.items():
        if span not in used:
            yield _written(span, _open(_literal(seed)), module)


def _literal(text: nodes.Text) -> Composed:
    """A string as it is written, its holes left open."""
    return tuple(
        Stretch(piece, text.span, index, 0) if isinstance(piece, str) else None
        for index, piece in enumerate(text.pieces)
    )


def _open(made: Composed) -> Composed:
    """The same with its named placeholders as holes: a template that is filled in elsewhere."""
    return tuple(part for piece in made for options in _filled(piece, _NAMED, lambda _: [HOLE]) for part in options[0])


def _written(place: nodes.Span, made: Composed, module: ModuleInfo) -> Composition:
    parts: list[str] = []
    origins: list[Origin] = []
    length = holes = 0
    for piece in made:
        written = hole(holes) if piece is None else piece.value
        if piece is None:
            holes += 1
        else:
            origins.append(Origin(length, length + len(written), module.path, piece.span, piece.piece, piece.skip))
        parts.append(written)
        length += len(written)
    return Composition(place, "".join(parts), tuple(origins))


def _joined(parts: Iterable[list[Composed]]) -> list[Composed]:
    """What follows each other, together: the first options of all, the second ones, …

    Parts that are chosen together are mostly written in the same order, and each option is told once.
    """
    parts = list(parts)
    most = min(max(map(len, parts), default=1), MOST_OPTIONS)
    return [tuple(piece for options in parts for piece in options[min(turn, len(options) - 1)]) for turn in range(most)]


def _filled(
    piece: Stretch | None, pattern: re.Pattern[str], fill: Callable[[re.Match[str]], list[Composed]]
) -> Iterator[list[Composed]]:
    """A stretch taken apart at its placeholders, each filled."""
    if piece is None:
        yield [HOLE]
        return
    at = 0
    for found in pattern.finditer(piece.value):
        yield [(_part(piece, at, found.start()),)]
        yield [(_part(piece, found.start(), found.start() + 1),)] if found[0] in ("{{", "}}", "%%") else fill(found)
        at = found.end()
    yield [(_part(piece, at, len(piece.value)),)]


def _part(piece: Stretch, start: int, end: int) -> Stretch:
    return piece._replace(value=piece.value[start:end], skip=piece.skip + start)


class _Composer:
    """Puts together the texts of one module."""

    def __init__(self, module: ModuleInfo, wanted: str) -> None:
        self._wanted = wanted
        self._scopes = Scopes(module)
        self._left = MOST_PARTS

    def begins(self, made: Composed) -> bool:
        return any(piece is not None and self._wanted in piece.value.lower() for piece in made)

    def all(self) -> Iterator[tuple[nodes.Span, list[Composed]]]:
        """What grows step by step; then every expression that makes a text and is no part of another one."""
        for scope in self._scopes.all:
            for name in scope.grown:
                values = scope.values(name)
                if values:
                    yield values[0].span, self._named(name, scope, 0)
        for scope in self._scopes.all:
            inside: set[int] = set()
            for part in descend(scope.body, into_functions=False):
                if id(part) not in inside and isinstance(part, (nodes.Binary, nodes.Call, nodes.Text)):
                    options = self._made(part, scope, 0)
                    if any(map(self.begins, options)) and (not isinstance(part, nodes.Text) or None in _literal(part)):
                        inside.update(id(inner) for inner in descend(part))
                        yield part.span, options

    def _options(self, node: object, scope: Scope, far: int) -> list[Composed]:
        """What stands in a text may come to; another text that begins a statement is told of by itself."""
        options = self._made(node, scope, far + 1) if far < FAR else [HOLE]
        return [HOLE if self.begins(made) and not isinstance(node, nodes.Text) else made for made in options]

    def _made(self, node: object, scope: Scope, far: int) -> list[Composed]:
        self._left -= 1
        if self._left < 0:
            return [HOLE]
        if isinstance(node, nodes.Text):
            return _joined(
                [(Stretch(piece, node.span, index, 0),)] if isinstance(piece, str) else self._options(piece, scope, far)
                for index, piece in enumerate(node.pieces)
            )
        if isinstance(node, nodes.Binary) and node.operator == "+":
            return _joined(self._made(side, scope, far) for side in _sides(node))
        if isinstance(node, nodes.Binary) and node.operator == "%":
            return self._percent(node, scope, far)
        if isinstance(node, nodes.Call):
            return self._called(node, scope, far)
        return self._chosen(node, scope, far)

    def _chosen(self, node: object, scope: Scope, far: int) -> list[Composed]:
        """One of several, or what a name stands for."""
        several: tuple[object, ...] = ()
        if isinstance(node, nodes.Conditional):
            several = (node.body, node.orelse)
        elif isinstance(node, nodes.Logic):
            several = node.values
        elif isinstance(node, nodes.Name) and far < FAR:
            return self._named(node.id, scope, far + 1)
        elif isinstance(node, nodes.Attribute) and far < FAR:
            found = [self._made(value, at, far + 1) for at, value in self._scopes.attribute(node, scope)]
            return _several(found)
        return _several(self._made(one, scope, far) for one in several)

    def _named(self, name: str, scope: Scope, far: int) -> list[Composed]:
        """What a name stands for, with all that is added to it later on."""
        found = [
            _joined([self._made(value, at, far), *(self._options(more, at, far) for more in at.grown.get(name, ()))])
            for at, value in self._scopes.meanings(name, scope)[:MOST_OPTIONS]
            if far < FAR
        ]
        return _several(found)

    def _called(self, node: nodes.Call, scope: Scope, far: int) -> list[Composed]:
        name = last_name(node.function)
        base = node.function.value if isinstance(node.function, nodes.Attribute) else None
        if name == "format" and base is not None:
            return self._format(node, base, scope, far)
        if name == "join" and base is not None and len(node.arguments) == 1:
            return self._join(node.arguments[0], base, scope, far)
        if name in _STRIPS and base is not None:
            return self._made(base, scope, far)
        if name in _SAME:
            # A method of the text, or a function that is given it.
            inner = node.arguments[0] if node.arguments else base
            return self._made(inner, scope, far) if inner is not None else [HOLE]
        if far >= FAR:
            return [HOLE]
        returned = self._scopes.returned(node, scope)[:MOST_OPTIONS]
        made = _several(self._made(value, at, far + 1) for at, value in returned)
        return [HOLE if self.begins(one) else one for one in made]

    def _join(self, given: object, between: object, scope: Scope, far: int) -> list[Composed]:
        if not isinstance(given, nodes.Items):
            return [HOLE]
        parts: list[list[Composed]] = []
        for item in given.items:
            if parts:
                parts.append(self._made(between, scope, far))
            parts.append(self._made(item, scope, far))
        return _joined(parts)

    def _format(self, node: nodes.Call, base: object, scope: Scope, far: int) -> list[Composed]:
        waiting = iter(node.arguments)
        given = {name: value for name, value in node.keywords if name is not None}
        given |= {str(index): value for index, value in enumerate(node.arguments)}

        def fill(found: re.Match[str]) -> list[Composed]:
            value = given.get(found[1]) if found[1] else next(waiting, None)
            return self._options(value, scope, far) if value is not None else [HOLE]

        return self._template(base, _BRACES, fill, scope, far)

    def _percent(self, node: nodes.Binary, scope: Scope, far: int) -> list[Composed]:
        given = node.right
        waiting = iter(given.items if isinstance(given, nodes.Items) else (given,))
        named = {
            key.pieces[0]: value
            for key, value in (given.pairs if isinstance(given, nodes.Mapping) else ())
            if isinstance(key, nodes.Text) and key.pieces
        }

        def fill(found: re.Match[str]) -> list[Composed]:
            value = named.get(found[1]) if found[1] else next(waiting, None)
            return self._options(value, scope, far) if value is not None else [HOLE]

        return self._template(node.left, _PERCENT, fill, scope, far)

    def _template(
        self,
        base: object,
        pattern: re.Pattern[str],
        fill: Callable[[re.Match[str]], list[Composed]],
        scope: Scope,
        far: int,
    ) -> list[Composed]:
        """A template with its placeholders filled."""
        made = self._made(base, scope, far)[0]
        return _joined(options for piece in made for options in _filled(piece, pattern, fill))


def _several(found: Iterable[list[Composed]]) -> list[Composed]:
    options = [made for one in found for made in one]
    return options[:MOST_OPTIONS] or [HOLE]


def _sides(node: nodes.Expression) -> list[nodes.Expression]:
    """The parts of a sum from left to right, however many."""
    right: list[nodes.Expression] = []
    while isinstance(node, nodes.Binary) and node.operator == "+":
        right.append(node.right)
        node = node.left
    return [node, *reversed(right)]
