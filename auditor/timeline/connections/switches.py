"""What is switched on a connection: autocommit, isolation, prepared statements, the kind of its cursors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.timeline.model.connection import Autocommit
from auditor.timeline.model.values import (
    NONE,
    Connection,
    External,
    Literal,
    Text,
    Value,
    key_of,
)

if TYPE_CHECKING:
    from auditor.timeline.connections.database import Database
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.model.state import State
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

_SESSION_OPTIONS = ("isolation_level", "readonly", "deferrable", "autocommit")


class Switches:
    """Applies what a program switches."""

    def __init__(self, walker: Walker, database: Database) -> None:
        self.walker = walker
        self.database = database

    def set_attribute(self, receiver: Value, name: str, call: Invocation) -> list[State]:
        """`connection.autocommit = …` and its like."""
        if not isinstance(receiver, Connection):
            return [call.state]
        if name == "autocommit":
            return [after for after, _ in self.set_autocommit(receiver, call)]
        if name == "isolation_level":
            return [after for after, _ in self.set_isolation(receiver, call)]
        value = call.argument(0)
        connection = self.database.state_of(receiver.key, call.state)
        if name == "prepare_threshold" and isinstance(value, Literal):
            threshold = None if value.value is None else int(value.value)
            connection = replace(connection, prepares_after=threshold)
        elif name == "cursor_factory":
            driver = drivers.by_name(connection.driver)
            client = driver is not None and self.database.connecting.binds_in_client(driver, value)
            connection = replace(connection, client_cursors=client)
        return [call.state.connect(receiver.key, connection)]

    def set_autocommit(self, receiver: Value, call: Invocation) -> Results:
        key = key_of(receiver)
        connection = self.database.state_of(key, call.state)
        driver = drivers.by_name(connection.driver)
        # In autocommit a text may have begun what a driver that counts for itself knows nothing of.
        unseen = connection.autocommit is Autocommit.ON and not connection.blocks
        unseen = unseen and driver is not None and not driver.watches_status
        open_for_driver = connection.misled or (connection.in_transaction and not unseen)
        if open_for_driver and driver is not None and driver.autocommit_switch_raises:
            return self.database.endings.refuse(driver, call)
        value = switched(call.argument(0, "value", "autocommit"))
        after = replace(connection, autocommit=value, switched_at=call.place)
        return [(call.state.connect(key, after), NONE)]

    def set_session(self, receiver: Value, call: Invocation) -> Results:
        options = dict(zip(_SESSION_OPTIONS, call.positional, strict=False)) | call.options
        state = call.state
        if "isolation_level" in options:
            state = self._leveled(receiver, options["isolation_level"], state)
        if "autocommit" in options:
            return self.set_autocommit(receiver, call.at(state).passing(options["autocommit"]))
        return [(state, NONE)]

    def set_isolation(self, receiver: Value, call: Invocation) -> Results:
        key = key_of(receiver)
        driver = self.database.driver_of(key, call.state)
        state = call.state
        if driver is not None and driver.isolation_switch_rolls_back:
            state = self.database.endings.end(key, state, "rollback", "set_isolation_level()", call.place, call.frame)
        return [(self._leveled(receiver, call.argument(0, "level", "value"), state), NONE)]

    def _leveled(self, receiver: Value, level: Value, state: State) -> State:
        key = key_of(receiver)
        connection = self.database.state_of(key, state)
        driver = drivers.by_name(connection.driver)
        name = (
            level.name
            if isinstance(level, External)
            else str(level.value)
            if isinstance(level, (Literal, Text))
            else ""
        )
        if driver is None:
            return state
        if name in driver.autocommit_levels:
            return state.connect(key, replace(connection, autocommit=Autocommit.ON))
        isolation = driver.isolation_names.get(name, name.lower().replace("_", " ") if isinstance(level, Text) else "")
        # Where a level can mean autocommit, any other level means that there is none.
        off = bool(driver.autocommit_levels) and name in driver.isolation_names
        autocommit = Autocommit.OFF if off else connection.autocommit
        return state.connect(
            key, replace(connection, isolation=isolation, usual_isolation=isolation, autocommit=autocommit)
        )


def switched(value: Value) -> Autocommit:
    """Whether a connection is in autocommit, as an option or an argument says it."""
    if isinstance(value, Literal):
        return Autocommit.ON if value.value else Autocommit.OFF
    return Autocommit.UNKNOWN
