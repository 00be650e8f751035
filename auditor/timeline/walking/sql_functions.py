"""SQL functions that nothing in the program is seen to call: workers in other languages call them, psql, a gateway.

What they do to a queue holds whoever calls them: which jobs are taken, and taken again, and who may end them. On what
connection they are called, and what else is done in its transaction, is not known, so nothing is told of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.files import Role
from auditor.findings import Confidence
from auditor.program.migrations import is_dropped
from auditor.sql.meaning import Call, Kind, Span, Statement
from auditor.timeline.computing.bindings import Bindings
from auditor.timeline.model.connection import Autocommit, ConnectionState, Life, Status
from auditor.timeline.model.events import Ran
from auditor.timeline.model.values import UNKNOWN, Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.program.catalogue import SqlFunction
    from auditor.timeline.walking.walker import Walker

#: So many calls deep is a trigger followed.
_DEEPEST = 6


class SqlFunctions:
    """Calls them, each on a connection of which nothing is known, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._called: set[str] = set()
        self._read = False

    def call(self) -> None:
        """Call those that the walk has not run until then, those first that none of the others calls."""
        self._read_drops()
        working = dict(self._working())
        within = {called for name, found in working.items() for called in found.calls if called != name}
        entered = self.walker.database.statements.effects.entered
        left = [name for name in sorted(working, key=within.__contains__) if name not in self._called]
        named = self._named_among(name for name in left if name not in entered)
        for name in left:
            if name not in entered:
                self._called.add(name)
                self._call(name, working[name], alone=name not in named)

    def _read_drops(self) -> None:
        """Read the migrations that only drop functions, where functions stand in migrations."""
        program = self.walker.program
        if self._read or not any(found.is_step for _, found in program.catalogue.defined()):
            return
        from auditor.search import search

        self._read = True
        files = [file for file in program.inventory.files if file.language == "sql" and not program.has_read(file)]
        for file in search(files, [rb"\bdrop\s+(?:function|procedure|routine)\b"]) if files else ():
            program.load_sql(file)

    def _named_among(self, names: Iterable[str]) -> set[str]:
        """Those of some names that a module has in it which is no test."""
        missing = set(names)
        named: set[str] = set()
        for module in self.walker.program.modules if missing else ():
            if not module.test:
                data = module.data.lower()
                named |= {name for name in missing if name.encode() in data}
                missing -= named
        return named

    def _working(self) -> Iterator[tuple[str, SqlFunction]]:
        """Those that stand where the program does, and work on a queue by themselves, by their names."""
        catalogue, inventory = self.walker.program.catalogue, self.walker.program.inventory
        tests = frozenset() if self.walker.program.config.include_tests else inventory.of_role(Role.TEST)
        fired = self._fired()
        for name, found in catalogue.defined():
            if found.path in tests or name in fired or name in catalogue.gone:
                continue
            if is_dropped(found.place, catalogue.drops.get(name, ())):
                continue
            if any(self.walker.program.queue_steps(inner) for inner in self.walker.program.body_of(found.function)):
                yield name, found

    def _fired(self) -> set[str]:
        """The names of those that a trigger runs, with what these call."""
        defined = dict(self.walker.program.catalogue.defined())
        fired = {name for name, found in defined.items() if found.function.fires}
        for _ in range(_DEEPEST):
            fired |= {called for name in fired & defined.keys() for called in defined[name].calls}
        return fired

    def _call(self, name: str, found: SqlFunction, alone: bool) -> None:
        key = self.walker.keys.of("called by nobody", name)
        before = ConnectionState(
            driver="",
            life=Life.GIVEN,
            sure=Confidence.MEDIUM,
            autocommit=Autocommit.UNKNOWN,
            status=Status.UNKNOWN,
        )
        statement = _calling(found)
        place = found.place
        _, _, done = self.walker.database.statements.effects.of(
            statement, before, Bindings(Text(""), UNKNOWN), lambda span: place
        )
        if done.steps:
            event = Ran(
                place,
                place,
                key,
                before,
                before,
                statement,
                statement.text,
                symbol=found.function.name,
                marks=done.marks,
                steps=done.steps,
                step_places=done.places,
                alone=alone,
            )
            self.walker.events.setdefault(event)


def _calling(found: SqlFunction) -> Statement:
    """SELECT function()."""
    call = Call(found.function.name, found.function.schema, (), Span(0, 0))
    return Statement(Kind.SELECT, Span(0, 0), calls=(call,), text=f"SELECT {found.function.name}()")
