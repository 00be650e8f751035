"""Objects are made: by the constructor that their class has, by its fields, or by nobody who is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.python import nodes
from auditor.timeline.model.invocation import OPEN
from auditor.timeline.model.state import Flow
from auditor.timeline.model.values import UNKNOWN, Class, Function, Instance, Unknown, from_row

if TYPE_CHECKING:
    from auditor.program.code import ClassInfo
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.model.values import Connection, Value
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker


class Constructing:
    """Makes objects of the classes that are called, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker

    def construct(self, cls: Class, call: Invocation) -> Results:
        objects = self.walker.objects
        if objects.is_enum(cls.info):
            return [(call.state, UNKNOWN)]
        made = self.walker.database.connecting.make_derived(cls.info, call)
        if made is not None:
            return made
        query = self.walker.models.managers.query(cls.info, call.argument(0, "model"))
        if query is not None:
            return [(call.state, query)]
        key = self.walker.keys.of("object", call.frame.key, call.span, cls.info)
        instance = Instance(cls.info, key, any(from_row(value) for value in call.everything))
        init = objects.class_member(instance, "__init__")
        if objects.is_exception(cls.info):
            return [(call.state, instance)]
        of_model = self.walker.models.made(instance, call) if not isinstance(init, Function) else None
        if of_model is not None:
            return of_model
        if isinstance(init, Function):
            return [(after, instance) for after, _ in self.walker.calls.apply(replace(init, bound=instance), call)]
        if any(base.takes_fields for base in objects.lineage(cls.info)):
            return self._of_fields(instance, call)
        return [(call.state, instance)]

    def _of_fields(self, instance: Instance, call: Invocation) -> Results:
        """The constructor that a dataclass, NamedTuple or model gets from its fields."""
        objects = self.walker.objects
        names = [
            field.targets[0].id
            for base in reversed(list(objects.lineage(instance.info)))
            for field in base.fields
            if isinstance(field.targets[0], nodes.Name)
        ]
        values: dict[str, Value] = {}
        if from_row(call.options.get(OPEN, UNKNOWN)):
            values = dict.fromkeys(names, Unknown(row=True))
        values.update(zip(names, call.positional, strict=False))
        values.update((name, value) for name, value in call.named if name in names)
        ready = call.at(call.state.bind_all(instance.key, values)).passing()
        after = objects.call_method(instance, "__post_init__", ready)
        return [(then, instance) for then, _ in after] if after is not None else [(ready.state, instance)]

    def typed(self, instance: Instance | Connection, info: ClassInfo) -> None:
        """Run a constructor nobody is seen to call, so that the object has what its annotations and defaults give."""
        init = self.walker.objects.class_member(instance, "__init__")
        if not isinstance(init, Function):
            return
        names = self.walker.names
        frame = self.walker.calls.frame_of(init, names.module_frame(init.info.module), init.info.node.name_span)
        values = self.walker.calls.parameters.of_root(init.info, frame, instance)
        out = Flow()
        start = names.start().bind_all(frame.key, values)
        with self.walker.as_root(f"new {info.dotted}", lasting=True):
            ends = self.walker.block(init.info.node.body, [start], frame, out)
        ends = [*ends, *(after for after, _ in out.returns)]
        if ends:
            names.keep(self.walker.calls.left(ends[0], frame))
