"""Pools that hand out a connection for each statement, and within a block the same one to whoever runs in it.

The block's connection is found in the state under a key of its own: as long as it is there, whatever is asked of the
pool runs on it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.drivers.model import Act, Driver, Thing
from auditor.sql.meaning import HOLE_OPEN
from auditor.timeline.model.values import FALSE, TRUE, UNKNOWN, Block, Connection, Key, Pool, Text, Value, options_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeGuard

    from auditor.python import nodes
    from auditor.timeline.connections.database import Database
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.model.state import Frame, State
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

#: What begins the exit of a block that has taken its connection out itself.
TAKEN = "taken, "
_BLOCKS = (Act.TRANSACTION, Act.JOIN)
_STATEMENTS = (Act.EXECUTE, Act.EXECUTE_MANY, Act.EXECUTE_ONE, Act.EXECUTE_ALL)


class Tasks:
    """Finds them, on behalf of a walk."""

    def __init__(self, walker: Walker, database: Database) -> None:
        self.walker = walker
        self.database = database
        self._pools: dict[Key, Key] = {}

    def pool(self, driver: Driver) -> Pool:
        """The pool that models are sent through: there is taken to be one, wherever it is made, whatever its name."""
        return self.database.pools.given(driver, Thing.POOL, self.walker.keys.of("pool of tasks", driver.name))

    def made(self, driver: Driver, call: Invocation) -> Value:
        """The pool that a call makes; nothing is said of one of another database than PostgreSQL."""
        if driver.models:
            return self.pool(driver)
        url = call.argument(0, "url")
        dialects = {one.value.partition(":")[0].partition("+")[0] for one in options_of(url) if _has_dialect(one)}
        if driver.speaks and dialects and not dialects & set(driver.speaks):
            return UNKNOWN
        return self.database.pools.make(driver, Thing.POOL, call)

    def is_one(self, pool: Key) -> bool:
        return self.database.pools.known[pool].driver.of_task

    def current(self, pool: Key) -> Key:
        """The connection of whoever runs now, if there is one."""
        key = self.walker.keys.of("connection of the task", pool)
        self._pools[key] = pool
        return key

    def call(self, receiver: Pool, act: Act | None, call: Invocation) -> Results | None:
        """A method of such a pool; None of any that does what it does of other pools."""
        if act in _STATEMENTS:
            return self.run(receiver, lambda on, inner: self.database.act(act, on, inner), call)
        if act in _BLOCKS:
            driver = self.database.pools.known[receiver.key].driver
            return [(call.state, self.block(driver, receiver, act, call))]
        return None

    def run(self, pool: Pool, use: Callable[[Connection, Invocation], Results], call: Invocation) -> Results:
        """On the connection of the block around it, else on one that is taken out for this alone."""
        current = self.current(pool.key)
        if current in call.state.connections:
            return use(Connection(current), call)
        return self.database.pools.lend(pool.key, call, use, current)

    def block(self, driver: Driver, pool: Pool, act: Act, call: Invocation) -> Block:
        level = call.argument(-1, "isolation", "isolation_level")
        named = driver.isolation_names.get(level.value, "") if isinstance(level, Text) else ""
        joins = act is Act.JOIN
        forced = call.argument(-1, "force_rollback", default=FALSE) == TRUE
        return Block("task", pool.key, call.span, forced, savepoint=not joins, isolation=named)

    # Blocks

    def enter(
        self, block: Block, state: State, frame: Frame, span: nodes.Span
    ) -> list[tuple[State, Value, tuple[str, Key, Key]]]:
        """Enter a transaction, on a connection that is taken out for it unless there is one."""
        current = self.current(block.key)
        inner = replace(block, kind="transaction", key=current)
        if current in state.connections:
            return self.database.blocks.enter(inner, state, frame, span)
        return [
            (inside, value, (TAKEN + how, key, depth))
            for after, _ in self.database.pools.acquire(block.key, state, frame, span, current)
            for inside, value, (how, key, depth) in self.database.blocks.enter(inner, after, frame, span)
        ]

    def hold(
        self, block: Block, state: State, frame: Frame, span: nodes.Span
    ) -> list[tuple[State, Value, tuple[str, Key, Key]]]:
        """Keep one connection for a block."""
        current = self.current(block.key)
        if current in state.connections:
            return [(state, Connection(current), ("nothing", 0, 0))]
        taken = self.database.pools.acquire(block.key, state, frame, span, current)
        return [(after, connection, ("borrow", connection.key, block.key)) for after, connection in taken]

    def give_back(self, key: Key, state: State, frame: Frame, span: nodes.Span) -> list[State]:
        """The block that has taken a connection out is over."""
        return self.database.pools.release(self._pools[key], key, state, frame, span)


def _has_dialect(url: Value) -> TypeGuard[Text]:
    """Whether the dialect that a URL begins with is known."""
    return isinstance(url, Text) and ":" in url.value and HOLE_OPEN not in url.value.partition(":")[0]
