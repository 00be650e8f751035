"""What a value is that is only known by its annotation: something of a driver's, an object of a class, a factory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import Thing
from auditor.program.tree import last_name
from auditor.python import nodes
from auditor.timeline.leaving.outside import is_client
from auditor.timeline.model.state import Flow, Frame, State
from auditor.timeline.model.values import (
    NONE,
    UNKNOWN,
    Bound,
    Class,
    Connection,
    External,
    Imported,
    Instance,
    Items,
    Key,
    Made,
    Module,
    Pool,
    Unknown,
    Value,
    either,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from auditor.drivers import Driver
    from auditor.program.code import ClassInfo, FunctionInfo
    from auditor.timeline.walking.walker import Walker

#: Generic types that say nothing of what they hold.
_WRAPPERS = ("Optional", "Annotated", "Final", "ClassVar", "Union", "Type", "type", "Required", "NotRequired")
_CONTEXTS = (
    "Iterator",
    "AsyncIterator",
    "Generator",
    "AsyncGenerator",
    "Iterable",
    "AsyncIterable",
    "Sequence",
    "list",
    "List",
)

#: Generic types of collections that are gone through.
_SEVERAL = frozenset({"list", "List", "Sequence", "Iterable", "Collection", "tuple", "Tuple", "set", "Set"})

#: Generic types of what gives something once it is entered, awaited or asked.
_HANDS_OUT = frozenset(
    {
        "AbstractContextManager",
        "AbstractAsyncContextManager",
        "ContextManager",
        "AsyncContextManager",
        "Awaitable",
        "Coroutine",
        "Iterator",
        "AsyncIterator",
        "Generator",
        "AsyncGenerator",
    }
)

#: Types whose values cannot break out of quotes they are put between.
PLAIN = frozenset({"builtins.int", "builtins.float", "builtins.bool", "uuid.UUID", "decimal.Decimal"})


class Types:
    """Reads annotations on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._typed: dict[Key, bool] = {}

    def typed(self, annotation: nodes.Expression, frame: Frame, key: Key) -> Value:
        """A value that is only known by its annotation: a connection that was given, an object of a class."""
        if isinstance(annotation, nodes.Binary) and annotation.operator == "|":
            return self._one_of((annotation.left, annotation.right), frame, key)
        if isinstance(annotation, nodes.Constant):
            return NONE if annotation.value is None else UNKNOWN
        if isinstance(annotation, nodes.Subscript):
            return self._typed_generic(annotation, frame, key)
        alias = self._alias(annotation, frame)
        if alias is not None:
            return self.typed(*alias, key)
        value = self.walker.objects.constant(annotation, frame)
        if isinstance(value, External):
            if value.name in PLAIN:
                return Made(value.name)
            known = drivers.typed_as(value.name)
            if known is None:
                return Made(value.name) if is_client(value.name) else UNKNOWN
            return self.walker.database.connecting.given(known[0], known[1], key)
        if isinstance(value, Class):
            given = self._given_derived(value.info, key)
            if given is not None:
                return given
            return self.instance(value.info) if not self.walker.objects.is_enum(value.info) else UNKNOWN
        return UNKNOWN

    def _alias(self, annotation: nodes.Expression, frame: Frame) -> tuple[nodes.Expression, Frame] | None:
        """What a name stands for that is bound to an annotation: `Db = Annotated[Session, Depends(get_db)]`."""
        module, name = frame.module, annotation.id if isinstance(annotation, nodes.Name) else ""
        if isinstance(annotation, nodes.Attribute) and isinstance(annotation.value, nodes.Name):
            held = self.walker.names.lookup(annotation.value.id, State(), frame)
            if not isinstance(held, Module):
                return None
            module, name = held.module, annotation.name
        for _ in range(4):
            bound = module.bound.get(name, ())
            if len(bound) != 1:
                return None
            if isinstance(bound[0], nodes.Assign):
                value = bound[0].value
                limit = _limit_of(value)
                if limit is not None:
                    return limit, self.walker.names.module_frame(module)
                generic = isinstance(value, nodes.Subscript) and isinstance(value.value, nodes.Name)
                return (value, self.walker.names.module_frame(module)) if value is not None and generic else None
            found = self.walker.names.imported(bound[0], module) if isinstance(bound[0], nodes.Import) else None
            if not isinstance(found, Imported):
                return None
            module, name = found.module, found.attribute
        return None

    def _typed_generic(self, annotation: nodes.Subscript, frame: Frame, key: Key) -> Value:
        head = annotation.value
        name = last_name(head)
        inner = annotation.key.items if isinstance(annotation.key, nodes.Items) else (annotation.key,)
        if name == "Annotated":
            for extra in inner[1:]:
                ways = self.walker.evaluate(extra, State(), frame, Flow())
                if ways and is_supplied(ways[0][1]):
                    return ways[0][1]
            return self.typed(inner[0], frame, key)
        if name in _WRAPPERS:
            return self._one_of(inner, frame, key)
        if name == "Callable":
            return self._typed_callable(inner[-1], frame, key)
        if name in _SEVERAL:
            return self._several(inner[0], frame, key)
        if name in _CONTEXTS:
            return UNKNOWN
        return self.typed(head, frame, key)

    def _several(self, inner: nodes.Expression, frame: Frame, key: Key) -> Value:
        """Things of one type, or such types: only of an interface, of which others fill in what it leaves open."""
        of_types = isinstance(inner, nodes.Subscript) and last_name(inner.value) in ("type", "Type")
        named = inner.key if isinstance(inner, nodes.Subscript) and of_types else inner
        if not isinstance(named, (nodes.Name, nodes.Attribute)):
            return UNKNOWN
        value = self.walker.objects.constant(named, frame)
        if not isinstance(value, Class) or not value.info.module.leaves_open(value.info.node.name):
            return UNKNOWN
        item = value if of_types else self.typed(named, frame, key)
        return Items("list", (item,), open=True) if isinstance(item, (Class, Instance)) else UNKNOWN

    def returned(self, info: FunctionInfo, value: Value) -> Value:
        """What a function returns, of which nothing is known but what it says itself: several of an interface."""
        returns = info.node.returns
        if not isinstance(returns, nodes.Subscript) or last_name(returns.value) not in _SEVERAL:
            return value
        options = options_of(value)
        unseen = [one for one in options if _holds_unseen(one)]
        if not unseen or not all(one in unseen or one == Items("list", ()) for one in options):
            return value
        frame = self.walker.names.module_frame(info.module)
        typed = self.typed(returns, frame, self.walker.keys.of("returned", info))
        return either([typed, *(one for one in options if one not in unseen)]) if isinstance(typed, Items) else value

    def _one_of(self, parts: Iterable[nodes.Expression], frame: Frame, key: Key) -> Value:
        """What is of one of several types; who takes a session, or what makes them, is no more told of the first."""
        typed = [(part, value) for part in parts if (value := self.typed(part, frame, key)) != NONE]
        # Whose transaction a session is in that somebody passes, he knows.
        opens = any(isinstance(value, Pool) and _makes_sessions(part) for part, value in typed)
        options = [value for _, value in typed if not (opens and isinstance(value, Connection))]
        return either(options or [UNKNOWN])

    def handed_out(self, returned: nodes.Expression, frame: Frame, key: Key) -> Value:
        """The connection or session that a function hands out by its annotation."""
        known = self._of_driver(_given_by(returned), frame)
        if known is None or known[1] not in (Thing.CONNECTION, Thing.SESSION, Thing.ASYNC_SESSION):
            return UNKNOWN
        return self.walker.database.connecting.given(*known, key)

    def _of_driver(self, annotation: nodes.Expression, frame: Frame) -> tuple[Driver, Thing] | None:
        """What of a driver's an annotation names, be it by a class of the project's that is derived from it."""
        value = self.walker.objects.constant(annotation, frame)
        if isinstance(value, Class):
            return self.walker.objects.library_base(value.info)
        return drivers.typed_as(value.name) if isinstance(value, External) else None

    def _typed_callable(self, returned: nodes.Expression, frame: Frame, key: Key) -> Value:
        """`Callable[[], Session]`: whatever it is, it hands out sessions as a factory does."""
        known = self._of_driver(_given_by(returned), frame)
        if known is None or known[1] not in (Thing.SESSION, Thing.ASYNC_SESSION):
            return UNKNOWN
        thing = Thing.ASYNC_SESSIONS if known[1] is Thing.ASYNC_SESSION else Thing.SESSIONS
        return self.walker.database.connecting.given(known[0], thing, key)

    def _given_derived(self, info: ClassInfo, key: Key) -> Value | None:
        """Something of the driver's, of a class of the project; None where the class is derived from nothing such."""
        base = self.walker.objects.library_base(info)
        if base is None:
            return None
        given = self.walker.database.connecting.given(base[0], base[1], key)
        return replace(given, info=info) if isinstance(given, Connection) else given

    def me(self, info: ClassInfo) -> Value:
        """The object that a method of a class works on, where its making is not seen."""
        given = self._given_derived(info, self.walker.keys.of("typed", info))
        if not isinstance(given, Connection):
            return self.instance(info)
        if given.key not in self._typed:
            self._typed[given.key] = True
            self.walker.constructing.typed(given, info)
        return given

    def instance(self, info: ClassInfo) -> Instance:
        """An object of a class whose making is not seen: its constructor runs once, with what annotations tell."""
        key = self.walker.keys.of("typed", info)
        instance = Instance(info, key)
        if key not in self._typed:
            self._typed[key] = True
            self.walker.constructing.typed(instance, info)
        return instance

    def is_typed(self, instance: Instance) -> bool:
        """Whether the object is one whose making is not seen."""
        return instance.key in self._typed


def _holds_unseen(value: Value) -> bool:
    """Whether it is something unknown, or a list of nothing else."""
    items = value.items if isinstance(value, Items) else (value,)
    return bool(items) and all(one == UNKNOWN for one in items)


def asks_framework(value: Made) -> bool:
    """Whether it is what a framework reads a dependency from."""
    return value.name.rpartition(".")[2] in ("Depends", "Security")


def is_supplied(value: Value) -> bool:
    """Whether it is a dependency that a framework asks code for that is seen: `Depends(get_session)`."""
    if not isinstance(value, Made) or not asks_framework(value):
        return False
    return not isinstance(value.argument(0, "dependency"), (Unknown, External, Bound))


def says_anything(annotation: nodes.Expression) -> bool:
    """Whether an annotation leaves open what it is: `Any`, `Any | None`, `Optional[object]`."""
    if isinstance(annotation, nodes.Binary) and annotation.operator == "|":
        return any(map(says_anything, (annotation.left, annotation.right)))
    if isinstance(annotation, nodes.Subscript):
        return last_name(annotation.value) == "Optional" and says_anything(annotation.key)
    return last_name(annotation) in ("Any", "object")


def _limit_of(value: object) -> nodes.Expression | None:
    """`TypeVar("Store", bound=BaseStore)`: what any of its types is derived from."""
    if not isinstance(value, nodes.Call) or last_name(value.function) != "TypeVar":
        return None
    bound = next((given for name, given in value.keywords if name == "bound"), None)
    return bound if isinstance(bound, (nodes.Name, nodes.Attribute)) else None


def _makes_sessions(annotation: nodes.Expression) -> bool:
    """`Callable[[], Session]`, `sessionmaker[Session]`."""
    head = annotation.value if isinstance(annotation, nodes.Subscript) else annotation
    return last_name(head) in ("Callable", "sessionmaker", "async_sessionmaker")


def _given_by(returned: nodes.Expression) -> nodes.Expression:
    """What comes out of an iterator, a context or an awaitable of something."""
    while isinstance(returned, nodes.Subscript) and last_name(returned.value) in _HANDS_OUT:
        returned = returned.key.items[0] if isinstance(returned.key, nodes.Items) else returned.key
    return returned
