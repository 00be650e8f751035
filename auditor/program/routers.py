"""What a framework calls around each of some functions: `APIRouter(dependencies=[Depends(enter)])` and its like.

Facts: FastAPI's pages "Dependencies in path operation decorators", "Bigger Applications" and "Global dependencies".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.program.tree import descend, last_name
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.program.code import FunctionInfo, ModuleInfo

_KEYWORD = "dependencies"
ROUTES = frozenset({"get", "post", "put", "patch", "delete", "head", "options", "api_route", "websocket", "route"})


class _Asked(NamedTuple):
    """A dependency, and for whom it is called: one function, the routes of a router, or all."""

    module: ModuleInfo
    expression: nodes.Expression
    function: FunctionInfo | None = None
    #: The name of the router, and the last part of its module's.
    router: str = ""
    home: str = ""

    def covers(self, function: FunctionInfo) -> bool:
        if self.function is not None:
            return self.function is function
        if not self.router:
            return True
        return function.module.name.rpartition(".")[2] == self.home and self.router in receivers(function)


class Routers:
    """Knows the dependencies that no function names in its parameters."""

    def __init__(self, modules: Iterable[ModuleInfo]) -> None:
        self._modules = tuple(modules)
        self._asked: list[_Asked] = []
        for module in self._modules:
            if _KEYWORD in module.words.keywords:
                self._asked.extend(_asked_in(module))

    def around(self, function: FunctionInfo) -> Iterator[tuple[ModuleInfo, nodes.Expression]]:
        """The dependencies that are called for a function, each with the module in which it is written."""
        if not self._asked or not receivers(function):
            return
        for asked in self._asked:
            if asked.covers(function):
                yield asked.module, asked.expression

    def functions(self, name: str) -> Iterator[FunctionInfo]:
        """The functions around which a dependency of that name is called."""
        covering = [asked for asked in self._asked if name in _named(asked.expression)]
        if covering:
            for module in self._modules:
                for function in module.functions():
                    if receivers(function) and any(asked.covers(function) for asked in covering):
                        yield function


def receivers(function: FunctionInfo) -> list[str]:
    """The names of the applications and routers on which a function is a route."""
    return [
        last_name(decorator.function.value)
        for decorator in function.node.decorators
        if isinstance(decorator, nodes.Call)
        and isinstance(decorator.function, nodes.Attribute)
        and decorator.function.name in ROUTES
    ]


def _asked_in(module: ModuleInfo) -> Iterator[_Asked]:
    decorating = {id(decorator): function for function in module.functions() for decorator in function.node.decorators}
    names = {
        id(part.value): target.id
        for part in descend(module.facts.module.body)
        if isinstance(part, nodes.Assign)
        for target in part.targets
        if isinstance(target, nodes.Name)
    }
    for part in descend(module.facts.module.body):
        if not isinstance(part, nodes.Call):
            continue
        listed = next((value for keyword, value in part.keywords if keyword == _KEYWORD), None)
        for expression in listed.items if isinstance(listed, nodes.Items) else ():
            if isinstance(expression, nodes.Call):
                yield _of_call(module, part, expression, decorating.get(id(part)), names.get(id(part), ""))


def _of_call(
    module: ModuleInfo, call: nodes.Call, expression: nodes.Expression, function: FunctionInfo | None, name: str
) -> _Asked:
    made = last_name(call.function)
    if function is not None:
        return _Asked(module, expression, function)
    if made == "include_router" and call.arguments:
        return _Asked(module, expression, None, *_router(call.arguments[0], module))
    if made == "APIRouter":
        return _Asked(module, expression, None, name or "router", module.name.rpartition(".")[2])
    return _Asked(module, expression)


def _router(router: nodes.Expression, module: ModuleInfo) -> tuple[str, str]:
    """What a router is called where it is made, and the last part of that module's name, as far as imports tell."""
    own = module.name.rpartition(".")[2]
    if isinstance(router, nodes.Attribute):
        imported = _import(last_name(router.value), module)
        return router.name, own if imported is None else imported.attribute or imported.loads.rpartition(".")[2]
    imported = _import(last_name(router), module)
    if imported is None or imported.attribute is None:
        return last_name(router), own
    return imported.attribute, imported.module.rpartition(".")[2]


def _import(name: str, module: ModuleInfo) -> nodes.Import | None:
    return next((part for part in module.bound.get(name, ()) if isinstance(part, nodes.Import)), None)


def _named(expression: nodes.Expression) -> set[str]:
    return {last_name(part) for part in descend(expression)}
