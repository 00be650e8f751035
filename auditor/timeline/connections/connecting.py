"""How connections come to be: made by the program, given from outside, or guessed by what is done with them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import Act, Driver, Thing
from auditor.findings import Confidence
from auditor.program import uses
from auditor.program.relevance import CONNECTION_NAMES, CURSOR_NAMES, FACTORY_NAMES, POOL_NAMES, SESSION_NAMES
from auditor.timeline.connections.pools import FOR_COROUTINES
from auditor.timeline.connections.startup import startup_settings, user_of
from auditor.timeline.connections.switches import switched
from auditor.timeline.model.connection import Autocommit, ConnectionState, Life, Status
from auditor.timeline.model.events import Opened
from auditor.timeline.model.invocation import OPEN
from auditor.timeline.model.values import (
    UNKNOWN,
    Bound,
    Built,
    Clause,
    Connection,
    Cursor,
    External,
    Key,
    Literal,
    Made,
    Text,
    Unknown,
    Value,
    options_of,
)

if TYPE_CHECKING:
    from auditor.program.code import ClassInfo, FunctionInfo
    from auditor.timeline.connections.database import Database
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.model.state import Frame, State
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

_NAMES = {
    **dict.fromkeys(CONNECTION_NAMES, Thing.CONNECTION),
    **dict.fromkeys(CURSOR_NAMES, Thing.CURSOR),
    **dict.fromkeys(SESSION_NAMES, Thing.SESSION),
    **dict.fromkeys(FACTORY_NAMES, Thing.SESSIONS),
}
#: What each of them is where its calls are awaited.
_FOR_COROUTINES = {Thing.CONNECTION: Thing.ASYNC_CONNECTION, Thing.SESSION: Thing.ASYNC_SESSION}
#: What connections are taken out of.
POOLS = (Thing.POOL, Thing.ASYNC_POOL, Thing.NULL_POOL, Thing.SESSIONS, Thing.ASYNC_SESSIONS)
#: What is known by its name wherever it comes from, be it no argument.
_ANYWHERE = CONNECTION_NAMES | POOL_NAMES
#: Methods that connections are taken out of pools by, and given back.
_GIVES_BACK = frozenset({"putconn", "release"})
_OF_POOLS = frozenset({"connection", "getconn", "acquire"}) | _GIVES_BACK
#: Methods to which nothing but a connection or a cursor gives SQL.
_GUESSED = frozenset({"execute", "executemany", "fetch", "fetchrow", "fetchval"})


class Connecting:
    """Makes connections, cursors, pools and sessions."""

    def __init__(self, walker: Walker, database: Database) -> None:
        self.walker = walker
        self.database = database
        self._given: dict[Key, ConnectionState] = {}
        self._said: set[Key] = set()
        #: Connections whose owner gives them back to a pool when they are closed.
        self.pooled: set[Key] = set()

    def make(self, driver: Driver, thing: Thing, call: Invocation) -> Results:
        """What a call of one of the driver's callables makes."""
        if driver.of_task and thing is Thing.POOL:
            return [(call.state, self.database.tasks.made(driver, call))]
        made = self.database.sessions.make(driver, thing, call)
        if made is not None:
            return [(call.state, made)]
        if thing in (Thing.POOL, Thing.NULL_POOL):
            return [(call.state, self.database.pools.make(driver, thing, call))]
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
            self.pooled.add(key)
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
        self.database.sessions.of_class(value.key, info)
        made = self.walker.objects.call_method(own, "__init__", call.at(state))
        return [(after, own) for after, _ in made] if made is not None else [(state, own)]

    def connect_options(self, driver: Driver, options: dict[str, Value]) -> tuple[Autocommit, int | None, bool]:
        """What connect() is told: autocommit, after how many executions to prepare, who binds parameters."""
        defaults = self.walker.program.defaults_of(driver)
        others = OPEN in options
        autocommit = switched(options.get("autocommit", UNKNOWN if others else Literal(defaults.autocommit)))
        threshold = options.get(driver.prepare_option, UNKNOWN if others else Literal(defaults.prepares_after))
        # A threshold that is not known may as well be None: nothing is said of prepared statements then.
        prepares = threshold.value if isinstance(threshold, Literal) else None
        cache = options.get(driver.cache_option)
        if cache is not None and not (isinstance(cache, Literal) and cache.value):
            prepares = None
        client = self.binds_in_client(driver, options.get("cursor_factory"))
        return autocommit, (int(prepares) if prepares is not None else None), client

    def options_of_given(self, driver: Driver) -> tuple[Autocommit, int | None, bool]:
        """The same for what is made where we don't see it: in autocommit, perhaps, if the program uses that at all."""
        autocommit, prepares, client = self.connect_options(driver, {})
        told = (
            driver.name in self.walker.program.config.drivers
            or self.walker.program.autocommit_of.isdisjoint((driver.name, ""))
            or not driver.begins_by_itself
        )
        return autocommit if told else Autocommit.UNKNOWN, prepares, client

    def may_bind_in_client(self, driver: Driver, thing: Thing) -> bool:
        """Whether what a library speaks through, where that is not told, may put parameters in itself."""
        told = thing in FOR_COROUTINES or self.walker.program.binds_on_server
        return bool(driver.client_dbapis) and not told

    @staticmethod
    def binds_in_client(driver: Driver, factory: Value | None) -> bool:
        return isinstance(factory, External) and drivers.typed_as(factory.name) == (driver, Thing.CLIENT_CURSOR)

    def given(self, driver: Driver, thing: Thing, key: Key) -> Value:
        """A thing of the driver that comes from outside: an argument whose caller is not seen."""
        if thing in POOLS:
            return self.database.pools.given(driver, thing, key)
        if thing in (Thing.SESSION, Thing.ASYNC_SESSION):
            self.database.sessions.given(key)
        if key not in self._given:
            autocommit, prepares, client = self.options_of_given(driver)
            self._given[key] = ConnectionState(
                driver=driver.name,
                life=Life.GIVEN,
                sure=Confidence.MEDIUM,
                autocommit=autocommit,
                status=Status.UNKNOWN,
                prepares_after=prepares,
                client_cursors=client or self.may_bind_in_client(driver, thing),
            )
        if thing in (Thing.CURSOR, Thing.CLIENT_CURSOR):
            return Cursor(key, thing is Thing.CLIENT_CURSOR)
        return Connection(key)

    def named(self, name: str, info: FunctionInfo, key: Key) -> Value:
        """What an argument is that is only known by its name: a connection or cursor of the driver in use here."""
        thing = _NAMES.get(name.lower().lstrip("_"))
        driver = self.walker.program.driver_in(info.module) if thing is not None else None
        if thing is None or driver is None:
            return UNKNOWN
        if driver.client_dbapis and uses.is_awaited(info, name):
            thing = _FOR_COROUTINES.get(thing, thing)
        elif thing in (Thing.SESSION, Thing.SESSIONS) and not driver.client_dbapis:
            return UNKNOWN
        return self.given(driver, thing, key)

    def held_as(self, name: str, value: Value, frame: Frame, *owner: object) -> Value:
        """What a variable or attribute of that name holds, whose value is not known."""
        if value != UNKNOWN:
            return value
        declared = self._declared(name, frame)
        if declared is not None or name.lower().lstrip("_") not in _ANYWHERE:
            return declared or value
        driver = self.walker.program.driver_in(frame.module)
        if driver is None or driver.speaks or driver.client_dbapis:
            return value  # it may as well be of another database
        key = self.walker.keys.of("held as", *owner, name)
        if name.lower().lstrip("_") in CONNECTION_NAMES:
            return self.given(driver, Thing.CONNECTION, key)
        return self.given(driver, Thing.POOL, key) if _hands_out(driver) else value

    def _declared(self, name: str, frame: Frame) -> Value | None:
        """What a function hands out under that name, where it declares to hand out something of a driver's."""
        function = frame.function
        if function is None or function.node.returns is None or name not in function.handed_out:
            return None
        module = self.walker.names.module_frame(function.module)
        key = self.walker.keys.of("declared", frame.key, name)
        given = self.walker.types.handed_out(function.node.returns, module, key)
        self._said.add(key)
        return given if given != UNKNOWN else None

    def is_only_said(self, key: Key) -> bool:
        """Whether a connection is one only because the function that hands it out says so."""
        return key in self._said

    def of_unseen_pool(self, receiver: Value, name: str, call: Invocation) -> Results | None:
        """A call on something unknown that only a pool of the driver in use here is asked for; None for any other."""
        driver = self.walker.program.driver_in(call.frame.module) if name in _OF_POOLS else None
        if driver is None or not isinstance(receiver, (Unknown, Bound)) or not _hands_out(driver):
            return None
        gives_back = name in _GIVES_BACK
        if (Thing.POOL, name) not in driver.methods or gives_back != bool(call.positional):
            return None
        if gives_back and not isinstance(call.argument(0), Connection):
            return None
        pool = self.given(driver, Thing.POOL, self.walker.keys.of("unseen pool", call.frame.module))
        return self.database.call(pool, name, call)

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
        results = self.database.cursors.execute(Connection(key), call.at(call.state.disconnect(key)))
        return [(after.disconnect(key).with_job(call.state.job), UNKNOWN) for after, _ in results]

    def found(self, key: Key) -> ConnectionState | None:
        """The state of a connection that came from outside."""
        return self._given.get(key)


def _hands_out(driver: Driver) -> bool:
    """Whether the driver has pools whose connections are asked for by a method."""
    asked = (act for (thing, _), act in driver.methods.items() if thing is Thing.POOL)
    return not driver.client_dbapis and any(act in (Act.BORROW, Act.ACQUIRE) for act in asked)
