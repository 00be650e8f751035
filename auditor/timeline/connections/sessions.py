"""Engines, sessions and their factories: connections that are taken out of a pool when they are needed.

A session keeps its connection to the end of what it is walked in: between its transactions the pool hands out the same
one, unless another thread is faster.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import Callback, Driver, Thing
from auditor.timeline.connections.driver_blocks import UNSENT
from auditor.timeline.connections.listeners import Listeners
from auditor.timeline.connections.pools import FOR_COROUTINES, PoolInfo
from auditor.timeline.connections.startup import startup_settings, user_of
from auditor.timeline.model import connection as change
from auditor.timeline.model.connection import Autocommit, ConnectionState, Status
from auditor.timeline.model.events import Began
from auditor.timeline.model.invocation import OPEN
from auditor.timeline.model.state import State, merge
from auditor.timeline.model.values import (
    FALSE,
    NONE,
    UNKNOWN,
    Block,
    Class,
    Connection,
    External,
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

    from auditor.program.code import ClassInfo
    from auditor.python import nodes
    from auditor.timeline.connections.database import Database
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.model.state import Frame
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

#: An engine for another database than PostgreSQL: nothing is said of what is done with it.
ELSEWHERE = "an engine of another database"
_POSTGRES = ("postgresql", "postgres", "cockroachdb")
_PREPARES = {"psycopg": 5, "psycopg_async": 5}


class Sessions:
    """Makes them and ends them, on behalf of a walk."""

    def __init__(self, walker: Walker, database: Database) -> None:
        self.walker = walker
        self.database = database
        #: The pool that each session takes its connection from.
        self._pools: dict[Key, Key] = {}
        self._sessions: set[Key] = set()
        #: The project's own classes of the sessions that factories make.
        self._classes: dict[Key, ClassInfo] = {}
        #: Of factories and sessions whose making is seen: the project's own class of the sessions, or none.
        self._told_as: dict[Key, ClassInfo | None] = {}
        self.listeners = Listeners(walker, database)

    # Making

    def make(self, driver: Driver, thing: Thing, call: Invocation) -> Value | None:
        """What a call of one of the driver's callables makes; None when it is none of these things."""
        if thing in (Thing.POOL, Thing.ASYNC_POOL) and driver.client_dbapis:
            return self._engine(driver, thing, call)
        if thing in (Thing.SESSIONS, Thing.ASYNC_SESSIONS):
            bind = call.argument(0, "bind", default=NONE)
            return self._from(bind, lambda pool: self._factory(driver, thing, pool, call))
        if thing is Thing.SCOPED:
            return self._from(call.argument(0, "session_factory"), lambda pool: self._scoped(driver, thing, pool, call))
        if thing in (Thing.SESSION, Thing.ASYNC_SESSION):
            bind = call.argument(0, "bind", default=NONE)
            if isinstance(bind, Connection):
                self._sessions.add(bind.key)
                return bind
            return self._from(bind, lambda pool: self._session(driver, thing, pool, call))
        return None

    @staticmethod
    def _from(bind: Value, made: Callable[[Value], Value]) -> Value:
        return bind if isinstance(bind, Made) and bind.name == ELSEWHERE else made(bind)

    def _engine(self, driver: Driver, thing: Thing, call: Invocation) -> Value:
        dbapis = [_dbapi(option) for option in options_of(call.argument(0, "url"))]
        known = [dbapi for dbapi in dbapis if dbapi is not None]
        # A fallback to another database says nothing of the URL that a deployment gives.
        if len(known) == len(dbapis) and not any(dialect in _POSTGRES for dialect, _ in known):
            return Made(ELSEWHERE)
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
        startup = startup_settings(_pairs(call.options.get("connect_args")), call.argument(0, "url"), call.place)
        user = user_of(_pairs(call.options.get("connect_args")), call.argument(0, "url"))
        info = PoolInfo(
            self.walker.keys.of("engine", call.place, autocommit, dbapi, startup, user),
            driver,
            call.place,
            null=named == "NullPool",
            autocommit=autocommit,
            prepares_after=prepares,
            client_cursors=dbapi in driver.client_dbapis
            and (bool(known) or self.database.connecting.may_bind_in_client(driver, thing)),
            blind=dbapi in driver.blind_dbapis,
            refuses_begun=dbapi in driver.refusing_dbapis,
            callbacks=(),
            single=alone or named == "StaticPool",
            root=self.walker.root,
            isolation=isolation,
            startup=startup,
            user=user,
            commits_writes=self._commits_writes(driver, thing, call),
            ends_reset=_ends_reset(options.get("pool_reset_on_return")),
        )
        return self._keep(info)

    def _commits_writes(self, driver: Driver, thing: Thing, call: Invocation) -> bool:
        """Whether the connections of an engine are of the old kind, in the version that the project runs with."""
        before = driver.commits_writes_before
        new = call.options.get("future", UNKNOWN if OPEN in call.options else FALSE) != FALSE
        if thing in FOR_COROUTINES or new or not before:
            return False
        return self.walker.program.is_before(driver, call.frame.module, before)

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

    def _factory(self, driver: Driver, thing: Thing, bind: Value, call: Invocation) -> Value:
        cls = call.argument(-1, "class_", default=NONE)
        typed = drivers.typed_as(cls.name) if isinstance(cls, External) else None
        info = self._info_of(driver, typed[1] if typed is not None else thing, bind, call)
        pool = self._keep(replace(info, key=self.walker.keys.of("sessions", info.key, call.place), sessions=True))
        if isinstance(cls, Class):
            self._classes[pool.key] = cls.info
        told = next((one for one in (call.options.get("sync_session_class"), cls) if isinstance(one, Class)), None)
        self._told_as[pool.key] = told.info if told is not None else None
        return pool

    def _info_of(self, driver: Driver, thing: Thing, bind: Value, call: Invocation) -> PoolInfo:
        """The pool behind what a session is bound to; one that is not seen is of the driver's defaults."""
        pools = self.database.pools
        for option in options_of(bind):
            if isinstance(option, Pool):
                info = pools.known[option.key]
                return replace(info, home=info.home or info.key)
        engine = Thing.ASYNC_POOL if thing in FOR_COROUTINES else Thing.POOL
        key = self.walker.keys.of("unbound", call.frame.module, engine)
        return pools.known[pools.given(driver, engine, key).key]

    def _scoped(self, driver: Driver, thing: Thing, factory: Value, call: Invocation) -> Value:
        info = self._info_of(driver, thing, factory, call)
        opened = self.open(self.walker.keys.of("scoped", call.place), self._keep(info).key)
        if isinstance(factory, Pool) and factory.key in self._told_as:
            self._told_as[opened.key] = self._told_as[factory.key]
        return opened

    def _session(self, driver: Driver, thing: Thing, bind: Value, call: Invocation) -> Value:
        info = self._info_of(driver, thing, bind, call)
        session = self.open(self.walker.keys.of("session", call.frame.key, call.span), self._keep(info).key)
        told = call.options.get("sync_session_class")
        self._told_as[session.key] = told.info if isinstance(told, Class) else None
        return session

    def of_class(self, key: Key, info: ClassInfo) -> None:
        """A session is one of the project's own class."""
        if key in self._told_as:
            self._told_as[key] = info

    def is_of(self, key: Key, info: ClassInfo) -> bool:
        """Whether those who listen to a class of sessions are told of a session; of one that is not seen made, too."""
        if key not in self._told_as:
            return True
        own = self._told_as[key]
        return own is not None and info in self.walker.objects.lineage(own)

    def open(self, key: Key, pool: Key) -> Connection:
        self._pools[key] = pool
        self._sessions.add(key)
        return Connection(key)

    def of_application(self, driver: Driver, key: Key, name: str, thing: Thing = Thing.POOL) -> Value:
        """`db.session` and `db.engine` of an extension that makes them from an application's configuration."""
        pool = self.database.pools.given(driver, thing, self.walker.keys.of("application", key)).key
        return self.open(self.walker.keys.of("scoped", key), pool) if name == "session" else Pool(pool)

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
        way = (call.state.disconnect(key), self.open(key, pool))
        if info.key in self._told_as:
            self._told_as[key] = self._told_as[info.key]
        own = self._classes.get(info.key)
        return [way] if own is None else self.database.connecting.as_own(own, way, call)

    def bound(self, session: Connection, call: Invocation) -> None:
        """`super().__init__(bind, …)` of the project's own class of sessions tells its engine."""
        bind = call.argument(0, "bind", default=NONE)
        pool = next((option.key for option in options_of(bind) if isinstance(option, Pool)), None)
        if pool is not None and session.key in self._pools:
            self._pools[session.key] = pool

    def is_session(self, key: Key) -> bool:
        return key in self._sessions

    def commits_writes(self, key: Key, connection: ConnectionState) -> bool:
        """Whether a statement that writes is committed by the library: none of its transactions is under way."""
        return connection.commits_writes and not connection.under_way and key not in self._sessions

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
                state = self.database.endings.end(key, state, "rollback", by, frame.module.place(span), frame)
            return [state]
        return self.database.pools.release(connection.pool, key, state, frame, span)

    def closed_inside(self, key: Key, before: ConnectionState, state: State) -> State:
        """A session that is closed inside of its blocks refuses to go on until the last of them is left."""
        driver = drivers.by_name(before.driver)
        if not before.blocks or key not in self._sessions or driver is None or not driver.block_bars:
            return state
        closed = ConnectionState(before.driver, before.life, status=Status.CLOSED, pool=before.pool)
        return state.connect(key, replace(closed, blocks=before.blocks, holders=before.holders, barred=True))

    def let_go(self, key: Key, state: State) -> State:
        """A session without a pool closes its connection with its transaction, and opens another for the next one."""
        info = self.pool_of(key)
        if info is None or not info.null or key not in self._sessions or self.listeners.are_told(key):
            return state
        known = state.connections[key]
        if not (known.blocks or known.holders or known.barred):
            return state.disconnect(key)
        fresh = self.database.pools.fresh(info, None)
        opened = replace(fresh, blocks=known.blocks, holders=known.holders, barred=known.barred)
        return state.connect(key, opened)

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
        if before.barred or (not nested and self._has_begun(key, before)):
            return self.refused(driver, call)
        results: Results = []
        for state in self.begun(key, call):
            connection = self.database.state_of(key, state)
            if not nested:
                results.append((state, Block("begun", key, call.span, how="transaction")))
                continue
            ended = connection.status is Status.IDLE
            refused = connection.status is Status.ABORTED or (ended and connection.misled)
            if refused and self.is_session(key):
                # It sends its SAVEPOINT with the first statement inside, which is refused; without one nothing is sent.
                unsent = replace(connection, status=Status.ABORTED, doomed=ended or connection.doomed)
                results.append((state.connect(key, unsent), Block("begun", key, call.span, how=UNSENT)))
                continue
            if refused or connection.autocommit is Autocommit.ON:
                self.database.endings.may_fail(key, state, call.flow, call.span, call.frame)
                continue
            if ended:
                # A text has ended the transaction, and the DBAPI begins another one for the SAVEPOINT.
                connection = change.begin(connection, call.place)
            after = change.savepoint(connection, "")
            event = Began(call.place, key, after, True, call.frame.symbol)
            depth = len(connection.savepoints)
            block = Block("begun", key, call.span, how="savepoint", depth=depth)
            inside = self.walker.see(event, state.connect(key, after))
            told = self.listeners.told_of_begin(key, call.at(inside), savepoint=True)
            results.extend((after_them, block) for after_them in told)
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
        if self._has_begun(key, connection):
            return [call.state]
        if connection.autocommit is Autocommit.ON or connection.in_transaction:
            own = call.state.connect(key, replace(connection, under_way=True))
            return self.listeners.told_of_begin(key, call.at(own))
        if connection.autocommit is Autocommit.UNKNOWN:
            unknown = replace(connection, status=Status.UNKNOWN, under_way=True)
            return self.listeners.told_of_begin(key, call.at(call.state.connect(key, unknown)))
        states: list[State] = []
        for state in self._checked_out(key, call):
            connection = self.database.state_of(key, state)
            after = change.begin(replace(connection, status=Status.IDLE, under_way=True), call.place)
            state = self.walker.see(Began(call.place, key, after, False, call.frame.symbol), state.connect(key, after))
            states.extend(self.listeners.told_of_begin(key, call.at(state)))
        return merge(states)

    def _checked_out(self, key: Key, call: Invocation) -> list[State]:
        """Each transaction of a session takes its connection out of the pool anew."""
        info = self.pool_of(key)
        listens = info is not None and self.listeners.callbacks(info, Callback.CHECKOUT)
        if info is None or not listens or key not in call.state.connections or self.listeners.are_told(key):
            return [call.state]
        ways = self.database.pools.run(info, Callback.CHECKOUT, key, call.state, call.frame, call.span)
        return merge([after for after, raised in ways if not raised]) or [call.state]

    def pool_of(self, key: Key) -> PoolInfo | None:
        """The pool of a session."""
        pool = self._pools.get(key)
        return self.database.pools.known.get(pool) if pool is not None else None

    def begins(self, key: Key, call: Invocation) -> list[State]:
        """The states in which a statement runs: the first of a session's transaction begins it."""
        connection = self.database.state_of(key, call.state)
        info = self.pool_of(key)
        listens = self.listeners.of_begin(key, call.state) or (
            info is not None and self.listeners.callbacks(info, Callback.CHECKOUT)
        )
        begun = self._has_begun(key, connection) or self.commits_writes(key, connection)
        return [call.state] if begun or not listens else self.begun(key, call)

    def _has_begun(self, key: Key, connection: ConnectionState) -> bool:
        """Whether the library takes a transaction of its own to be open.

        In autocommit it has seen none that the text of a statement has begun.
        """
        if connection.under_way or connection.autocommit is Autocommit.ON:
            return connection.under_way
        return connection.in_transaction and not self.commits_writes(key, connection)

    def by_hand(self, block: Block, name: str, call: Invocation) -> Results:
        """`transaction.commit()`, `.rollback()` and `.close()`."""
        connection = self.database.state_of(block.key, call.state)
        if name not in ("commit", "rollback", "close"):
            return [(call.state, UNKNOWN)]
        if block.how == UNSENT:
            return [(self.database.blocks.left_unsent(block.key, call.state), NONE)]
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
        if connection.in_transaction or connection.under_way:
            return self.refused(drivers.by_name(connection.driver), call)
        changed = replace(connection, autocommit=autocommit, isolation=isolation, switched_at=call.place)
        return [(call.state.connect(receiver.key, changed), receiver)]


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


def _ends_reset(option: Value | None) -> str:
    """How the pool of an engine ends what somebody who listens to its resets has begun, by its option for that."""
    if option is None or option == Literal(True) or option == Text("rollback"):
        return "rollback"
    return "commit" if option == Text("commit") else ""
