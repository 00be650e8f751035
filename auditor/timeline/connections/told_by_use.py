"""Sessions that nothing tells but their use: what an unseen factory gives, a parameter without an annotation.

What is given a statement made by SQLAlchemy's text() is a session or a connection of it, wherever it comes from. Whose
pool it is is not seen, so it is taken to be the library's default, and nothing that is told of it is sure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from auditor.drivers import holding
from auditor.drivers.model import Thing
from auditor.program import uses
from auditor.program.code import ClassInfo
from auditor.python import nodes
from auditor.timeline.connections.sessions import ELSEWHERE
from auditor.timeline.leaving.outside import is_client
from auditor.timeline.model.entries import Entry
from auditor.timeline.model.invocation import Invocation
from auditor.timeline.model.values import UNKNOWN, Bound, Connection, Made, Unknown, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from auditor.drivers import Driver
    from auditor.program.code import FunctionInfo
    from auditor.program.uses import Use
    from auditor.timeline.connections.database import Database
    from auditor.timeline.model.state import Flow, Frame
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

#: What an engine, or a factory of sessions, is asked for at the head of a block.
_OF_ENGINES = frozenset({"begin", "connect"})
#: What ends with its process, and has a session of its own: nobody comes after it.
_ALONE = frozenset({Entry.SCRIPT, Entry.COMMAND})


class ToldByUse:
    """Finds them, on behalf of a walk."""

    def __init__(self, walker: Walker, database: Database) -> None:
        self.walker = walker
        self.database = database
        self._of_functions: dict[FunctionInfo, Mapping[str, Use]] = {}
        self._of_classes: dict[ClassInfo, Mapping[str, Use]] = {}

    def parameter(self, name: str, info: FunctionInfo, key: int) -> Value:
        """A parameter of which nothing else is told."""
        use, driver = self._of_function(info).get(name), self.walker.program.driver_in(info.module)
        return UNKNOWN if use is None or not _has_sessions(driver) else self._given(driver, use, key)

    def variable(self, name: str, value: Value, frame: Frame) -> Value:
        """A variable that something unknown is assigned to: what is closed here was opened here."""
        use, driver = self._use(name, frame), self.walker.program.driver_in(frame.module)
        if use is None or not _has_sessions(driver) or not _says_nothing(value):
            return value
        if use.closed and isinstance(value, (Unknown, Made)):
            return self._opened(driver, use, self.walker.keys.of("opened as", frame.key, name))
        return self._given(driver, use, self.walker.keys.of("used as", frame.function or frame.module, name))

    def attribute(self, name: str, info: object, frame: Frame) -> Value:
        """An attribute of an object of the class, of which nothing else is told."""
        driver = self.walker.program.driver_in(frame.module)
        use = self._of_class(info).get(name) if isinstance(info, ClassInfo) else None
        if use is None or not _has_sessions(driver):
            return UNKNOWN
        return self._given(driver, use, self.walker.keys.of("used as", info, name))

    def entered(self, expression: nodes.Expression, target: object, ways: Results, frame: Frame, flow: Flow) -> Results:
        """What a block enters that gives such a session: one that is closed at its end."""
        use = self._use(target.id, frame) if isinstance(target, nodes.Name) else None
        driver = self.walker.program.driver_in(frame.module)
        if use is None or not _has_sessions(driver):
            return ways
        asked = expression.function if isinstance(expression, nodes.Call) else None
        name = asked.name if isinstance(asked, nodes.Attribute) and asked.name in _OF_ENGINES else ""
        results: Results = []
        for state, manager in ways:
            if not _says_nothing(manager):
                results.append((state, manager))
            elif name:
                thing = Thing.ASYNC_POOL if use.awaited else Thing.POOL
                pool = self.database.pools.given(driver, thing, self.walker.keys.of("engine at", frame.key, use))
                call = Invocation((), (), state, frame, flow, expression.span)
                results.extend(self.database.call(pool, name, call))
            else:
                session = self._opened(driver, use, self.walker.keys.of("entered at", frame.key, expression.span))
                results.append((state, session))
        return results

    def _use(self, name: str, frame: Frame) -> Use | None:
        if frame.function is None or self.walker.entry in _ALONE:
            return None
        return self._of_function(frame.function).get(name)

    def _of_function(self, info: FunctionInfo) -> Mapping[str, Use]:
        known = self._of_functions.get(info)
        if known is None:
            known = self._of_functions[info] = uses.of_function(info)
        return known

    def _of_class(self, info: ClassInfo) -> Mapping[str, Use]:
        known = self._of_classes.get(info)
        if known is None:
            known = self._of_classes[info] = uses.of_class(info)
        return known

    def _given(self, driver: Driver, use: Use, key: int) -> Value:
        return self.database.connecting.given(driver, Thing.ASYNC_SESSION if use.awaited else Thing.SESSION, key)

    def _opened(self, driver: Driver, use: Use, key: int) -> Connection:
        thing = Thing.ASYNC_SESSIONS if use.awaited else Thing.SESSIONS
        pool = self.database.pools.given(driver, thing, self.walker.keys.of("pool of", key))
        return self.database.sessions.open(key, pool.key)


def _has_sessions(driver: Driver | None) -> TypeGuard[Driver]:
    return driver is not None and bool(driver.client_dbapis)


def _says_nothing(value: Value) -> bool:
    """Whether a value is nothing that the program or a library is known to have made."""
    if isinstance(value, Bound):
        return _says_nothing(value.receiver)
    if isinstance(value, Made):
        return value.name != ELSEWHERE and not is_client(value.name) and holding(value.name) is None
    return isinstance(value, Unknown)
