"""Runs statements on a connection: what each does to the transaction, the settings and the job, and what it leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import Binding
from auditor.findings import Confidence
from auditor.program.catalogue import UNNAMED
from auditor.sql.meaning import Kind, Span, Statement
from auditor.sql.queue import Step, StepKind
from auditor.sql.queue_view import named_from_outside, names_one
from auditor.sql.words import is_token
from auditor.timeline.computing.bindings import Bindings
from auditor.timeline.connections.effects import NOTHING_DONE, Done, Effects
from auditor.timeline.jobs.beside import locks_among, marks_beside
from auditor.timeline.jobs.guarding import ANSWERS, Seen, flags, guards, judge, locked_and_asked, moves
from auditor.timeline.model import connection as change
from auditor.timeline.model.connection import Autocommit, ConnectionState, Deed, Mark, Status
from auditor.timeline.model.events import Ended, GivenToRole, Inherited, Outlived, Ran, SettingSet, Stranded
from auditor.timeline.model.settings import LostCleanup
from auditor.timeline.model.state import Job, State, merge
from auditor.timeline.model.tenantless import tenantless
from auditor.timeline.model.values import NONE, Items, Key, Literal, Mapping, Text, Value, from_row

if TYPE_CHECKING:
    from auditor.drivers.model import Driver
    from auditor.findings import Place
    from auditor.sql.queue import Step
    from auditor.timeline.connections.database import Database
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.model.state import Frame
    from auditor.timeline.walking.walker import Walker

#: A text of more statements than this is a schema or a dump: it is read for what it defines, not walked.
MOST_STATEMENTS = 64

_UNREAD = Statement(Kind.OTHER, Span(0, 0), parsed=False)
#: What PostgreSQL still accepts in a transaction that an error has aborted.
_ENDS = (Kind.ROLLBACK, Kind.ROLLBACK_TO, Kind.COMMIT, Kind.PREPARE_TRANSACTION)
#: How the row of one job is kept: it is taken, tried, prolonged, ended or given back.
_BOOKS = (
    StepKind.CLAIM,
    StepKind.COUNT,
    StepKind.EXTEND,
    StepKind.FINISH,
    StepKind.FAIL,
    StepKind.REQUEUE,
    StepKind.BURY,
)
_COMMITS = (Kind.COMMIT, Kind.PREPARE_TRANSACTION)
_WRITES = (Kind.INSERT, Kind.UPDATE, Kind.DELETE, Kind.MERGE, Kind.TRUNCATE)
_QUERIES = (Kind.SELECT, Kind.INSERT, Kind.UPDATE, Kind.DELETE, Kind.MERGE, Kind.VALUES)


class Statements:
    """Runs SQL on behalf of a walk."""

    def __init__(self, walker: Walker, database: Database) -> None:
        self.walker = walker
        self.database = database
        self.effects = Effects(walker)

    def execute(
        self, key: Key, query: Value, parameters: Value, client: bool, call: Invocation, at: Place | None = None
    ) -> list[State]:
        """`execute(query, parameters)` on a connection: the states after it; its failure goes to the call's flow.

        It stands where its text does, else `at` that place, else where it is called.
        """
        connection = self.database.state_of(key, call.state)
        if connection.status is Status.CLOSED:
            return [call.state]
        state = call.state.connect(key, connection)
        text = query if isinstance(query, Text) else Text("")
        statements = self.walker.program.read_sql(text.value) if isinstance(query, Text) else (_UNREAD,)
        self.walker.program.take_comments(text.value, lambda span: self.walker.program.place_in(text.origins, span))
        driver = drivers.by_name(connection.driver)
        # What is waited for runs under a driver for coroutines, whatever its session was taken for: they leave it all
        # to the server.
        waited = driver is not None and bool(driver.client_dbapis) and _is_awaited(call)
        client = client or (connection.client_cursors and not waited)
        bound = driver is not None and driver.binding is Binding.SERVER and not client
        run = _Run(key, text, parameters, bound and _has_parameters(parameters), call, at)
        if len(statements) > MOST_STATEMENTS:
            for statement in statements:
                self._define(run, statement)
            return [state]
        together = len(statements) > 1 and not _has_parameters(parameters)
        if together and connection.status is Status.IDLE and _autocommit(driver, connection) is Autocommit.ON:
            return self._together(run, statements, state.connect(key, change.begin(connection, call.place)))
        states = [state]
        for statement in statements or (_UNREAD,):
            states = merge([after for before in states for after in self._one(run, statement, before)])
        return states

    def _together(self, run: _Run, statements: tuple[Statement, ...], begun: State) -> list[State]:
        """Several statements in one message share a transaction, though none was begun; a BEGIN among them makes it
        one that outlives the message."""
        key, call = run.key, run.call
        states, lasts = [begun], False
        for statement in statements:
            earlier = len(call.flow.raises)
            states = merge([after for before in states for after in self._one(run, statement, before)])
            if not lasts:
                failed = call.flow.raises[earlier:]
                call.flow.raises[earlier:] = [(self._undone(key, after, call), raised) for after, raised in failed]
            lasts = statement.kind is Kind.BEGIN or (lasts and statement.kind not in (Kind.COMMIT, Kind.ROLLBACK))
        if lasts:
            return states
        return [
            self.database.endings.end(key, after, "commit", "the end of the message", call.place, call.frame)
            for after in states
        ]

    def _undone(self, key: Key, failed: State, call: Invocation) -> State:
        """One statement of a message has failed: all of them are rolled back, and no transaction is left."""
        if self.database.state_of(key, failed).status is not Status.ABORTED:
            return failed
        return self.database.endings.end(key, failed, "rollback", "the failure", call.place, call.frame)

    def _one(self, run: _Run, statement: Statement, state: State) -> list[State]:
        """One statement: the driver begins a transaction where it does, then the server runs it."""
        key = run.key
        connection = self.database.state_of(key, state)
        place = self.walker.program.place_in(run.text.origins, statement.span) or run.place
        if connection.status is Status.CLOSED:
            return [state]
        driver = drivers.by_name(connection.driver)
        autocommit = _autocommit(driver, connection)
        begins = driver is not None and driver.begins_by_itself and autocommit is not Autocommit.ON
        begins = begins and not connection.misled
        if begins and connection.is_barred_by_text:
            return self._raises(run, state)
        connection = _begun(connection, autocommit, place) if begins else connection
        own = driver is not None and driver.own_transactions
        if own and not self.database.sessions.commits_writes(key, connection):
            connection = replace(connection, under_way=True)
        before = connection
        self._define(run, statement)
        state = self._given_to_role(run, statement, state, place)
        after, settings, done = self.effects.of(statement, before, run.bindings, lambda span: self._place(run, span))
        if before.status is Status.ABORTED and statement.kind not in _ENDS:
            self._see(run, statement, place, state, before, before, settings, done)
            return self._fails(run, state, _cleanup_lost(before, settings), place)
        if after is None:
            # The server always refuses it: DISCARD ALL in a transaction.
            self._see(run, statement, place, state, before, before, settings)
            return self._fails(run, state, before, place)
        work = self._is_work(run, statement, state, done.marks)
        if _only_cleans(statement, settings):
            self._breaks(run, state, before, place)
        else:
            # Work that fails has been begun all the same.
            begun = work and before.in_transaction and before.pending
            tried = before.marked(Mark(Deed.WORK, place)) if begun else before
            tried = replace(tried, aborted_by_books=_keeps_books(done.steps))
            self._fails(run, state.with_job(state.job.begun()) if work else state, tried, place)
        if begins and driver is not None and after.status is Status.IDLE:
            after = replace(after, misled=connection.blind or not driver.watches_status)
        by_text = autocommit is Autocommit.ON and after.in_transaction and not before.in_transaction
        after = replace(after, begun_by_text=True) if by_text and after.refuses_begun else after
        after = self._marked(run, statement, before, after, done.marks, place, state.job)
        if work and after.in_transaction and (after.pending or state.job.claims):
            after = after.marked(Mark(Deed.WORK, place))
        state = self._told(run, state, before, statement, place, settings)
        state = self._guarded(run, statement, before, done.steps, place, state)
        state = self._job_of(state, before, after, done.marks, work)
        state = state.connect(key, after)
        if before.in_transaction and not after.in_transaction:
            how = statement.kind.value if statement.kind in (Kind.COMMIT, Kind.ROLLBACK) else "commit"
            state = self._ended(run, state, before, after, how, place)
        state = self._see(run, statement, place, state, before, after, settings, done)
        refused = before.status is Status.ABORTED and statement.kind in _COMMITS
        if refused and driver is not None and driver.commit_raises:
            self.database.endings.refuse(driver, run.call.at(state))
            return []
        return [state]

    def _raises(self, run: _Run, state: State) -> list[State]:
        """The statement raises, and leaves this state: no other goes on."""
        raised = self.walker.raised("sql", None, run.call.span, run.call.frame)
        run.call.flow.raises.append((self.walker.failed(state, raised), raised))
        return []

    def _fails(self, run: _Run, state: State, before: ConnectionState, place: Place) -> list[State]:
        """The edge of the statement that fails: it aborts the transaction it runs in."""
        return self._raises(run, state.connect(run.key, change.abort(before, place)))

    def _breaks(self, run: _Run, state: State, before: ConnectionState, place: Place) -> None:
        """The edge of a statement that can only fail with its connection, which then has no next user."""
        after = change.rollback(before, place)
        job = state.job.with_undone(after.undone)
        self._raises(run, self.database.endings.closed(run.key, state.connect(run.key, after).with_job(job)))

    def _ended(
        self, run: _Run, state: State, before: ConnectionState, after: ConnectionState, how: str, place: Place
    ) -> State:
        committed = how == "commit" and before.status is not Status.ABORTED
        job = (
            state.job.with_kept(before.pending, place, run.call.frame.calls)
            if committed
            else state.job.with_undone(before.pending)
        )
        event = Ended(place, run.key, how, how.upper(), before, after, run.call.frame.symbol)
        return self.walker.see(event, state.with_job(job))

    # Jobs

    def _is_work(self, run: _Run, statement: Statement, state: State, marks: tuple[Mark, ...]) -> bool:
        """Whether a statement does a job's work, which may fail because of the job: it is no step of the queue itself.

        Neither is what only notes something in the queue's own table, tells others, or knows nothing of the job.
        """
        if marks or not _touches(statement) or _only_notifies(statement):
            return False
        tables = self.tables(run, statement)
        if tables and UNNAMED not in tables and {claim.table for claim in state.job.claims}.issuperset(tables):
            return False
        given = (run.parameters, run.text)
        return not _has_parameters(run.parameters) or any(from_row(value) for value in given)

    def _marked(
        self,
        run: _Run,
        statement: Statement,
        before: ConnectionState,
        after: ConnectionState,
        marks: tuple[Mark, ...],
        place: Place,
        job: Job,
    ) -> ConnectionState:
        """The connection with what the statement did for the queue, pending while its transaction is."""
        claimed = any(mark.deed is Deed.CLAIM for mark in marks) or self._reads_claimed(run, statement, job)
        touches = _touches(statement)
        tables = self.tables(run, statement)
        # One that asks at once for what it sets only tries whether that can be set.
        tries = bool(statement.settings and statement.setting_reads)
        after = replace(
            after,
            fetches_claim=claimed if touches else before.fetches_claim,
            fetches_setting=_asked(statement),
            touched=before.touched or touches or tries or bool(tables) or not statement.parsed,
        )
        if tables and any(setting.current.is_value and self._is_tenant(setting.name) for setting in before.settings):
            after = replace(after, tenant_tables=before.tenant_tables.union(tables))
        if not after.in_transaction and after.status is not Status.UNKNOWN:
            return after
        known = frozenset(mark.table for mark in (*job.looked, *job.claims))
        marks = marks or tuple(marks_beside(self.walker, statement, after, tables, place, run.call.frame, known))
        if not after.in_transaction:
            for mark in locks_among(marks):
                after = after.marked(mark)
            return after
        for mark in marks:
            after = after.marked(mark)
        if touches or statement.kind in _WRITES:
            after = change.hold(after, self._writes(statement), place, run.call.frame.calls)
        return after

    def _reads_claimed(self, run: _Run, statement: Statement, job: Job) -> bool:
        """Whether a query fetches what an UPDATE without RETURNING has claimed: by its id, or by who has it now."""
        leased = {claim.table for claim in job.claims if claim.how == "lease"}
        if not leased or statement.kind is not Kind.SELECT or len(statement.queries) != 1:
            return False
        query = statement.queries[0]
        named = names_one(query) or any(is_token(column) for column in named_from_outside(query.conditions))
        return named and not leased.isdisjoint(self.tables(run, statement))

    def _writes(self, statement: Statement, deep: int = 4) -> bool:
        """Whether a statement writes or locks rows, itself or through SQL functions that it calls."""
        if statement.kind in _WRITES or statement.writes or any(query.lock for query in statement.queries):
            return True
        if any(self._writes(inner) for inner in statement.body):
            return True
        called = (self.walker.program.catalogue.function(call.name) for call in statement.calls) if deep else ()
        return any(
            self._writes(inner, deep - 1) for found in called if found is not None for inner in found.function.body
        )

    def _job_of(
        self, state: State, before: ConnectionState, after: ConnectionState, marks: tuple[Mark, ...], work: bool
    ) -> State:
        job = state.job
        claims = tuple(mark for mark in marks if mark.deed is Deed.CLAIM)
        if claims:
            job = replace(job.anew(), claims=claims)
        elif work and job.claims:
            job = job.begun()
        if not after.in_transaction and not before.in_transaction:
            job = job.with_kept(marks)
        return state.with_job(job)

    def _guarded(
        self,
        run: _Run,
        statement: Statement,
        before: ConnectionState,
        steps: tuple[Step, ...],
        place: Place,
        state: State,
    ) -> State:
        """What is told where a job is taken, or done, that nothing kept from other workers."""
        asked = bool(state.job.looked) and (any(locked_and_asked(statement)) or any(flags(statement)))
        told = bool(steps) or asked or guards(statement)
        if not told and (state.job.freed is None or not any(moves(statement))):
            return state
        pending = tuple(mark for connection in state.connections.values() for mark in connection.pending)
        frame = run.call.frame
        answered = run.call.span != self.walker.for_effect or _looks_at_answer(frame)
        seen = Seen(statement, steps, place, run.call.place, frame.symbol, before, answered)
        job, shown = judge(state.job, seen, pending)
        state = state.with_job(job)
        return self.walker.see(shown, state) if shown is not None else state

    # What is told of it

    def _define(self, run: _Run, statement: Statement) -> None:
        """A statement that defines something adds to what the program knows, wherever it is run from."""
        defines = statement.policy or statement.row_security or statement.function or statement.shape or statement.role
        if defines or statement.dropped:
            self.walker.program.catalogue.add(statement, lambda span: self._place(run, span))

    def _given_to_role(self, run: _Run, statement: Statement, state: State, place: Place) -> State:
        if statement.role is None or not statement.role.name:
            return state
        for changed in statement.role.settings:
            setting = self.effects.setting(changed, run.bindings, lambda span: self._place(run, span))
            role = run.bindings.name(statement.role.name)
            state = self.walker.see(GivenToRole(place, role, setting, run.call.frame.symbol), state)
        return state

    def _place(self, run: _Run, span: Span) -> Place:
        return self.walker.program.place_in(run.text.origins, span) or run.place

    def _told(
        self,
        run: _Run,
        state: State,
        before: ConnectionState,
        statement: Statement,
        place: Place,
        settings: tuple[SettingSet, ...],
    ) -> State:
        """The events that a statement is a witness of: a tenant inherited, outlived, or left on another connection."""
        if statement.kind not in _QUERIES and statement.kind is not Kind.CALL:
            return state
        if _only_asks(statement) or _only_sets(statement):
            return state
        renewed = {setting.name for setting in settings}
        symbol = run.call.frame.symbol
        for setting in before.settings:
            if setting.name in renewed or (setting.name == "search_path" and not _goes_by_path(statement)):
                continue
            current = setting.current
            if current.is_value and current.inherited:
                state = self.walker.see(Inherited(place, before, setting, symbol), state)
            if current.is_value and current.handed_up:
                state = self.walker.see(Outlived(place, run.key, setting.name, current, symbol), state)
        return self._stranded(run, state, before, statement, place, settings)

    def _stranded(
        self,
        run: _Run,
        state: State,
        before: ConnectionState,
        statement: Statement,
        place: Place,
        settings: tuple[SettingSet, ...],
    ) -> State:
        job = state.job
        if job.stranded is None or settings:
            return state
        tenant = any(setting.current.is_value for setting in before.settings if self._is_tenant(setting.name))
        tables = self.tables(run, statement)
        if tenant or not tables:
            return state.with_job(replace(job, stranded=None))
        known = tuple(table for table in tables if self.walker.program.catalogue.holds_tenants(table))
        sure = before.sure if known else min(before.sure, Confidence.MEDIUM)
        event = Stranded(place, *job.stranded, known or tables, sure, run.call.frame.symbol)
        return self.walker.see(event, state.with_job(replace(job, stranded=None)))

    def _is_tenant(self, name: str) -> bool:
        return self.walker.program.catalogue.is_tenant(name) is not None

    @staticmethod
    def tables(run: _Run, statement: Statement) -> tuple[str, ...]:
        """The bare names of the tables that a statement reads or writes."""
        return tuple(dict.fromkeys(run.bindings.name(table.name) for table in (*statement.reads, *statement.writes)))

    def _see(
        self,
        run: _Run,
        statement: Statement,
        place: Place,
        state: State,
        before: ConnectionState,
        after: ConnectionState,
        settings: tuple[SettingSet, ...],
        done: Done = NOTHING_DONE,
    ) -> State:
        call = run.call
        event = Ran(
            place,
            call.place,
            run.key,
            before,
            after,
            statement,
            statement.text or run.text.value,
            settings,
            bound_on_server=run.bound_on_server,
            symbol=call.frame.symbol,
            tables=self.tables(run, statement),
            marks=done.marks,
            steps=done.steps,
            step_places=done.places,
            ignored=call.span == self.walker.for_effect,
            through=call.frame.calls,
            caller=call.frame.stack[-2].qualname if len(call.frame.stack) > 1 else "",
        )
        told = tenantless(self.walker, event, state)
        return self.walker.see(event, state if told is None else self.walker.see(told, state))


def _looks_at_answer(frame: Frame) -> bool:
    """Whether the function asks how many rows a statement has changed."""
    return frame.function is not None and not ANSWERS.isdisjoint(frame.function.words.names)


def _touches(statement: Statement) -> bool:
    """Whether a statement works on rows, and does not only set a setting or end a transaction."""
    reads = statement.kind in _QUERIES or statement.kind in (Kind.OTHER, Kind.CALL, Kind.COPY)
    return reads and (bool(statement.reads or statement.writes or statement.calls) or not statement.settings)


def _only_notifies(statement: Statement) -> bool:
    """Whether a statement does nothing but NOTIFY, through the function of that purpose."""
    return any(call.name == "pg_notify" for call in statement.calls) and not statement.reads and not statement.writes


def _only_asks(statement: Statement) -> bool:
    """Whether a statement only asks what a setting holds: `SELECT current_setting('app.tenant', true)`."""
    if not statement.setting_reads or statement.settings or statement.reads or statement.writes:
        return False
    return {call.name for call in statement.calls} <= {"current_setting"}


def _only_sets(statement: Statement) -> bool:
    """Whether a statement only sets something: it reaches no row as whoever the session still is."""
    if not statement.settings or statement.reads or statement.writes:
        return False
    return {call.name for call in statement.calls} <= {"set_config", "current_setting"}


def _asked(statement: Statement) -> str:
    """The setting that a statement only asks for; empty for all others."""
    names = {read.name.text.lower() for read in statement.setting_reads} if _only_asks(statement) else set()
    return names.pop() if len(names) == 1 else ""


def _goes_by_path(statement: Statement) -> bool:
    """Whether search_path tells what a statement means: it names something that is in no schema of its own."""
    tables = (*statement.reads, *statement.writes)
    own = [table for table in tables if not table.schema and not table.name.startswith("pg_")]
    return bool(own) or statement.kind is Kind.CALL


def _keeps_books(steps: tuple[Step, ...]) -> bool:
    """Whether a statement marks a job by its id, as taken, tried or done, and does nothing else."""
    return bool(steps) and all(step.kind in _BOOKS and step.by_id for step in steps)


def _only_cleans(statement: Statement, settings: tuple[SettingSet, ...]) -> bool:
    """Whether a statement clears settings and does nothing else."""
    return (
        bool(settings) and all(setting.clears for setting in settings) and not statement.reads and not statement.writes
    )


def _cleanup_lost(connection: ConnectionState, settings: tuple[SettingSet, ...]) -> ConnectionState:
    """A cleanup that the aborted transaction refuses, while the session holds what it was to clear."""
    for cleared in settings:
        setting = connection.setting(cleared.name)
        if cleared.clears and setting.kept.is_value:
            lost = LostCleanup(cleared.place, connection.aborted_at, refused=True)
            connection = connection.with_setting(replace(setting, lost_cleanup=lost))
    return connection


class _Run:
    """One execute(): what it runs, on what, with what."""

    def __init__(
        self, key: Key, text: Text, parameters: Value, bound_on_server: bool, call: Invocation, at: Place | None
    ) -> None:
        self.key = key
        self.text = text
        self.parameters = parameters
        self.bindings = Bindings(text, parameters)
        self.bound_on_server = bound_on_server
        self.call = call
        self.place = at or call.place


def _is_awaited(call: Invocation) -> bool:
    """Whether the code waits for what a call gives."""
    return call.frame.function is not None and call.span in call.frame.function.awaited


def _begun(connection: ConnectionState, autocommit: Autocommit, place: Place) -> ConnectionState:
    """The connection where its driver has begun a transaction for a statement, or may have."""
    if autocommit is Autocommit.UNKNOWN and connection.status is Status.IDLE:
        return replace(connection, status=Status.UNKNOWN)
    if autocommit is Autocommit.OFF and connection.status in (Status.IDLE, Status.UNKNOWN):
        return change.begin(replace(connection, status=Status.IDLE), place)
    return connection


def _autocommit(driver: Driver | None, connection: ConnectionState) -> Autocommit:
    """Whether a statement runs in autocommit: in the block of a driver that begins transactions there, never."""
    inside = driver is not None and driver.block_begins and connection.blocks > 0
    return Autocommit.OFF if inside else connection.autocommit


def _has_parameters(parameters: Value) -> bool:
    """Whether parameters are passed: `execute(sql)` and `execute(sql, None)` send none."""
    if isinstance(parameters, Items):
        return bool(parameters.items) or parameters.open
    if isinstance(parameters, Mapping):
        return bool(parameters.pairs) or parameters.open
    return parameters != NONE and not isinstance(parameters, Literal)
