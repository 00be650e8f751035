"""What calls on a driver's things do: the tables of `auditor.drivers`, given their effect on the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import Act, Driver, Thing
from auditor.findings import Confidence
from auditor.timeline.connections.connecting import Connecting
from auditor.timeline.connections.cursors import Cursors
from auditor.timeline.connections.driver_blocks import DriverBlocks
from auditor.timeline.connections.endings import Endings
from auditor.timeline.connections.held import HeldConnections
from auditor.timeline.connections.pointing import FOUND, Pointing
from auditor.timeline.connections.pools import Pools
from auditor.timeline.connections.sessions import Sessions
from auditor.timeline.connections.statements import Statements
from auditor.timeline.connections.switches import Switches
from auditor.timeline.connections.tasks import Tasks
from auditor.timeline.connections.told_by_use import ToldByUse
from auditor.timeline.model.connection import Autocommit, ConnectionState, Life, Status
from auditor.timeline.model.state import State, merge
from auditor.timeline.model.values import (
    FALSE,
    NONE,
    TRUE,
    UNKNOWN,
    Block,
    Bound,
    Connection,
    Cursor,
    External,
    Key,
    Pool,
    Text,
    Unknown,
    Value,
    from_row,
    key_of,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

_STATUS_NAMES = {Status.IDLE: "IDLE", Status.OPEN: "INTRANS", Status.ABORTED: "INERROR"}
#: Attributes under which an engine, a session or a connection shows itself to code without coroutines.
_VIEWS = frozenset({"sync_engine", "sync_session", "sync_connection", "pool", "dbapi_connection", "driver_connection"})
#: What is done to a session without a connection takes none out of the pool.
_LATE = (Act.ROLLBACK, Act.CLOSE, Act.NOTHING, Act.ACQUIRE, Act.BORROW)
#: What a pool does on a connection that it takes out for the call alone.
_ON_POOL = (Act.EXECUTE, Act.EXECUTE_MANY, Act.EXECUTE_ONE, Act.EXECUTE_ALL)


class Database:
    """Applies the drivers' semantics on behalf of a walk: each deed of their tables to the part that knows it."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self.pools = Pools(walker)
        self.blocks = DriverBlocks(walker, self)
        self.statements = Statements(walker, self)
        self.held = HeldConnections(walker, self)
        self.pointing = Pointing(walker, self)
        self.sessions = Sessions(walker, self)
        self.tasks = Tasks(walker, self)
        self.connecting = Connecting(walker, self)
        self.told_by_use = ToldByUse(walker, self)
        self.cursors = Cursors(walker, self)
        self.endings = Endings(walker, self)
        self.switches = Switches(walker, self)
        #: How often anything was asked of a connection: a call during which it stands still has nothing to do with one.
        self.used = 0
        self._acts: dict[Act, Callable[[Value, Invocation], Results]] = {
            Act.EXECUTE: self.cursors.execute,
            Act.EXECUTE_MANY: self.cursors.execute,
            Act.COPY: self.cursors.execute,
            Act.CALL: self.cursors.call_procedure,
            Act.CURSOR: self.cursors.cursor,
            Act.FETCH_ONE: self.cursors.fetch_one,
            Act.FETCH_MANY: self.cursors.fetch_many,
            Act.COMMIT: self.endings.commit,
            Act.ROLLBACK: self.endings.rollback,
            Act.CLOSE: self.endings.close,
            Act.RESET: self.endings.reset,
            Act.TRANSACTION: self._transaction,
            Act.JOIN: self._join,
            Act.OUTERMOST: self._outermost,
            Act.BORROW_CURSOR: self._borrow_cursor,
            Act.NEST: self._nest,
            Act.HOLD: lambda receiver, call: [(call.state, Block("hold", key_of(receiver), call.span))],
            Act.START: lambda receiver, call: self.cursors.execute(receiver, call.passing(Text("BEGIN"))),
            Act.PIPELINE: self._pipeline,
            Act.SET_AUTOCOMMIT: self.switches.set_autocommit,
            Act.SET_SESSION: self.switches.set_session,
            Act.SET_ISOLATION: self.switches.set_isolation,
            Act.ACQUIRE: self._acquire,
            Act.RELEASE: self._release,
            Act.BORROW: self._borrow,
            Act.CHECK: self._nothing,
            Act.CLOSE_POOL: self._nothing,
            Act.MARK_ROLLBACK: lambda receiver, call: self.held.mark_rollback(key_of(receiver), call),
            Act.DEFER: lambda receiver, call: self.held.defer(key_of(receiver), call),
            Act.SAVEPOINT: lambda receiver, call: self.held.savepoint(key_of(receiver), call),
            Act.RELEASE_SAVEPOINT: lambda receiver, call: self.held.end_savepoint(key_of(receiver), False, call),
            Act.ROLLBACK_SAVEPOINT: lambda receiver, call: self.held.end_savepoint(key_of(receiver), True, call),
            Act.NOTHING: self._nothing,
            Act.POINT: lambda receiver, call: self.pointing.told(key_of(receiver), call),
            Act.POINT_HOME: lambda receiver, call: self.pointing.told_home(key_of(receiver), call),
            Act.POINTED: lambda receiver, call: [(call.state, FOUND)],
            Act.BEGIN: lambda receiver, call: self.sessions.begin(Connection(key_of(receiver)), call, nested=False),
            Act.BEGIN_NESTED: lambda receiver, call: self.sessions.begin(Connection(key_of(receiver)), call, True),
            Act.EXECUTE_ONE: self.cursors.execute_one,
            Act.EXECUTE_ALL: self.cursors.execute_all,
            Act.PREPARE: self.cursors.prepare,
            Act.SAME: lambda receiver, call: (
                self.sessions.options(receiver, call) if isinstance(receiver, Connection) else [(call.state, receiver)]
            ),
            Act.OPTIONS: self.sessions.options,
            **{
                act: self._mapped(act)
                for act in (Act.QUERY, Act.GET, Act.ADD, Act.MERGE, Act.BULK, Act.DELETE, Act.FLUSH, Act.REFRESH)
            },
            Act.RUN: self.cursors.run,
            Act.DISCARD: lambda receiver, call: [(call.state.disconnect(key_of(receiver)), NONE)],
        }

    def share(self, pool: Key) -> None:
        """A pool was given to code that is not followed: others borrow from it too."""
        self.pools.shared.add(pool)

    def state_of(self, key: Key, state: State) -> ConnectionState:
        """The state of a connection; one that is gone is closed."""
        self.used += 1
        known = state.connections.get(key) or self.connecting.found(key) or self.held.found(key)
        # What a function opens when the program starts may only be seen while something else is walked.
        known = known or self.sessions.found(key) or self.walker.names.base.connections.get(key)
        return known or ConnectionState(driver="", life=Life.GIVEN, status=Status.CLOSED, sure=Confidence.LOW)

    def driver_of(self, key: Key, state: State) -> Driver | None:
        return drivers.by_name(self.state_of(key, state).driver)

    def attribute(self, receiver: Value, name: str, state: State) -> Value | None:
        """An attribute of a driver's thing that has a value of its own; None for methods and the rest."""
        if isinstance(receiver, Cursor):
            return Connection(receiver.connection) if name == "connection" else None
        if name in _VIEWS:
            return receiver
        if not isinstance(receiver, Connection):
            return None
        if self.held.is_held(receiver.key):
            return self.held.attribute(receiver.key, name, state)
        connection = self.state_of(receiver.key, state)
        if name == "autocommit":
            return {Autocommit.ON: TRUE, Autocommit.OFF: FALSE}.get(connection.autocommit, UNKNOWN)
        if name == "closed":
            return TRUE if connection.status is Status.CLOSED else UNKNOWN
        return None

    def transaction_status(self, key: Key, state: State) -> Value:
        """`connection.info.transaction_status`, as the member of the enumeration that it is equal to."""
        connection = self.state_of(key, state)
        name = _STATUS_NAMES.get(connection.status)
        if name is None:
            return UNKNOWN
        psycopg2 = connection.driver == "psycopg2"
        return External(
            f"psycopg2.extensions.TRANSACTION_STATUS_{name}" if psycopg2 else f"psycopg.pq.TransactionStatus.{name}"
        )

    def call(self, receiver: Value, name: str, call: Invocation) -> Results:
        """A method of a connection, cursor or pool."""
        if name == "__init__" and isinstance(receiver, Connection):
            self.sessions.bound(receiver, call)
            return [(call.state, NONE)]
        act = self._act_of(receiver, name, call.state)
        if isinstance(receiver, Pool) and self.tasks.is_one(receiver.key):
            of_task = self.tasks.call(receiver, act, call)
            if of_task is not None:
                return of_task
        if isinstance(receiver, Pool) and act in _ON_POOL:
            return self.pools.lend(receiver.key, call, self._acts[act])
        if act is not None and act not in _LATE:
            return [
                way
                for after in self.sessions.opened(receiver, call)
                for way in self._acts[act](receiver, call.at(after))
            ]
        if act is not None:
            return self._acts[act](receiver, call)
        if isinstance(receiver, Connection) and name == "cursor":
            # Of a connection that is gone: nothing runs on it, and nothing else is meant by it.
            return [(call.state, Cursor(receiver.key))]
        if isinstance(receiver, Connection) and any(from_row(value) for value in call.everything):
            # No connection to a database takes jobs: it was taken for one by its name.
            return self.walker.unseen.opaque(Bound(Unknown(called="connection"), name), call)
        return [(call.state, UNKNOWN)]

    def _act_of(self, receiver: Value, name: str, state: State) -> Act | None:
        if isinstance(receiver, Pool):
            return self.pools.known[receiver.key].driver.methods.get((Thing.POOL, name))
        key = key_of(receiver)
        driver = self.driver_of(key, state)
        if driver is None:
            return None
        things = (Thing.CONNECTION,) if isinstance(receiver, Connection) else (Thing.CURSOR, Thing.CLIENT_CURSOR)
        if isinstance(receiver, Cursor) and receiver.prepared is not None:
            things = (Thing.STATEMENT,)
        return next((act for thing in things if (act := driver.methods.get((thing, name)))), None)

    def act(self, act: Act, receiver: Value, call: Invocation) -> Results:
        """A deed of the driver on one of its things."""
        return self._acts[act](receiver, call)

    @staticmethod
    def cursor_of(connection: Connection) -> Cursor:
        """A cursor on a connection, of which nobody keeps hold."""
        return Cursor(connection.key, client=True)

    def helper(self, act: Act, call: Invocation) -> Results:
        """A function of the driver that is given a connection or cursor first: execute_values(cursor, sql, rows)."""
        receiver = call.argument(0)
        if not isinstance(receiver, (Connection, Cursor)):
            return [(call.state, UNKNOWN)]
        return self._acts[act](receiver, call.passing(*call.positional[1:], named=call.named))

    def _nothing(self, receiver: Value, call: Invocation) -> Results:
        return [(call.state, UNKNOWN)]

    def _mapped(self, act: Act) -> Callable[[Value, Invocation], Results]:
        return lambda receiver, call: self.walker.mapper.act(act, Connection(key_of(receiver)), call)

    def _acquire(self, receiver: Value, call: Invocation) -> Results:
        assert isinstance(receiver, Pool)
        return list(self.pools.acquire(receiver.key, call.state, call.frame, call.span))

    def _release(self, receiver: Value, call: Invocation) -> Results:
        assert isinstance(receiver, Pool)
        close = call.argument(2, "close", default=FALSE) == TRUE
        states: list[State] = []
        for option in options_of(call.argument(0, "conn", "connection")):
            if isinstance(option, Connection) and option.key in call.state.connections:
                states.extend(self.pools.release(receiver.key, option.key, call.state, call.frame, call.span, close))
            else:
                states.append(call.state)
        return [(after, NONE) for after in merge(states)]

    def _borrow(self, receiver: Value, call: Invocation) -> Results:
        assert isinstance(receiver, Pool)
        return [(call.state, Block("borrow", receiver.key, call.span))]

    def _nest(self, receiver: Value, call: Invocation) -> Results:
        return [(call.state, Block("transaction", key_of(receiver), call.span, nested=True))]

    def _transaction(self, receiver: Value, call: Invocation) -> Results:
        forced = call.argument(1, "force_rollback", default=FALSE) == TRUE
        level, driver = call.argument(-1, "isolation", default=NONE), self.driver_of(key_of(receiver), call.state)
        named = driver.isolation_names.get(level.value, "") if isinstance(level, Text) and driver is not None else ""
        block = Block("transaction", key_of(receiver), call.span, forced, isolation=named)
        return [(call.state, block)]

    def _outermost(self, receiver: Value, call: Invocation) -> Results:
        return [(call.state, Block("transaction", key_of(receiver), call.span, durable=True))]

    def _borrow_cursor(self, receiver: Value, call: Invocation) -> Results:
        assert isinstance(receiver, Pool)
        return [(call.state, Block("borrow cursor", receiver.key, call.span))]

    def _join(self, receiver: Value, call: Invocation) -> Results:
        return [(call.state, Block("transaction", key_of(receiver), call.span, savepoint=False))]

    def _pipeline(self, receiver: Value, call: Invocation) -> Results:
        return [(call.state, Block("pipeline", key_of(receiver), call.span))]
