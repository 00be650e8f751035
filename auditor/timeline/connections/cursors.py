"""What is run on a connection or a cursor, and what is fetched from it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.findings import Confidence
from auditor.timeline.computing.texts import fill
from auditor.timeline.mappers import orm
from auditor.timeline.model.connection import Status
from auditor.timeline.model.state import State, merge
from auditor.timeline.model.values import (
    NONE,
    UNKNOWN,
    Built,
    Clause,
    Cursor,
    Items,
    Key,
    Mapping,
    Row,
    Template,
    Text,
    Unknown,
    Value,
    key_of,
    options_of,
)

if TYPE_CHECKING:
    from auditor.timeline.connections.database import Database
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

#: The names under which parameters are passed, and those of a statement whose parameters have names of their own.
_PARAMETERS = ("params", "vars", "params_seq", "vars_list", "argslist", "values", "args")
_OF_RUN = frozenset({"sql", "stream", "types"})


class Cursors:
    """Hands statements on, one for each text that may be meant, and knows what their rows are."""

    def __init__(self, walker: Walker, database: Database) -> None:
        self.walker = walker
        self.database = database

    def execute(self, receiver: Value, call: Invocation) -> Results:
        key = key_of(receiver)
        query, parameters = self._given_to(receiver, key, call)
        client = isinstance(receiver, Cursor) and receiver.client
        if self.database.state_of(key, call.state).barred:
            return self.database.sessions.refused(self.database.driver_of(key, call.state), call)
        states: list[State] = []
        for flushed in self.walker.mapper.flush(key, call):
            for begun in self.database.sessions.begins(key, call.at(flushed)):
                states.extend(self._executed(key, query, parameters, client, call.at(begun)))
        result: Value = receiver if isinstance(receiver, Cursor) else Cursor(key)
        built = [option for option in options_of(query) if isinstance(option, Built)]
        # Of what some condition adds to a statement, such as a lock, its rows are of the same table.
        if built and len({option.table for option in built}) == 1:
            result = Cursor(key, query=next((option for option in built if option.lock), built[0]))
        return [(after, result) for after in merge(states)]

    def _given_to(self, receiver: Value, key: Key, call: Invocation) -> tuple[Value, Value]:
        """The statement that is run, and its parameters."""
        if isinstance(receiver, Cursor) and receiver.prepared is not None:
            return receiver.prepared, Items("tuple", call.positional)
        query = call.argument(0, "query", "sql", "operation", "statement")
        driver = self.database.driver_of(key, call.state)
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
                driver = self.database.driver_of(key, call.state)
                text, values = fill(text, driver.template_formats if driver is not None else {})
                given = Items("tuple", values)
            elif isinstance(option, (Built, Clause)):
                call = self._less_sure(key, option, call)
                text = orm.sent(option)
                given = option.with_parameters(parameters) if isinstance(option, Clause) else parameters
            ran = self.database.statements.execute(key, text, given, client, call)
            states.extend(self._committed(key, text, after, call) for after in ran)
        return states

    def _committed(self, key: Key, text: Value, state: State, call: Invocation) -> State:
        """The state after a statement that its library commits by itself, as it does with what looks like a write."""
        connection = self.database.state_of(key, state)
        if not self.database.sessions.commits_writes(key, connection) or connection.status is not Status.OPEN:
            return state
        driver = drivers.by_name(connection.driver)
        after = driver.commits_after if driver is not None else ()
        if not isinstance(text, Text) or not text.value.lstrip().upper().startswith(after):
            return state
        by = "the library's own autocommit"
        return self.database.endings.end(key, state, "commit", by, call.place, call.frame)

    def _less_sure(self, key: Key, query: Built | Clause, call: Invocation) -> Invocation:
        """The same call, with less certainty where a library that is not read made the statement."""
        if not (isinstance(query, Clause) and query.unread):
            return call
        connection = self.database.state_of(key, call.state)
        return call.at(call.state.connect(key, replace(connection, sure=min(connection.sure, Confidence.MEDIUM))))

    def execute_one(self, receiver: Value, call: Invocation) -> Results:
        return [way for after, result in self.execute(receiver, call) for way in self.fetch_one(result, call.at(after))]

    def execute_all(self, receiver: Value, call: Invocation) -> Results:
        return [
            way for after, result in self.execute(receiver, call) for way in self.fetch_many(result, call.at(after))
        ]

    def prepare(self, receiver: Value, call: Invocation) -> Results:
        return [(call.state, Cursor(key_of(receiver), prepared=call.argument(0, "query")))]

    def run(self, receiver: Value, call: Invocation) -> Results:
        """run_sync(function, …): the function is given the thing itself first."""
        passed = call.passing(receiver, *call.positional[1:], named=call.named)
        return list(self.walker.calls.apply(call.argument(0), passed))

    def call_procedure(self, receiver: Value, call: Invocation) -> Results:
        name = call.argument(0, "procname")
        if not isinstance(name, Text) or name.holes:
            return self.execute(receiver, call.passing(UNKNOWN))
        return self.execute(receiver, call.passing(replace(name, value=f"SELECT {name.value}()", origins=())))

    def cursor(self, receiver: Value, call: Invocation) -> Results:
        key = key_of(receiver)
        connection = self.database.state_of(key, call.state)
        driver = drivers.by_name(connection.driver)
        factory = call.argument(-1, "cursor_factory", default=NONE)
        client = connection.client_cursors or (
            driver is not None and self.database.connecting.binds_in_client(driver, factory)
        )
        return [(call.state, Cursor(key, client))]

    def fetch_one(self, receiver: Value, call: Invocation) -> Results:
        return [(call.state, self.fetched(receiver, call.state, many=False))]

    def fetch_many(self, receiver: Value, call: Invocation) -> Results:
        return [(call.state, self.fetched(receiver, call.state, many=True))]

    def fetched(self, receiver: Value, state: State, many: bool) -> Value:
        """What is fetched after a statement: the job that it claimed, the object that a mapper makes of a row."""
        key = key_of(receiver)
        connection = self.database.state_of(key, state)
        query = receiver.query if isinstance(receiver, Cursor) else None
        table = query.table if query is not None and query.entities else ""
        if connection.fetches_claim or table:
            return Row(key, many, table=table, claimed=connection.fetches_claim)
        return UNKNOWN if many else Unknown(setting=connection.fetches_setting)
