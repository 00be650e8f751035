"""Attributes: of instances and classes of the project, of modules, of library objects, of drivers' things."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.program.tree import descend
from auditor.python import nodes
from auditor.sql.words import is_status, state_called, words
from auditor.timeline.computing import dialects
from auditor.timeline.mappers import orm
from auditor.timeline.mappers.synonyms import stands_for
from auditor.timeline.model import rendered
from auditor.timeline.model.invocation import Invocation
from auditor.timeline.model.state import Flow, Frame, State, merge
from auditor.timeline.model.values import (
    NONE,
    UNKNOWN,
    Bound,
    Class,
    Clause,
    Connection,
    Cursor,
    Either,
    External,
    Function,
    Instance,
    Items,
    Literal,
    Made,
    Module,
    Pool,
    Row,
    Super,
    Text,
    Value,
    either,
    likely,
    options_of,
    says_nothing,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.drivers.model import Thing
    from auditor.program.code import ClassInfo
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker


#: What classes make their objects with, from a row for instance, whoever they have it from.
MAKES = frozenset(
    {"model_validate", "model_construct", "parse_obj", "from_orm", "from_row", "from_record", "from_dict", "validate"}
)


class Objects:
    """Reads and sets attributes on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._class_values: dict[tuple[ClassInfo, str], Value | None] = {}
        self._declared: dict[tuple[ClassInfo, str], Value] = {}
        self._lineages: dict[ClassInfo, tuple[ClassInfo, ...]] = {}
        self._library_names: dict[ClassInfo, frozenset[str]] = {}
        self._busy: set[tuple[object, str]] = set()

    # Reading

    def attribute(
        self, receiver: Value, name: str, state: State, frame: Frame, flow: Flow, span: nodes.Span
    ) -> Results:
        """`receiver.name`, a property being called."""
        if isinstance(receiver, Either):
            return [
                result
                for option in likely(receiver)
                if option != NONE
                for result in self.attribute(option, name, state, frame, flow, span)
            ]
        of_model = self.walker.models.attribute(receiver, name, state)
        if of_model is not None:
            return [(state, of_model)]
        if isinstance(receiver, (Instance, Class, Super)):
            return self._member(receiver, name, state, frame, flow, span)
        if isinstance(receiver, Module):
            value = self.walker.names.member(receiver.module, name)
            return [(state, UNKNOWN if value is None else value)]
        kept = self.walker.scratch.attribute(receiver, name, state) or self._of_library(receiver, name)
        if kept is not None:
            return [(state, kept)]
        if isinstance(receiver, Text) and name == "value":
            return [(state, receiver)]
        if isinstance(receiver, (Connection, Cursor, Pool)):
            own = self._own(receiver, name, state, frame, flow, span)
            known = self.walker.database.attribute(receiver, name, state) if own is None else None
            return own or [(state, Bound(receiver, name) if known is None else known)]
        if isinstance(receiver, Function) and name in ("__wrapped__", "func"):
            return [(state, receiver)]
        if isinstance(receiver, Made):
            return [(state, self.walker.library.attribute(receiver, name, state))]
        if name == "transaction_status" and isinstance(receiver, Bound) and isinstance(receiver.receiver, Connection):
            return [(state, self.walker.database.transaction_status(receiver.receiver.key, state))]
        method = self.walker.mapper.method_of(receiver, name)
        if method is not None:
            return self._method(receiver, method, state, frame, flow, span)
        return [(state, self._not_followed(receiver, name))]

    def _of_library(self, receiver: Value, name: str) -> Value | None:
        """Something of a library, by its name; None of anything else."""
        if not isinstance(receiver, External):
            return None
        dotted = External(f"{receiver.name}.{name}")
        return _state_named(receiver.name, name) or self.walker.database.held.value(dotted)

    def _not_followed(self, receiver: Value, name: str) -> Value:
        """An attribute of something that is no object of the project's, of a library or of a driver."""
        if isinstance(receiver, Clause) and receiver.unread:
            return rendered.attribute(receiver, name)
        if isinstance(receiver, Text) and name in ("value", "name"):
            return receiver  # a member of an enumeration stands for its value
        if name == "state" and isinstance(receiver, Bound) and receiver.name == "app":
            return self.walker.library.application_state()
        return self.walker.mapper.attribute(receiver, name) or dialects.feature(name) or Bound(receiver, name)

    def _member(self, receiver: Value, name: str, state: State, frame: Frame, flow: Flow, span: nodes.Span) -> Results:
        found = self._found(receiver, name, state, frame, flow, span)
        if not isinstance(receiver, Instance):
            return found
        return [(after, self._held(receiver, name, value, frame)) for after, value in found]

    def _held(self, receiver: Instance, name: str, value: Value, frame: Frame) -> Value:
        """An attribute of which nothing is seen but its name, and that it may be None."""
        unseen = says_nothing(value) or value == Bound(receiver, name)
        if not unseen:
            return value
        if orm.open_table(Bound(receiver, name)):
            return Bound(receiver, name)
        held = self.walker.database.connecting.held_as(name, UNKNOWN, frame, receiver.info)
        held = self.walker.database.told_by_use.attribute(name, receiver.info, frame) if held == UNKNOWN else held
        return value if held == UNKNOWN else held

    def _found(self, receiver: Value, name: str, state: State, frame: Frame, flow: Flow, span: nodes.Span) -> Results:
        if isinstance(receiver, Instance):
            kept = self.kept(receiver, name, state)
            if kept is not None:
                return [(state, kept)]
        if name == "__class__" and isinstance(receiver, Instance):
            return [(state, Class(receiver.info))]
        member = self.class_member(receiver, name)
        named = isinstance(member, Function) and isinstance(receiver, Class) and stands_for(member.info.node)
        column = self.walker.mapper.attribute(receiver, name) if named or not isinstance(member, Function) else None
        if column is not None:
            return [(state, column)]
        if isinstance(member, Function):
            filled = self.walker.stand_ins.of(receiver, member) if isinstance(receiver, Instance) else None
            return self._method(*(filled or (receiver, member)), state, frame, flow, span)
        if isinstance(receiver, Instance) and isinstance(member, Made) and member.name == "builtins.property":
            asked = member.argument(0, "fget")
            if isinstance(asked, Function):
                asked = replace(asked, bound=receiver)
                return self.walker.calls.apply(asked, Invocation((), (), state, frame, flow, span))
        if member is not None:
            value = self._enum_member(receiver, name, member)
            return [(state, UNKNOWN if self._is_of_new_ones(receiver, name, value) else value)]
        return [(state, self._not_defined(receiver, name))]

    def _is_of_new_ones(self, receiver: Value, name: str, value: Value) -> bool:
        """Whether a field's default is the state of new objects: one that was made elsewhere may be in any other."""
        made_of_fields = isinstance(receiver, Instance) and any(
            base.takes_fields for base in self.lineage(receiver.info)
        )
        return made_of_fields and is_status(name) and isinstance(value, Text)

    def _not_defined(self, receiver: Value, name: str) -> Value:
        """An attribute that no class of the project defines."""
        if isinstance(receiver, Super) and isinstance(receiver.instance, Connection):
            return Bound(replace(receiver.instance, info=None), name)
        if isinstance(receiver, Instance):
            declared = self.declared(receiver.info, name)
            if declared is not None:
                return declared
            driver_thing = self.library_base(receiver.info)
            if driver_thing is not None:
                return Bound(UNKNOWN, name)
        if name in ("name", "value"):
            return UNKNOWN
        of_record = self.walker.records.attribute(receiver, name) if isinstance(receiver, Class) else None
        if of_record is not None:
            return of_record
        bears = isinstance(receiver, (Instance, Super)) or bool(self.walker.mapper.table_of(receiver))
        bears = bears or (isinstance(receiver, Class) and name in MAKES)
        return Bound(receiver, name) if bears else UNKNOWN

    def _own(
        self, receiver: Value, name: str, state: State, frame: Frame, flow: Flow, span: nodes.Span
    ) -> Results | None:
        """What the project's class of a connection or session adds to the driver's; None where it adds nothing."""
        if not isinstance(receiver, Connection) or receiver.info is None:
            return None
        kept = state.get(receiver.key, name) or self.walker.names.base_attribute(receiver.key, name)
        if kept is not None and kept not in (NONE, UNKNOWN):
            return [(state, kept)]
        member = self.class_member(receiver, name)
        if isinstance(member, Function):
            return self._method(receiver, member, state, frame, flow, span)
        value = self.declared(receiver.info, name) or member or kept
        return [(state, value)] if value is not None else None

    def kept(self, receiver: Instance, name: str, state: State) -> Value | None:
        """An attribute that was set on this very object."""
        value = state.get(receiver.key, name)
        if value is None:
            value = self.walker.names.base_attribute(receiver.key, name)
        if says_nothing(value):
            declared = self.declared(receiver.info, name)
            return value if declared is None or (value == NONE and declared == UNKNOWN) else declared
        return value

    def _method(
        self, receiver: Value, member: Function, state: State, frame: Frame, flow: Flow, span: nodes.Span
    ) -> Results:
        info = member.info
        if info.is_static:
            return [(state, member)]
        instance = receiver.instance if isinstance(receiver, Super) else receiver
        if info.is_classmethod:
            instance = Class(instance.info) if isinstance(instance, Instance) else instance
        elif isinstance(instance, Class) and not isinstance(receiver, Super):
            return [(state, member)]
        bound = Function(info, member.frame, bound=instance, manager=info.is_manager, guessed=member.guessed)
        if info.is_property:
            return self.walker.calls.apply(bound, Invocation((), (), state, frame, flow, span))
        return [(state, bound)]

    # Classes

    def lineage(self, info: ClassInfo) -> tuple[ClassInfo, ...]:
        """A class of the project and those it is derived from, nearest first."""
        known = self._lineages.get(info)
        if known is None:
            found: list[ClassInfo] = []
            waiting = [info]
            while waiting:
                current = waiting.pop(0)
                if current not in found:
                    found.append(current)
                    waiting.extend(base.info for base in self.bases(current) if isinstance(base, Class))
            known = self._lineages[info] = tuple(found)
        return known

    def bases(self, info: ClassInfo) -> list[Value]:
        """What a class is derived from: classes of the project and of libraries."""
        frame = self.walker.names.module_frame(info.module)
        found = []
        for base in info.node.bases:
            target = base.value if isinstance(base, nodes.Subscript) else base
            found.append(self.constant(target, frame))
        return found

    def constant(self, expression: nodes.Expression, frame: Frame, state: State | None = None) -> Value:
        """A dotted name, looked up without running anything; in a state while its module is still being loaded."""
        if isinstance(expression, nodes.Name):
            return self.walker.names.lookup(expression.id, state or State(), frame)
        if isinstance(expression, nodes.Attribute):
            value = self.constant(expression.value, frame, state)
            if isinstance(value, External):
                return External(f"{value.name}.{expression.name}")
            if isinstance(value, Module):
                return self.walker.names.member(value.module, expression.name) or UNKNOWN
            if isinstance(value, Class):
                return self.class_member(value, expression.name) or UNKNOWN
            if isinstance(value, Made):
                return self.walker.library.attribute(value, expression.name, State())
        return UNKNOWN

    def library_names(self, info: ClassInfo) -> frozenset[str]:
        """The dotted names of the library classes that a class is derived from, near or far."""
        known = self._library_names.get(info)
        if known is None:
            bases = (base for cls in self.lineage(info) for base in self.bases(cls))
            known = self._library_names[info] = frozenset(base.name for base in bases if isinstance(base, External))
        return known

    def library_base(self, info: ClassInfo) -> tuple[drivers.Driver, Thing] | None:
        return next((known for name in sorted(self.library_names(info)) if (known := drivers.typed_as(name))), None)

    def meta(self, info: ClassInfo) -> Class | None:
        """The class Meta in which a model says more of itself."""
        inner = info.members.get("Meta")
        return Class(info.module.class_(inner, f"{info.qualname}.Meta")) if isinstance(inner, nodes.Class) else None

    def class_member(self, receiver: Value, name: str) -> Value | None:
        """What the class of `receiver`, or the first of its bases to have it, binds to a name."""
        if isinstance(receiver, Super):
            instance = receiver.instance
            own = instance.info if isinstance(instance, (Instance, Class, Connection)) else None
            start = own or receiver.after
            lineage = list(self.lineage(start))
            after = lineage.index(receiver.after) + 1 if receiver.after in lineage else 1
            lineage = lineage[after:]
        elif isinstance(receiver, (Instance, Class, Connection)) and receiver.info is not None:
            lineage = list(self.lineage(receiver.info))
        else:
            return None
        for cls in lineage:
            if name in cls.members:
                return self._class_value(cls, name)
        return None

    def _class_value(self, cls: ClassInfo, name: str) -> Value | None:
        mark = (cls, name)
        if mark in self._class_values:
            return self._class_values[mark]
        self._class_values[mark] = None  # a class attribute that is defined through itself
        member = cls.members[name]
        frame = self.walker.names.module_frame(cls.module)
        value: Value | None = None
        if isinstance(member, nodes.Function):
            info = cls.method(name)
            value = self.walker.names.decorated_method(info, frame) if info else None
        elif isinstance(member, nodes.Class):
            value = Class(cls.module.class_(member, f"{cls.qualname}.{member.name}"))
        elif isinstance(member, nodes.Assign) and member.value is not None:
            value = self._class_assignment(cls, member, frame)
        elif isinstance(member, nodes.Assign) and member.annotation is not None:
            typed = self.walker.types.typed(member.annotation, frame, self.walker.keys.of("field", cls, member.span))
            value = typed if typed != UNKNOWN else None
        self._class_values[mark] = value
        return value

    def _class_assignment(self, cls: ClassInfo, member: nodes.Assign, frame: Frame) -> Value | None:
        # Earlier names of the class body are visible to later ones.
        state = State()
        names = {part.id for part in _names_in(member.value)}
        for other in names & cls.members.keys():
            value = self._class_value(cls, other)
            state = state.bind(frame.key, other, value) if value is not None else state
        assert member.value is not None
        # What a class body opens is there for every object, whoever is the first to ask for it.
        with self.walker.as_root(f"class {cls.dotted}", lasting=True):
            ways = self.walker.evaluate(member.value, state, frame, Flow())
        for after, _ in ways[:1]:
            self.walker.names.keep(State(connections=after.connections))
        value = either([way for _, way in ways]) if ways else UNKNOWN
        if isinstance(value, Made) and value.name.rpartition(".")[2] in ("field", "Field", "attrib", "ib"):
            default = dict(value.keywords).get("default") or (value.arguments[0] if value.arguments else None)
            value = default if default is not None else UNKNOWN
        if member.annotation is not None and value in (NONE, UNKNOWN):
            typed = self.walker.types.typed(member.annotation, frame, self.walker.keys.of("field", cls, member.span))
            value = typed if typed != UNKNOWN else value
        return value

    def is_exception(self, info: ClassInfo) -> bool:
        """Whether a class is derived from an exception: what it holds is only told to people."""
        return any(name.endswith(("Error", "Exception")) for name in self.library_names(info))

    def is_enum(self, info: ClassInfo) -> bool:
        return any(name.rpartition(".")[2].endswith(("Enum", "Choices")) for name in self.library_names(info))

    def _enum_member(self, receiver: Value, name: str, member: Value) -> Value:
        """Members of an enumeration stand for their values, as they do where they are put into SQL."""
        # Django's choices are a value and its label.
        if isinstance(member, Made) and member.name == "enum.auto":
            # Whatever it is numbered, what it is called is what it means.
            return Text(name.lower())
        if not isinstance(receiver, (Class, Instance)):
            return member
        enum = self.is_enum(receiver.info)
        if enum and isinstance(member, Items) and len(member.items) == 2:
            member = member.items[0]
        meant = state_called(name) if _is_code(member) and (enum or self.walker.models.has(receiver.info)) else ""
        # A number or a letter says nothing: what it is called is what it means.
        return Text(meant) if meant else member

    def enum_members(self, source: Class) -> list[Value]:
        """What a loop over an enumeration is given."""
        if not self.is_enum(source.info):
            return [UNKNOWN]
        return [self._class_value(source.info, name) or UNKNOWN for name in source.info.members]

    # What is assigned anywhere

    def declared(self, info: ClassInfo, name: str) -> Value | None:
        """What any method of a class assigns to an attribute: the value an object has once it is in use."""
        for cls in self.lineage(info):
            mark = (cls, name)
            if mark in self._declared:
                return self._declared[mark]
            if name not in cls.assigned or mark in self._busy:
                continue
            self._busy.add(mark)
            found: list[Value] = []
            for method, expression, annotation in cls.assigned[name]:
                if expression is not None:
                    found.extend(self.walker.calls.evaluate_in(method, expression))
                if annotation is not None:
                    frame = self.walker.names.module_frame(cls.module)
                    found.append(
                        self.walker.types.typed(annotation, frame, self.walker.keys.of("attribute", cls, name))
                    )
            self._busy.discard(mark)
            useful = [option for value in found for option in options_of(value) if option not in (NONE, UNKNOWN)]
            value = either(useful or [UNKNOWN])
            self._declared[mark] = value
            return value
        return None

    # Setting

    def set_attribute(
        self, receiver: Value, name: str, value: Value, state: State, frame: Frame, flow: Flow, span: nodes.Span
    ) -> list[State]:
        """`receiver.name = value`."""
        if isinstance(receiver, Either):
            return merge(
                [
                    after
                    for option in receiver.options
                    if option != NONE
                    for after in self.set_attribute(option, name, value, state, frame, flow, span)
                ]
            )
        if isinstance(receiver, Row):
            return [self.walker.mapper.changed(receiver, name, value, state, frame, span)]
        if isinstance(receiver, Instance):
            state = self.walker.mapper.changed(receiver, name, value, state, frame, span)
            return [state.bind(receiver.key, name, value)]
        if isinstance(receiver, (Connection, Cursor)):
            call = Invocation((value,), (), state, frame, flow, span)
            states = self.walker.database.switches.set_attribute(receiver, name, call)
            if isinstance(receiver, Connection) and receiver.info is not None:
                return [after.bind(receiver.key, name, value) for after in states]
            return states
        if isinstance(receiver, Made) and receiver.key:
            return [state.bind(receiver.key, name, value)]
        if isinstance(receiver, Module):
            return [state.bind(self.walker.names.module_key(receiver.module), name, value)]
        kept = self.walker.scratch.set_attribute(receiver, name, value, state)
        return [state if kept is None else kept]

    def call_method(self, receiver: Value, name: str, call: Invocation) -> Results | None:
        """Call a method if the receiver has it; None when it hasn't."""
        if not isinstance(receiver, (Instance, Connection)):
            return None
        member = self.class_member(receiver, name)
        if not isinstance(member, Function):
            return None
        return self.walker.calls.apply(Function(member.info, member.frame, bound=receiver), call)


def _names_in(expression: nodes.Expression | None) -> Iterator[nodes.Name]:
    for part in descend(expression):
        if isinstance(part, nodes.Name):
            yield part


#: Longer texts are words.
_LONGEST_CODE = 3


def _is_code(member: Value) -> bool:
    """Whether a constant is a number or an abbreviation."""
    if isinstance(member, Text):
        return not member.holes and len(member.value) <= _LONGEST_CODE
    return isinstance(member, Literal) and type(member.value) is int


def _state_named(enum: str, name: str) -> Text | None:
    """`TaskResultStatus.RUNNING` of a library: the states of its jobs are called what they are stored as.

    What a driver says of a transaction is no state of a job.
    """
    named = enum.rpartition(".")[2]
    if not (name.isupper() and named[:1].isupper() and is_status(named)) or "transaction" in words(named):
        return None
    return Text(name.lower())
