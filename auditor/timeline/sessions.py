"""Engines, sessions and their factories: connections that are taken out of a pool when they are needed.

A session keeps its connection to the end of what it is walked in: between its transactions the pool hands out the same
one, unless another thread is faster.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import Callback, Driver, Thing
from auditor.timeline import connection as change
from auditor.timeline.connection import Autocommit, ConnectionState, Status
from auditor.timeline.events import Began
from auditor.timeline.invocation import Invocation
from auditor.timeline.pools import PoolInfo
from auditor.timeline.state import Flow, State, merge
from auditor.timeline.values import (
    NONE,
    UNKNOWN,
    Block,
    Class,
    Connection,
    External,
    Function,
    Key,
    Literal,
    Made,
    Mapping,
    Pool,
    Text,
    Value,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from auditor.python import nodes
    from auditor.timeline.database import Database
    from auditor.timeline.evaluate import Results
    from auditor.timeline.state import Frame
    from auditor.timeline.walker import Walker

#: An engine for another database than PostgreSQL: nothing is said of what is done with it.
_ELSEWHERE = "an engine of another database"
_POSTGRES = ("postgresql", "postgres", "cockroachdb")
_PREPARES = {"psycopg": 5, "psycopg_async": 5}
_EVENTS = {
    "connect": Callback.CONFIGURE,
    "first_connect": Callback.CONFIGURE,
    "checkout": Callback.CHECKOUT,
    "checkin": Callback.RESET,
    "reset": Callback.RESET,
}
_LISTENS = frozenset({"sqlalchemy.event.listens_for", "sqlalchemy.event.listen"})


class Sessions:
    """Makes them and ends them, on behalf of a walk."""

    def __init__(self, walker: Walker, database: Database) -> None:
        self.walker = walker
        self.database = database
        #: The pool that each session takes its connection from.
        self._pools: dict[Key, Key] = {}
        self._sessions: set[Key] = set()
        #: What the program asks to be told of: of which thing (None for all of them), which event, and who is told.
        self._listeners: list[tuple[Key | None, str, Value]] = []
        self._telling: set[Key] = set()

    # Making

    def make(self, driver: Driver, thing: Thing, call: Invocation) -> Value | None:
        """What a call of one of the driver's callables makes; None when it is none of these things."""
        if thing in (Thing.POOL, Thing.ASYNC_POOL) and driver.client_dbapis:
            return self._engine(driver, thing, call)
        if thing is Thing.SESSIONS:
            bind = call.argument(0, "bind", default=NONE)
            return self._from(bind, lambda pool: self._factory(driver, pool, call))
        if thing is Thing.SCOPED:
            return self._from(call.argument(0, "session_factory"), lambda pool: self._scoped(driver, pool, call))
        if thing is Thing.SESSION:
            bind = call.argument(0, "bind", default=NONE)
            if isinstance(bind, Connection):
                self._sessions.add(bind.key)
                return bind
            return self._from(bind, lambda pool: self._session(driver, pool, call))
        return None

    @staticmethod
    def _from(bind: Value, made: Callable[[Value], Value]) -> Value:
        return bind if isinstance(bind, Made) and bind.name == _ELSEWHERE else made(bind)

    def _engine(self, driver: Driver, thing: Thing, call: Invocation) -> Value:
        dbapis = [_dbapi(option) for option in options_of(call.argument(0, "url"))]
        known = [dbapi for dbapi in dbapis if dbapi is not None]
        if known and not any(dialect in _POSTGRES for dialect, _ in known):
            return Made(_ELSEWHERE)
        default = "asyncpg" if thing is Thing.ASYNC_POOL else ""
        dbapi = next((name for dialect, name in known if dialect in _POSTGRES), default) or default
        options = {**call.options, **_pairs(call.options.get("execution_options"))}
        threshold = _pairs(call.options.get("connect_args")).get("prepare_threshold")
        prepares = _PREPARES.get(dbapi)
        if threshold is not None:
            prepares = int(threshold.value) if isinstance(threshold, Literal) and threshold.value is not None else None
        autocommit, isolation = self._level(options.get("isolation_level"))
        poolclass = options.get("poolclass")
        named = poolclass.name.rpartition(".")[2] if isinstance(poolclass, External) else ""
        alone = options.get("pool_size") == Literal(1) and options.get("max_overflow") == Literal(0)
        info = PoolInfo(
            self.walker.keys.of("engine", call.place, autocommit, dbapi),
            driver,
            call.place,
            null=named == "NullPool",
            autocommit=autocommit,
            prepares_after=prepares,
            client_cursors=dbapi in driver.client_dbapis,
            callbacks=(),
            single=alone or named == "StaticPool",
            root=self.walker.root,
            isolation=isolation,
        )
        return self._keep(info)

    def _keep(self, info: PoolInfo) -> Pool:
        self.database.pools.known.setdefault(info.key, info)
        return Pool(info.key)

    @staticmethod
    def _level(level: Value | None) -> tuple[Autocommit, str]:
        if level is None or level == NONE:
            return Autocommit.OFF, ""
        if isinstance(level, Text) and not level.holes:
            plain = level.value.upper()
            return (Autocommit.ON, "") if plain == "AUTOCOMMIT" else (Autocommit.OFF, plain.lower().replace("_", " "))
        return Autocommit.UNKNOWN, ""

    def _factory(self, driver: Driver, bind: Value, call: Invocation) -> Value:
        info = self._info_of(driver, bind, call)
        return self._keep(replace(info, key=self.walker.keys.of("sessions", info.key, call.place), sessions=True))

    def _info_of(self, driver: Driver, bind: Value, call: Invocation) -> PoolInfo:
        """The pool behind what a session is bound to; one that is not seen is of the driver's defaults."""
        pools = self.database.pools
        for option in options_of(bind):
            if isinstance(option, Pool):
                info = pools.known[option.key]
                return replace(info, home=info.home or info.key)
        key = self.walker.keys.of("unbound", call.frame.module)
        return pools.known[pools.given(driver, Thing.POOL, key).key]

    def _scoped(self, driver: Driver, factory: Value, call: Invocation) -> Value:
        info = self._info_of(driver, factory, call)
        return self._open(self.walker.keys.of("scoped", call.place), self._keep(info).key)

    def _session(self, driver: Driver, bind: Value, call: Invocation) -> Value:
        info = self._info_of(driver, bind, call)
        return self._open(self.walker.keys.of("session", call.frame.key, call.span), self._keep(info).key)

    def _open(self, key: Key, pool: Key) -> Connection:
        self._pools[key] = pool
        self._sessions.add(key)
        return Connection(key)

    def of_application(self, driver: Driver, key: Key, name: str) -> Value:
        """`db.session` and `db.engine` of an extension that makes them from an application's configuration."""
        pool = self.database.pools.given(driver, Thing.POOL, self.walker.keys.of("application", key)).key
        return self._open(self.walker.keys.of("scoped", key), pool) if name == "session" else Pool(pool)

    def called(self, callee: Value, call: Invocation) -> Results | None:
        """A factory that is called makes a session, a scoped session gives itself; None for anything else."""
        if isinstance(callee, Connection) and callee.key in self._pools:
            return [(call.state, callee)]
        info = self.database.pools.known.get(callee.key) if isinstance(callee, Pool) else None
        if info is None or not info.sessions:
            return None
        bind = call.argument(-1, "bind", default=NONE)
        if isinstance(bind, Connection):
            self._sessions.add(bind.key)
            return [(call.state, bind)]
        pool = bind.key if isinstance(bind, Pool) else info.key
        key = self.walker.keys.of("session", call.frame.key, call.span)
        return [(call.state.disconnect(key), self._open(key, pool))]

    def is_session(self, key: Key) -> bool:
        return key in self._sessions

    def given(self, key: Key) -> None:
        """A session that comes from outside."""
        self._sessions.add(key)

    # Taking the connection

    def found(self, key: Key) -> ConnectionState | None:
        """The connection that a session would take now; None of anything else."""
        pool = self._pools.get(key)
        if pool is None:
            return None
        return self.database.pools.fresh(self.database.pools.known[pool], None)

    def opened(self, receiver: Value, call: Invocation) -> list[State]:
        """The states in which a session has its connection: it takes one out of its pool when it is first used."""
        key = receiver.key if isinstance(receiver, Connection) else None
        if key is None or key not in self._pools or key in call.state.connections:
            return [call.state]
        taken = self.database.pools.acquire(self._pools[key], call.state, call.frame, call.span, key)
        return merge([after for after, _ in taken])

    # Ending

    def close(self, key: Key, state: State, frame: Frame, span: nodes.Span, by: str) -> list[State]:
        """What is open is rolled back, and the connection goes back to its pool."""
        connection = state.connections.get(key)
        state = self.walker.mapper.forgotten(state)
        if connection is None:
            return [state]
        if connection.pool is None or connection.status is Status.CLOSED:
            if connection.in_transaction or connection.status is Status.UNKNOWN:
                state = self.database.end(key, state, "rollback", by, frame.module.place(span), frame)
            return [state]
        return self.database.pools.release(connection.pool, key, state, frame, span)

    def abandoned(self, state: State, frame: Frame, span: nodes.Span) -> State:
        """Sessions that nobody has closed when their job is over: whoever clears up rolls back, and gives back."""
        for key in [key for key in state.connections if key in self._pools]:
            state = self.close(key, state, frame, span, "the end of its session")[0]
        return state

    # Transactions

    def begin(self, receiver: Connection, call: Invocation, nested: bool) -> Results:
        """begin() and begin_nested(): what they return ends what they have begun."""
        key = receiver.key
        before = self.database.state_of(key, call.state)
        driver = drivers.by_name(before.driver)
        if before.barred or (not nested and before.in_transaction):
            return self.refused(driver, call)
        results: Results = []
        for state in self.begun(key, call):
            connection = self.database.state_of(key, state)
            if not nested:
                results.append((state, Block("begun", key, call.span, how="transaction")))
                continue
            if connection.status is Status.ABORTED or connection.autocommit is Autocommit.ON:
                self.database.may_fail(key, state, call.flow, call.span, call.frame)
                continue
            after = change.savepoint(connection, "")
            event = Began(call.place, key, after, True, call.frame.symbol)
            depth = len(connection.savepoints)
            block = Block("begun", key, call.span, how="savepoint", depth=depth)
            inside = self.walker.see(event, state.connect(key, after))
            # Those who listen to a session's begin are told of its savepoints, too.
            results.extend((told, block) for told in self._told_of_begin(key, call.at(inside)))
        return results

    def refused(self, driver: Driver | None, call: Invocation) -> Results:
        """The library raises instead of doing what was asked."""
        error = driver.refuses_with if driver is not None else ""
        raised = self.walker.raised("raise", External(error), call.span, call.frame)
        call.flow.raises.append((self.walker.failed(call.state, raised), raised))
        return []

    def begun(self, key: Key, call: Invocation) -> list[State]:
        """The states in which a transaction is open on the connection, those who listen having been told."""
        connection = self.database.state_of(key, call.state)
        if connection.in_transaction or connection.autocommit is Autocommit.ON:
            return [call.state]
        if connection.autocommit is Autocommit.UNKNOWN:
            unknown = replace(connection, status=Status.UNKNOWN)
            return self._told_of_begin(key, call.at(call.state.connect(key, unknown)))
        states: list[State] = []
        for state in self._checked_out(key, call):
            connection = self.database.state_of(key, state)
            after = change.begin(replace(connection, status=Status.IDLE), call.place)
            state = self.walker.see(Began(call.place, key, after, False, call.frame.symbol), state.connect(key, after))
            states.extend(self._told_of_begin(key, call.at(state)))
        return merge(states)

    def _checked_out(self, key: Key, call: Invocation) -> list[State]:
        """Each transaction of a session takes its connection out of the pool anew."""
        info = self._info(key)
        if info is None or key not in call.state.connections or not self.callbacks(info, Callback.CHECKOUT):
            return [call.state]
        ways = self.database.pools.run(info, Callback.CHECKOUT, key, call.state, call.frame, call.span)
        return merge([after for after, raised in ways if not raised]) or [call.state]

    def _info(self, key: Key) -> PoolInfo | None:
        """The pool of a session."""
        pool = self._pools.get(key)
        return self.database.pools.known.get(pool) if pool is not None else None

    def begins(self, key: Key, call: Invocation) -> list[State]:
        """The states in which a statement runs: the first of a session's transaction begins it."""
        connection = self.database.state_of(key, call.state)
        info = self._info(key)
        listens = self._listening(key, "after_begin") or (info is not None and self.callbacks(info, Callback.CHECKOUT))
        if connection.in_transaction or key not in self._sessions or not listens:
            return [call.state]
        return self.begun(key, call)

    def _told_of_begin(self, key: Key, call: Invocation) -> list[State]:
        states = [call.state]
        if key in self._telling or key not in self._sessions:
            return states
        self._telling.add(key)
        for listener in self._listening(key, "after_begin"):
            told = call.passing(Connection(key), UNKNOWN, Connection(key))
            states = merge(
                [after for state in states for after, _ in self.walker.calls.apply(listener, told.at(state))]
            )
        self._telling.discard(key)
        return states

    def by_hand(self, block: Block, name: str, call: Invocation) -> Results:
        """`transaction.commit()`, `.rollback()` and `.close()`."""
        connection = self.database.state_of(block.key, call.state)
        if name not in ("commit", "rollback", "close"):
            return [(call.state, UNKNOWN)]
        if block.how == "savepoint" and len(connection.savepoints) <= block.depth:
            return [(call.state, NONE)]
        raised = None if name == "commit" else self.walker.raised("python", None, call.span, call.frame)
        # It was never entered as a block: one that is left is one more than there are.
        state = call.state.connect(block.key, replace(connection, blocks=connection.blocks + 1))
        exit_as = (block.how, block.key, block.depth)
        left = self.database.blocks.leave(exit_as, state, raised, call.frame, call.span, call.flow)
        return [(after, NONE) for after in left]

    # Options

    def options(self, receiver: Value, call: Invocation) -> Results:
        """execution_options(isolation_level=…) of connections and engines, configure(bind=…) of factories."""
        options = {**call.options, **_pairs(call.options.get("execution_options"))}
        bind = options.get("bind")
        pools = self.database.pools
        if isinstance(receiver, Pool):
            info = pools.known[receiver.key]
            if isinstance(bind, Pool):
                bound = pools.known[bind.key]
                pools.known[receiver.key] = replace(
                    bound, key=receiver.key, sessions=info.sessions, home=bound.home or bound.key
                )
            if "isolation_level" not in options:
                return [(call.state, receiver)]
            autocommit, isolation = self._level(options["isolation_level"])
            key = self.walker.keys.of("view", info.key, autocommit, isolation)
            view = replace(info, key=key, home=info.home or info.key, autocommit=autocommit, isolation=isolation)
            return [(call.state, self._keep(view))]
        assert isinstance(receiver, Connection)
        if "isolation_level" not in options:
            return [(call.state, receiver)]
        autocommit, isolation = self._level(options["isolation_level"])
        connection = self.database.state_of(receiver.key, call.state)
        if connection.in_transaction:
            return self.refused(drivers.by_name(connection.driver), call)
        changed = replace(connection, autocommit=autocommit, isolation=isolation, switched_at=call.place)
        return [(call.state.connect(receiver.key, changed), receiver)]

    # Listeners

    def listen(self, target: Value, event: Value, listener: Value) -> None:
        """`event.listen(target, event, listener)`."""
        if not isinstance(event, Text) or not isinstance(listener, Function):
            return
        self.walker.calls.entered.add(listener.info)
        for option in options_of(target):
            key = option.key if isinstance(option, (Pool, Connection)) else None
            entry = (key, event.value, listener)
            if isinstance(option, (Pool, Connection, External, Class)) and entry not in self._listeners:
                self._listeners.append(entry)

    def decorated(self, applied: Value, value: Value) -> bool:
        """`@event.listens_for(target, event)` over a function."""
        if not isinstance(applied, Made) or applied.name not in _LISTENS:
            return False
        self.listen(applied.argument(0, "target") or UNKNOWN, applied.argument(1, "identifier") or UNKNOWN, value)
        return True

    def listens(self, callback: Value) -> bool:
        """Whether a callback is one that the program has asked to be told through."""
        return any(told == callback for _, _, told in self._listeners)

    def _listening(self, key: Key, event: str) -> list[Value]:
        pool, info = self._pools.get(key), self._info(key)
        mine = {key, pool, info.home if info is not None else None}
        return [
            told for target, known, told in self._listeners if known == event and (target is None or target in mine)
        ]

    def callbacks(self, info: PoolInfo, which: Callback) -> list[Value]:
        """Who listens to what happens to the connections of a pool."""
        events = {event for event, callback in _EVENTS.items() if callback is which}
        return [
            told
            for target, event, told in self._listeners
            if event in events and (target is None or target in (info.key, info.home))
        ]

    def renewed(self, info: PoolInfo, key: Key, state: State, frame: Frame, span: nodes.Span) -> State:
        """A connection as its next user works on it: what is set anew at every checkout or begin is no leak."""
        before = state.connections[key]
        place = frame.module.place(span)
        call = Invocation((), (), state, frame, Flow(), span)
        with self.walker.quietly():
            for after, _ in self.database.pools.run(info, Callback.CHECKOUT, key, state, frame, span):
                call = call.at(after)
            open_again = change.begin(call.state.connections[key], place)
            for listener in self._listening(key, "after_begin"):
                told = call.at(call.state.connect(key, open_again)).passing(Connection(key), UNKNOWN, Connection(key))
                for after, _ in self.walker.calls.apply(listener, told):
                    call = call.at(after)
        now = call.state.connections.get(key, before)
        kept = tuple(s for s in before.settings if now.setting(s.name).current.origin == s.current.origin)
        return state.connect(key, replace(before, settings=kept)) if len(kept) < len(before.settings) else state


def _dbapi(url: Value) -> tuple[str, str] | None:
    """The dialect and the DBAPI that a URL names; None when it is not known."""
    if isinstance(url, Made):
        first = url.argument(0, "drivername")
        return _dbapi(first) if isinstance(first, Text) and url.name.endswith(("create", "make_url", "URL")) else None
    if not isinstance(url, Text):
        return None
    scheme = url.value.partition(":")[0]
    if not scheme.replace("+", "").replace("_", "").isalnum() or not scheme.isascii():
        return None
    dialect, _, dbapi = scheme.partition("+")
    return dialect, dbapi


def _pairs(value: Value | None) -> dict[str, Value]:
    """What a dict of options holds, as far as it is known."""
    if not isinstance(value, Mapping):
        return {}
    return {key.value: item for key, item in value.pairs if isinstance(key, Text)}
