"""What names and attributes are set to in one file, told without running any of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from auditor.frozen import dataclass
from auditor.program.tree import descend, last_name
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from auditor.program.code import ClassInfo, FunctionInfo, ModuleInfo


@dataclass(frozen=True, eq=False)
class Scope:
    """A function, or the top of a module."""

    body: tuple[nodes.Node, ...]
    function: FunctionInfo | None = None

    @cached_property
    def _bound(self) -> tuple[dict[str, list[nodes.Expression]], dict[str, list[nodes.Expression]]]:
        values: dict[str, list[nodes.Expression]] = {}
        grown: dict[str, list[nodes.Expression]] = {}
        for part in descend(self.body, into_functions=False):
            if isinstance(part, nodes.Augment) and isinstance(part.target, nodes.Name) and part.operator == "+":
                grown.setdefault(part.target.id, []).append(part.value)
            elif isinstance(part, nodes.Assign) and part.value is not None:
                for target in part.targets:
                    if isinstance(target, nodes.Name):
                        values.setdefault(target.id, []).append(part.value)
        return values, grown

    def values(self, name: str) -> Sequence[nodes.Expression]:
        """What is assigned to it here."""
        return self._bound[0].get(name, ())

    @property
    def grown(self) -> dict[str, list[nodes.Expression]]:
        """By name, what is added to it."""
        return self._bound[1]

    def parameter(self, name: str) -> tuple[int, nodes.Parameter] | None:
        for index, given in enumerate(self.function.node.parameters if self.function is not None else ()):
            if given.name == name:
                return index, given
        return None


Meaning = tuple[Scope, nodes.Expression]


class Scopes:
    """The scopes of one module."""

    def __init__(self, module: ModuleInfo) -> None:
        self._top = Scope(module.facts.module.body)
        self._of = {id(one.node): Scope(one.node.body, one) for one in module.functions()}
        classes = [Scope(one.node.body) for one in module.classes()]
        self.all = (self._top, *classes, *self._of.values())
        self._functions = {one.node.name: one for one in module.functions() if not one.nested and one.owner is None}

    @cached_property
    def _calls(self) -> dict[str, list[tuple[Scope, nodes.Call]]]:
        """Where functions and methods are called, by their last name."""
        found: dict[str, list[tuple[Scope, nodes.Call]]] = {}
        for scope in self.all:
            for part in descend(scope.body, into_functions=False):
                if isinstance(part, nodes.Call):
                    found.setdefault(last_name(part.function), []).append((scope, part))
        return found

    def meanings(self, name: str, scope: Scope) -> list[Meaning]:
        """What a name may stand for: what is assigned to it, or what callers in the file give for a parameter."""
        assigned: list[Meaning] = [(scope, value) for value in scope.values(name)]
        parameter = scope.parameter(name)
        if parameter is not None and scope.function is not None:
            return assigned + self._given(scope.function, *parameter)
        return assigned or [(self._top, value) for value in self._top.values(name)]

    def _given(self, function: FunctionInfo, index: int, parameter: nodes.Parameter) -> list[Meaning]:
        found: list[Meaning] = []
        at = index - (function.owner is not None and not function.is_static)
        for scope, call in self._calls.get(function.node.name, ()):
            if scope.function is function:
                continue
            named = [value for name, value in call.keywords if name == parameter.name]
            found.extend((scope, value) for value in named)
            if not named and 0 <= at < len(call.arguments) and parameter.kind != "keyword":
                found.append((scope, call.arguments[at]))
        if parameter.default is not None:
            found.append((self._top, parameter.default))
        return found

    def attribute(self, node: nodes.Attribute, scope: Scope) -> list[Meaning]:
        """What an attribute of `self` or `cls` may stand for."""
        owner = self._owner(node.value, scope)
        if owner is None:
            return []
        member = owner.members.get(node.name)
        found: list[Meaning] = [
            (self._of[id(method.node)], value)
            for method, value, _ in owner.assigned.get(node.name, ())
            if value is not None and id(method.node) in self._of
        ]
        if isinstance(member, nodes.Assign) and member.value is not None:
            found.append((self._top, member.value))
        return found

    def returned(self, call: nodes.Call, scope: Scope) -> list[Meaning]:
        """What a call of a function of this file, or of the object's own method, may return."""
        called: FunctionInfo | None = None
        if isinstance(call.function, nodes.Name):
            called = self._functions.get(call.function.id)
        elif isinstance(call.function, nodes.Attribute):
            owner = self._owner(call.function.value, scope)
            called = owner.method(call.function.name) if owner is not None else None
        inner = self._of.get(id(called.node)) if called is not None else None
        if inner is None:
            return []
        returns = (part for part in descend(inner.body, into_functions=False) if isinstance(part, nodes.Return))
        return [(inner, part.value) for part in returns if part.value is not None]

    @staticmethod
    def _owner(node: nodes.Expression, scope: Scope) -> ClassInfo | None:
        """The class of the object that a method itself belongs to, where the name is that of its first parameter."""
        function = scope.function
        if function is None or function.is_static or not function.node.parameters or not isinstance(node, nodes.Name):
            return None
        return function.owner if node.id == function.node.parameters[0].name else None
