"""Alembic's revisions, run one after the other: what the last of them leaves of tables, policies and roles.

Nothing else is told of them: a revision runs once, and nobody inherits its connection.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from auditor.drivers import alembic
from auditor.drivers.alembic import Operation
from auditor.program.history import History
from auditor.program.revisions import in_order, is_revision
from auditor.timeline.mappers import orm
from auditor.timeline.model.connection import ConnectionState, Life, Status
from auditor.timeline.model.invocation import Invocation
from auditor.timeline.model.state import Flow, TooMuchError
from auditor.timeline.model.values import NONE, Connection, External, Function, Made, Text, options_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.program.code import FunctionInfo, ModuleInfo
    from auditor.program.revisions import Revision
    from auditor.timeline.model.values import Key, Value
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

#: Expressions looked at for one revision, and for all of them together.
STEPS = 20_000
ALL_STEPS = 400_000


class Upgrades:
    """Runs revisions on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._left = ALL_STEPS
        #: Revisions are run just now.
        self.running = False
        #: Something that this revision runs is not known.
        self._unseen = False

    def run(self) -> None:
        """Run them all; the program's catalogue then holds what they leave."""
        program = self.walker.program
        for revisions in in_order(program.modules, program.inventory.files):
            history = History(program.config.tenant_settings)
            known = {path for one in revisions if (path := self._upgraded(one, history)) is not None}
            program.catalogue.take_over(history, lambda place, k=known, h=history: place.path in k or place in h.ran)  # type: ignore[misc]

    def _upgraded(self, revision: Revision, history: History) -> str | None:
        """Run a revision; its file, when all that it runs is known."""
        program = self.walker.program
        if not (revision.matters or program.has_read(revision.file)):
            return None
        module = program.load(revision.file)
        if module is None or not is_revision(module):
            return None
        upgrade = next(one for one in module.functions() if one.node.name == alembic.UPGRADE and not one.nested)
        self._unseen = False
        catalogue, program.catalogue = program.catalogue, history
        try:
            with self._apart():
                self._walk(upgrade, module)
        except (TooMuchError, RecursionError):
            self._unseen = True
        finally:
            program.catalogue = catalogue
        return None if self._unseen else module.path

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """What is walked inside leaves no events, and takes nothing of what there is for others."""
        walker = self.walker
        if self._left <= 0:
            raise TooMuchError
        self.running = True
        try:
            with walker.within(min(STEPS, self._left)) as taken, walker.quietly():
                yield
        finally:
            self._left -= taken()
            self.running = False

    def _walk(self, upgrade: FunctionInfo, module: ModuleInfo) -> None:
        walker = self.walker
        frame = walker.names.module_frame(module)
        call = Invocation((), (), walker.names.start(), frame, Flow(), upgrade.node.name_span)
        walker.calls.apply(Function(upgrade, frame.key), call)

    # Operations

    def call(self, name: str, call: Invocation) -> Results | None:
        """An operation of a revision that is run; None for any other call."""
        operation = alembic.OPERATIONS.get(name) if self.running else None
        if operation is None:
            return None
        key, call = self._bind(call)
        if operation is Operation.BIND:
            return [(call.state, Connection(key))]
        if operation is Operation.SAME:
            return [(call.state, call.argument(0, "name"))]
        if operation is Operation.RUN:
            return self._run(key, call.argument(0, "sqltext"), call)
        return self._run(key, _definition(operation, call), call)

    def _bind(self, call: Invocation) -> tuple[Key, Invocation]:
        """The connection that the revision runs on."""
        key = self.walker.keys.of("migrated")
        if key in call.state.connections:
            return key, call
        connection = ConnectionState(
            driver=alembic.BELOW, life=Life.JOB, made=call.place, status=Status.OPEN, root=self.walker.root
        )
        return key, call.at(call.state.connect(key, connection))

    def _run(self, key: Key, query: Value | None, call: Invocation) -> Results:
        """Run a statement, each that it may be."""
        self.walker.database.used += 1
        if query is None:
            return [(call.state, NONE)]
        states = [call.state]
        for option in map(orm.sent, options_of(query)):
            if not isinstance(option, Text):
                self._unseen = True
                continue
            statements = self.walker.database.statements
            states = [then for at in states for then in statements.execute(key, option, NONE, True, call.at(at))]
        return [(state, NONE) for state in states or [call.state]]


def _definition(operation: Operation, call: Invocation) -> Text | None:
    """The statement that an operation on a table stands for."""
    table = _name(call.argument(0, "table_name", "old_table_name"))
    if table is None:
        return None
    if operation is Operation.DROP_TABLE:
        return Text(f"DROP TABLE {table}")
    if operation is Operation.RENAME_TABLE:
        renamed = _name(call.argument(1, "new_table_name"))
        return Text(f"ALTER TABLE {table} RENAME TO {renamed}") if renamed is not None else None
    given = call.positional[1:] or tuple(value for name, value in call.named if name == "column")
    columns = [column for value in given if (column := _column(value)) is not None]
    if operation is Operation.ADD_COLUMN:
        return Text(f"ALTER TABLE {table} ADD COLUMN {columns[0]}") if columns else None
    return Text(f"CREATE TABLE {table} ({', '.join(columns)})")


def _column(value: Value) -> str | None:
    """`sa.Column(name, type, …)` as SQL has it."""
    if not isinstance(value, Made) or value.name.rpartition(".")[2] != alembic.COLUMN:
        return None
    name, typed = _name(value.argument(0, "name") or NONE), value.argument(1, "type_")
    if name is None:
        return None
    made = typed.name.rpartition(".")[2] if isinstance(typed, (Made, External)) else "text"
    return f"{name} {alembic.TYPES.get(made, made.lower())}"


def _name(value: Value) -> str | None:
    """A name as it is written in SQL, where it is known."""
    if not isinstance(value, Text) or value.holes:
        return None
    return '"' + value.value.replace('"', '""') + '"'
