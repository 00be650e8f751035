"""Pools: how they are configured, what they hand out, what their callbacks do, and who comes next."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.drivers.model import Callback, Driver, Thing
from auditor.findings import Confidence, Place
from auditor.frozen import dataclass
from auditor.program.catalogue import UNNAMED
from auditor.timeline.connections.startup import configured, startup_settings, user_of
from auditor.timeline.model import connection as change
from auditor.timeline.model.connection import Autocommit, ConnectionState, Life, Status
from auditor.timeline.model.events import CallbackRan, Ended, Exit, Handover, Opened
from auditor.timeline.model.invocation import OPEN, Invocation
from auditor.timeline.model.state import Flow, Frame, State, Stray, merge
from auditor.timeline.model.values import (
    NONE,
    UNKNOWN,
    Bound,
    Class,
    Connection,
    Function,
    Key,
    Literal,
    Mapping,
    Pool,
    Text,
    Value,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from auditor.python import nodes
    from auditor.timeline.model.settings import Held, Setting
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker


#: What coroutines use, whose drivers leave parameters to the server.
FOR_COROUTINES = (Thing.ASYNC_POOL, Thing.ASYNC_SESSIONS, Thing.ASYNC_SESSION, Thing.ASYNC_CONNECTION)


@dataclass(frozen=True)
class PoolInfo:
    """A pool as it was made."""

    key: Key
    driver: Driver
    place: Place
    null: bool
    autocommit: Autocommit
    prepares_after: int | None
    client_cursors: bool
    callbacks: tuple[tuple[Callback, Value], ...]
    single: bool
    root: str
    sure: Confidence = Confidence.HIGH
    isolation: str = ""
    #: The custom settings that its connections ask for when they are opened.
    startup: tuple[Setting, ...] = ()
    #: The role that they are opened as; empty where that is not seen.
    user: str = ""
    #: What is under the driver only remembers what it has sent itself.
    blind: bool = False
    #: What is under the driver begins nothing, and ends nothing, where the text of a statement has begun.
    refuses_begun: bool = False
    #: Its connections commit each statement that writes, outside of begin().
    commits_writes: bool = False
    #: What it makes are sessions, which take their connections from the pool.
    sessions: bool = False
    #: How it ends what its reset callback has begun, where it had nothing else to end; empty: not at all.
    ends_reset: str = ""
    #: The pool whose connections it hands out under other options.
    home: Key | None = None

    @property
    def returned_to(self) -> Key:
        return self.home if self.home is not None else self.key

    def callback(self, which: Callback) -> Value | None:
        return next((value for known, value in self.callbacks if known is which), None)


class Pools:
    """Makes pools, and moves connections out of them and back."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self.known: dict[Key, PoolInfo] = {}
        self.shared: set[Key] = set()

    def make(self, driver: Driver, thing: Thing, call: Invocation) -> Pool:
        """A pool that the code makes, its callbacks being tried on a connection of their own."""
        options = call.options
        given = options if driver.pool_kwargs is None else _options(options.get(driver.pool_kwargs), call.is_open)
        settings = self.walker.database.connecting.connect_options(driver, given)
        callbacks = tuple(
            (which, options[name])
            for name, which in driver.callbacks.items()
            if options.get(name, NONE) not in (NONE, UNKNOWN)
        )
        # The limit may stand as the second argument, too.
        limit = next((options[name] for name in driver.pool_limits if name in options), call.argument(1))
        single = limit == Literal(1)
        startup = startup_settings(given, call.argument(0), call.place)
        user = user_of({**options, **given}, call.argument(0))
        key = self.walker.keys.of("pool", call.place, settings, callbacks, single, startup, user)
        if key not in self.known:
            null = thing is Thing.NULL_POOL
            info = PoolInfo(
                key,
                driver,
                call.place,
                null,
                *settings,
                callbacks,
                single,
                self.walker.root,
                startup=startup,
                user=user,
            )
            self.known[key] = info
            for which, value in callbacks:
                self._try(info, which, value, call)
        return Pool(key)

    def given(self, driver: Driver, thing: Thing, key: Key) -> Pool:
        """A pool that is only known by its type: of the driver's defaults, and of whose making is not seen."""
        if key not in self.known:
            autocommit, prepares, client = self.walker.database.connecting.options_of_given(driver)
            self.known[key] = PoolInfo(
                key,
                driver,
                Place("", 0),
                thing is Thing.NULL_POOL,
                autocommit,
                prepares,
                client or self.walker.database.connecting.may_bind_in_client(driver, thing),
                (),
                single=False,
                root="",
                sure=Confidence.MEDIUM,
                sessions=thing in (Thing.SESSIONS, Thing.ASYNC_SESSIONS),
            )
        return Pool(key)

    # Out of the pool

    def acquire(
        self, pool: Key, state: State, frame: Frame, span: nodes.Span, as_key: Key | None = None
    ) -> list[tuple[State, Connection]]:
        """A connection out of the pool: a new one, or the one that was given back when there is but one.

        `as_key` is who takes it, where that is not the place that asks for it.
        """
        info = self.known[pool]
        place = frame.module.place(span)
        key = as_key if as_key is not None else self.walker.keys.of("borrowed", frame.key, span, pool)
        waiting = self.walker.keys.of("returned", info.returned_to)
        returned = state.connections.get(waiting)
        if returned is not None:
            state = self._meet_heir(info, returned, state, place, frame)
            state = state.disconnect(waiting)
        if returned is not None and info.single:
            aged = tuple(setting.aged(None) for setting in returned.settings)
            returned = replace(returned, settings=aged, made=place)
            connection = self._as_of(returned, self.fresh(info, place)) if info.driver.client_dbapis else returned
            starts = [state.connect(key, connection)]
        else:
            starts = self._configured(info, key, state.connect(key, self.fresh(info, place)), frame, span)
        results: list[tuple[State, Connection]] = []
        for start in starts:
            for after in self._checked_out(info, key, start, frame, span):
                if info.sessions and as_key is None:
                    self.walker.database.sessions.given(key)
                opened = Opened(place, key, after.connections[key], frame.symbol)
                results.append((self.walker.see(opened, after), Connection(key)))
        return results

    def fresh(self, info: PoolInfo, place: Place | None) -> ConnectionState:
        """A connection as the pool opens it."""
        return ConnectionState(
            driver=info.driver.name,
            life=Life.JOB if info.null else Life.POOL,
            made=place,
            pool=info.key,
            sure=info.sure,
            autocommit=info.autocommit,
            prepares_after=info.prepares_after,
            client_cursors=info.client_cursors,
            blind=info.blind,
            refuses_begun=info.refuses_begun,
            isolation=info.isolation,
            settings=info.startup,
            user=info.user,
            commits_writes=info.commits_writes and not info.sessions,
            root=self.walker.root,
        )

    @staticmethod
    def _as_of(returned: ConnectionState, fresh: ConnectionState) -> ConnectionState:
        """What the session still holds, under the options of who borrows it: each brings its own.

        In autocommit nothing has ended a transaction that the text of a statement has begun.
        """
        if not returned.in_transaction:
            return replace(fresh, settings=returned.settings)
        return replace(
            fresh,
            settings=returned.settings,
            status=returned.status,
            begun=returned.begun,
            savepoints=returned.savepoints,
            wrote=returned.wrote,
            snapshot=returned.snapshot,
            aborted_at=returned.aborted_at,
            begun_by_text=returned.begun_by_text,
        )

    def _configured(self, info: PoolInfo, key: Key, state: State, frame: Frame, span: nodes.Span) -> list[State]:
        ways = [
            (after.connect(key, configured(after.connections[key])), raised)
            for after, raised in self.run(info, Callback.CONFIGURE, key, state, frame, span)
            # A connection that it gives away, or opens anew, or that breaks, is not the one that is handed out.
            if _is_there(key, after)
        ]
        if not info.driver.pool_discards_busy:
            return merge([after for after, raised in ways if not raised]) or [state]
        # A connection that configure= leaves in a transaction is never handed out.
        good = [after for after, raised in ways if not raised and not after.connections[key].in_transaction]
        return merge(good) or [state]

    def _checked_out(self, info: PoolInfo, key: Key, state: State, frame: Frame, span: nodes.Span) -> list[State]:
        states: list[State] = []
        for after in self._checked(info, key, state, frame, span):
            ways = self.run(info, Callback.CHECKOUT, key, after, frame, span)
            states.extend(then for then, raised in ways if not raised and _is_there(key, then))
        return merge(states) or [state]

    def _checked(self, info: PoolInfo, key: Key, state: State, frame: Frame, span: nodes.Span) -> list[State]:
        ways = self.run(info, Callback.CHECK, key, state, frame, span)
        return merge([after for after, raised in ways if not raised]) or [state]

    def _meet_heir(self, info: PoolInfo, returned: ConnectionState, state: State, heir: Place, frame: Frame) -> State:
        """A pool of this very job hands the connection on: now it is known that there is a next user."""
        if self.outlives(info):
            return state
        place = returned.released or heir
        event = Handover(place, info.key, "pool", returned, returned, heir, info.key, frame.symbol, info.sure)
        return self.walker.see(event, state)

    # Back into the pool

    def release(
        self, pool: Key, key: Key, state: State, frame: Frame, span: nodes.Span, close: bool = False, by: str = "pool"
    ) -> list[State]:
        """The connection goes back: what is open is rolled back, reset= runs, the next borrower comes.

        `by` is the kind of handover: "session" where whoever gives it back is not seen.
        """
        info = self.known[pool]
        place = frame.module.place(span)
        before = state.connections.get(key)
        if before is None:
            return [state]
        if self._is_unseen(before):
            # Nobody saw it taken out, or only out of what is said to be a pool: it was made as the others of this one.
            before = replace(before, prepares_after=info.prepares_after)
            state = state.connect(key, before)
        state = self.strand(before, state, place)
        if before.in_transaction and self.walker.database.endings.sends_end(before):
            state = self.walker.database.endings.end(key, state, "rollback", "the pool", place, frame)
        busy = info.driver.pool_closes_busy and before.in_transaction
        if info.null or close or busy or before.status is Status.CLOSED:
            return [state.disconnect(key)]
        if info.driver.pool_resets:
            # Blocks that nobody has left are forgotten with their transaction.
            state = state.connect(key, replace(state.connections[key], blocks=0))
        # Behind a pooler that hands on after each transaction, what resets a session may reach another one.
        alone = self.walker.program.pooler is None
        if info.driver.pool_resets and alone and info.callback(Callback.RESET) is None:
            state = state.connect(key, change.reset_all(state.connections[key], place, change.KEPT_BY_RESET_ALL))
        states: list[State] = []
        for after, raised in self._given_back(info, key, before, state, frame, span):
            connection = after.connections[key]
            if not raised and not (connection.in_transaction and info.driver.pool_discards_busy):
                after = self._handed_over(info, key, after, place, frame, span, by)
            states.append(after.disconnect(key))
        return merge(states)

    def _given_back(
        self, info: PoolInfo, key: Key, before: ConnectionState, state: State, frame: Frame, span: nodes.Span
    ) -> Iterator[tuple[State, bool]]:
        """Each way through the callbacks of a pool that takes a connection back, and whether by an exception."""
        for after, raised in self.run(info, Callback.RESET, key, state, frame, span):
            left = after.connections.get(key)
            if info.ends_reset and left is not None and left.in_transaction and not before.in_transaction:
                # It has ended nothing yet: what is begun here ends as what is left open does.
                place = frame.module.place(span)
                after = self.walker.database.endings.end(key, after, info.ends_reset, "the pool", place, frame)
            if raised:
                yield after, True
            else:
                yield from self.run(info, Callback.RETURNED, key, after, frame, span)

    def _is_unseen(self, connection: ConnectionState) -> bool:
        """Whether nothing tells how a connection was made."""
        if connection.pool is None:
            return connection.life is Life.GIVEN and connection.made is None
        return connection.pool in self.known and not self.known[connection.pool].place.path

    def strand(self, connection: ConnectionState, state: State, place: Place, closed: bool = False) -> State:
        """A tenant was set on the connection, and it goes back, or is closed, before anything was done under that."""
        if connection.touched:
            return state
        for setting in connection.settings:
            held = setting.current if setting.current.is_value else setting.ended
            if held is None or held.origin is None or held.inherited:
                continue
            if self.walker.database.sessions.listeners.made(held.origin):
                continue
            tenant = self.walker.program.catalogue.is_tenant(setting.name) is not None
            if not connection.passed and (tenant or self._is_path_of_tenant(setting.name, held)):
                state = state.with_job(replace(state.job, stray=Stray(held.origin, place, closed)))
            if tenant:
                return state.with_job(replace(state.job, stranded=(held.origin, place)))
        return state

    def _is_path_of_tenant(self, name: str, held: Held) -> bool:
        assert held.origin is not None
        varies = name == "search_path" and UNNAMED in held.value
        return varies and self.walker.program.speaks_of_tenants(held.origin)

    def _handed_over(
        self, info: PoolInfo, key: Key, state: State, place: Place, frame: Frame, span: nodes.Span, by: str
    ) -> State:
        connection = state.connections[key]
        left = connection
        if info.driver.client_dbapis:
            left = self.walker.database.sessions.listeners.renewed(info, key, state, frame, span).connections[key]
        left = replace(left, settings=tuple(one for one in left.settings if not self._is_default(info, one)))
        if self.outlives(info):
            heir = connection.made if by == "pool" else place
            event = Handover(place, key, by, connection, left, heir, info.key, frame.symbol, connection.sure)
            state = self.walker.see(event, state)
        waiting = self.walker.keys.of("returned", info.returned_to)
        return state.connect(waiting, replace(connection, released=place))

    def _is_default(self, info: PoolInfo, setting: Setting) -> bool:
        """Whether a setting holds what every connection of the pool is opened with: nobody's in particular."""
        origin = setting.kept.origin
        if origin is None or UNNAMED in setting.kept.value:
            return False
        return any(
            isinstance(one, Function) and one.info.module.path == origin.path and one.info.holds(origin.line)
            for one in self._told(info, Callback.CONFIGURE)
        )

    def _told(self, info: PoolInfo, which: Callback) -> tuple[Value, ...]:
        """The callbacks of one kind that a pool has."""
        listeners = self.walker.database.sessions.listeners.callbacks(info, which) if info.driver.client_dbapis else []
        return (*listeners, *options_of(info.callback(which) or NONE))

    def outlives(self, info: PoolInfo) -> bool:
        """Whether others than the entry point that is walked borrow from the pool."""
        return info.root != self.walker.root or info.key in self.shared or info.home in self.shared

    def lend(
        self,
        pool: Key,
        call: Invocation,
        use: Callable[[Connection, Invocation], Results],
        as_key: Key | None = None,
    ) -> Results:
        """A statement that the pool itself is given: it takes out a connection for it, and takes it back."""
        results: Results = []
        for taken, connection in self.acquire(pool, call.state, call.frame, call.span, as_key):
            inner = call.at(taken)._replace(flow=Flow())
            for after, value in use(connection, inner):
                back = self.release(pool, connection.key, after, call.frame, call.span)
                results.extend((released, value) for released in back)
            for failed, raised in inner.flow.raises:
                back = self.release(pool, connection.key, failed, call.frame, call.span)
                call.flow.raises.extend((released, raised) for released in back)
        return results

    # Callbacks

    def _try(self, info: PoolInfo, which: Callback, value: Value, call: Invocation) -> None:
        """Run a callback on a connection as the pool would give it, and keep how it ends."""
        key = self.walker.keys.of("callback", info.key, which)
        start = call.state.connect(key, self.fresh(info, info.place)).traced_as(None)
        for option in options_of(value):
            if not isinstance(option, (Function, Class)):
                continue
            exits = []
            for after, raised in self._call(option, key, start, call.frame, call.span):
                # One that it gives away leaves nothing on it.
                if key in after.connections:
                    exits.append(Exit(after.connections[key], raised, self._last_on(key, after)))
            place = option.info.module.place(option.info.node.name_span)
            event = CallbackRan(place, info.place, key, which, info.autocommit, tuple(exits), option.info.qualname)
            self.walker.kept.setdefault(event)

    def run(
        self, info: PoolInfo, which: Callback, key: Key, state: State, frame: Frame, span: nodes.Span
    ) -> list[tuple[State, bool]]:
        """A callback on a connection: each way out, and whether by an exception."""
        listeners = self.walker.database.sessions.listeners.callbacks(info, which) if info.driver.client_dbapis else []
        if listeners:
            ways = [(state, False)]
            for listener in listeners:
                with self.walker.database.sessions.listeners.telling(key):
                    ways = [
                        result
                        for before, raised in ways
                        for result in ([(before, True)] if raised else self._call(listener, key, before, frame, span))
                    ]
            return ways
        value = info.callback(which)
        if value is None:
            return [(state, False)]
        results: list[tuple[State, bool]] = []
        for option in options_of(value):
            if isinstance(option, (Function, Class)):
                results.extend(self._call(option, key, state, frame, span))
            elif not isinstance(option, Bound):
                results.append((change_unknown(state, key), False))
            else:
                results.append((state, False))
        return results

    def _call(
        self, callback: Value, key: Key, state: State, frame: Frame, span: nodes.Span
    ) -> list[tuple[State, bool]]:
        out = Flow()
        results: list[tuple[State, bool]] = []
        others = (UNKNOWN, UNKNOWN) if self.walker.database.sessions.listeners.listens(callback) else ()
        call = Invocation((Connection(key), *others), (), state, frame, out, span)
        for after, value in self.walker.calls.apply(callback, call):
            results.extend((then, False) for then, _ in self.walker.coroutines.awaited(value, call.at(after)))
        results.extend((after, True) for after, _ in out.raises)
        return [(after.with_job(state.job), raised) for after, raised in results]

    @staticmethod
    def _last_on(key: Key, state: State) -> Place | None:
        """The event on a connection that was last, the one that left it as it is."""
        trace = state.trace
        while trace is not None:
            event = trace.event
            if getattr(event, "connection", None) == key and not isinstance(event, Ended):
                return event.place
            trace = trace.before
        return None


def _is_there(key: Key, state: State) -> bool:
    """Whether a connection can be handed out still."""
    return key in state.connections and state.connections[key].status is not Status.CLOSED


def change_unknown(state: State, key: Key) -> State:
    """The state after a callback that is not followed."""
    connection = state.connections[key]
    settings = change.unknown(connection).settings
    return state.connect(key, replace(connection, settings=settings, sure=Confidence.LOW))


def _options(given: Value | None, is_open: bool) -> dict[str, Value]:
    """What a pool's dict of arguments for connect() holds."""
    if given is None or given == NONE:
        return {OPEN: UNKNOWN} if is_open else {}
    if not isinstance(given, Mapping):
        return {OPEN: UNKNOWN}
    known = {key.value: value for key, value in given.pairs if isinstance(key, Text)}
    return {**known, OPEN: UNKNOWN} if given.open else known
