"""Services behind interfaces: a call of which only the interface is seen, or the name of what is asked.

Who answers is one of several classes, chosen elsewhere. Where one of them asks a service, whoever has chosen that one
waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.timeline.leaving.outside import says_itself_a_stand_in, splits
from auditor.timeline.leaving.services import CLOUD, HTTP, MAIL, PROCESS, QUEUE, names
from auditor.timeline.model.values import Class, Function

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.program.code import ClassInfo, FunctionInfo
    from auditor.timeline.walking.walker import Walker

#: What is far away: a sleep is a matter of how a class goes about it.
FAR = frozenset({HTTP, MAIL, PROCESS, QUEUE, CLOUD})
#: What is called so does something for others.
_AGENTS = ("er", "or")
_SERVICES = frozenset({"client", "gateway", "api", "service", "provider", "backend", "transport", "sink"})
#: These do it inside of the process, or are people and things.
_NO_AGENTS = names(
    """
    logger cursor user order number folder header buffer counter parameter member customer filter layer helper manager
    container power owner error color vendor monitor iterator generator executor runner handler server worker router
    parser builder formatter serializer renderer mapper wrapper register registry pointer identifier timer scheduler
    observer listener consumer iter enter other paper letter computer never factory actor author operator selector
    """
)


class Behind:
    """Finds the classes that may answer a call, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._open: dict[FunctionInfo, tuple[Function, ...]] = {}
        self._named: dict[tuple[str, str], tuple[Function, ...]] = {}

    def open_method(self, info: FunctionInfo) -> tuple[Function, ...]:
        """The methods that fill in one which a class leaves open, each bound to an object of its class."""
        if info not in self._open:
            self._open[info] = ()  # while its bases are looked up
            assert info.owner is not None
            self.walker.program.read_definitions(info.node.name)
            found = self.walker.stand_ins.filling(info.owner, self.walker.program.all_classes())
            self._open[info] = tuple(self._methods(found, info.node.name))
        return self._open[info]

    def called_so(self, called: str, method: str) -> tuple[Function, ...]:
        """The same for a method of something that only its name tells of: an `embedder` is some Embedder."""
        words = splits(called)
        if not words or not _is_agent(words[-1]):
            return ()
        asked = ("_".join(words), method)
        if asked not in self._named:
            self._named[asked] = ()
            self.walker.program.read_definitions(method)
            classes = [cls for cls in self.walker.program.all_classes() if method in cls.members]
            whole = [cls for cls in classes if splits(cls.node.name)[-len(words) :] == words]
            self._named[asked] = tuple(self._methods(iter(whole), method))
        return self._named[asked]

    def _methods(self, classes: Iterator[ClassInfo], name: str) -> Iterator[Function]:
        for cls in classes:
            if cls.module.test or says_itself_a_stand_in(cls.node.name):
                continue
            method = self.walker.objects.class_member(Class(cls), name)
            if isinstance(method, Function) and not method.info.is_left_open and not method.info.is_static:
                yield Function(method.info, method.frame, bound=self.walker.types.me(cls))


def _is_agent(word: str) -> bool:
    return word in _SERVICES or (word.endswith(_AGENTS) and len(word) > 4 and word not in _NO_AGENTS)
