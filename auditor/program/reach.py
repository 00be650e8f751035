"""Which functions can come to something through the names they use: told by names, without resolving any.

Too much is reached that way, too little is not.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from auditor.program.code import FunctionInfo
from auditor.program.tree import words_of
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from auditor.program.code import ClassInfo, ModuleInfo

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
        self._heirs = Heirs()
        #: The methods that matter, each under a name it is used by, by the name of their class.
        self._methods: dict[str, list[tuple[str, FunctionInfo, int]]] = {}

    def __contains__(self, function: FunctionInfo) -> bool:
        return function in self._reaching

    @property
    def names(self) -> dict[str, frozenset[str]]:
        """The names that files are searched for, to find who else uses what matters.

        With each come the words of which a file that means it mentions one: it imports it from somewhere.
        """
        return {
            name: frozenset(word for one, _ in bearers for word in self._around(one))
            for name, bearers in self._bearers.items()
            if len(name) > 3 and min(depth for _, depth in bearers) < FAR
        }

    @property
    def owners(self) -> set[ClassInfo]:
        """The classes of which some method matters."""
        methods = (one for one in self._reaching if isinstance(one, FunctionInfo))
        return {method.owner for method in methods if method.owner is not None}

    def add(self, module: ModuleInfo, mattering: Iterable[FunctionInfo], constants: Iterable[str] = ()) -> None:
        """Take in a module with what in it matters by itself; functions taken in before may come to matter by it."""
        self._imports[module] = frozenset(words_imported(module))
        fresh: list[tuple[FunctionInfo | Constant, int]] = [(function, 0) for function in mattering]
        self._spread(self._inherited(self._heirs.add(module)))
        self._spread(self._filled(self._heirs.leave_open(module)))
        fresh.extend((Constant(module, name), 0) for name in constants)
        for user, names in self._using(module):
            for name in names:
                self._users.setdefault(name, []).append(user)
                for bearer, depth in self._bearers.get(name, ()):
                    fresh.extend(self._meant(bearer, depth, (user,)))
        self._spread(fresh)

    def _inherited(self, owners: frozenset[str]) -> list[tuple[FunctionInfo | Constant, int]]:
        """Who means a method of these classes, now that there are more classes that inherit it."""
        bearers = [borne for owner in owners for borne in self._methods.get(owner, ())]
        return [user for name, bearer, depth in bearers for user in self._meaning(name, bearer, depth)]

    def _filled(self, names: frozenset[str]) -> list[tuple[FunctionInfo | Constant, int]]:
        """Who means a method under these names, now that there are more classes that leave it open."""
        borne = [(name, *one) for name in sorted(names) for one in self._bearers.get(name, ())]
        return [user for name, bearer, depth in borne for user in self._meaning(name, bearer, depth)]

    def _using(self, module: ModuleInfo) -> Iterator[tuple[FunctionInfo | Constant, Iterable[str]]]:
        """What may come to matter in a module, with the names that it uses."""
        for function in module.functions():
            # What a framework supplies for a parameter is named by its annotation or default.
            names = function.words.names | function.named_in_parameters
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
        if isinstance(bearer, FunctionInfo) and bearer.owner is not None:
            self._methods.setdefault(bearer.owner.node.name, []).append((name, bearer, depth))
        return self._meaning(name, bearer, depth)

    def _meaning(
        self, name: str, bearer: FunctionInfo | Constant, depth: int
    ) -> list[tuple[FunctionInfo | Constant, int]]:
        return list(self._meant(bearer, depth, self._users.get(name, ())))

    def _meant(
        self, bearer: FunctionInfo | Constant, depth: int, users: Iterable[FunctionInfo | Constant]
    ) -> Iterator[tuple[FunctionInfo | Constant, int]]:
        """Those of the users of a name that may mean what bears it: they are of the same module, or import it."""
        home, of_manager = self._home(bearer), _is_of_manager(bearer)
        for user in users:
            module = user.module
            means = module is bearer.module or not self._imports[module].isdisjoint(home)
            # What begins at a manager may be kept under another name by the module.
            if means or (of_manager and isinstance(user, FunctionInfo) and _MANAGER in module.words.names):
                yield user, depth + 1

    def _home(self, bearer: FunctionInfo | Constant) -> frozenset[str]:
        """The words of which an import of what bears a name has one: itself or its module, of a method its classes."""
        if isinstance(bearer, FunctionInfo) and bearer.owner is not None:
            return self._heirs.known_as(bearer.owner.node.name, bearer.node.name)
        own = bearer.node.name if isinstance(bearer, FunctionInfo) else bearer.name
        return frozenset({own, bearer.module.name.rpartition(".")[2]})

    def _around(self, bearer: FunctionInfo | Constant) -> frozenset[str]:
        """The words of which a file that imports what bears a name has one, directly or from the package around it."""
        if _is_of_manager(bearer):
            return frozenset({_MANAGER})
        if isinstance(bearer, FunctionInfo) and bearer.owner is not None:
            return self._heirs.known_as(bearer.owner.node.name, bearer.node.name)
        return frozenset(bearer.module.name.split(".")[-2:])


class Heirs:
    """The names of classes by those of the classes they are derived from: a method is called on any of them."""

    def __init__(self) -> None:
        self._derived: dict[str, set[str]] = {}
        self._bases: dict[str, set[str]] = {}
        #: The classes that leave a method open to others, by its name; and those of them that are protocols.
        self._open: dict[str, set[str]] = {}
        self._shapes: set[str] = set()
        #: What `of` and `_above` have told, until there are more.
        self._known: dict[str, frozenset[str]] = {}
        self._known_above: dict[str, frozenset[str]] = {}

    def add(self, module: ModuleInfo) -> frozenset[str]:
        """Take in a module's classes; the names of those that have got new heirs by it, at whatever distance."""
        grown, derived = set(), set()
        for cls in module.classes():
            for base in cls.base_names - {cls.node.name}:
                if cls.node.name not in self._derived.setdefault(base, set()):
                    self._derived[base].add(cls.node.name)
                    self._bases.setdefault(cls.node.name, set()).add(base)
                    grown.add(base)
                    derived.add(cls.node.name)
        for name in _closure(derived, self._derived):
            self._known_above.pop(name, None)
        above = _closure(grown, self._bases)
        for name in above:
            self._known.pop(name, None)
        return above

    def leave_open(self, module: ModuleInfo) -> frozenset[str]:
        """Take in what a module's classes leave open to others: the names of those methods."""
        found = set()
        for cls in module.classes():
            self._shapes.update((cls.node.name,) if cls.is_protocol else ())
            for name in cls.members:
                method = None if name.startswith("__") else cls.method(name)
                if method is not None and method.is_left_open:
                    self._open.setdefault(name, set()).add(cls.node.name)
                    found.add(name)
        return frozenset(found)

    def known_as(self, name: str, method: str) -> frozenset[str]:
        """The classes by which a method is called: its own, those derived from it, and those it fills in for."""
        left_open = self._open.get(method)
        if left_open is None:
            return self.of(name)
        return self.of(name) | (left_open & self._shapes) | (left_open & self._above(name))

    def of(self, name: str) -> frozenset[str]:
        """A class's own name, and those of all that are derived from it."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = _closure((name,), self._derived)
        return known

    def _above(self, name: str) -> frozenset[str]:
        """A class's own name, and those of all that it is derived from."""
        known = self._known_above.get(name)
        if known is None:
            known = self._known_above[name] = _closure((name,), self._bases)
        return known


def _closure(names: Iterable[str], beyond: Mapping[str, set[str]]) -> frozenset[str]:
    found = set(names)
    waiting = list(found)
    while waiting:
        fresh = beyond.get(waiting.pop(), _NONE) - found
        found |= fresh
        waiting += fresh
    return frozenset(found)


_NONE: frozenset[str] = frozenset()


def _is_annotated(value: object) -> bool:
    """Whether a value is the alias of an annotation: `Db = Annotated[Session, Depends(get_db)]`."""
    return isinstance(value, nodes.Subscript) and isinstance(value.value, nodes.Name) and value.value.id == "Annotated"


#: Under this name a model has the manager that makes its queries.
_MANAGER = "objects"


def _is_of_manager(bearer: FunctionInfo | Constant) -> bool:
    """Whether it is a method of a manager or query class, which code only comes to through a model."""
    return isinstance(bearer, FunctionInfo) and bearer.owner is not None and bearer.owner.makes_queries


def _names_for(function: FunctionInfo | Constant) -> Iterator[str]:
    """The names under which a function is used: its own, and of a method the class's, which makes the object.

    What a constructor makes and keeps is used by the names of its attributes, and so is what another method waits for.
    """
    if isinstance(function, Constant):
        yield function.name
        return
    if not function.node.name.startswith("__"):
        yield function.node.name
    if function.owner is None:
        return
    yield function.owner.node.name
    made = (nodes.Call, nodes.Await) if function.node.name == "__init__" else nodes.Await
    for name, assigned in function.owner.assigned.items():
        if any(method is function and isinstance(value, made) for method, value, _ in assigned):
            yield name


def words_imported(module: ModuleInfo) -> Iterator[str]:
    """The words of the names that a module imports."""
    for part in module.imports:
        yield from part.loads.split(".")
        yield part.attribute or ""
