"""Those who ask SQLAlchemy to be told of connections that are opened, borrowed or given back, and of what begins.

A listener works on the connection of whoever comes by, so it is walked with each of them; and by itself, on a session
that only begins and commits, since the code that comes by may have nothing else to tell.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import Callback, Thing
from auditor.program.code import ClassInfo
from auditor.timeline.model import connection as change
from auditor.timeline.model.events import SetAnew
from auditor.timeline.model.invocation import Invocation
from auditor.timeline.model.state import Flow, merge
from auditor.timeline.model.values import (
    UNKNOWN,
    Bound,
    Class,
    Connection,
    External,
    Function,
    Key,
    Made,
    Pool,
    Text,
    Unknown,
    Value,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.findings import Place
    from auditor.python import nodes
    from auditor.timeline.connections.database import Database
    from auditor.timeline.connections.pools import PoolInfo
    from auditor.timeline.model.settings import Held
    from auditor.timeline.model.state import Frame, State
    from auditor.timeline.walking.walker import Walker

_EVENTS = {
    "connect": Callback.CONFIGURE,
    "first_connect": Callback.CONFIGURE,
    "checkout": Callback.CHECKOUT,
    "engine_connect": Callback.CHECKOUT,
    "checkin": Callback.RETURNED,
    "reset": Callback.RESET,
}
#: Told when a transaction begins: of a session, with the session first, or of any connection of an engine. Of a
#: savepoint only who listens to the session is told.
_OF_SESSION, _OF_CONNECTION = "after_begin", "begin"
_LISTENS = frozenset({"sqlalchemy.event.listens_for", "sqlalchemy.event.listen"})


class Listeners:
    """Keeps them, and tells them, on behalf of a walk."""

    def __init__(self, walker: Walker, database: Database) -> None:
        self.walker = walker
        self.database = database
        #: Of which thing (None for all of them, or all of a class), which event, and who is told.
        self._known: list[tuple[Key | ClassInfo | None, str, Function]] = []
        self._telling: set[Key] = set()

    # Who listens

    def listen(self, target: Value, event: Value, listener: Value) -> None:
        """`event.listen(target, event, listener)`."""
        if not isinstance(event, Text) or not isinstance(listener, Function):
            return
        self.walker.calls.entered.add(listener.info)
        for option in options_of(target):
            who: Key | ClassInfo | None = None
            if isinstance(option, (Pool, Connection)):
                who = option.key
            elif isinstance(option, Class):
                who = option.info
            entry = (who, event.value, listener)
            # Of an engine that is only passed in the event tells what it is.
            unseen = option.receiver if isinstance(option, Bound) and option.name == "sync_engine" else option
            passed = isinstance(unseen, Unknown) and event.value in (*_EVENTS, _OF_SESSION, _OF_CONNECTION)
            if (passed or isinstance(option, (Pool, Connection, External, Class))) and entry not in self._known:
                self._known.append(entry)

    def decorated(self, applied: Value, value: Value) -> bool:
        """`@event.listens_for(target, event)` over a function."""
        if not isinstance(applied, Made) or applied.name not in _LISTENS:
            return False
        self.listen(applied.argument(0, "target") or UNKNOWN, applied.argument(1, "identifier") or UNKNOWN, value)
        return True

    def listens(self, callback: Value) -> bool:
        """Whether a callback is one that the program has asked to be told through."""
        return any(told == callback for _, _, told in self._known)

    def told(self) -> Iterator[tuple[str, Function]]:
        """All who listen, each with the event."""
        yield from ((event, listener) for _, event, listener in self._known)

    def made(self, place: Place) -> bool:
        """Whether what stands at a place is done by one who listens, for whatever connection comes by."""
        return any(told.info.module.path == place.path and told.info.holds(place.line) for _, _, told in self._known)

    def of_begin(self, key: Key, state: State) -> list[tuple[str, Function]]:
        """Who is told that a transaction begins on a session or a connection."""
        connection = self.database.state_of(key, state) if self._known else None
        driver = drivers.by_name(connection.driver) if connection is not None else None
        if connection is None or driver is None or not driver.client_dbapis:
            return []
        known = self.database.pools.known
        pool = self.database.sessions.pool_of(key) or (known.get(connection.pool) if connection.pool else None)
        mine: set[Key | None] = {key, pool.key, pool.home} if pool is not None else {key}
        events = (_OF_CONNECTION, _OF_SESSION) if self.database.sessions.is_session(key) else (_OF_CONNECTION,)
        return [(event, told) for target, event, told in self._known if event in events and self._is(target, key, mine)]

    def _is(self, target: Key | ClassInfo | None, key: Key, mine: set[Key | None]) -> bool:
        """Whether who listens to a target is told of the session or connection of a key."""
        if isinstance(target, ClassInfo):
            return self.database.sessions.is_of(key, target)
        return target is None or target in mine

    def callbacks(self, info: PoolInfo, which: Callback) -> list[Value]:
        """Who listens to what happens to the connections of a pool."""
        events = {event for event, callback in _EVENTS.items() if callback is which}
        return [
            told
            for target, event, told in self._known
            if event in events and (target is None or isinstance(target, ClassInfo) or target in (info.key, info.home))
        ]

    # Telling

    def told_of_begin(self, key: Key, call: Invocation, savepoint: bool = False) -> list[State]:
        """The states once those who listen have been told that a transaction, or a savepoint in it, has begun."""
        states = [call.state]
        if self.are_told(key):
            return states
        with self.telling(key):
            for event, listener in self.of_begin(key, call.state):
                if savepoint and event != _OF_SESSION:
                    continue
                given = (Connection(key), UNKNOWN, Connection(key)) if event == _OF_SESSION else (Connection(key),)
                told = call.passing(*given)
                ways = [(state, self.walker.calls.apply(listener, told.at(state))) for state in states]
                states = merge([self._seen(key, state, after, call) for state, way in ways for after, _ in way])
        return states

    def _seen(self, key: Key, before: State, after: State, call: Invocation) -> State:
        """The state after somebody was told that a transaction begins, and what he has set in it."""
        for setting in after.connections[key].settings if key in after.connections else ():
            if setting.layers and setting != before.connections[key].setting(setting.name):
                after = self.walker.see(SetAnew(call.place, key, setting.name, call.frame.symbol), after)
        return after

    def are_told(self, key: Key) -> bool:
        """Whether those who listen to a connection work on it just now: nobody is told of that."""
        return key in self._telling

    @contextmanager
    def telling(self, key: Key) -> Iterator[None]:
        """Those who listen to a connection work on it inside."""
        before = self._telling
        self._telling = {*before, key}
        try:
            yield
        finally:
            self._telling = before

    def renewed(self, info: PoolInfo, key: Key, state: State, frame: Frame, span: nodes.Span) -> State:
        """A connection as its next user works on it: what is set anew at every checkout or begin is no leak.

        What was left open when it came back is taken to be rolled back, as whoever goes on after an error does.
        """
        before = state.connections[key]
        alone = change.rollback(before, frame.module.place(span)) if before.in_transaction else before
        bare = replace(alone, settings=tuple(setting.aged(None) for setting in alone.settings))
        call = Invocation((), (), state.connect(key, bare), frame, Flow(), span)
        ends: list[State] = []
        with self.walker.quietly():
            for lent, raised in self.database.pools.run(info, Callback.CHECKOUT, key, call.state, frame, span):
                if not raised:
                    begun = change.begin(lent.connections[key], frame.module.place(span))
                    ends.extend(self.told_of_begin(key, call.at(lent.connect(key, begun))))
        now = [end.connections.get(key, bare) for end in ends]
        kept = tuple(
            setting
            for setting in before.settings
            if any(_is_left(one.setting(setting.name).current) for one in now) or not setting.kept.is_value
        )
        return state.connect(key, replace(before, settings=kept)) if len(kept) < len(before.settings) else state

    # By themselves

    def untold(self) -> Iterator[tuple[Key | None, Function]]:
        """Of each thing that is listened to, the first who does."""
        seen: set[Key | ClassInfo | None] = set()
        for target, event, told in self._known:
            if target not in seen and (event in _EVENTS or event in (_OF_SESSION, _OF_CONNECTION)):
                seen.add(target)
                yield None if isinstance(target, ClassInfo) else target, told

    def come_by(self, target: Key | None, call: Invocation) -> list[State]:
        """A session that takes a connection of what is listened to, begins, commits and gives it back."""
        sessions, pools = self.database.sessions, self.database.pools
        driver = drivers.by_name("sqlalchemy")
        assert driver is not None
        key = self.walker.keys.of("told", target)
        if target in pools.known:
            session = sessions.open(key, target)
        elif target is not None and sessions.pool_of(target) is not None:
            session = Connection(target)
        else:
            unbound = self.walker.keys.of("unbound", call.frame.module)
            session = sessions.open(key, pools.given(driver, Thing.POOL, unbound).key)
        states = []
        for opened in sessions.opened(session, call):
            for begun in sessions.begun(session.key, call.at(opened)):
                done = self.database.endings.end(
                    session.key, begun, "commit", "whoever comes by", call.place, call.frame
                )
                states.extend(sessions.close(session.key, done, call.frame, call.span, "close()"))
        return states


def _is_left(held: Held) -> bool:
    """Whether what a setting holds was there before anybody was told."""
    return held.inherited or bool(held.since)
