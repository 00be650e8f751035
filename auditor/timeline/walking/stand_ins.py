"""Who does the work where a program is written against an interface: the one class that fills its methods in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.python import nodes
from auditor.sql.words import words
from auditor.timeline.model.values import Class, Function, Instance

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.program.code import ClassInfo, FunctionInfo
    from auditor.timeline.walking.walker import Walker

#: A protocol of one method says too little of who is meant by it.
_TELLING = 2
_DEEPEST = 5
#: What the names of classes begin or end with that keep nothing.
_PRETENDING = frozenset({"memory", "fake", "mock", "stub", "dummy", "null", "noop"})


class StandIns:
    """Finds the class that an object of an abstract class or of a protocol is of, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._known: dict[FunctionInfo, ClassInfo | None] = {}

    def of(self, receiver: Instance, member: Function) -> tuple[Instance, Function] | None:
        """The object and its method, where a class leaves that open and one alone fills it in with a database's use.

        Where there are more of them, which one is meant is not known; those that ask no database say nothing of it.
        """
        info = member.info
        if not info.is_left_open or info.owner is None:
            return None
        if info not in self._known:
            self._known[info] = None  # while its bases are looked up
            self._known[info] = self._heir(info, info.owner)
        heir = self._known[info]
        if heir is None:
            return None
        filled = self.walker.objects.class_member(Class(heir), info.node.name)
        if not isinstance(filled, Function):
            return None
        return replace(receiver, info=heir), replace(filled, guessed=True)

    def _heir(self, info: FunctionInfo, owner: ClassInfo) -> ClassInfo | None:
        name = info.node.name
        classes = self.walker.program.classes()
        found = [cls for cls in self.filling(owner, classes) if (method := cls.method(name)) and self._works(method)]
        if len(found) > 1:
            # One that keeps all in memory is there for tests, and has words in common with one that asks a database.
            found = [cls for cls in found if self.walker.program.driver_in(cls.module) and not _pretends(cls)]
        return found[0] if len(found) == 1 else None

    def _works(self, method: FunctionInfo) -> bool:
        return not method.is_left_open and method in self.walker.program.relevance

    def filling(self, owner: ClassInfo, classes: Iterable[ClassInfo]) -> Iterator[ClassInfo]:
        """Those of some classes that are derived from one and, where it is a protocol, that have all of its methods."""
        methods = {name for name, member in owner.members.items() if isinstance(member, nodes.Function)}
        shaped = owner.is_protocol and len(methods) >= _TELLING
        names, waiting = {owner.node.name}, [cls for cls in classes if cls is not owner]
        for _ in range(_DEEPEST):
            more = [cls for cls in waiting if cls.base_names & names]
            yield from (cls for cls in more if owner in self.walker.objects.lineage(cls))
            names = {cls.node.name for cls in more}
            waiting = [cls for cls in waiting if cls not in more]
        if shaped:
            yield from (cls for cls in waiting if not cls.is_protocol and methods <= cls.members.keys())


def _pretends(cls: ClassInfo) -> bool:
    return not _PRETENDING.isdisjoint(words(cls.node.name))
