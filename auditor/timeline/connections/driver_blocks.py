"""The drivers' own context managers: connections, borrowed connections, transactions, pipelines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import AfterBlock
from auditor.timeline.connections.inside import Inside
from auditor.timeline.connections.tasks import TAKEN
from auditor.timeline.model import connection as change
from auditor.timeline.model.connection import Autocommit, ConnectionState, Status
from auditor.timeline.model.events import END_OF_BLOCK, Began, Ended
from auditor.timeline.model.invocation import Invocation
from auditor.timeline.model.state import Flow
from auditor.timeline.model.values import (
    UNKNOWN,
    Block,
    Connection,
    Cursor,
    External,
    Key,
    Pool,
    Raised,
    Value,
)

if TYPE_CHECKING:
    from auditor.drivers.model import Driver
    from auditor.findings import Place
    from auditor.python import nodes
    from auditor.timeline.connections.database import Database
    from auditor.timeline.model.state import Frame, State
    from auditor.timeline.walking.walker import Walker

#: How a block is left: what it was, on which connection, and for a borrowed one the pool, for a savepoint its depth.
ExitAs = tuple[str, Key, Key]
#: The block is not entered: the server refuses what it begins with, or the driver a block in a block.
REFUSED = "refused"
#: The driver refuses it, with an error of its own.
FORBIDDEN = "forbidden"
#: It says that it is the outermost, and isn't: that is no error of the database.
MISPLACED = "misplaced"
#: Ways to leave a block that is never entered.
NOT_ENTERED = (REFUSED, FORBIDDEN, MISPLACED)
#: It has begun nothing, and takes part in the transaction around it.
_JOINED = "joined"
#: Its SAVEPOINT would be refused, and is sent only with the first statement inside.
UNSENT = "unsent"
#: It has kept the connection open, too.
_HELD = "held, "


class DriverBlocks:
    """Enters and leaves drivers' blocks on behalf of a walk."""

    def __init__(self, walker: Walker, database: Database) -> None:
        self.walker = walker
        self.database = database
        self.inside = Inside(walker, database)

    def enter(self, manager: Value, state: State, frame: Frame, span: nodes.Span) -> list[tuple[State, Value, ExitAs]]:
        """Enter a driver's block: each way in, what it gives, and how it is to be left."""
        if isinstance(manager, (Cursor, Pool)):
            return [(state, manager, ("nothing", 0, 0))]
        if isinstance(manager, Connection):
            return [self._enter_connection(manager, state, frame, span)]
        assert isinstance(manager, Block)
        if manager.kind == "task":
            return self.database.tasks.enter(manager, state, frame, manager.site)
        if manager.kind == "hold":
            known = self.database.state_of(manager.key, state)
            inside = state.connect(manager.key, replace(known, holders=known.holders + 1))
            return [(inside, Connection(manager.key), ("hold", manager.key, 0))]
        if manager.kind == "begun":
            begun = self.database.state_of(manager.key, state)
            if manager.how == UNSENT:
                return [(state, manager, (UNSENT, manager.key, 0))]
            inside = state.connect(manager.key, replace(begun, blocks=begun.blocks + 1))
            return [(inside, manager, (manager.how, manager.key, manager.depth))]
        if manager.kind == "borrow" and self.database.tasks.is_one(manager.key):
            return self.database.tasks.hold(manager, state, frame, manager.site)
        if manager.kind in ("borrow", "borrow cursor"):
            cursor = manager.kind == "borrow cursor"
            return [
                (
                    begun,
                    self.database.cursor_of(connection) if cursor else connection,
                    ("borrow", connection.key, manager.key),
                )
                for after, connection in self.database.pools.acquire(manager.key, state, frame, manager.site)
                for begun in self._begun(connection.key, after, frame, manager.site)
            ]
        connection = self.database.state_of(manager.key, state)
        if manager.kind == "pipeline":
            piped = state.connect(manager.key, replace(connection, pipeline=True))
            return [(piped, UNKNOWN, ("pipeline", manager.key, 0))]
        return [self._enter_transaction(manager, connection, state, frame)]

    def _begun(self, key: Key, state: State, frame: Frame, span: nodes.Span) -> list[State]:
        """A block that borrows also begins a transaction, where the driver's blocks bar what comes after its end."""
        driver = self.database.driver_of(key, state)
        if driver is None or not driver.block_bars:
            return [state]
        begun = self.database.sessions.begun(key, Invocation((), (), state, frame, Flow(), span))
        inside = ((after, self.database.state_of(key, after)) for after in begun)
        return [after.connect(key, replace(known, blocks=known.blocks + 1)) for after, known in inside]

    def _enter_connection(
        self, manager: Connection, state: State, frame: Frame, span: nodes.Span
    ) -> tuple[State, Value, ExitAs]:
        connection = self.database.state_of(manager.key, state)
        driver = drivers.by_name(connection.driver)
        if driver is not None and driver.after_block is AfterBlock.END:
            held = replace(connection, holders=connection.holders + 1)
            block = Block("transaction", manager.key, span)
            inside, _, (how, key, depth) = self._enter_transaction(block, held, state.connect(manager.key, held), frame)
            return inside, manager, (how if how in NOT_ENTERED else _HELD + how, key, depth)
        if driver is None or not driver.block_begins or self._is_old(driver, frame):
            return state, manager, ("connection", manager.key, 0)
        # Until the block ends its statements share a transaction, which the first of them begins.
        inside = state.connect(manager.key, replace(connection, blocks=connection.blocks + 1))
        return inside, manager, (REFUSED if connection.blocks else "connection", manager.key, 0)

    def _is_old(self, driver: Driver, frame: Frame) -> bool:
        """Whether the project's version of the driver begins nothing in a block of its connection."""
        since = driver.block_begins_since
        return bool(since) and self.walker.program.is_before(driver, frame.module, since)

    def _enter_transaction(
        self, block: Block, connection: ConnectionState, state: State, frame: Frame
    ) -> tuple[State, Value, ExitAs]:
        place = frame.module.place(block.site)
        joins = connection.blocks > 0 and (connection.doomed or not block.savepoint)
        if block.nested and connection.status is Status.IDLE:
            # SAVEPOINT outside of a transaction.
            inside = state.connect(block.key, replace(connection, blocks=connection.blocks + 1))
            return inside, UNKNOWN, (REFUSED, block.key, 0)
        misplaced = block.durable and connection.blocks > 0
        if joins or misplaced or connection.status is Status.ABORTED:
            # In an aborted transaction the savepoint is refused: the block is never entered.
            inside = state.connect(block.key, replace(connection, blocks=connection.blocks + 1))
            return inside, UNKNOWN, (MISPLACED if misplaced else _JOINED if joins else REFUSED, block.key, 0)
        driver = drivers.by_name(connection.driver)
        counted = driver is not None and driver.block_counts and connection.status is not Status.UNKNOWN
        if counted and (connection.blocks > 0) != connection.in_transaction:
            # A savepoint wants the transaction that was ended meanwhile; the outermost block wants to begin its own.
            inside = state.connect(block.key, replace(connection, blocks=connection.blocks + 1))
            return inside, UNKNOWN, (REFUSED if connection.blocks else FORBIDDEN, block.key, 0)
        if driver is not None and driver.autocommit and connection.autocommit is Autocommit.OFF:
            # Somebody has taken the transactions on himself: the block is a savepoint, and commits nothing.
            connection = change.begin(connection, place)
        idle = replace(connection, status=Status.IDLE)
        if connection.status is Status.UNKNOWN and not block.durable:
            # The caller may have begun a transaction: at the end nothing is known of it, as before.
            kind, after = "unknown", change.begin(idle, place, block.isolation)
        elif connection.in_transaction:
            kind, after = "savepoint", change.savepoint(connection, "")
        else:
            kind, after = "transaction", change.begin(idle, place, block.isolation)
        after = replace(after, blocks=connection.blocks + 1)
        state = state.connect(block.key, after)
        state = self.walker.see(Began(place, block.key, after, kind == "savepoint", frame.symbol), state)
        how = f"{kind}, undone" if block.forced_rollback else kind
        given = self.inside.given(driver, block, kind, len(connection.savepoints))
        return state, given, (how, block.key, len(connection.savepoints))

    def leave(
        self,
        exit_as: ExitAs,
        state: State,
        raised: Raised | None,
        frame: Frame,
        span: nodes.Span,
        flow: Flow,
    ) -> list[State]:
        """Leave a driver's block, by an exception or not; what leaving it raises goes to `flow`."""
        how, key, _ = exit_as
        if how.startswith((TAKEN, _HELD)):
            return self._leave_outer(exit_as, state, raised, frame, span, flow)
        if how == "hold":
            return self._let_go(key, state)
        if how in ("nothing", UNSENT, *NOT_ENTERED):
            return [self.left_unsent(key, state) if how == UNSENT else state]
        known = self.database.state_of(key, state)
        if how != "borrow" and known.status is Status.CLOSED:
            return [self._leave_barred(key, state) if known.barred else state]
        place = frame.module.place(span)
        if raised is None and how != "connection" and self.database.sessions.is_session(key):
            inner = Flow()
            flushed = self.walker.mapper.flush(key, Invocation((), (), state, frame, inner, span))
            for failed, error in inner.raises:
                flow.raises.extend((after, error) for after in self.leave(exit_as, failed, error, frame, span, flow))
            if flushed != [state]:
                return [after for one in flushed for after in self.leave(exit_as, one, raised, frame, span, flow)]
        if how == "pipeline":
            return [state.connect(key, replace(self.database.state_of(key, state), pipeline=False))]
        end = "commit" if raised is None else "rollback"
        if how == "borrow":
            return self._leave_borrowed(exit_as, end, state, frame, span)
        if how == "connection":
            return self._leave_connection(key, end, state, frame, span)
        if how == _JOINED:
            return [self._leave_joined(key, raised, state, place)]
        return self._leave_begun(exit_as, end, state, frame, span, flow)

    def left_unsent(self, key: Key, state: State) -> State:
        """A block whose SAVEPOINT was never sent: outside of a transaction statements run again after it."""
        known = self.database.state_of(key, state)
        if not (known.doomed and known.misled):
            return state
        return state.connect(key, replace(known, status=Status.IDLE, doomed=False, aborted_at=None))

    def _leave_borrowed(self, exit_as: ExitAs, end: str, state: State, frame: Frame, span: nodes.Span) -> list[State]:
        _, key, pool = exit_as
        connection = self.database.state_of(key, state)
        driver = drivers.by_name(connection.driver)
        commits = (driver is None or driver.borrow_commits) and not connection.barred
        # Whether a transaction is open may not be known: what a commit keeps is kept in autocommit, too.
        if commits and (connection.in_transaction or connection.status is Status.UNKNOWN):
            state = self.database.endings.end(key, state, end, END_OF_BLOCK, frame.module.place(span), frame)
        return self.database.pools.release(pool, key, state, frame, span)

    def _leave_begun(
        self, exit_as: ExitAs, end: str, state: State, frame: Frame, span: nodes.Span, flow: Flow
    ) -> list[State]:
        how, key, other = exit_as
        before = self.database.state_of(key, state)
        if self._is_gone(how, before, other):
            return self._leave_gone(exit_as, end, state, frame, span, flow)
        fails = end == "commit" and self._release_fails(how, before)
        if fails and self._stays_aborted(before):
            left = change.out_of_block(replace(before, savepoints=before.savepoints[:other]))
            state = state.connect(key, left)
        else:
            state = self._leave_transaction(how, key, other, end, state, frame.module.place(span), frame)
        return self._refused(state, frame, span, flow) if fails else [state]

    def _refused(self, state: State, frame: Frame, span: nodes.Span, flow: Flow) -> list[State]:
        """The end of a block whose statement the server refuses."""
        error = self.walker.raised("sql", None, span, frame)
        flow.raises.append((self.walker.failed(state, error), error))
        return []

    def _leave_outer(
        self, exit_as: ExitAs, state: State, raised: Raised | None, frame: Frame, span: nodes.Span, flow: Flow
    ) -> list[State]:
        """A block that has a connection beside its transaction: it is given back or closed on every way out."""
        how, key, other = exit_as
        taken = how.startswith(TAKEN)
        inner = Flow()

        def after(end: State) -> list[State]:
            return self.database.tasks.give_back(key, end, frame, span) if taken else self._let_go(key, end)

        ends = self.leave((how.partition(", ")[2], key, other), state, raised, frame, span, inner)
        for failed, error in inner.raises:
            flow.raises.extend((then, error) for then in after(failed))
        return [then for end in ends for then in after(end)]

    def _let_go(self, key: Key, state: State) -> list[State]:
        """The outermost of the blocks that keep a connection open closes it."""
        known = self.database.state_of(key, state)
        left = state.connect(key, replace(known, holders=max(known.holders - 1, 0)))
        return [self.database.endings.reopened(key, left)] if known.holders <= 1 else [left]

    def why_not(self, exit_as: ExitAs, state: State, frame: Frame, span: nodes.Span) -> Raised:
        """What keeps a block from being entered."""
        how, key, _ = exit_as
        driver = self.database.driver_of(key, state)
        if how == MISPLACED:
            return self.walker.raised("raise", External("builtins.RuntimeError"), span, frame)
        if how == FORBIDDEN and driver is not None:
            return self.walker.raised("raise", External(driver.refuses_with), span, frame)
        return self.walker.raised("sql", None, span, frame)

    @staticmethod
    def _release_fails(how: str, before: ConnectionState) -> bool:
        """Whether RELEASE SAVEPOINT is refused, a failure in the block having been caught."""
        driver = drivers.by_name(before.driver)
        aborted = before.status is Status.ABORTED and not before.doomed
        return how == "savepoint" and aborted and driver is not None and driver.release_raises

    @staticmethod
    def _is_gone(how: str, before: ConnectionState, depth: int) -> bool:
        """Whether a block's savepoint went with the transaction that was ended inside of it."""
        known = before.status is not Status.UNKNOWN and not before.barred and not before.doomed
        return how.startswith("savepoint") and known and len(before.savepoints) <= depth

    def _leave_gone(
        self, exit_as: ExitAs, end: str, state: State, frame: Frame, span: nodes.Span, flow: Flow
    ) -> list[State]:
        """The server knows no such savepoint: what transaction is open by now is aborted."""
        how, key, _ = exit_as
        before = self.database.state_of(key, state)
        left = change.abort(before, frame.module.place(span)) if before.in_transaction else before
        state = state.connect(key, change.out_of_block(left))
        driver = drivers.by_name(before.driver)
        undoes = end == "rollback" or how != "savepoint"
        refused = driver is not None and (driver.rollback_raises if undoes else driver.release_raises)
        return self._refused(state, frame, span, flow) if refused else [state]

    @staticmethod
    def _stays_aborted(before: ConnectionState) -> bool:
        driver = drivers.by_name(before.driver)
        return driver is not None and not driver.release_recovers

    def _leave_joined(self, key: Key, raised: Raised | None, state: State, place: Place) -> State:
        """What goes wrong in a block that has no savepoint of its own dooms the transaction around it."""
        connection = self.database.state_of(key, state)
        driver = drivers.by_name(connection.driver)
        if raised is not None and connection.in_transaction and (driver is None or driver.join_dooms):
            connection = replace(change.abort(connection, place), doomed=True)
        return state.connect(key, change.out_of_block(connection))

    def swallows(self, exit_as: ExitAs, state: State, raised: Raised | None) -> bool:
        """Whether an exception that leaves a driver's block goes no further."""
        how, key, _ = exit_as
        if raised is None or how in ("nothing", *NOT_ENTERED, "borrow", "connection", "pipeline"):
            return False
        driver = self.database.driver_of(key, state)
        return driver is not None and isinstance(raised.type, External) and raised.type.name in driver.block_rollbacks

    def _leave_connection(self, key: Key, end: str, state: State, frame: Frame, span: nodes.Span) -> list[State]:
        place = frame.module.place(span)
        connection = self.database.state_of(key, state)
        driver = drivers.by_name(connection.driver)
        if driver is not None and driver.after_block is AfterBlock.RELEASE:
            return self.database.sessions.close(key, state, frame, span, END_OF_BLOCK)
        if driver is not None and driver.after_block is AfterBlock.DROP:
            if connection.in_transaction:
                state = self.database.endings.end(key, state, "rollback", END_OF_BLOCK, place, frame)
            return [self.database.endings.closed(key, state)]
        if connection.in_transaction or connection.status is Status.UNKNOWN:
            state = self.database.endings.end(key, state, end, END_OF_BLOCK, place, frame)
        connection = self.database.state_of(key, state)
        if driver is not None and driver.block_begins:
            connection = change.out_of_block(replace(connection, misled=False))
        if driver is not None and driver.after_block is AfterBlock.CLOSE and connection.pool is None:
            return [self.database.endings.closed(key, state)]
        return [state.connect(key, connection)]

    def _leave_transaction(
        self, how: str, key: Key, depth: int, end: str, state: State, place: Place, frame: Frame
    ) -> State:
        kind, _, forced = how.partition(", ")
        end = "rollback" if forced else end
        if self.database.state_of(key, state).barred:
            return self._leave_barred(key, state)
        if kind == "savepoint":
            state = self.leave_savepoint(key, depth, end, state, place, frame)
        else:
            state = self.database.endings.end(key, state, end, END_OF_BLOCK, place, frame)
        after = self.database.state_of(key, state)
        after = change.out_of_block(after)
        if kind == "unknown":
            after = replace(change.unknown(after), blocks=after.blocks)
        return self._left_alone(key, state.connect(key, after))

    def _leave_barred(self, key: Key, state: State) -> State:
        """The transaction was ended inside: there is nothing left to end."""
        connection = self.database.state_of(key, state)
        left = change.out_of_block(connection)
        if left.status is Status.CLOSED and not left.blocks:
            return state.disconnect(key)
        return self._left_alone(key, state.connect(key, replace(left, barred=left.blocks > 0)))

    def _left_alone(self, key: Key, state: State) -> State:
        """A connection that a block has kept beyond its transaction."""
        left = state.connections.get(key)
        kept = left is None or left.blocks > 0 or left.status is not Status.IDLE
        return state if kept else self.database.sessions.let_go(key, state)

    def leave_savepoint(self, key: Key, depth: int, end: str, state: State, place: Place, frame: Frame) -> State:
        before = self.database.state_of(key, state)
        after = before
        if len(before.savepoints) <= depth:
            return state
        if end == "rollback" or before.status is Status.ABORTED:
            end = "rollback"
            after = change.rollback_to(replace(before, savepoints=before.savepoints[: depth + 1]), None, place)
            state = state.with_job(state.job.with_undone(after.undone))
        while len(after.savepoints) > depth:
            after = change.release(after, None)
        word = "release" if end == "commit" else "rollback to"
        state = state.connect(key, after)
        return self.walker.see(Ended(place, key, word, END_OF_BLOCK, before, after, frame.symbol), state)
