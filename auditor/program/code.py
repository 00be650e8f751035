"""The Python of a program: modules, classes and functions, with what is told from each alone."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

from auditor.findings import Place
from auditor.frozen import dataclass
from auditor.lines import decode
from auditor.program.bounds import (
    functions_comparing_ages,
    functions_comparing_attempts,
    functions_comparing_on_failure,
)
from auditor.program.small import is_small
from auditor.program.tree import Words, bodies_of, descend, last_name, literal, statements_in, words_of
from auditor.program.turns import takes_turns
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.python.nodes import PythonFacts


@dataclass(eq=False)
class FunctionInfo:
    """A function, method or lambda. Compared by identity."""

    module: ModuleInfo
    node: nodes.Function
    qualname: str
    owner: ClassInfo | None = None
    nested: bool = False

    @property
    def words(self) -> Words:
        """What it is made of, with all that is nested in it."""
        return self.module.words_of(self)

    @cached_property
    def named_in_parameters(self) -> frozenset[str]:
        """The names in the annotations and defaults of its parameters."""
        return frozenset(part.id for part in descend(self.node.parameters) if isinstance(part, nodes.Name))

    @cached_property
    def keeps_frame(self) -> bool:
        """Something defined in it may outlive a call and still see its variables."""
        return any(
            isinstance(part, (nodes.Function, nodes.Lambda)) and part is not self.node for part in descend(self.node)
        )

    @cached_property
    def awaited(self) -> frozenset[nodes.Span]:
        """Where the calls stand whose results it waits for."""
        waits = (part for part in descend(self.node) if isinstance(part, nodes.Await))
        return frozenset(part.value.span for part in waits if isinstance(part.value, nodes.Call))

    def holds(self, line: int) -> bool:
        """Whether a line of its file is the function's."""
        return self.node.span[0] <= line <= self.node.span[2]

    @cached_property
    def is_small(self) -> bool:
        """It is followed wherever it is called."""
        return is_small(self.node)

    @cached_property
    def takes_turns(self) -> bool:
        """Whether it takes a lock outside of the database, by which one process alone works."""
        return takes_turns(self.node, self.words)

    @cached_property
    def is_left_open(self) -> bool:
        """A method that its class leaves to those derived from it: nothing stands in it but words.

        One that does nothing, and is not said to be left open, is a way to do nothing.
        """
        if self.owner is None or not all(map(_says_nothing, self.node.body)):
            return False
        return bool(self.node.body) or "abstractmethod" in self.decorator_names or self.owner.is_protocol

    @cached_property
    def sets_attributes(self) -> bool:
        """Whether it assigns to attributes of anything."""
        return any(
            isinstance(target, nodes.Attribute)
            for part in descend(self.node, into_functions=False)
            if isinstance(part, (nodes.Assign, nodes.Augment))
            for target in (part.targets if isinstance(part, nodes.Assign) else (part.target,))
        )

    @cached_property
    def gives_value(self) -> bool:
        """Some way through it returns something."""
        return any(
            isinstance(part, nodes.Return) and part.value is not None
            for part in descend(self.node, into_functions=False)
        )

    @cached_property
    def handed_out(self) -> frozenset[str]:
        """The variables that it returns or yields as they are."""
        given = (
            part.value
            for part in descend(self.node, into_functions=False)
            if isinstance(part, (nodes.Return, nodes.Yield))
        )
        return frozenset(value.id for value in given if isinstance(value, nodes.Name))

    @cached_property
    def decorator_names(self) -> frozenset[str]:
        """The last names of its decorators: `property`, `contextmanager`, `task`, …"""
        names = set()
        for decorator in self.node.decorators:
            target = decorator.function if isinstance(decorator, nodes.Call) else decorator
            if isinstance(target, nodes.Attribute):
                names.add(target.name)
            elif isinstance(target, nodes.Name):
                names.add(target.id)
        return frozenset(names)

    @property
    def is_static(self) -> bool:
        return "staticmethod" in self.decorator_names

    @property
    def is_classmethod(self) -> bool:
        return "classmethod" in self.decorator_names or self.node.name in ("__new__", "__init_subclass__")

    @property
    def is_property(self) -> bool:
        return bool(self.decorator_names & {"property", "cached_property"})

    @property
    def is_cached(self) -> bool:
        """Its first call makes the value for all that follow."""
        return bool(self.decorator_names & {"cache", "lru_cache", "cached_property"})

    @property
    def is_manager(self) -> bool:
        """It is made a context manager by a decorator of contextlib."""
        return bool(self.decorator_names & {"contextmanager", "asynccontextmanager"})

    @property
    def is_entrance(self) -> bool:
        """It opens the block of an object that is a context manager."""
        return self.owner is not None and not self.nested and self.node.name in ("__enter__", "__aenter__")

    @property
    def dotted(self) -> str:
        """module.qualified.name, for people."""
        return f"{self.module.name}.{self.qualname}"

    @property
    def place(self) -> Place:
        return self.module.place(self.node.name_span)

    def __repr__(self) -> str:
        return f"<{self.dotted}>"


def _says_nothing(part: nodes.Node) -> bool:
    """`...`, or that it is not implemented."""
    if isinstance(part, nodes.Raise):
        return True
    return isinstance(part, nodes.Do) and isinstance(part.value, nodes.Opaque) and not part.value.parts


@dataclass(eq=False)
class ClassInfo:
    """A class, with what its body binds. Compared by identity."""

    module: ModuleInfo
    node: nodes.Class
    qualname: str

    @property
    def is_protocol(self) -> bool:
        """Whether it only says what others have: a typing.Protocol."""
        bases = (base.value if isinstance(base, nodes.Subscript) else base for base in self.node.bases)
        names = (base.id if isinstance(base, nodes.Name) else getattr(base, "name", "") for base in bases)
        return "Protocol" in names

    @cached_property
    def members(self) -> dict[str, nodes.Node]:
        """The last binding of each name in its body: a Function, a Class or an Assign."""
        members: dict[str, nodes.Node] = {}
        for part in _flat(self.node.body):
            if isinstance(part, (nodes.Function, nodes.Class)):
                if isinstance(part, nodes.Function) and _sets_or_overloads(part):
                    continue
                members[part.name] = part
            elif isinstance(part, nodes.Assign):
                for target in part.targets:
                    if isinstance(target, nodes.Name):
                        members[target.id] = part
                    elif isinstance(target, nodes.Items):
                        members.update(_unpacked(target, part))
        return members

    @cached_property
    def commits(self) -> bool:
        """Whether one of its methods commits something."""
        return any(isinstance(part, nodes.Attribute) and part.name == "commit" for part in descend(self.node))

    @cached_property
    def fields(self) -> tuple[nodes.Assign, ...]:
        """Annotated names of the body, which dataclasses and their like take in their constructor."""
        return tuple(
            part
            for part in self.node.body
            if isinstance(part, nodes.Assign) and part.annotation and isinstance(part.targets[0], nodes.Name)
        )

    @cached_property
    def takes_fields(self) -> bool:
        """Its constructor is made from its fields."""
        decorators = [d.function if isinstance(d, nodes.Call) else d for d in self.node.decorators]
        names = {d.name if isinstance(d, nodes.Attribute) else getattr(d, "id", "") for d in decorators}
        bases = self.base_names & {"NamedTuple", "BaseModel", "Struct"}
        return bool(names & {"dataclass", "define", "frozen", "attrs", "s"} or bases)

    @cached_property
    def base_names(self) -> frozenset[str]:
        """The last names of what it is derived from."""
        return frozenset(b.name if isinstance(b, nodes.Attribute) else getattr(b, "id", "") for b in self.node.bases)

    @cached_property
    def makes_queries(self) -> bool:
        """Whether it is derived from a manager or query class, by the name of that."""
        return any(base.endswith(("QuerySet", "Manager")) for base in self.base_names)

    @cached_property
    def assigned(self) -> dict[str, list[tuple[FunctionInfo, nodes.Expression | None, nodes.Expression | None]]]:
        """What its methods assign to attributes of self: (method, value, annotation) by attribute."""
        found: dict[str, list[tuple[FunctionInfo, nodes.Expression | None, nodes.Expression | None]]] = {}
        for member in self.members.values():
            if not isinstance(member, nodes.Function) or not member.parameters:
                continue
            me = member.parameters[0].name
            method = self.module.function(member, f"{self.qualname}.{member.name}", self)
            for part in statements_in(member.body):
                if not isinstance(part, nodes.Assign):
                    continue
                for target in part.targets:
                    if (
                        isinstance(target, nodes.Attribute)
                        and isinstance(target.value, nodes.Name)
                        and target.value.id == me
                    ):
                        found.setdefault(target.name, []).append((method, part.value, part.annotation))
        return found

    def method(self, name: str) -> FunctionInfo | None:
        """The function of that name in its own body."""
        member = self.members.get(name)
        if isinstance(member, nodes.Function):
            return self.module.function(member, f"{self.qualname}.{name}", self)
        return None

    @property
    def dotted(self) -> str:
        return f"{self.module.name}.{self.qualname}"

    def __repr__(self) -> str:
        return f"<class {self.dotted}>"


def _flat(body: tuple[nodes.Node, ...]) -> Iterator[nodes.Node]:
    """The statements of a body, those under if and try included."""
    for part in body:
        yield part
        if isinstance(part, nodes.If):
            yield from _flat(part.body)
            yield from _flat(part.orelse)
        elif isinstance(part, nodes.Try):
            for inner in (part.body, *(handler.body for handler in part.handlers), part.orelse, part.final):
                yield from _flat(inner)
        elif isinstance(part, nodes.With):
            yield from _flat(part.body)


def _item_of(target: nodes.Expression) -> tuple[str, str] | None:
    """The name and the key of `name["key"]`."""
    if not isinstance(target, nodes.Subscript) or not isinstance(target.value, nodes.Name):
        return None
    key = literal(target.key)
    return (target.value.id, key) if key is not None else None


def _unpacked(target: nodes.Items, part: nodes.Assign) -> Iterator[tuple[str, nodes.Assign]]:
    """`PENDING, SENT = "P", "S"` and `PENDING, SENT = range(2)`, as one assignment each."""
    value = part.value
    counted = isinstance(value, nodes.Call) and last_name(value.function) == "range" and len(value.arguments) == 1
    for index, name in enumerate(target.items):
        if not isinstance(name, nodes.Name):
            return
        if isinstance(value, nodes.Items) and len(value.items) == len(target.items):
            yield name.id, nodes.Assign((name,), value.items[index], None, part.span)
        elif counted:
            yield name.id, nodes.Assign((name,), nodes.Constant(index, part.span), None, part.span)


def _sets_or_overloads(function: nodes.Function) -> bool:
    """`@x.setter`, `@x.deleter` and `@overload` bind nothing that is called."""
    return any(
        (isinstance(d, nodes.Attribute) and d.name in ("setter", "deleter", "overload"))
        or (isinstance(d, nodes.Name) and d.id == "overload")
        for d in function.decorators
    )


@dataclass(eq=False)
class ModuleInfo:
    """A Python file of the program. Compared by identity."""

    name: str  #: dotted, as it is imported
    path: str  #: as it is shown
    file: str
    facts: PythonFacts
    data: bytes = field(repr=False)
    package: bool = False  #: an __init__.py
    reported: bool = True
    test: bool = False
    _defs: tuple[FunctionInfo, ...] | None = field(default=None, repr=False)
    _functions: dict[int, FunctionInfo] = field(default_factory=dict, repr=False)
    _classes: dict[int, ClassInfo] = field(default_factory=dict, repr=False)

    def function(
        self, node: nodes.Function, qualname: str, owner: ClassInfo | None = None, nested: bool = False
    ) -> FunctionInfo:
        """The one FunctionInfo of that node."""
        info = self._functions.get(id(node))
        if info is None:
            info = self._functions[id(node)] = FunctionInfo(self, node, qualname, owner, nested)
        return info

    def class_(self, node: nodes.Class, qualname: str) -> ClassInfo:
        """The one ClassInfo of that node."""
        info = self._classes.get(id(node))
        if info is None:
            info = self._classes[id(node)] = ClassInfo(self, node, qualname)
        return info

    def functions(self) -> tuple[FunctionInfo, ...]:
        """Every def of the file, outer ones first."""
        if self._defs is None:
            self._defs = tuple(self._functions_in(self.facts.module.body, "", None, nested=False))
        return self._defs

    def _functions_in(
        self, body: tuple[nodes.Node, ...], prefix: str, owner: ClassInfo | None, nested: bool
    ) -> Iterator[FunctionInfo]:
        for part in body:
            if isinstance(part, nodes.Function):
                info = self.function(part, prefix + part.name, owner, nested)
                yield info
                yield from self._functions_in(part.body, f"{info.qualname}.<locals>.", None, nested=True)
            elif isinstance(part, nodes.Class):
                cls = self.class_(part, prefix + part.name)
                yield from self._functions_in(part.body, f"{cls.qualname}.", cls, nested)
            else:
                for inner in bodies_of(part):
                    yield from self._functions_in(inner, prefix, owner, nested)

    def function_at(self, line: int) -> FunctionInfo | None:
        """The innermost function that a line belongs to."""
        around = [function for function in self.functions() if function.holds(line)]
        return around[-1] if around else None

    def symbol_at(self, line: int) -> str:
        """The qualified name of the innermost function, or else class, that a line belongs to."""
        named = [(info.node.span, info.qualname) for info in self.functions()]
        named += [(info.node.span, info.qualname) for info in self.classes()]
        around = [(span[2] - span[0], name) for span, name in named if span[0] <= line <= span[2]]
        return min(around, default=(0, ""))[1]

    def classes(self) -> Iterator[ClassInfo]:
        """The classes at the top level of the file."""
        for bound in self.bound.values():
            for part in bound:
                if isinstance(part, nodes.Class):
                    yield self.class_(part, part.name)

    @cached_property
    def comparing_attempts(self) -> tuple[str, ...]:
        """The qualified names of its functions that hold an attempt counter against a maximum."""
        return tuple(functions_comparing_attempts(self))

    @cached_property
    def comparing_on_failure(self) -> tuple[str, ...]:
        """Those of them that do so nowhere but where something has failed."""
        return tuple(functions_comparing_on_failure(self))

    @cached_property
    def comparing_ages(self) -> tuple[str, ...]:
        """The qualified names of its functions that ask by the clock whether the time of something is up."""
        return tuple(functions_comparing_ages(self))

    @cached_property
    def text(self) -> str:
        """The file as characters."""
        return decode(self.data)

    @cached_property
    def is_ascii(self) -> bool:
        return self.data.isascii()

    @cached_property
    def lines(self) -> list[bytes]:
        return self.data.splitlines()

    @cached_property
    def _words(self) -> tuple[Words, dict[int, Words]]:
        return words_of(self.facts.module.body)

    @property
    def words(self) -> Words:
        """What the whole file is made of."""
        return self._words[0]

    def words_of(self, function: FunctionInfo) -> Words:
        """What a function of the file, with all that is nested in it, is made of."""
        return self._words[1].get(id(function.node)) or Words()

    @property
    def imports(self) -> list[nodes.Import]:
        """Every import of the file, at its top or in a function."""
        return self.words.imports

    def leaves_open(self, name: str) -> bool:
        """Whether a class of this module leaves a method to those derived from it."""
        found = (cls for cls in self.classes() if cls.node.name == name)
        methods = (cls.method(member) for cls in found for member in cls.members)
        return any(method is not None and method.is_left_open for method in methods)

    def absolute(self, imported: nodes.Import) -> str:
        """The absolute name of the module that an import statement of this one names, by dots or in full."""
        if not imported.level:
            return imported.module
        parts = self.name.split(".")
        base = parts[: len(parts) - imported.level + (1 if self.package else 0)]
        return ".".join([*base, imported.module] if imported.module else base)

    @cached_property
    def bound(self) -> dict[str, list[nodes.Node]]:
        """What the module's top level binds, by name, in order."""
        names: dict[str, list[nodes.Node]] = {}
        for part in statements_in(self.facts.module.body):
            for name in _names_bound(part):
                names.setdefault(name, []).append(part)
        return names

    @cached_property
    def global_assignments(self) -> dict[str, list[tuple[FunctionInfo, nodes.Expression]]]:
        """What functions assign to names that they declare global: (function, value) by name."""
        found: dict[str, list[tuple[FunctionInfo, nodes.Expression]]] = {}
        for function in self.functions():
            if not any(isinstance(part, nodes.Scope) for part in function.node.body):
                continue  # a global statement stands at the beginning of its function, or it helps nobody
            parts = list(descend(function.node, into_functions=False))
            names = {
                name for part in parts if isinstance(part, nodes.Scope) and part.kind == "global" for name in part.names
            }
            for part in parts if names else ():
                if isinstance(part, nodes.Assign) and part.value is not None:
                    for target in part.targets:
                        if isinstance(target, nodes.Name) and target.id in names:
                            found.setdefault(target.id, []).append((function, part.value))
        return found

    @cached_property
    def item_assignments(self) -> dict[tuple[str, str], list[tuple[FunctionInfo, nodes.Expression]]]:
        """What functions put into the module's dicts under a key that is written out: by name and key."""
        found: dict[tuple[str, str], list[tuple[FunctionInfo, nodes.Expression]]] = {}
        for function in self.functions():
            for part in descend(function.node, into_functions=False):
                if isinstance(part, nodes.Assign) and part.value is not None:
                    for target in part.targets:
                        item = _item_of(target)
                        if item is not None and item[0] in self.bound:
                            found.setdefault(item, []).append((function, part.value))
        return found

    def place(self, span: nodes.Span) -> Place:
        """A span of the tree as a place: columns count characters from 1."""
        line, column, end_line, end_column = span
        return Place(self.path, line, self._column(line, column), end_line, self._column(end_line, end_column))

    def _column(self, line: int, column: int) -> int:
        if self.is_ascii or not 0 < line <= len(self.lines):
            return column + 1
        return len(self.lines[line - 1][:column].decode("utf-8", "replace")) + 1

    def __repr__(self) -> str:
        return f"<module {self.name}>"


def _names_bound(part: nodes.Node) -> Iterator[str]:
    if isinstance(part, (nodes.Function, nodes.Class, nodes.Import)):
        yield part.name
    elif isinstance(part, nodes.Assign):
        for target in part.targets:
            if isinstance(target, nodes.Name):
                yield target.id
            elif isinstance(target, nodes.Items):
                yield from (item.id for item in target.items if isinstance(item, nodes.Name))
