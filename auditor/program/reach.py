"""Which functions can come to something through the names they use: told by names, without resolving any.

Too much is reached that way, too little is not.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from auditor.program.code import FunctionInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.program.code import ModuleInfo

#: Over so many calls what matters is looked for in other files; within those that are read, further.
FAR = 4


class Reach:
    """Functions that matter by themselves, and those that use their names, directly or through so many others."""

    def __init__(self, depth: int | None = None, inherited: bool = False) -> None:
        self._depth = depth
        #: What a class has by the ones it is derived from, its methods have too.
        self._inherited = inherited
        #: By function, over how many calls it comes to what matters.
        self._reaching: dict[FunctionInfo, int] = {}
        self._users: dict[str, list[FunctionInfo]] = {}
        #: What bears a name that matters, functions and modules for their constants, and over how many calls.
        self._bearers: dict[str, list[tuple[FunctionInfo | ModuleInfo, int]]] = {}
        self._imports: dict[ModuleInfo, frozenset[str]] = {}

    def __contains__(self, function: FunctionInfo) -> bool:
        return function in self._reaching

    @property
    def names(self) -> dict[str, frozenset[str]]:
        """The names that files are searched for, to find who else uses what matters.

        With each come the words of which a file that means it mentions one: it imports it from somewhere.
        """
        return {
            name: frozenset(word for one, _ in bearers for word in _around(one))
            for name, bearers in self._bearers.items()
            if len(name) > 3 and min(depth for _, depth in bearers) < FAR
        }

    def add(self, module: ModuleInfo, mattering: Iterable[FunctionInfo], constants: Iterable[str] = ()) -> None:
        """Take in a module with what in it matters by itself; functions taken in before may come to matter by it."""
        self._imports[module] = frozenset(_words_imported(module))
        fresh = [(function, 0) for function in mattering]
        for function in module.functions():
            names = function.words.names
            if self._inherited and function.owner is not None:
                names = names.union(function.owner.base_names)
            for name in names:
                self._users.setdefault(name, []).append(function)
                depths = [depth for one, depth in self._bearers.get(name, ()) if self._means(name, function, one)]
                if depths:
                    fresh.append((function, min(depths) + 1))
        for name in constants:
            fresh.extend(self._borne(name, module, 0))
        self._spread(fresh)

    def spread(self, functions: Iterable[FunctionInfo]) -> None:
        """These functions matter by themselves, and so does what uses them."""
        self._spread([(function, 0) for function in functions])

    def _spread(self, fresh: list[tuple[FunctionInfo, int]]) -> None:
        waiting = deque(sorted(fresh, key=lambda pair: pair[1]))
        while waiting:
            function, depth = waiting.popleft()
            if self._reaching.get(function, depth + 1) <= depth or (self._depth is not None and depth > self._depth):
                continue
            self._reaching[function] = depth
            for name in _names_for(function):
                waiting.extend(self._borne(name, function, depth))

    def _borne(self, name: str, bearer: FunctionInfo | ModuleInfo, depth: int) -> list[tuple[FunctionInfo, int]]:
        """Those that use the name of what matters, one call further away."""
        self._bearers.setdefault(name, []).append((bearer, depth))
        return [(user, depth + 1) for user in self._users.get(name, ()) if self._means(name, user, bearer)]

    def _means(self, name: str, user: FunctionInfo, bearer: FunctionInfo | ModuleInfo) -> bool:
        """Whether the use of a name may mean what bears it: it is of the same module, or was imported."""
        return user.module is _module_of(bearer) or not self._imports[user.module].isdisjoint(_home(bearer))


def _module_of(bearer: FunctionInfo | ModuleInfo) -> ModuleInfo:
    return bearer.module if isinstance(bearer, FunctionInfo) else bearer


def _home(bearer: FunctionInfo | ModuleInfo) -> tuple[str, ...]:
    """The words of which an import of what bears a name has one: itself or its module, of a method its class."""
    if isinstance(bearer, FunctionInfo) and bearer.owner is not None:
        return (bearer.owner.node.name,)
    own = (bearer.node.name,) if isinstance(bearer, FunctionInfo) else ()
    return (*own, _module_of(bearer).name.rpartition(".")[2])


def _around(bearer: FunctionInfo | ModuleInfo) -> tuple[str, ...]:
    """The words of which a file that imports what bears a name has one, directly or from the package around it."""
    if isinstance(bearer, FunctionInfo) and bearer.owner is not None:
        return (bearer.owner.node.name,)
    return tuple(_module_of(bearer).name.split(".")[-2:])


def _names_for(function: FunctionInfo) -> Iterator[str]:
    """The names under which a function is used: its own, and of a method the class's, which makes the object."""
    if not function.node.name.startswith("__"):
        yield function.node.name
    if function.owner is not None:
        yield function.owner.node.name


def _words_imported(module: ModuleInfo) -> Iterator[str]:
    for part in module.imports:
        yield from part.loads.split(".")
        yield part.attribute or ""
