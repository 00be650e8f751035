"""Connections that a driver keeps for the process, one an alias, and its functions that work on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import Act, Thing
from auditor.findings import Confidence
from auditor.python import nodes
from auditor.timeline.connections.pointing import FOUND
from auditor.timeline.model import connection as change
from auditor.timeline.model.connection import Autocommit, ConnectionState, Life, Status
from auditor.timeline.model.entries import Entry
from auditor.timeline.model.events import Ended
from auditor.timeline.model.invocation import Invocation
from auditor.timeline.model.state import Flow, State
from auditor.timeline.model.values import (
    FALSE,
    NONE,
    TRUE,
    UNKNOWN,
    Block,
    Bound,
    Class,
    Connection,
    External,
    Function,
    Instance,
    Items,
    Key,
    Literal,
    Made,
    Pool,
    Text,
    Value,
)

if TYPE_CHECKING:
    from auditor.drivers import Driver
    from auditor.program.code import FunctionInfo
    from auditor.timeline.connections.database import Database
    from auditor.timeline.model.state import Frame
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

#: Entry points at which such a connection is found as the process left it, outside of any transaction.
_OUTSIDE = frozenset({Entry.COMMAND, Entry.TASK, Entry.MIDDLEWARE, Entry.SCRIPT, Entry.CONNECTED})


class HeldConnections:
    """Finds them, on behalf of a walk."""

    def __init__(self, walker: Walker, database: Database) -> None:
        self.walker = walker
        self.database = database
        self._aliases: dict[Key, tuple[Driver, str]] = {}
        self._around: dict[FunctionInfo, tuple[Block, ...]] = {}

    # Which

    def value(self, external: External) -> Value:
        """What a library object is: a connection that its driver keeps, or just that."""
        known = drivers.held_as(external.name)
        if known is not None and known[1] is Thing.CONNECTION:
            return self.of_alias(known[0], known[0].default_alias)
        return external

    def item(self, collection: Value, alias: Value) -> Value | None:
        """`connections[alias]`; None when the collection is another. An alias that is not known is the default's."""
        known = drivers.held_as(collection.name) if isinstance(collection, External) else None
        if known is None or known[1] is not Thing.CONNECTIONS:
            return None
        return self._named(known[0], alias)

    def _named(self, driver: Driver, alias: Value) -> Connection:
        plain = isinstance(alias, Text) and not alias.holes
        return self.of_alias(driver, alias.value if plain and isinstance(alias, Text) else driver.default_alias)

    def of_alias(self, driver: Driver, alias: str) -> Connection:
        key = self.walker.keys.of("held", driver.name, alias)
        self._aliases[key] = (driver, alias)
        return Connection(key)

    def found(self, key: Key) -> ConnectionState | None:
        """Such a connection as the entry point that is walked finds it; None of any other connection."""
        known = self._aliases.get(key)
        if known is None:
            return None
        driver, alias = known
        autocommit, prepares, _ = self.database.connecting.connect_options(driver, {})
        settings = self.walker.program.database_settings(alias)
        if settings.autocommit is not None:
            autocommit = Autocommit.ON if settings.autocommit else Autocommit.OFF
        entry = self.walker.entry
        view = entry is Entry.VIEW and settings.seen and not settings.atomic_requests
        outside = entry in _OUTSIDE or view or self.walker.lasting
        return ConnectionState(
            driver=driver.name,
            life=Life.GIVEN if entry is Entry.OTHER and not self.walker.lasting else Life.KEPT,
            sure=Confidence.HIGH if outside and settings.persists is not None else Confidence.MEDIUM,
            autocommit=autocommit,
            status=Status.IDLE if outside else Status.UNKNOWN,
            prepares_after=prepares,
            client_cursors=not settings.binds_on_server,
        )

    def is_held(self, key: Key) -> bool:
        return key in self._aliases

    def ends_with_entry(self, key: Key) -> bool:
        """Whether the connection is closed when the request or task that used it is over."""
        known = self._aliases.get(key)
        if known is None:
            return False
        settings = self.walker.program.database_settings(known[1])
        ends = (Entry.MIDDLEWARE, Entry.VIEW, Entry.TASK, Entry.CONNECTED)
        return self.walker.entry in ends and settings.closes_after_use

    # Functions of the driver

    def call(self, name: str, call: Invocation) -> Results | None:
        """A function of the driver that works on such a connection; None for any other."""
        known = drivers.function(name)
        if known is None:
            return None
        driver, act = known
        if driver.of_task:
            return self._of_task(driver, act, call)
        if act is Act.ALL:
            return [(call.state, Items("list", (self.of_alias(driver, driver.default_alias),)))]
        if act is Act.HELD:
            return [(call.state, self._named(driver, call.argument(0, "using", default=NONE)))]
        if act is Act.TRANSACTION:
            return [(call.state, self._block(driver, call))]
        takes = 1 if act in _ALIAS_SECOND else 0
        connection = self._named(driver, call.argument(takes, "using", default=NONE))
        return self.database.act(act, connection, call.passing(*call.positional[:takes], named=call.named))

    def _of_task(self, driver: Driver, act: Act, call: Invocation) -> Results:
        """The same of a driver whose connections are those of whoever runs: of whichever name, they are one pool's."""
        pool = self.database.tasks.pool(driver)
        block = self.database.tasks.block(driver, pool, act, call) if act is Act.TRANSACTION else pool
        return [(call.state, block)]

    def _block(self, driver: Driver, call: Invocation) -> Value:
        first = call.argument(0, "using", default=NONE)
        if isinstance(first, (Function, Bound, Instance, Class)):
            return first
        savepoint = call.argument(1, "savepoint", default=TRUE) != FALSE
        durable = call.argument(2, "durable", default=FALSE) == TRUE
        return Block("transaction", self._named(driver, first).key, call.span, savepoint=savepoint, durable=durable)

    # Functions that run inside a transaction because a decorator says so

    def around(self, info: FunctionInfo, state: State) -> tuple[Block, ...]:
        """The blocks that the decorators of a function put around each call of it, the outermost first."""
        known = self._around.get(info)
        if known is None:
            frame = self.walker.names.module_frame(info.module)
            found = (self._of_decorator(decorator, frame, state) for decorator in info.node.decorators)
            known = tuple(block for block in found if block is not None)
            if known or not info.node.decorators:
                # Else what they are may only be seen once the module is loaded.
                self._around[info] = known
        return known

    def _of_decorator(self, decorator: nodes.Expression, frame: Frame, state: State) -> Block | None:
        target = decorator.function if isinstance(decorator, nodes.Call) else decorator
        named = self.walker.objects.constant(target, frame, state)
        if named == UNKNOWN and isinstance(target, nodes.Attribute) and target is not decorator:
            return self._of_method(decorator, target, frame, state)
        if not isinstance(named, External) or not self._makes_block(named):
            return None
        call = Invocation((), (), State(), frame, Flow(), decorator.span)
        if target is decorator:
            value = self._block_of(named, call)
        else:
            with self.walker.quietly():
                ways = self.walker.evaluate(decorator, state, frame, Flow())
            value = ways[0][1] if ways else UNKNOWN
        if isinstance(value, Made) and value.arguments:
            # method_decorator(atomic)
            first = value.arguments[0]
            value = self._block_of(first, call) if isinstance(first, External) else first
        return value if isinstance(value, Block) else None

    def _of_method(
        self, decorator: nodes.Expression, target: nodes.Attribute, frame: Frame, state: State
    ) -> Block | None:
        """`@database.atomic()`."""
        if not isinstance(self.walker.objects.constant(target.value, frame, state), (Connection, Pool)):
            return None
        with self.walker.quietly():
            ways = self.walker.evaluate(decorator, state, frame, Flow())
        value = ways[0][1] if ways else UNKNOWN
        return value if isinstance(value, Block) else None

    def _block_of(self, named: External, call: Invocation) -> Value:
        made = self.call(named.name, call) if self._makes_block(named) else None
        return made[0][1] if made else UNKNOWN

    @staticmethod
    def _makes_block(named: External) -> bool:
        known = drivers.function(named.name)
        return named.name == "django.utils.decorators.method_decorator" or (
            known is not None and known[1] is Act.TRANSACTION
        )

    # What only such connections do

    def mark_rollback(self, key: Key, call: Invocation) -> Results:
        """set_rollback(value)."""
        connection = self.database.state_of(key, call.state)
        value = call.argument(0, "rollback", default=TRUE)
        if connection.blocks == 0 and connection.status is not Status.UNKNOWN:
            return self.database.endings.refused(key, call)
        if connection.in_transaction and value == TRUE:
            connection = replace(change.abort(connection, call.place), doomed=True)
        elif connection.doomed and value == FALSE:
            connection = replace(connection, status=Status.OPEN, doomed=False, aborted_at=None)
        elif value not in (TRUE, FALSE) and connection.in_transaction:
            connection = change.unknown(connection)
        return [(call.state.connect(key, connection), NONE)]

    def defer(self, key: Key, call: Invocation) -> Results:
        """on_commit(function): outside of a transaction it runs now, else after the commit and apart from the job."""
        function = call.argument(0, "func")
        connection = self.database.state_of(key, call.state)
        if connection.status is Status.IDLE:
            return [(after, NONE) for after, _ in self.walker.calls.apply(function, call.passing())]
        if isinstance(function, (Function, Bound)):
            after = replace(connection, status=Status.IDLE, savepoints=(), blocks=0, pending=(), begun=None)
            self.walker.coroutines.spawn(function, call.at(call.state.connect(key, after)).passing())
        return [(call.state, NONE)]

    def savepoint(self, key: Key, call: Invocation) -> Results:
        """savepoint(): its name; outside of a transaction block nothing happens."""
        connection = self.database.state_of(key, call.state)
        if not connection.in_transaction:
            return [(call.state, NONE)]
        if connection.status is Status.ABORTED:
            self.database.endings.may_fail(key, call.state, call.flow, call.span, call.frame)
            return []
        name = f"s{self.walker.keys.of('savepoint', call.frame.key, call.span)}"
        return [(call.state.connect(key, change.savepoint(connection, name)), Text(name))]

    def end_savepoint(self, key: Key, back: bool, call: Invocation) -> Results:
        """savepoint_commit(name) and savepoint_rollback(name)."""
        connection = self.database.state_of(key, call.state)
        name = call.argument(0, "sid")
        if not connection.in_transaction or not isinstance(name, Text):
            return [(call.state, NONE)]
        if not back and connection.status is Status.ABORTED:
            self.database.endings.may_fail(key, call.state, call.flow, call.span, call.frame)
            return []
        if back:
            after = change.rollback_to(connection, name.value, call.place)
            job = call.state.job.with_undone(after.undone)
        else:
            after, job = change.release(connection, name.value), call.state.job
        state = call.state.connect(key, after).with_job(job)
        how = "rollback to" if back else "release"
        event = Ended(call.place, key, how, f"savepoint_{'rollback' if back else 'commit'}()", connection, after)
        return [(self.walker.see(event, state), NONE)]

    def reopened(self, key: Key, state: State) -> State:
        """It was closed: whoever uses it next finds a new one."""
        fresh = self.found(key)
        before = self.database.state_of(key, state)
        if fresh is None:
            return state
        return state.connect(key, replace(fresh, status=Status.IDLE, blocks=before.blocks))

    def attribute(self, key: Key, name: str, state: State) -> Value | None:
        """What such a connection tells of itself."""
        connection = self.database.state_of(key, state)
        driver = self._aliases[key][0]
        if name in driver.tell_schema:
            return FOUND if connection.pointed is None else UNKNOWN
        if name == "alias":
            return Text(self._aliases[key][1])
        if name == "vendor":
            return Text("postgresql")
        if name == "in_atomic_block" and connection.status is not Status.UNKNOWN:
            return Literal(connection.in_transaction and connection.blocks > 0)
        if name == "needs_rollback" and connection.doomed:
            return TRUE
        return None


#: Functions whose first argument is another than the alias.
_ALIAS_SECOND = frozenset(
    {
        Act.SET_AUTOCOMMIT,
        Act.MARK_ROLLBACK,
        Act.DEFER,
        Act.RELEASE_SAVEPOINT,
        Act.ROLLBACK_SAVEPOINT,
    }
)
