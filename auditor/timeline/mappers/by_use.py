"""What a parameter holds that nothing says the type of, told by what is done with it.

`def finish(job): job.status = DONE; job.finished_at = now(); job.save()` works on an object of the one model of the
program that has a status and a finished_at. A framework that hands objects to functions it has been given, a registry,
a thread pool: whoever calls such a function is often not seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from auditor.program.tree import descend, last_name
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.program.code import ClassInfo, FunctionInfo
    from auditor.timeline.walking.walker import Walker

#: What objects of any model have, by whatever mapper.
_ANY = frozenset({"id", "pk", "save", "asave", "delete", "adelete", "refresh_from_db", "arefresh_from_db", "objects"})
_KEEPS = frozenset({"save", "asave", "delete", "adelete"})
#: What a session is told for what was changed of its objects to be written.
_WRITES = frozenset({"commit", "flush"})
#: So many names of its own must an object show before it is taken for one of a model.
_FEWEST = 2


class ByUse:
    """Tells it, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._known: dict[tuple[FunctionInfo, str], ClassInfo | None] = {}
        self._names: dict[ClassInfo, frozenset[str]] = {}

    def model(self, info: FunctionInfo, parameter: str) -> ClassInfo | None:
        """The only class that has all that is asked of a parameter, if it is a model whose objects are kept there."""
        key = (info, parameter)
        if key not in self._known:
            used, is_kept = _used(info, parameter)
            used -= _ANY
            own = {name for name in used if not name.startswith("_")}
            found = self._having(own) if is_kept and len(own) >= _FEWEST else None
            self._known[key] = found if found is not None and self._is_stored(found, info) else None
        return self._known[key]

    def is_given(self, info: FunctionInfo, models: frozenset[ClassInfo]) -> bool:
        """Whether a function is passed an object of one of these models, and keeps what it changes of it."""
        if info.words.names.isdisjoint(_KEEPS | _WRITES):
            return False
        named = frozenset(cls.node.name for cls in models)
        parameters = info.node.parameters[info.owner is not None and not info.is_static :]
        for parameter in parameters:
            if parameter.annotation is None:
                given = self.model(info, parameter.name) in models
            else:
                given = bool(named) and any(map(named.__contains__, _names_in(parameter.annotation)))
            used, is_kept = _used(info, parameter.name)
            written = is_kept and parameter.annotation is None and not info.words.names.isdisjoint(_WRITES)
            if given and (written or not used.isdisjoint(_KEEPS)):
                return True
        return False

    def _having(self, own: set[str]) -> ClassInfo | None:
        classes = (cls for cls in self.walker.program.classes() if not cls.module.test)
        found = [cls for cls in classes if not own.isdisjoint(cls.members) and own <= self._names_of(cls)]
        lineage = self.walker.objects.lineage
        # Of classes that are derived from one another it is the first that has it all.
        first = [cls for cls in found if not any(base is not cls and base in found for base in lineage(cls))]
        return first[0] if len(first) == 1 else None

    def _is_stored(self, cls: ClassInfo, info: FunctionInfo) -> bool:
        """Whether objects of a class are rows: a model of its own, or one of a session that the function tells so."""
        writes = not info.words.names.isdisjoint(_WRITES)
        return self.walker.models.has(cls) or (writes and bool(self.walker.mapper.table_of_class(cls)))

    def _names_of(self, cls: ClassInfo) -> frozenset[str]:
        """All names that its objects have."""
        known = self._names.get(cls)
        if known is None:
            bases = self.walker.objects.lineage(cls)
            known = frozenset(name for base in bases for name in (*base.members, *base.assigned))
            # What refers to another row has the key of it, too.
            known = self._names[cls] = known | {f"{name}_id" for name in known}
        return known


def _used(info: FunctionInfo, parameter: str) -> tuple[set[str], bool]:
    """The attributes of a parameter that a function asks for, and whether it changes them or keeps the object."""
    used: set[str] = set()
    is_kept = False
    for part in descend(info.node):
        if _is_of(part, parameter):
            used.add(part.name)
            is_kept = is_kept or part.name in _KEEPS
        elif isinstance(part, (nodes.Assign, nodes.Augment)):
            targets = part.targets if isinstance(part, nodes.Assign) else (part.target,)
            is_kept = is_kept or any(_is_of(target, parameter) for target in targets)
    return used, is_kept


def _names_in(annotation: nodes.Expression) -> Iterator[str]:
    """The last names in an annotation: Job of `models.Job | None` and of "Job"."""
    for part in descend(annotation):
        if name := last_name(part):
            yield name


def _is_of(part: object, parameter: str) -> TypeGuard[nodes.Attribute]:
    return isinstance(part, nodes.Attribute) and isinstance(part.value, nodes.Name) and part.value.id == parameter
