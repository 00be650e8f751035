"""Those who are told of a row that was just written: they are called inside of the transaction that wrote it.

Facts: Django's Collector.delete() sends post_delete inside of its own atomic() block, and a model with a listener to it
is never deleted in the short way that has none; SQLAlchemy's page "Mapper Events" (after_insert, after_update and
after_delete are called within the flush, once the statement was sent).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import Thing
from auditor.program.signals import OF_DELETIONS
from auditor.timeline.leaving.outside import dotted
from auditor.timeline.model import connection as change
from auditor.timeline.model.connection import Status
from auditor.timeline.model.invocation import Invocation
from auditor.timeline.model.state import Flow
from auditor.timeline.model.values import UNKNOWN, Connection, External, Function, options_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.program.code import FunctionInfo
    from auditor.timeline.model.state import State
    from auditor.timeline.model.values import Key, Value
    from auditor.timeline.walking.walker import Walker

#: What SQLAlchemy calls, with the mapper, the connection and the object, of a statement that a flush has sent.
_OF_MAPPERS = frozenset({"after_insert", "after_update", "after_delete"})
_SENT_INSIDE = frozenset(f"django.db.models.signals.{name}" for name in OF_DELETIONS)


def is_told_of_rows(value: Value) -> bool:
    """Whether it is a signal that is sent inside of the transaction that it tells of."""
    return any(isinstance(one, External) and one.name in _SENT_INSIDE for one in options_of(value))


class AfterWrites:
    """Finds them, and tells them, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._connected: dict[FunctionInfo, Function] = {}

    def connect(self, callee: Value, call: Invocation) -> None:
        """`signal.connect(function)`, wherever the signal comes from."""
        signal, _, method = (dotted(callee) or "").rpartition(".")
        if method == "connect" and is_told_of_rows(External(signal)):
            listener = call.argument(0, "receiver")
            if isinstance(listener, Function):
                self._connected.setdefault(listener.info, listener)

    def listeners(self) -> Iterator[tuple[Function, bool]]:
        """Each with whether it is Django that tells it, and not SQLAlchemy."""
        known = dict(self._connected)
        for info, signals in self.walker.program.listeners.items():
            if signals & OF_DELETIONS and info.owner is None:
                known.setdefault(info, Function(info, self.walker.names.module_frame(info.module).key))
        for function in known.values():
            yield function, True
        for event, function in self.walker.database.sessions.listeners.told():
            if event in _OF_MAPPERS:
                yield function, False

    def tell(self, listener: Function, of_django: bool) -> list[State]:
        """The states after a listener was told of a row."""
        info = listener.info
        key = self._key(info, of_django)
        if key is None:
            return []
        module = self.walker.names.module_frame(info.module)
        start = self.walker.names.start()
        found = self.walker.database.state_of(key, start)
        begun = change.begin(replace(found, status=Status.IDLE, blocks=int(of_django)), info.place)
        # Whatever is called of it is called once the rows are held.
        held = change.hold(begun, True, info.place, (info.place,))
        given = (("sender", UNKNOWN), ("instance", UNKNOWN)) if of_django else ()
        plain = () if of_django else (UNKNOWN, Connection(key), UNKNOWN)
        call = Invocation(plain, given, start.connect(key, held), module, Flow(), info.node.name_span)
        return [
            end
            for state, value in self.walker.calls.apply(listener, call)
            for end, _ in self.walker.coroutines.awaited(value, call.at(state))
        ]

    def _key(self, info: FunctionInfo, of_django: bool) -> Key | None:
        driver = drivers.by_name("django" if of_django else "sqlalchemy")
        if driver is None:
            return None
        if of_django:
            return self.walker.database.held.of_alias(driver, driver.default_alias).key
        key = self.walker.keys.of("flushed", info)
        self.walker.database.connecting.given(driver, Thing.CONNECTION, key)
        return key
