"""Which functions can have to do with a database at all: the others are not walked.

Told by names, without resolving any: a function matters when it uses a driver's words, holds SQL, calls what it is
given, or uses the name of a function that matters. Too much is relevant that way, too little is not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import Act
from auditor.program.code import descend
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.program.code import FunctionInfo, ModuleInfo

#: Methods that many other things have too: they count only in modules that import a driver.
_AMBIGUOUS = frozenset({"close", "copy", "reset", "stream", "connection", "check_connection", "cancel"})
_WORDS = frozenset(
    name for driver in drivers.DRIVERS for (_, name), act in driver.methods.items() if act is not Act.NOTHING
) | {"autocommit", "isolation_level", "prepare_threshold", "enter_context", "enter_async_context"}
_PLAIN_WORDS = _WORDS - _AMBIGUOUS

#: Names that tell nothing between modules: most objects have methods of these names.
_GENERIC = frozenset(
    {
        "get", "set", "put", "add", "pop", "items", "values", "keys", "append", "update", "join", "format", "split", "strip",
        "lower", "upper", "copy", "close", "read", "write", "info", "debug", "warning", "error", "exception", "log", "start",
        "stop", "run", "open", "next", "send", "name", "value", "data", "result", "cancel", "wait", "exit", "call", "main",
        "delete", "create", "save", "load", "clear", "remove", "find", "all", "first", "count", "filter", "list", "process",
    }
)  # fmt: skip

_SQL = re.compile(
    r"\s*(?:--[^\n]*\n\s*)*(?:select|insert|update|delete|with|set|reset|begin|commit|rollback|savepoint|release|discard|"
    r"deallocate|call|do|merge|lock|listen|notify|start|truncate|create|alter|grant)\b",
    re.IGNORECASE,
)


class Relevance:
    """The functions that matter, of all modules read so far."""

    def __init__(self) -> None:
        self._relevant: set[FunctionInfo] = set()
        self._waiting: list[FunctionInfo] = []
        #: Some module imports a driver: without one nothing that is walked could reach a database.
        self.driven = False
        self._users: dict[str, list[FunctionInfo]] = {}
        self._owners: dict[str, list[FunctionInfo]] = {}
        self._imports: dict[ModuleInfo, frozenset[str]] = {}

    def __contains__(self, function: FunctionInfo) -> bool:
        return function in self._relevant

    def add(self, module: ModuleInfo) -> None:
        """Take in a module that was read; functions read before may come to matter by it."""
        self._imports[module] = frozenset(
            word
            for part in descend(module.facts.module)
            if isinstance(part, nodes.Import)
            for word in (*part.loads.split("."), part.attribute or "")
        )
        driven = any(package in self._imports[module] for driver in drivers.DRIVERS for package in driver.packages)
        local = frozenset(_names_of_drivers(module)) if driven else frozenset()
        if driven and not self.driven:
            self.driven = True
            self._spread(self._waiting)
        fresh: list[FunctionInfo] = []
        for function in module.functions():
            names = frozenset(_names_used(function))
            for name in names:
                self._users.setdefault(name, []).append(function)
            self._owners.setdefault(function.node.name, []).append(function)
            known = any(self._matters(name, function) for name in names)
            if known or names & local or _is_direct(function) or (driven and names & _WORDS):
                fresh.append(function)
            elif names & _PLAIN_WORDS:
                # Its connection comes from elsewhere: that there is a driver may only be seen later.
                (fresh if self.driven else self._waiting).append(function)
        self._spread(fresh)

    def _spread(self, fresh: list[FunctionInfo]) -> None:
        waiting = [function for function in fresh if function not in self._relevant]
        self._relevant.update(waiting)
        while waiting:
            function = waiting.pop()
            for name in _names_for(function):
                for user in self._users.get(name, ()):
                    if user not in self._relevant and self._reaches(user, name, function):
                        self._relevant.add(user)
                        waiting.append(user)

    def _matters(self, name: str, user: FunctionInfo) -> bool:
        return any(
            function in self._relevant and self._reaches(user, name, function)
            for function in self._owners.get(name, ())
        )

    def _reaches(self, user: FunctionInfo, name: str, function: FunctionInfo) -> bool:
        """Whether the use of a name may mean the function: a generic one only where its module is imported."""
        if name not in _GENERIC or user.module is function.module:
            return True
        return bool(self._imports[user.module].intersection(function.module.name.split(".")[-2:]))


def _names_for(function: FunctionInfo) -> Iterable[str]:
    """The names under which a function is used: its own, and its class's for what runs when an object is made."""
    yield function.node.name
    if function.owner is not None and function.node.name.startswith("__"):
        yield function.owner.node.name


def _names_used(function: FunctionInfo) -> Iterator[str]:
    for part in descend(function.node.body):
        if isinstance(part, nodes.Name):
            yield part.id
        elif isinstance(part, nodes.Attribute):
            yield part.name
        elif isinstance(part, nodes.Function):
            yield part.name
    for decorator in function.node.decorators:
        for part in descend(decorator):
            if isinstance(part, nodes.Name):
                yield part.id


def _names_of_drivers(module: ModuleInfo) -> Iterator[str]:
    """The local names of what a module imports from drivers."""
    packages = {package for driver in drivers.DRIVERS for package in driver.packages}
    for part in descend(module.facts.module):
        if isinstance(part, nodes.Import) and part.loads.partition(".")[0] in packages:
            yield part.name


def _is_direct(function: FunctionInfo) -> bool:
    """Whether the function itself makes what is sent to a database, or calls what it is given."""
    given = {parameter.name for parameter in function.node.parameters}
    for part in descend(function.node.body):
        if isinstance(part, nodes.Text) and any(isinstance(piece, str) and is_sql(piece) for piece in part.pieces[:1]):
            return True
        if isinstance(part, nodes.Call):
            called = part.function
            if isinstance(called, nodes.Name) and (called.id in given or function.nested):
                return True
            if isinstance(called, nodes.Subscript):
                return True
    return False


def is_sql(text: str) -> bool:
    """Whether a text looks like SQL, or like the name of a file of it."""
    return text.endswith(".sql") or (" " in text.strip() and _SQL.match(text) is not None)
