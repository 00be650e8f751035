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
    from collections.abc import Iterator

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
        names = list(self._names())
        within = {name for one in names for name in self._calls(one)}
        for name in sorted(names, key=within.__contains__):
            if name not in self.walker.database.statements.effects.entered and name not in self._called:
                self._called.add(name)
                self._call(name)

    def _read_drops(self) -> None:
        """Read the migrations that only drop functions, where functions stand in migrations."""
        program = self.walker.program
        found = (program.catalogue.function(name) for name in program.catalogue.functions)
        if self._read or not any(one is not None and one.is_step for one in found):
            return
        from auditor.search import search

        self._read = True
        files = [file for file in program.inventory.files if file.language == "sql" and not program.has_read(file)]
        for file in search(files, [rb"\bdrop\s+(?:function|procedure|routine)\b"]) if files else ():
            program.load_sql(file)

    def _is_named(self, name: str) -> bool:
        """Whether a module, of whatever is no test, has the name of a function in it."""
        return any(name.encode() in module.data.lower() for module in self.walker.program.modules if not module.test)

    def _names(self) -> Iterator[str]:
        """The names of those that stand where the program does, and work on a queue by themselves."""
        catalogue, inventory = self.walker.program.catalogue, self.walker.program.inventory
        tests = frozenset() if self.walker.program.config.include_tests else inventory.of_role(Role.TEST)
        fired = self._fired()
        for name in catalogue.functions:
            found = catalogue.function(name)
            if found is None or found.path in tests or name in fired or name in catalogue.gone:
                continue
            if is_dropped(found.place, catalogue.drops.get(name, ())):
                continue
            if any(self.walker.program.queue_steps(inner) for inner in self.walker.program.body_of(found.function)):
                yield name

    def _fired(self) -> set[str]:
        """The names of those that a trigger runs, with what these call."""
        catalogue = self.walker.program.catalogue
        fired = {name for name in catalogue.functions if self._fires(name)}
        for _ in range(_DEEPEST):
            fired |= {name for one in fired for name in self._calls(one)}
        return fired

    def _fires(self, name: str) -> bool:
        found = self.walker.program.catalogue.function(name)
        return found is not None and found.function.fires

    def _calls(self, name: str) -> set[str]:
        """The names of the functions that a function calls, but for itself."""
        found = self.walker.program.catalogue.function(name)
        body = found.function.body if found is not None else ()
        return {call.name.lower() for inner in body for call in inner.calls} - {name}

    def _call(self, name: str) -> None:
        found = self.walker.program.catalogue.function(name)
        if found is None:
            return
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
                alone=not self._is_named(name),
            )
            self.walker.events.setdefault(event)


def _calling(found: SqlFunction) -> Statement:
    """SELECT function()."""
    call = Call(found.function.name, found.function.schema, (), Span(0, 0))
    return Statement(Kind.SELECT, Span(0, 0), calls=(call,), text=f"SELECT {found.function.name}()")
