"""Django's connections as a project has derived them, which say by themselves whose schema a cursor works in.

Such a class sets `search_path` as it makes a cursor, and remembers that it has. Two ways of it leave the path of one
tenant to the next, on a connection that is kept: it remembers that the path was set and not for whom, and it sets none
where there is no tenant.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from auditor.program.tree import descend
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.findings import Place
    from auditor.program import Program
    from auditor.program.code import ModuleInfo

_SETS = re.compile(r"\s*set\s+(?:session\s+)?search_path\b", re.IGNORECASE)
_RESETS = re.compile(r"\s*reset\s+(?:search_path|all)\b", re.IGNORECASE)
#: Methods in which Django itself makes, ends or undoes what is on a connection.
_OF_CONNECTION = frozenset(
    {
        *("__init__", "connect", "close", "_close", "rollback", "_rollback", "savepoint_rollback"),
        *("get_new_connection", "init_connection_state", "close_if_unusable_or_obsolete"),
    }
)
_MAKES_CURSORS = frozenset({"_cursor", "cursor", "create_cursor", "chunked_cursor"})


class Forgotten(NamedTuple):
    """Where a class of connections sets a tenant's path, and what keeps it from setting the next one's.

    `once` tells that it is set once for each connection; else `why` is where the tenant is taken away, in memory only.
    """

    place: Place
    why: Place
    once: bool


def forgetful_wrappers(program: Program) -> Iterator[Forgotten]:
    """The places where derived connections leave a path behind."""
    for module in program.modules:
        if module.words.names.isdisjoint(_MAKES_CURSORS) or b"DatabaseWrapper" not in module.data:
            continue
        for cls in descend(module.facts.module):
            if isinstance(cls, nodes.Class) and _is_wrapper(cls, module):
                yield from _of_class(cls, module, program)


def _of_class(cls: nodes.Class, module: ModuleInfo, program: Program) -> Iterator[Forgotten]:
    place = module.place
    methods = {part.name: part for part in cls.body if isinstance(part, nodes.Function)}
    if _MAKES_CURSORS.isdisjoint(methods):
        return
    for method in methods.values():
        texts = [text for text in _texts(method) if _SETS.match(_read(text))]
        varying = next((text for text in texts if _varies(text)), None)
        if varying is None:
            continue
        flag = _remembered(method, varying) if program.speaks_of_tenants(place(varying.span)) else ""
        told = _assigned(methods, flag) if flag else []
        if told and all(name in _OF_CONNECTION for name, _, falsy in told if falsy) and _is_own(program, flag, module):
            yield Forgotten(place(varying.span), place(next(one for _, one, falsy in told if not falsy)), True)
            continue
        needed = _needed(method, varying)
        told = _assigned(methods, needed) if needed else []
        cleared = [one for name, one, falsy in told if falsy and name != "__init__"]
        if cleared and not _takes_back(cls):
            yield Forgotten(place(varying.span), place(cleared[0]), False)


def _is_wrapper(cls: nodes.Class, module: ModuleInfo) -> bool:
    """Whether a class is derived from Django's of that name, under whatever name it is imported."""
    names = {"DatabaseWrapper", *(part.name for part in module.imports if part.attribute == "DatabaseWrapper")}
    bases = [base.name if isinstance(base, nodes.Attribute) else getattr(base, "id", "") for base in cls.bases]
    return not names.isdisjoint(bases) or (bool(bases) and cls.name == "DatabaseWrapper")


def _texts(part: nodes.Node) -> list[nodes.Text]:
    return [inner for inner in descend(part) if isinstance(inner, nodes.Text)]


def _read(text: nodes.Text) -> str:
    return "".join(piece if isinstance(piece, str) else "{}" for piece in text.pieces)


def _varies(text: nodes.Text) -> bool:
    """Whether something is put into a statement."""
    return any(hole in _read(text) for hole in ("{", "%s"))


def _takes_back(cls: nodes.Class) -> bool:
    """Whether a statement of the class takes the path back, or sets one that is the same for all."""
    found = [_read(text) for text in _texts(cls)]
    return any(_RESETS.match(text) or (_SETS.match(text) and "{" not in text and "%s" not in text) for text in found)


def _attribute_of_self(part: object) -> str:
    of_self = isinstance(part, nodes.Attribute) and isinstance(part.value, nodes.Name) and part.value.id == "self"
    return part.name if of_self and isinstance(part, nodes.Attribute) else ""


def _holds(body: tuple[nodes.Node, ...], text: nodes.Text) -> bool:
    return any(inner is text for part in body for inner in descend(part))


def _remembered(method: nodes.Function, text: nodes.Text) -> str:
    """`if not self.is_set: execute(text); self.is_set = True`: the attribute; empty where there is none."""
    for part in descend(method):
        if not isinstance(part, nodes.If) or not isinstance(part.test, nodes.Not) or not _holds(part.body, text):
            continue
        name = _attribute_of_self(part.test.value)
        if name and any(one == name and not falsy for one, _, falsy in _assignments(part.body)):
            return name
    return ""


def _needed(method: nodes.Function, text: nodes.Text) -> str:
    """`if not self.schema: return` before the text, or `if self.schema: execute(text)`: the attribute."""
    for part in method.body:
        if not isinstance(part, nodes.If) or part.orelse:
            continue
        if isinstance(part.test, nodes.Not) and isinstance(part.body[-1], nodes.Return) and len(part.body) == 1:
            return _attribute_of_self(part.test.value)
        if _attribute_of_self(part.test) and _holds(part.body, text):
            return _attribute_of_self(part.test)
    return ""


def _assigned(methods: dict[str, nodes.Function], attribute: str) -> list[tuple[str, nodes.Span, bool]]:
    """Where methods assign an attribute of the object: in which, where, and whether it is nothing."""
    return [
        (name, span, falsy)
        for name, method in methods.items()
        for one, span, falsy in _assignments(method.body)
        if one == attribute
    ]


def _assignments(body: tuple[nodes.Node, ...]) -> Iterator[tuple[str, nodes.Span, bool]]:
    for part in body:
        for inner in descend(part):
            if isinstance(inner, nodes.Assign):
                for target in inner.targets:
                    name = _attribute_of_self(target)
                    if name:
                        yield name, inner.span, _is_nothing(inner.value)


def _is_nothing(value: object) -> bool:
    if isinstance(value, nodes.Text):
        return not value.pieces
    return isinstance(value, nodes.Constant) and not value.value


def _is_own(program: Program, attribute: str, home: ModuleInfo) -> bool:
    """Whether nothing outside of the class's module speaks of the attribute."""
    return not any(attribute in module.words.names for module in program.modules if module is not home)
