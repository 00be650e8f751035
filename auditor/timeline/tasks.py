"""Pools that hand out a connection for each statement, and within a block the same one to whoever runs in it.

The block's connection is found in the state under a key of its own: as long as it is there, whatever is asked of the
pool runs on it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.drivers.model import Act, Driver, Thing
from auditor.timeline.values import Block, Connection, Key, Pool, Text, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from auditor.python import nodes
    from auditor.timeline.database import Database
    from auditor.timeline.evaluate import Results
    from auditor.timeline.invocation import Invocation
    from auditor.timeline.state import Frame, State
    from auditor.timeline.walker import Walker

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

    def pool(self, driver: Driver, alias: str = "") -> Pool:
        """The pool of an alias: there is one in the process, wherever it is made."""
        key = self.walker.keys.of("pool of tasks", driver.name, alias or driver.default_alias)
        return self.database.pools.given(driver, Thing.POOL, key)

    def named(self, driver: Driver, alias: Value) -> Pool:
        return self.pool(driver, alias.value if isinstance(alias, Text) and not alias.holes else "")

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
        return self.database.pools.lend(pool.key, call, use)

    def block(self, driver: Driver, pool: Pool, act: Act, call: Invocation) -> Block:
        level = call.argument(-1, "isolation", "isolation_level")
        named = driver.isolation_names.get(level.value, "") if isinstance(level, Text) else ""
        joins = act is Act.JOIN
        return Block("task", pool.key, call.span, savepoint=not joins, isolation=named)

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
            (inside, Connection(current) if value == Connection(current) else value, (TAKEN + how, key, depth))
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
