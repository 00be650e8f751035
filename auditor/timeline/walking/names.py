"""What names mean: variables of activations, globals of modules, imports, definitions and their decorators."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from auditor.python import nodes
from auditor.timeline.model.invocation import Invocation
from auditor.timeline.model.state import Flow, Frame, State, merge
from auditor.timeline.model.values import (
    NONE,
    UNKNOWN,
    Bound,
    Class,
    External,
    Function,
    Imported,
    Instance,
    Key,
    Module,
    Pending,
    Text,
    Unknown,
    Value,
    either,
    says_nothing,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from auditor.program.code import ClassInfo, FunctionInfo, ModuleInfo
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker


class Handed(NamedTuple):
    """A function that a library was given while another one ran, and what was known then."""

    function: Function
    state: State


class Names:
    """Looks names up. A module's top level is walked when something of it is first asked for, and only once."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._globals: dict[Key, dict[str, Value]] = {}
        self._ready: set[ModuleInfo] = set()
        self._loaded: dict[ModuleInfo, tuple[list[State], Flow]] = {}
        self._keys: dict[ModuleInfo, Key] = {}
        self._declaring: set[tuple[object, str]] = set()
        self._declared: dict[tuple[object, str], Value | None] = {}
        self._stars: dict[Key, list[tuple[str, ModuleInfo | None]]] = {}
        #: Functions that were defined in another one, and given to a decorator of some library.
        self.handed: dict[FunctionInfo, Handed] = {}
        #: What modules leave behind when they have been loaded: connections kept at their top level.
        self.base = State()

    # Modules

    def module_key(self, module: ModuleInfo) -> Key:
        key = self._keys.get(module)
        if key is None:
            key = self._keys[module] = self.walker.keys.of("module", module)
        return key

    def load(self, module: ModuleInfo) -> None:
        """Walk a module's top level, unless that has been done or is being done."""
        if module in self._ready:
            return
        self._ready.add(module)
        frame = self.module_frame(module)
        flow = Flow()
        with self.walker.aloud(), self.walker.as_root(module.name, lasting=True):
            ends = self.walker.block(module.facts.module.body, [self.start()], frame, flow)
        # A module that always raises is never there; what it bound before is what its importers may see.
        ends = ends or [state for state, _ in flow.raises]
        for state in reversed(ends):
            self.keep(state)
        self._loaded[module] = (ends, flow)

    def loaded(self, module: ModuleInfo) -> tuple[list[State], Flow]:
        """How the top level of a module has ended; nothing where it has not been walked to its end."""
        return self._loaded.get(module) or ([], Flow())

    def module_frame(self, module: ModuleInfo) -> Frame:
        key = self.module_key(module)
        return Frame(key, module, scopes=(key,))

    def member(self, module: ModuleInfo, name: str) -> Value | None:
        """What a module has under a name, or None."""
        self.load(module)
        key = self.module_key(module)
        value = self.base_attribute(key, name)
        if value is None:
            value = self._not_yet(module, name)
        if value is None:
            value = self._from_stars(key, name)
        if isinstance(value, Imported):
            value = self._resolve(value)
        if value is None or says_nothing(value):
            declared = self.declared_global(module, name)
            if declared is not None:
                # Set when the program starts, by a function: until then it is what the top level says.
                value = declared
        return value

    def _not_yet(self, module: ModuleInfo, name: str) -> Value | None:
        """A name of a module that is being loaded: a definition further down is as good as there."""
        for node in module.bound.get(name, ()):
            if isinstance(node, nodes.Function):
                return Function(module.function(node, node.name), self.module_key(module))
            if isinstance(node, nodes.Class):
                return Class(module.class_(node, node.name))
            if isinstance(node, nodes.Import) and node.attribute != "*":
                return self.imported(node, module)
        submodule = self.walker.program.module(f"{module.name}.{name}", module.file) if module.package else None
        return Module(submodule) if submodule else None

    def _from_stars(self, key: Key, name: str) -> Value | None:
        for library, module in self._stars.get(key, ()):
            if module is not None and not name.startswith("_"):
                value = self.member(module, name)
                if value is not None:
                    return value
            elif library in _STAR_LIBRARIES:
                return External(f"{library}.{name}")
        return None

    def _resolve(self, imported: Imported) -> Value:
        mark = (imported.module, f"<import {imported.attribute}>")
        if mark in self._declaring:
            return UNKNOWN
        self._declaring.add(mark)
        value = self.member(imported.module, imported.attribute)
        self._declaring.discard(mark)
        return UNKNOWN if value is None else value

    # Lookup

    def lookup(self, name: str, state: State, frame: Frame) -> Value:
        """The value of a name where `frame` sees it."""
        for scope in frame.scopes:
            value = state.get(scope, name)
            if value is None and scope != frame.scopes[-1]:
                # A variable of a function that ran while its module was loaded: what a decorator closed over.
                value = self.base_attribute(scope, name)
            if value is None:
                continue
            if isinstance(value, Imported):
                return self._resolve(value)
            if scope == frame.scopes[-1] and says_nothing(value):
                declared = self.declared_global(frame.module, name)
                return declared if value == UNKNOWN and declared is not None else value
            return value
        value = self.member(frame.module, name)
        if value is not None:
            return value
        return External(f"builtins.{name}") if name in _BUILTINS else UNKNOWN

    def holder_of(self, name: str, state: State, frame: Frame) -> Key | None:
        """The activation or module that a visible name belongs to, or None when it is not a variable."""
        for scope in frame.scopes:
            if state.get(scope, name) is not None or self.base_attribute(scope, name) is not None:
                return scope
        return None

    def owner_of(self, name: str, frame: Frame) -> Key:
        """Where an assignment to the name puts it."""
        if name in frame.globals:
            return self.module_key(frame.module)
        if name in frame.nonlocals and len(frame.scopes) > 1:
            return frame.scopes[1]
        return frame.key

    def base_attribute(self, owner: Key, name: str) -> Value | None:
        """An attribute that an object was given while the modules were loaded."""
        variables = self._globals.get(owner)
        return variables.get(name) if variables is not None else None

    def keep(self, state: State) -> None:
        """What was set up outside any job is there for every job: variables, attributes, connections."""
        for held in (state.frames, state.heap):
            for owner, variables in held.items():
                self._globals.setdefault(owner, {}).update(variables)
        self.base = State(connections={**self.base.connections, **state.connections})

    def start_of(self, info: FunctionInfo, state: State) -> tuple[Function, State]:
        """A function that a framework calls, and the state with the variables that it sees."""
        handed = self.handed.get(info)
        if handed is None:
            return Function(info, self.module_key(info.module)), state
        for owner, variables in handed.state.frames.items():
            if owner not in state.frames:
                state = state.bind_all(owner, variables)
        return handed.function, state

    def start(self) -> State:
        """The state in which an entry point starts: what was set up while modules were loaded is there."""
        return self.base

    def remember(self, owner: Key, name: str, value: Value) -> None:
        """A registry that grows while modules load is seen by everybody afterwards."""
        if self.base_attribute(owner, name) is not None:
            self._globals[owner][name] = value

    # Declarations: what a name is to hold once the program has started

    def declared_global(self, module: ModuleInfo, name: str) -> Value | None:
        """What functions assign to a global of their module, or what its annotation says it is."""
        mark = (module, name)
        if mark in self._declared:
            return self._declared[mark]
        if mark in self._declaring:
            return None
        self._declaring.add(mark)
        value = self._assigned(module.global_assignments.get(name, ()))
        if value == UNKNOWN:
            for node in module.bound.get(name, ()):
                if isinstance(node, nodes.Assign) and node.annotation is not None:
                    frame = self.module_frame(module)
                    key = self.walker.keys.of("annotated", frame.key, name)
                    value = self.walker.types.typed(node.annotation, frame, key)
        self._declaring.discard(mark)
        self._declared[mark] = None if value == UNKNOWN else value
        return self._declared[mark]

    def _assigned(self, assignments: Iterable[tuple[FunctionInfo, nodes.Expression]]) -> Value:
        """What functions assign, as far as it is known."""
        found = (value for function, given in assignments for value in self.walker.calls.evaluate_in(function, given))
        return either([value for value in found if value not in (NONE, UNKNOWN)] or [UNKNOWN])

    def declared_item(self, collection: nodes.Expression, key: Value, frame: Frame) -> Value | None:
        """What functions put into a dict of the module under a key: what it holds once the program has started."""
        if not isinstance(collection, nodes.Name) or not isinstance(key, Text) or key.holes:
            return None
        module, name = frame.module, collection.id
        bound = module.bound.get(name, ())
        imported = self.imported(bound[0], module) if len(bound) == 1 and isinstance(bound[0], nodes.Import) else None
        if isinstance(imported, Imported):
            module, name = imported.module, imported.attribute
        mark = (module, f"{name}[{key.value}]")
        if mark not in self._declared and mark not in self._declaring:
            self._declaring.add(mark)
            value = self._assigned(module.item_assignments.get((name, key.value), ()))
            self._declaring.discard(mark)
            self._declared[mark] = None if value == UNKNOWN else value
        return self._declared.get(mark)

    # Definitions

    def close(self, info: FunctionInfo, frame: Frame) -> Function:
        """A function value that sees the variables of `frame`."""
        self.walker.calls.scopes_of[info, frame.key] = frame.scopes
        return Function(info, frame.key)

    def define_function(self, node: nodes.Function, state: State, frame: Frame, flow: Flow) -> list[State]:
        prefix = f"{frame.symbol}.<locals>." if frame.function else ""
        info = frame.module.function(node, prefix + node.name, nested=frame.function is not None)
        owner = self.owner_of(node.name, frame)
        ways: list[tuple[State, Value]] = [(state, self.close(info, frame))]
        for decorator in reversed(node.decorators):
            ways = [
                result for before, value in ways for result in self._decorated(decorator, value, before, frame, flow)
            ]
        for after, value in ways if info.nested and node.decorators else ():
            if isinstance(value, Function) and value.info is info:
                # `@app.get("/")` in a function that makes the application: it is called later.
                self.handed.setdefault(info, Handed(value, after))
        return merge([after.bind(owner, node.name, value) for after, value in ways])

    def _decorated(
        self, decorator: nodes.Expression, value: Value, state: State, frame: Frame, flow: Flow
    ) -> list[tuple[State, Value]]:
        """`@decorator` over a function or class: what the name is bound to then."""
        results: list[tuple[State, Value]] = []
        for after, applied in self.walker.evaluate(decorator, state, frame, flow):
            call = Invocation((), (), after, frame, flow, decorator.span)
            results.extend(self._made_by(applied, value, call))
        return results

    def _made_by(self, applied: Value, value: Value, call: Invocation) -> Results:
        """What a decorator makes of a function or class; one of a library is taken to leave it what it is."""
        if isinstance(applied, External) and applied.name in _MANAGERS:
            return [(call.state, replace(value, manager=True) if isinstance(value, Function) else value)]
        if self.walker.database.sessions.listeners.decorated(applied, value):
            return [(call.state, value)]
        if isinstance(applied, (Function, Instance, Class)):
            useful = (Function, Class, Instance, Bound, Pending)
            results = self.walker.calls.apply(applied, call.passing(value))
            return [(after, made if isinstance(made, useful) else value) for after, made in results] or [
                (call.state, value)
            ]
        return [(call.state, value)]

    def decorated_method(self, info: FunctionInfo, frame: Frame) -> Value:
        """A method as its class has it: what the project's own decorators make of it."""
        value: Value = self.close(info, frame)
        with self.walker.quietly(), self.walker.as_root(f"start {info.dotted}", lasting=True):
            for decorator in reversed(info.node.decorators):
                if not isinstance(
                    self.walker.objects.constant(_applied(decorator), frame), (Function, Class, Instance)
                ):
                    continue
                for after, made in self._decorated(decorator, value, self.start(), frame, Flow())[:1]:
                    self.keep(after)
                    value = made
        return value

    def define_class(self, node: nodes.Class, state: State, frame: Frame, flow: Flow) -> list[State]:
        info = frame.module.class_(node, f"{frame.symbol}.<locals>.{node.name}" if frame.function else node.name)
        state = state.bind(self.owner_of(node.name, frame), node.name, Class(info))
        for decorator in reversed(node.decorators):
            # A class decorator registers or fills in; what it returns is taken to be the class.
            ways = self._decorated(decorator, Class(info), state, frame, flow)
            state = ways[0][0] if ways else state
        for part in node.body:
            if isinstance(part, nodes.Function):
                state = self._register_method(part, info, state, frame, flow)
        return [state]

    def _register_method(self, node: nodes.Function, owner: ClassInfo, state: State, frame: Frame, flow: Flow) -> State:
        """Decorators of methods that register them somewhere run when the class is made."""
        for decorator in node.decorators:
            if isinstance(decorator, nodes.Call):
                info = frame.module.function(node, f"{owner.qualname}.{node.name}", owner)
                ways = self._decorated(decorator, self.close(info, frame), state, frame, flow)
                state = ways[0][0] if ways else state
        return state

    # Imports

    def bind_import(self, node: nodes.Import, state: State, frame: Frame, flow: Flow) -> list[State]:
        owner = self.owner_of(node.name, frame)
        if node.attribute == "*":
            name = frame.module.absolute(node)
            module = self.walker.program.module(name, frame.module.file)
            self._stars.setdefault(self.module_key(frame.module), []).append((name, module))
            return [state]
        return [state.bind(owner, node.name, self.imported(node, frame.module))]

    def imported(self, node: nodes.Import, into: ModuleInfo) -> Value:
        """What an import statement binds its name to."""
        program = self.walker.program
        if node.attribute is None:
            module = program.module(node.module, into.file)
            return Module(module) if module else External(node.module)
        name = into.absolute(node)
        module = program.module(name, into.file)
        if module is not None:
            if module.bound.get(node.attribute) or not module.package:
                return Imported(module, node.attribute)
            submodule = program.module(f"{name}.{node.attribute}", into.file)
            return Module(submodule) if submodule else Imported(module, node.attribute)
        submodule = program.module(f"{name}.{node.attribute}" if name else node.attribute, into.file)
        if submodule is not None:
            return Module(submodule)
        if node.level:
            return Unknown()
        return self.walker.database.held.value(External(f"{name}.{node.attribute}"))


def _applied(decorator: nodes.Expression) -> nodes.Expression:
    """What a decorator calls, or is."""
    return decorator.function if isinstance(decorator, nodes.Call) else decorator


_MANAGERS = ("contextlib.contextmanager", "contextlib.asynccontextmanager")
#: Libraries that are imported with a star and that the drivers' tables know.
_STAR_LIBRARIES = frozenset({"psycopg", "psycopg2", "psycopg_pool", "psycopg2.pool", "psycopg2.extensions", "asyncpg"})

_BUILTINS = frozenset(
    {
        "Exception", "BaseException", "ValueError", "TypeError", "KeyError", "IndexError", "RuntimeError", "OSError",
        "LookupError", "AttributeError", "NotImplementedError", "StopIteration", "ConnectionError", "TimeoutError",
        "ArithmeticError", "ZeroDivisionError", "AssertionError", "KeyboardInterrupt", "SystemExit", "GeneratorExit",
        "StopAsyncIteration", "PermissionError", "FileNotFoundError", "InterruptedError", "ExceptionGroup",
        "str", "int", "float", "bool", "bytes", "list", "tuple", "dict", "set", "frozenset", "object", "type", "super",
        "len", "print", "repr", "getattr", "setattr", "hasattr", "isinstance", "issubclass", "callable", "iter", "next",
        "range", "enumerate", "zip", "map", "filter", "sorted", "reversed", "sum", "min", "max", "any", "all", "abs",
        "open", "vars", "id", "hash", "round", "format", "anext", "aiter", "exit", "quit", "input", "divmod", "chr",
        "ord", "staticmethod", "classmethod", "property",
    }
)  # fmt: skip
