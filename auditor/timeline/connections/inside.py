"""What a driver's transaction block gives to whoever stands in it: an end in the middle, a savepoint by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.drivers.model import Given
from auditor.timeline.model import connection as change
from auditor.timeline.model.values import FALSE, NONE, TRUE, UNKNOWN, Block, Connection, Value

if TYPE_CHECKING:
    from auditor.drivers import Driver
    from auditor.timeline.connections.database import Database
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

_ENDS = ("commit", "rollback")


class Inside:
    """Gives it, and applies what is asked of it, on behalf of a walk."""

    def __init__(self, walker: Walker, database: Database) -> None:
        self.walker = walker
        self.database = database

    @staticmethod
    def given(driver: Driver | None, block: Block, kind: str, depth: int) -> Value:
        """What the block gives; `kind` is what it has begun, `depth` how many savepoints there were."""
        if driver is None or driver.block_gives is Given.NOTHING:
            return UNKNOWN
        if driver.block_gives is Given.CONNECTION:
            return Connection(block.key)
        return replace(block, kind="inside", how=kind, depth=depth) if kind != "unknown" else UNKNOWN

    def call(self, block: Block, name: str, call: Invocation) -> Results:
        """A method of it."""
        connection = self.database.state_of(block.key, call.state)
        if connection.blocks == 0:
            return [(call.state, UNKNOWN)]
        if name in _ENDS:
            return self._end(block, name, call)
        if name == "savepoint":
            return self._mark(block, call)
        if name in ("rollback_to", "release") and connection.savepoints:
            return self._to_mark(block, name, call)
        return [(call.state, UNKNOWN)]

    def _end(self, block: Block, name: str, call: Invocation) -> Results:
        driver = self.database.driver_of(block.key, call.state)
        renews = driver is not None and driver.block_gives is Given.RENEWING
        begins = renews and call.argument(0, "begin", default=TRUE) != FALSE
        if block.how == "savepoint":
            state = self.database.blocks.leave_savepoint(
                block.key, block.depth, name, call.state, call.place, call.frame
            )
            after = self.database.state_of(block.key, state)
            after = change.savepoint(after, "") if begins and after.in_transaction else after
        else:
            state = self.database.endings.end(block.key, call.state, name, f"{name}()", call.place, call.frame)
            after = self.database.state_of(block.key, state)
            after = change.begin(after, call.place) if begins else after
        return [(state.connect(block.key, after), NONE)]

    def _mark(self, block: Block, call: Invocation) -> Results:
        """A savepoint that is set by hand."""
        connection = self.database.state_of(block.key, call.state)
        if not connection.in_transaction:
            return [(call.state, UNKNOWN)]
        mark = replace(block, how="mark", depth=len(connection.savepoints))
        return [(call.state.connect(block.key, change.savepoint(connection, "")), mark)]

    def _to_mark(self, block: Block, name: str, call: Invocation) -> Results:
        """Back to it, or on without it; told by a name it is the last one."""
        before = self.database.state_of(block.key, call.state)
        depth = block.depth if block.how == "mark" else len(before.savepoints) - 1
        if len(before.savepoints) <= depth:
            return [(call.state, NONE)]
        at = replace(before, savepoints=before.savepoints[: depth + 1])
        after = change.rollback_to(at, None, call.place) if name == "rollback_to" else change.release(at, None)
        job = call.state.job.with_undone(after.undone) if name == "rollback_to" else call.state.job
        return [(call.state.connect(block.key, after).with_job(job), NONE)]
