"""Which functions can come to something through the names they use: told by names, without resolving any.

Too much is reached that way, too little is not.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from auditor.program.code import FunctionInfo
from auditor.program.tree import descend, words_of
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.program.code import ModuleInfo

#: Over so many calls what matters is looked for in other files; within those that are read, further.
FAR = 4


class Constant(NamedTuple):
    """A name at the top level of a module."""

    module: ModuleInfo
    name: str


class Reach:
    """Functions that matter by themselves, and those that use their names, directly or through so many others.

    With `objects` a constant also matters that is made by what does, a method whose class is derived from it, and a
    function that is given it.
    """

    def __init__(self, depth: int | None = None, objects: bool = False) -> None:
        self._depth = depth
        self._objects = objects
        #: By function, over how many calls it comes to what matters.
        self._reaching: dict[FunctionInfo | Constant, int] = {}
        self._users: dict[str, list[FunctionInfo | Constant]] = {}
        #: What bears a name that matters, and over how many calls.
        self._bearers: dict[str, list[tuple[FunctionInfo | Constant, int]]] = {}
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
        fresh: list[tuple[FunctionInfo | Constant, int]] = [(function, 0) for function in mattering]
        fresh.extend((Constant(module, name), 0) for name in constants)
        for user, names in self._using(module):
            for name in names:
                self._users.setdefault(name, []).append(user)
                depths = [depth for one, depth in self._bearers.get(name, ()) if self._means(user, one)]
                if depths:
                    fresh.append((user, min(depths) + 1))
        self._spread(fresh)

    def _using(self, module: ModuleInfo) -> Iterator[tuple[FunctionInfo | Constant, Iterable[str]]]:
        """What may come to matter in a module, with the names that it uses."""
        for function in module.functions():
            names = function.words.names
            # What a framework supplies for a parameter is named by its annotation or default.
            given = {part.id for part in descend(function.node.parameters) if isinstance(part, nodes.Name)}
            names = names | given if given else names
            if self._objects and function.owner is not None:
                names = names | function.owner.base_names
            yield function, names
        for name, bound in module.bound.items():
            for part in bound:
                if isinstance(part, nodes.Assign) and _is_annotated(part.value):
                    yield Constant(module, name), words_of((part,))[0].names - {name}
        if self._objects:
            for cls in module.classes():
                if cls.fields or cls.base_names:
                    yield Constant(module, cls.node.name), words_of(cls.fields)[0].names | cls.base_names
            for name, bound in module.bound.items():
                for part in bound:
                    if isinstance(part, nodes.Assign) and isinstance(part.value, (nodes.Call, nodes.Await)):
                        yield Constant(module, name), words_of((part,))[0].names - {name}

    def spread(self, functions: Iterable[FunctionInfo]) -> None:
        """These functions matter by themselves, and so does what uses them."""
        self._spread([(function, 0) for function in functions])

    def _spread(self, fresh: list[tuple[FunctionInfo | Constant, int]]) -> None:
        waiting = deque(sorted(fresh, key=lambda pair: pair[1]))
        while waiting:
            reached, depth = waiting.popleft()
            if self._reaching.get(reached, depth + 1) <= depth or (self._depth is not None and depth > self._depth):
                continue
            self._reaching[reached] = depth
            for name in _names_for(reached):
                waiting.extend(self._borne(name, reached, depth))

    def _borne(
        self, name: str, bearer: FunctionInfo | Constant, depth: int
    ) -> list[tuple[FunctionInfo | Constant, int]]:
        """Those that use the name of what matters, one call further away."""
        self._bearers.setdefault(name, []).append((bearer, depth))
        return [(user, depth + 1) for user in self._users.get(name, ()) if self._means(user, bearer)]

    def _means(self, user: FunctionInfo | Constant, bearer: FunctionInfo | Constant) -> bool:
        """Whether the use of a name may mean what bears it: it is of the same module, or was imported."""
        if user.module is bearer.module or not self._imports[user.module].isdisjoint(_home(bearer)):
            return True
        return _is_of_manager(bearer) and isinstance(user, FunctionInfo) and _MANAGER in user.words.names


def _is_annotated(value: object) -> bool:
    """Whether a value is the alias of an annotation: `Db = Annotated[Session, Depends(get_db)]`."""
    return isinstance(value, nodes.Subscript) and isinstance(value.value, nodes.Name) and value.value.id == "Annotated"


def _home(bearer: FunctionInfo | Constant) -> tuple[str, ...]:
    """The words of which an import of what bears a name has one: itself or its module, of a method its class."""
    if isinstance(bearer, FunctionInfo) and bearer.owner is not None:
        return (bearer.owner.node.name,)
    own = (bearer.node.name if isinstance(bearer, FunctionInfo) else bearer.name,)
    return (*own, bearer.module.name.rpartition(".")[2])


#: Under this name a model has the manager that makes its queries.
_MANAGER = "objects"


def _is_of_manager(bearer: FunctionInfo | Constant) -> bool:
    """Whether it is a method of a manager or query class, which code only comes to through a model."""
    owner = bearer.owner if isinstance(bearer, FunctionInfo) else None
    return owner is not None and any(base.endswith(("QuerySet", "Manager")) for base in owner.base_names)


def _around(bearer: FunctionInfo | Constant) -> tuple[str, ...]:
    """The words of which a file that imports what bears a name has one, directly or from the package around it."""
    if _is_of_manager(bearer):
        return (_MANAGER,)
    if isinstance(bearer, FunctionInfo) and bearer.owner is not None:
        return (bearer.owner.node.name,)
    return tuple(bearer.module.name.split(".")[-2:])


def _names_for(function: FunctionInfo | Constant) -> Iterator[str]:
    """The names under which a function is used: its own, and of a method the class's, which makes the object.

    What a constructor makes and keeps is used by the names of its attributes.
    """
    if isinstance(function, Constant):
        yield function.name
        return
    if not function.node.name.startswith("__"):
        yield function.node.name
    if function.owner is None:
        return
    yield function.owner.node.name
    if function.node.name == "__init__":
        for name, assigned in function.owner.assigned.items():
            if any(method is function and isinstance(value, nodes.Call) for method, value, _ in assigned):
                yield name


def _words_imported(module: ModuleInfo) -> Iterator[str]:
    for part in module.imports:
        yield from part.loads.split(".")
        yield part.attribute or ""
