"""What calls on a driver's things do: the tables of `auditor.drivers`, given their effect on the state."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import Act, AfterBlock, Driver, Thing
from auditor.findings import Confidence
from auditor.program.relevance import CONNECTION_NAMES, CURSOR_NAMES, FACTORY_NAMES, SESSION_NAMES
from auditor.timeline import connection as change
from auditor.timeline import orm
from auditor.timeline.connection import Autocommit, ConnectionState, Deed, Life, Status
from auditor.timeline.driver_blocks import DriverBlocks
from auditor.timeline.events import Ended, Handover, JobEnded, Opened
from auditor.timeline.held import HeldConnections
from auditor.timeline.invocation import OPEN
from auditor.timeline.pools import FOR_COROUTINES, Pools
from auditor.timeline.sessions import Sessions
from auditor.timeline.startup import startup_settings, user_of
from auditor.timeline.state import NO_JOB, Flow, Frame, State, merge
from auditor.timeline.statements import Statements
from auditor.timeline.tasks import Tasks
from auditor.timeline.texts import fill
from auditor.timeline.values import (
    FALSE,
    NONE,
    TRUE,
    UNKNOWN,
    Block,
    Bound,
    Built,
    Clause,
    Connection,
    Cursor,
    External,
    Items,
    Key,
    Literal,
    Made,
    Mapping,
    Pool,
    Row,
    Template,
    Text,
    Unknown,
    Value,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from auditor.findings import Place
    from auditor.program.code import ClassInfo, ModuleInfo
    from auditor.python import nodes
    from auditor.timeline.evaluate import Results
    from auditor.timeline.invocation import Invocation
    from auditor.timeline.walker import Walker

_STATUS_NAMES = {Status.IDLE: "IDLE", Status.OPEN: "INTRANS", Status.ABORTED: "INERROR"}
_NAMES = {
    **dict.fromkeys(CONNECTION_NAMES, Thing.CONNECTION),
    **dict.fromkeys(CURSOR_NAMES, Thing.CURSOR),
    **dict.fromkeys(SESSION_NAMES, Thing.SESSION),
    **dict.fromkeys(FACTORY_NAMES, Thing.SESSIONS),
}
_POOLS = (Thing.POOL, Thing.ASYNC_POOL, Thing.NULL_POOL, Thing.SESSIONS, Thing.ASYNC_SESSIONS)
#: Attributes under which an engine, a session or a connection shows itself to code without coroutines.
_VIEWS = frozenset({"sync_engine", "sync_session", "sync_connection", "pool", "dbapi_connection", "driver_connection"})
#: What is done to a session without a connection takes none out of the pool.
_LATE = (Act.ROLLBACK, Act.CLOSE, Act.NOTHING, Act.ACQUIRE, Act.BORROW)
#: Methods to which nothing but a connection or a cursor gives SQL.
_GUESSED = frozenset({"execute", "executemany", "fetch", "fetchrow", "fetchval"})
#: What a pool does on a connection that it takes out for the call alone.
_ON_POOL = (Act.EXECUTE, Act.EXECUTE_MANY, Act.EXECUTE_ONE, Act.EXECUTE_ALL)
#: The names under which parameters are passed, and those of a statement whose parameters have names of their own.
_PARAMETERS = ("params", "vars", "params_seq", "vars_list", "argslist", "values", "args")
_OF_RUN = frozenset({"sql", "stream", "types"})
_SESSION_OPTIONS = ("isolation_level", "readonly", "deferrable", "autocommit")


class Database:
    """Applies the drivers' semantics on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self.pools = Pools(walker)
        self.blocks = DriverBlocks(walker, self)
        self.statements = Statements(walker, self)
        self.held = HeldConnections(walker, self)
        self.sessions = Sessions(walker, self)
        self.tasks = Tasks(walker, self)
        #: How often anything was asked of a connection: a call during which it stands still has nothing to do with one.
        self.used = 0
        self._given: dict[Key, ConnectionState] = {}
        #: Connections whose owner gives them back to a pool when they are closed.
        self._pooled: set[Key] = set()
        self._acts: dict[Act, Callable[[Value, Invocation], Results]] = {
            Act.EXECUTE: self._execute,
            Act.EXECUTE_MANY: self._execute,
            Act.COPY: self._execute,
            Act.CALL: self._callproc,
            Act.CURSOR: self._cursor,
            Act.FETCH_ONE: self._fetch_one,
            Act.FETCH_MANY: self._fetch_many,
            Act.COMMIT: self._commit,
            Act.ROLLBACK: self._rollback,
            Act.CLOSE: self._close,
            Act.RESET: self._reset,
            Act.TRANSACTION: self._transaction,
            Act.JOIN: self._join,
            Act.OUTERMOST: self._outermost,
            Act.BORROW_CURSOR: self._borrow_cursor,
            Act.NEST: self._nest,
            Act.HOLD: lambda receiver, call: [(call.state, Block("hold", _key_of(receiver), call.span))],
            Act.START: lambda receiver, call: self._execute(receiver, call.passing(Text("BEGIN"))),
            Act.PIPELINE: self._pipeline,
            Act.SET_AUTOCOMMIT: self._set_autocommit,
            Act.SET_SESSION: self._set_session,
            Act.SET_ISOLATION: self._set_isolation,
            Act.ACQUIRE: self._acquire,
            Act.RELEASE: self._release,
            Act.BORROW: self._borrow,
            Act.CHECK: self._nothing,
            Act.CLOSE_POOL: self._nothing,
            Act.MARK_ROLLBACK: lambda receiver, call: self.held.mark_rollback(_key_of(receiver), call),
            Act.DEFER: lambda receiver, call: self.held.defer(_key_of(receiver), call),
            Act.SAVEPOINT: lambda receiver, call: self.held.savepoint(_key_of(receiver), call),
            Act.RELEASE_SAVEPOINT: lambda receiver, call: self.held.end_savepoint(_key_of(receiver), False, call),
            Act.ROLLBACK_SAVEPOINT: lambda receiver, call: self.held.end_savepoint(_key_of(receiver), True, call),
            Act.NOTHING: self._nothing,
            Act.BEGIN: lambda receiver, call: self.sessions.begin(Connection(_key_of(receiver)), call, nested=False),
            Act.BEGIN_NESTED: lambda receiver, call: self.sessions.begin(Connection(_key_of(receiver)), call, True),
            Act.EXECUTE_ONE: self._execute_one,
            Act.EXECUTE_ALL: self._execute_all,
            Act.PREPARE: self._prepare,
            Act.SAME: lambda receiver, call: (
                self.sessions.options(receiver, call) if isinstance(receiver, Connection) else [(call.state, receiver)]
            ),
            Act.OPTIONS: self.sessions.options,
            **{
                act: self._mapped(act)
                for act in (Act.QUERY, Act.GET, Act.ADD, Act.MERGE, Act.BULK, Act.DELETE, Act.FLUSH)
            },
            Act.RUN: self._run,
            Act.DISCARD: lambda receiver, call: [(call.state.disconnect(_key_of(receiver)), NONE)],
        }

    # Making things

    def make(self, driver: Driver, thing: Thing, call: Invocation) -> Results:
        """What a call of one of the driver's callables makes."""
        if driver.of_task and thing is Thing.POOL:
            return [(call.state, self.tasks.made(driver, call))]
        made = self.sessions.make(driver, thing, call)
        if made is not None:
            return [(call.state, made)]
        if thing in (Thing.POOL, Thing.NULL_POOL):
            return [(call.state, self.pools.make(driver, thing, call))]
        if thing in (Thing.CURSOR, Thing.CLIENT_CURSOR):
            first = call.argument(0, "connection")
            client = thing is Thing.CLIENT_CURSOR
            return [(call.state, Cursor(first.key, client) if isinstance(first, Connection) else UNKNOWN)]
        if thing not in (Thing.CONNECTION, Thing.POOLED):
            return [(call.state, UNKNOWN)]
        autocommit, prepares, client = self.connect_options(driver, call.options)
        key = self.walker.keys.of("connection", call.frame.key, call.span)
        connection = ConnectionState(
            driver=driver.name,
            life=Life.KEPT if self.walker.lasting else Life.JOB,
            made=call.place,
            autocommit=autocommit,
            prepares_after=prepares,
            client_cursors=client,
            settings=startup_settings(call.options, call.argument(0), call.place),
            user=user_of(call.options, call.argument(0)),
            root=self.walker.root,
        )
        if thing is Thing.POOLED:
            self._pooled.add(key)
        opened = Opened(call.place, key, connection, call.frame.symbol)
        return [(self.walker.see(opened, call.state.connect(key, connection)), Connection(key))]

    def make_derived(self, info: ClassInfo, call: Invocation) -> Results | None:
        """An object of a class derived from one of the driver's; None for any other class."""
        for name in sorted(self.walker.objects.library_names(info)):
            made = drivers.made_by(name)
            if made is not None:
                return [way for way in self.make(made[0], made[1], call) for way in self.as_own(info, way, call)]
        return None

    def as_own(self, info: ClassInfo, way: tuple[State, Value], call: Invocation) -> Results:
        """A session of the project's own class: its constructor runs, too."""
        state, value = way
        if not isinstance(value, Connection):
            return [way]
        own = replace(value, info=info)
        made = self.walker.objects.call_method(own, "__init__", call.at(state))
        return [(after, own) for after, _ in made] if made is not None else [(state, own)]

    def connect_options(self, driver: Driver, options: dict[str, Value]) -> tuple[Autocommit, int | None, bool]:
        """What connect() is told: autocommit, after how many executions to prepare, who binds parameters."""
        defaults = self.walker.program.defaults_of(driver)
        others = OPEN in options
        autocommit = _switch(options.get("autocommit", UNKNOWN if others else Literal(defaults.autocommit)))
        threshold = options.get(driver.prepare_option, UNKNOWN if others else Literal(defaults.prepares_after))
        # A threshold that is not known may as well be None: nothing is said of prepared statements then.
        prepares = threshold.value if isinstance(threshold, Literal) else None
        cache = options.get(driver.cache_option)
        if cache is not None and not (isinstance(cache, Literal) and cache.value):
            prepares = None
        client = self._binds_in_client(driver, options.get("cursor_factory"))
        return autocommit, (int(prepares) if prepares is not None else None), client

    def options_of_given(self, driver: Driver) -> tuple[Autocommit, int | None, bool]:
        """The same for what is made where we don't see it: in autocommit, perhaps, if the program uses that at all."""
        autocommit, prepares, client = self.connect_options(driver, {})
        told = (
            driver.name in self.walker.program.config.drivers
            or not self.walker.program.switches_autocommit
            or not driver.begins_by_itself
        )
        return autocommit if told else Autocommit.UNKNOWN, prepares, client

    @staticmethod
    def _binds_in_client(driver: Driver, factory: Value | None) -> bool:
        return isinstance(factory, External) and drivers.typed_as(factory.name) == (driver, Thing.CLIENT_CURSOR)

    def given(self, driver: Driver, thing: Thing, key: Key) -> Value:
        """A thing of the driver that comes from outside: an argument whose caller is not seen."""
        if thing in _POOLS:
            return self.pools.given(driver, thing, key)
        if thing in (Thing.SESSION, Thing.ASYNC_SESSION):
            self.sessions.given(key)
        if key not in self._given:
            autocommit, prepares, client = self.options_of_given(driver)
            self._given[key] = ConnectionState(
                driver=driver.name,
                life=Life.GIVEN,
                sure=Confidence.MEDIUM,
                autocommit=autocommit,
                status=Status.UNKNOWN,
                prepares_after=prepares,
                client_cursors=client or (bool(driver.client_dbapis) and thing not in FOR_COROUTINES),
            )
        if thing in (Thing.CURSOR, Thing.CLIENT_CURSOR):
            return Cursor(key, thing is Thing.CLIENT_CURSOR)
        return Connection(key)

    def named(self, name: str, module: ModuleInfo, key: Key) -> Value:
        """What an argument is that is only known by its name: a connection or cursor of the driver in use here."""
        thing = _NAMES.get(name.lower().lstrip("_"))
        driver = self.walker.program.driver_in(module) if thing is not None else None
        if thing in (Thing.SESSION, Thing.SESSIONS) and (driver is None or not driver.client_dbapis):
            return UNKNOWN
        return self.given(driver, thing, key) if driver is not None and thing is not None else UNKNOWN

    def share(self, pool: Key) -> None:
        """A pool was given to code that is not followed: others borrow from it too."""
        self.pools.shared.add(pool)

    def state_of(self, key: Key, state: State) -> ConnectionState:
        """The state of a connection; one that is gone is closed."""
        self.used += 1
        known = state.connections.get(key) or self._given.get(key) or self.held.found(key) or self.sessions.found(key)
        return known or ConnectionState(driver="", life=Life.GIVEN, status=Status.CLOSED, sure=Confidence.LOW)

    def driver_of(self, key: Key, state: State) -> Driver | None:
        return drivers.by_name(self.state_of(key, state).driver)

    def guess(self, receiver: Value, name: str, call: Invocation) -> Results | None:
        """A call on something unknown that can only be a connection or cursor: it is given SQL to execute.

        None when it is no such call. What it is guessed to be is of low confidence.
        """
        if name not in _GUESSED or not isinstance(receiver, (Unknown, Bound, Made)):
            return None
        statements = (Text, Built, Clause)
        if not any(isinstance(option, statements) for option in options_of(call.argument(0))):
            return None
        driver = self.walker.program.likely_driver(call.frame.module)
        if driver is None or ((Thing.CONNECTION, name) not in driver.methods and not name.startswith("execute")):
            return None
        key = self.walker.keys.of("guessed", call.frame.function or call.frame.module)
        self.given(driver, Thing.CONNECTION, key)
        self._given[key] = replace(self._given[key], sure=Confidence.LOW)
        # What else is done to it is not followed, so nothing is known of it afterwards.
        results = self._execute(Connection(key), call.at(call.state.disconnect(key)))
        return [(after.disconnect(key).with_job(call.state.job), UNKNOWN) for after, _ in results]

    # Attributes

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

    def set_attribute(self, receiver: Value, name: str, call: Invocation) -> list[State]:
        """`connection.autocommit = …` and its like."""
        if not isinstance(receiver, Connection):
            return [call.state]
        if name == "autocommit":
            return [after for after, _ in self._set_autocommit(receiver, call)]
        if name == "isolation_level":
            return [after for after, _ in self._set_isolation(receiver, call)]
        value = call.argument(0)
        connection = self.state_of(receiver.key, call.state)
        if name == "prepare_threshold" and isinstance(value, Literal):
            threshold = None if value.value is None else int(value.value)
            connection = replace(connection, prepares_after=threshold)
        elif name == "cursor_factory":
            driver = drivers.by_name(connection.driver)
            client = driver is not None and self._binds_in_client(driver, value)
            connection = replace(connection, client_cursors=client)
        return [call.state.connect(receiver.key, connection)]

    # Calls

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
        return [(call.state, UNKNOWN)]

    def _act_of(self, receiver: Value, name: str, state: State) -> Act | None:
        if isinstance(receiver, Pool):
            return self.pools.known[receiver.key].driver.methods.get((Thing.POOL, name))
        key = _key_of(receiver)
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

    # Statements

    def _execute(self, receiver: Value, call: Invocation) -> Results:
        key = _key_of(receiver)
        query, parameters = self._given_to(receiver, key, call)
        client = isinstance(receiver, Cursor) and receiver.client
        if self.state_of(key, call.state).barred:
            return self.sessions.refused(drivers.by_name(self.state_of(key, call.state).driver), call)
        states: list[State] = []
        for flushed in self.walker.mapper.flush(key, call):
            for begun in self.sessions.begins(key, call.at(flushed)):
                states.extend(self._executed(key, query, parameters, client, call.at(begun)))
        result: Value = receiver if isinstance(receiver, Cursor) else Cursor(key)
        if isinstance(query, Built):
            result = Cursor(key, query=query)
        return [(after, result) for after in merge(states)]

    def _given_to(self, receiver: Value, key: Key, call: Invocation) -> tuple[Value, Value]:
        """The statement that is run, and its parameters."""
        if isinstance(receiver, Cursor) and receiver.prepared is not None:
            return receiver.prepared, Items("tuple", call.positional)
        query = call.argument(0, "query", "sql", "operation", "statement")
        driver = self.driver_of(key, call.state)
        if driver is not None and driver.spreads_parameters:
            return query, Items("tuple", call.positional[1:])
        if driver is not None and driver.names_parameters:
            return query, Mapping(tuple((Text(name), value) for name, value in call.named if name not in _OF_RUN))
        return query, call.argument(1, *_PARAMETERS, default=NONE)

    def _executed(self, key: Key, query: Value, parameters: Value, client: bool, call: Invocation) -> list[State]:
        states: list[State] = []
        for option in options_of(query):
            text, given = option, parameters
            if isinstance(text, Template):
                driver = drivers.by_name(self.state_of(key, call.state).driver)
                text, values = fill(text, driver.template_formats if driver is not None else {})
                given = Items("tuple", values)
            elif isinstance(option, (Built, Clause)):
                text = orm.sent(option)
                given = option.with_parameters(parameters) if isinstance(option, Clause) else parameters
            states.extend(self.statements.execute(key, text, given, client, call))
        return states

    def _mapped(self, act: Act) -> Callable[[Value, Invocation], Results]:
        return lambda receiver, call: self.walker.mapper.act(act, Connection(_key_of(receiver)), call)

    def _execute_one(self, receiver: Value, call: Invocation) -> Results:
        return [
            way for after, result in self._execute(receiver, call) for way in self._fetch_one(result, call.at(after))
        ]

    def _execute_all(self, receiver: Value, call: Invocation) -> Results:
        return [
            way for after, result in self._execute(receiver, call) for way in self._fetch_many(result, call.at(after))
        ]

    def _prepare(self, receiver: Value, call: Invocation) -> Results:
        return [(call.state, Cursor(_key_of(receiver), prepared=call.argument(0, "query")))]

    def _run(self, receiver: Value, call: Invocation) -> Results:
        """run_sync(function, …): the function is given the thing itself first."""
        passed = call.passing(receiver, *call.positional[1:], named=call.named)
        return list(self.walker.calls.apply(call.argument(0), passed))

    def _callproc(self, receiver: Value, call: Invocation) -> Results:
        name = call.argument(0, "procname")
        if not isinstance(name, Text) or name.holes:
            return self._execute(receiver, call.passing(UNKNOWN))
        return self._execute(receiver, call.passing(replace(name, value=f"SELECT {name.value}()", origins=())))

    def _cursor(self, receiver: Value, call: Invocation) -> Results:
        key = _key_of(receiver)
        connection = self.state_of(key, call.state)
        driver = drivers.by_name(connection.driver)
        factory = call.argument(-1, "cursor_factory", default=NONE)
        client = connection.client_cursors or (driver is not None and self._binds_in_client(driver, factory))
        return [(call.state, Cursor(key, client))]

    def _fetch_one(self, receiver: Value, call: Invocation) -> Results:
        return [(call.state, self.fetched(receiver, call.state, many=False))]

    def _fetch_many(self, receiver: Value, call: Invocation) -> Results:
        return [(call.state, self.fetched(receiver, call.state, many=True))]

    def fetched(self, receiver: Value, state: State, many: bool) -> Value:
        """What is fetched after a statement: the job that it claimed, the object that a mapper makes of a row."""
        key = _key_of(receiver)
        connection = self.state_of(key, state)
        query = receiver.query if isinstance(receiver, Cursor) else None
        table = query.table if query is not None and query.entities else ""
        if connection.fetches_claim or table:
            return Row(key, many, table=table, claimed=connection.fetches_claim)
        return UNKNOWN if many else Unknown(setting=connection.fetches_setting)

    def may_fail(self, key: Key, state: State, flow: Flow, span: nodes.Span, frame: Frame) -> None:
        """Something may have run a statement on the connection, and it may have failed."""
        connection = state.connections.get(key)
        if connection is None:
            return
        raised = self.walker.raised("sql", None, span, frame)
        failing = state.connect(key, change.abort(connection, frame.module.place(span)))
        flow.raises.append((self.walker.failed(failing, raised), raised))

    # Ending

    def end(self, key: Key, state: State, how: str, by: str, place: Place, frame: Frame) -> State:
        """COMMIT or ROLLBACK, whoever sends it."""
        before = self.state_of(key, state)
        if before.status is Status.CLOSED:
            return state
        if how == "commit":
            after, kept = change.commit(before, place)
            job = state.job.with_kept(kept, place, frame.calls).with_undone(after.undone)
        else:
            after = change.rollback(before, place)
            job = state.job.with_undone(after.undone)
        state = state.connect(key, replace(after, misled=False)).with_job(job)
        if not before.in_transaction and before.status is not Status.UNKNOWN:
            return state
        return self.walker.see(Ended(place, key, how, by, before, after, frame.symbol), state)

    def kept_by_user(self, key: Key, state: State, frame: Frame, span: nodes.Span) -> list[State]:
        """Code that is not seen has worked with the connection: it may have committed, and kept what was set for it."""
        connection = self.state_of(key, state)
        pending = any(setting.pending is not None and setting.pending.is_value for setting in connection.settings)
        if not pending or connection.status is not Status.OPEN or connection.blocks or state.job.claims:
            return []
        return [self.end(key, state, "commit", "the code that uses this", frame.module.place(span), frame)]

    def _commit(self, receiver: Value, call: Invocation) -> Results:
        return self._end_by_call(receiver, "commit", call)

    def _rollback(self, receiver: Value, call: Invocation) -> Results:
        return self._end_by_call(receiver, "rollback", call)

    def _end_by_call(self, receiver: Value, how: str, call: Invocation) -> Results:
        key = _key_of(receiver)
        connection = self.state_of(key, call.state)
        driver = drivers.by_name(connection.driver)
        if connection.blocks and driver is not None and driver.block_forbids_commit:
            return self._refused(driver, call)
        if connection.barred:
            return self.sessions.refused(driver, call)
        unopened = key not in call.state.connections and self.sessions.found(key) is not None
        if unopened and how == "rollback":
            return [(self.walker.mapper.forgotten(call.state), NONE)]
        if not self.sends_end(connection):
            return [(call.state, NONE)]
        results: Results = []
        for flushed in self.walker.mapper.ending(key, call, how):
            raises = how == "commit" and driver is not None and driver.commit_raises
            raises = raises and self.state_of(key, flushed).status is Status.ABORTED
            state = self.end(key, flushed, how, f"{how}()", call.place, call.frame)
            if raises and driver is not None:
                self._refused(driver, call.at(state))
                continue
            if connection.blocks and driver is not None and driver.block_bars:
                state = state.connect(key, replace(self.state_of(key, state), barred=True))
            results.append((state, NONE))
        return results

    @staticmethod
    def sends_end(connection: ConnectionState) -> bool:
        """Whether commit() and rollback() send anything: some drivers end only what they have begun."""
        driver = drivers.by_name(connection.driver)
        begun = connection.autocommit is not Autocommit.ON or connection.blocks > 0
        return begun or driver is None or driver.watches_status

    def refused(self, key: Key, call: Invocation) -> Results:
        """The driver of a connection raises instead of doing what was asked."""
        driver = self.driver_of(key, call.state)
        return self._refused(driver, call) if driver is not None else []

    def _refused(self, driver: Driver, call: Invocation) -> Results:
        """The driver raises instead of doing what was asked."""
        raised = self.walker.raised("raise", External(driver.refuses_with), call.span, call.frame)
        call.flow.raises.append((self.walker.failed(call.state, raised), raised))
        return []

    def _close(self, receiver: Value, call: Invocation) -> Results:
        """close(): the server rolls back what is open. In a pool a closed connection has no next user."""
        key = _key_of(receiver)
        state = call.state
        known = self.driver_of(key, state)
        if known is not None and known.after_block is AfterBlock.RELEASE:
            return [(after, NONE) for after in self.sessions.close(key, state, call.frame, call.span, "close()")]
        if self.state_of(key, state).in_transaction:
            state = self.end(key, state, "rollback", "close()", call.place, call.frame)
        driver = self.driver_of(key, state)
        if driver is not None and driver.reopens:
            return [(self.reopened(key, state), NONE)]
        return [(self.closed(key, state), NONE)]

    def reopened(self, key: Key, state: State) -> State:
        """Closed by an owner that opens another one when it is asked again, or finds this one in its pool."""
        if self.held.is_held(key):
            return self.held.reopened(key, state)
        known = self.state_of(key, state)
        if key in self._pooled:
            return state
        fresh = ConnectionState(
            driver=known.driver,
            life=known.life,
            made=known.made,
            autocommit=known.autocommit,
            prepares_after=known.prepares_after,
            client_cursors=known.client_cursors,
            root=known.root,
        )
        return state.connect(key, replace(fresh, blocks=known.blocks))

    def closed(self, key: Key, state: State) -> State:
        """The state once the connection is closed: one that is not there is closed, see `state_of`."""
        known = self.state_of(key, state)
        if known.life is not Life.GIVEN and known.pool is None:
            return self._left_to_pooler(key, known, state).disconnect(key)
        return state.connect(key, ConnectionState(known.driver, known.life, status=Status.CLOSED, pool=known.pool))

    def _left_to_pooler(self, key: Key, connection: ConnectionState, state: State) -> State:
        """A pooler keeps the server's connection when the client's is closed, and gives it to somebody else."""
        if self.walker.program.pooler is None or connection.made is None:
            return state
        if not any(setting.kept.is_value for setting in connection.settings):
            return state
        event = Handover(
            connection.made,
            key,
            "pooler",
            connection,
            connection,
            self.walker.program.pooler.place,
            None,
            "",
            connection.sure,
        )
        return self.walker.see(event, state)

    def _reset(self, receiver: Value, call: Invocation) -> Results:
        """psycopg2's reset(): ABORT, RESET ALL, SET SESSION AUTHORIZATION DEFAULT, outside any transaction."""
        key = _key_of(receiver)
        state = self.end(key, call.state, "rollback", "reset()", call.place, call.frame)
        after = change.reset_all(self.state_of(key, state), call.place, frozenset({"role"}))
        return [(state.connect(key, after), NONE)]

    # Switches

    def _set_autocommit(self, receiver: Value, call: Invocation) -> Results:
        key = _key_of(receiver)
        connection = self.state_of(key, call.state)
        driver = drivers.by_name(connection.driver)
        open_for_driver = connection.in_transaction or connection.misled
        if open_for_driver and driver is not None and driver.autocommit_switch_raises:
            return self._refused(driver, call)
        value = _switch(call.argument(0, "value", "autocommit"))
        switched = replace(connection, autocommit=value, switched_at=call.place)
        return [(call.state.connect(key, switched), NONE)]

    def _set_session(self, receiver: Value, call: Invocation) -> Results:
        options = dict(zip(_SESSION_OPTIONS, call.positional, strict=False)) | call.options
        state = call.state
        if "isolation_level" in options:
            state = self._leveled(receiver, options["isolation_level"], state)
        if "autocommit" in options:
            return self._set_autocommit(receiver, call.at(state).passing(options["autocommit"]))
        return [(state, NONE)]

    def _set_isolation(self, receiver: Value, call: Invocation) -> Results:
        key = _key_of(receiver)
        driver = self.driver_of(key, call.state)
        state = call.state
        if driver is not None and driver.isolation_switch_rolls_back:
            state = self.end(key, state, "rollback", "set_isolation_level()", call.place, call.frame)
        return [(self._leveled(receiver, call.argument(0, "level", "value"), state), NONE)]

    def _leveled(self, receiver: Value, level: Value, state: State) -> State:
        key = _key_of(receiver)
        connection = self.state_of(key, state)
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
        switched = bool(driver.autocommit_levels) and name in driver.isolation_names
        autocommit = Autocommit.OFF if switched else connection.autocommit
        return state.connect(
            key, replace(connection, isolation=isolation, usual_isolation=isolation, autocommit=autocommit)
        )

    # Pools and blocks

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
        return [(call.state, Block("transaction", _key_of(receiver), call.span, nested=True))]

    def _transaction(self, receiver: Value, call: Invocation) -> Results:
        forced = call.argument(1, "force_rollback", default=FALSE) == TRUE
        level, driver = call.argument(-1, "isolation", default=NONE), self.driver_of(_key_of(receiver), call.state)
        named = driver.isolation_names.get(level.value, "") if isinstance(level, Text) and driver is not None else ""
        block = Block("transaction", _key_of(receiver), call.span, forced, isolation=named)
        return [(call.state, block)]

    def _outermost(self, receiver: Value, call: Invocation) -> Results:
        return [(call.state, Block("transaction", _key_of(receiver), call.span, durable=True))]

    def _borrow_cursor(self, receiver: Value, call: Invocation) -> Results:
        assert isinstance(receiver, Pool)
        return [(call.state, Block("borrow cursor", receiver.key, call.span))]

    def _join(self, receiver: Value, call: Invocation) -> Results:
        return [(call.state, Block("transaction", _key_of(receiver), call.span, savepoint=False))]

    def _pipeline(self, receiver: Value, call: Invocation) -> Results:
        return [(call.state, Block("pipeline", _key_of(receiver), call.span))]

    # Jobs

    def no_job(self, state: State, key: Key) -> State:
        """The claim on this connection found nothing: there is no job in hand, and nothing was counted."""
        connection = state.connections.get(key)
        if connection is not None:
            kept = tuple(mark for mark in connection.pending if mark.deed not in (Deed.CLAIM, Deed.COUNT))
            held = connection.held_at
            if held is not None and any(held.holds(mark.place) for mark in connection.pending if mark not in kept):
                # Nothing was held before it: a claim that finds no row locks none.
                connection = change.unhold(connection)
            state = state.connect(key, replace(connection, pending=kept, fetches_claim=False))
        return state.with_job(NO_JOB)

    def job_ends(self, state: State, place: Place, symbol: str) -> State:
        """The job in hand is over on this path: what it did, and what of that lasts."""
        job = state.job
        connections = state.connections.values()
        pending = tuple(mark for one in connections if one.status is not Status.ABORTED for mark in one.pending)
        # Whoever ends an aborted transaction rolls it back, whatever they ask for.
        doomed = tuple(mark for one in connections if one.status is Status.ABORTED for mark in one.pending)
        module = self.walker.program.module_at(job.failed.path) if job.failed is not None else None
        event = JobEnded(
            place,
            job.claims,
            job.kept,
            job.with_undone(doomed).undone,
            pending,
            job.counted_before_work,
            job.worked,
            job.failed,
            module.place(job.failed.span) if module is not None and job.failed is not None else None,
            self.walker.root,
            symbol,
        )
        return self.walker.see(event, state)


def _key_of(receiver: Value) -> Key:
    """The connection that a connection or cursor works on."""
    if isinstance(receiver, Connection):
        return receiver.key
    assert isinstance(receiver, Cursor)
    return receiver.connection


def _switch(value: Value) -> Autocommit:
    if isinstance(value, Literal):
        return Autocommit.ON if value.value else Autocommit.OFF
    return Autocommit.UNKNOWN
