"""How transactions, connections and jobs end, and what of them lasts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import AfterBlock, Driver
from auditor.timeline.model import connection as change
from auditor.timeline.model.connection import Autocommit, ConnectionState, Deed, Life, Status
from auditor.timeline.model.events import Ended, Handover, JobEnded
from auditor.timeline.model.settings import OPTION, Setting
from auditor.timeline.model.state import NO_JOB, Flow, Frame, State, goes_on
from auditor.timeline.model.values import (
    NONE,
    External,
    Key,
    Value,
    key_of,
)

if TYPE_CHECKING:
    from auditor.findings import Place
    from auditor.python import nodes
    from auditor.timeline.connections.database import Database
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker


class Endings:
    """Ends things, for whoever asks."""

    def __init__(self, walker: Walker, database: Database) -> None:
        self.walker = walker
        self.database = database

    def may_fail(self, key: Key, state: State, flow: Flow, span: nodes.Span, frame: Frame) -> None:
        """Something may have run a statement on the connection, and it may have failed."""
        connection = state.connections.get(key)
        if connection is None:
            return
        raised = self.walker.raised("sql", None, span, frame)
        failing = state.connect(key, change.abort(connection, frame.module.place(span)))
        flow.raises.append((self.walker.failed(failing, raised), raised))

    def end(self, key: Key, state: State, how: str, by: str, place: Place, frame: Frame) -> State:
        """COMMIT or ROLLBACK, whoever sends it."""
        before = self.database.state_of(key, state)
        if before.status is Status.CLOSED:
            return state
        if before.is_barred_by_text:
            # Whoever has not begun it sends nothing.
            return state.connect(key, replace(before, under_way=False))
        if how == "commit":
            after, kept = change.commit(before, place)
            job = state.job.with_kept(kept, place, frame.calls).with_undone(after.undone)
        else:
            after = change.rollback(before, place)
            job = state.job.with_undone(after.undone)
            if before.status is Status.OPEN and "rollback" not in by:
                job = job.let_go(before.pending, place, frame.calls)
        state = state.connect(key, replace(after, misled=False, under_way=False)).with_job(job)
        if not before.in_transaction and before.status is not Status.UNKNOWN:
            return state
        state = self.walker.see(Ended(place, key, how, by, before, after, frame.symbol, _entered_at(frame)), state)
        return self.database.sessions.let_go(key, state)

    def kept_by_user(self, key: Key, state: State, frame: Frame, span: nodes.Span) -> list[State]:
        """Code that is not seen has worked with the connection: it may have committed, and kept what was set for it."""
        connection = self.database.state_of(key, state)
        pending = any(setting.pending is not None and setting.pending.is_value for setting in connection.settings)
        if not pending or connection.status is not Status.OPEN or connection.blocks or state.job.claims:
            return []
        return [self.end(key, state, "commit", "the code that uses this", frame.module.place(span), frame)]

    def commit(self, receiver: Value, call: Invocation) -> Results:
        return self._end_by_call(receiver, "commit", call)

    def rollback(self, receiver: Value, call: Invocation) -> Results:
        return self._end_by_call(receiver, "rollback", call)

    def _end_by_call(self, receiver: Value, how: str, call: Invocation) -> Results:
        key = key_of(receiver)
        connection = self.database.state_of(key, call.state)
        driver = drivers.by_name(connection.driver)
        if connection.blocks and driver is not None and driver.block_forbids_commit:
            return self.refuse(driver, call)
        if connection.barred:
            # There is nothing left to end, and only a session would begin anew to end it.
            renews = how == "commit" and self.database.sessions.is_session(key)
            return self.database.sessions.refused(driver, call) if renews else [(call.state, NONE)]
        unopened = key not in call.state.connections and self.database.sessions.found(key) is not None
        if unopened and how == "rollback":
            return [(self.walker.mapper.forgotten(call.state), NONE)]
        if not self.sends_end(connection):
            ended = call.state.connect(key, replace(connection, under_way=False))
            return [(ended if connection.under_way else call.state, NONE)]
        results: Results = []
        for flushed in self.walker.mapper.ending(key, call, how):
            raises = how == "commit" and driver is not None and driver.commit_raises
            raises = raises and self.database.state_of(key, flushed).status is Status.ABORTED
            state = self.end(key, flushed, how, f"{how}()", call.place, call.frame)
            if raises and driver is not None:
                self.refuse(driver, call.at(state))
                continue
            if connection.blocks and driver is not None and driver.block_bars:
                state = state.connect(key, replace(self.database.state_of(key, state), barred=True))
            results.append((state, NONE))
        return results

    @staticmethod
    def sends_end(connection: ConnectionState) -> bool:
        """Whether commit() and rollback() send anything: some drivers end only what they have begun."""
        driver = drivers.by_name(connection.driver)
        begun = connection.autocommit is not Autocommit.ON or connection.blocks > 0
        return begun or driver is None or (driver.watches_status and not connection.blind)

    def refused(self, key: Key, call: Invocation) -> Results:
        """The driver of a connection raises instead of doing what was asked."""
        driver = self.database.driver_of(key, call.state)
        return self.refuse(driver, call) if driver is not None else []

    def refuse(self, driver: Driver, call: Invocation) -> Results:
        """The driver raises instead of doing what was asked."""
        raised = self.walker.raised("raise", External(driver.refuses_with), call.span, call.frame)
        call.flow.raises.append((self.walker.failed(call.state, raised), raised))
        return []

    def close(self, receiver: Value, call: Invocation) -> Results:
        """close(): the server rolls back what is open. In a pool a closed connection has no next user."""
        key = key_of(receiver)
        state = call.state
        known = self.database.driver_of(key, state)
        if known is not None and known.after_block is AfterBlock.RELEASE:
            before, sessions = self.database.state_of(key, state), self.database.sessions
            ends = sessions.close(key, state, call.frame, call.span, "close()")
            return [(sessions.closed_inside(key, before, after), NONE) for after in ends]
        open_still = self.database.state_of(key, state)
        if open_still.life is Life.JOB:
            state = self.database.pools.strand(open_still, state, call.place, closed=True)
        if open_still.in_transaction:
            state = self.end(key, state, "rollback", "close()", call.place, call.frame)
        driver = self.database.driver_of(key, state)
        if driver is not None and driver.reopens:
            return [(self.reopened(key, state), NONE)]
        return [(self.closed(key, state), NONE)]

    def reopened(self, key: Key, state: State) -> State:
        """Closed by an owner that opens another one when it is asked again, or finds this one in its pool."""
        if self.database.held.is_held(key):
            return self.database.held.reopened(key, state)
        known = self.database.state_of(key, state)
        if key in self.database.connecting.pooled:
            return state
        fresh = ConnectionState(
            driver=known.driver,
            life=known.life,
            made=known.made,
            autocommit=known.autocommit,
            prepares_after=known.prepares_after,
            client_cursors=known.client_cursors,
            blind=known.blind,
            refuses_begun=known.refuses_begun,
            settings=tuple(Setting(one.name, one.kept) for one in known.settings if one.kept.since == OPTION),
            user=known.user,
            root=known.root,
        )
        return state.connect(key, replace(fresh, blocks=known.blocks))

    def closed(self, key: Key, state: State) -> State:
        """The state once the connection is closed: one that is not there is closed, see `state_of`."""
        known = self.database.state_of(key, state)
        if known.life is not Life.GIVEN and known.pool is None:
            state = self._left_to_pooler(key, known, state)
            if key not in self.walker.names.base.connections:
                return state.disconnect(key)
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

    def reset(self, receiver: Value, call: Invocation) -> Results:
        """A connection's reset(): it rolls back, and sets back what the session holds, outside any transaction."""
        key = key_of(receiver)
        state = self.end(key, call.state, "rollback", "reset()", call.place, call.frame)
        driver = self.database.driver_of(key, state)
        keeps, counts = (driver.reset_keeps, driver.block_counts) if driver is not None else (frozenset[str](), False)
        after = change.reset_all(self.database.state_of(key, state), call.place, keeps)
        return [(state.connect(key, replace(after, blocks=0) if counts else after), NONE)]

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
            job.called,
            job.goes_on or (job.failed is None and goes_on(pending)),
        )
        return self.walker.see(event, state)


def _entered_at(frame: Frame) -> Place | None:
    """Where a context manager of the program is entered, whose code a frame runs."""
    manager = frame.function is not None and frame.function.is_manager
    return frame.calls[-1] if manager and frame.calls else None
