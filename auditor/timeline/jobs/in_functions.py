"""What SQL functions do to a queue, whoever calls them: where they hold attempts against a maximum, and who calls them.

A PL/pgSQL function does so in an IF of its own, which is no part of any statement.
"""

from __future__ import annotations

import enum
from functools import cached_property
from typing import TYPE_CHECKING

from auditor.sql.meaning import Kind, TermKind
from auditor.sql.queue import StepKind
from auditor.sql.queue_view import assigned, compared, fence_of, names_one
from auditor.sql.words import is_attempts, is_bare_token, is_status, is_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.program.catalogue import SqlFunction
    from auditor.program.code import ModuleInfo
    from auditor.program.program import Program
    from auditor.sql.meaning import Function, Query, Statement
    from auditor.sql.queue import Step

#: What comes from a function's caller.
_TOLD = (TermKind.PARAMETER, TermKind.HOLE)
_ENDS = (StepKind.FINISH, StepKind.FAIL, StepKind.REQUEUE, StepKind.BURY, StepKind.EXTEND)


class Bound(enum.Enum):
    """When a job that has been tried too often is stopped."""

    NONE = enum.auto()
    ON_FAILURE = enum.auto()  #: only by the code that handles a failure, which a crash skips
    ALWAYS = enum.auto()


def proven(steps: tuple[Step, ...], function: Function, body: Iterable[Statement]) -> tuple[Step, ...]:
    """The steps of a function, where it asks by itself whether the job that it ends is still its caller's.

    It does so in an IF, or in a query of the same job before. An IF that compares what claims renew asks that, too,
    whatever the column is called.
    """
    asks = tuple(name for name in function.asks if not (function.looks_at_attempts and is_attempts(name)))
    asked = next((name for name in asks if is_token(name) or is_bare_token(name) or is_attempts(name)), "")
    before = [query for one in body for query in one.queries if query.verb in (Kind.SELECT, Kind.UPDATE)]
    before = [query for query in before if query.target is not None and names_one(query)]
    fences = {query.target.name: fence_of(query) for query in before if query.target is not None and fence_of(query)}
    asks += tuple(column for query in before if query.verb is Kind.SELECT for column in compared(query))
    return tuple(
        step._replace(fence=step.fence or fences.get(step.table, asked), compares=(*step.compares, *asks))
        if step.by_id and step.kind in _ENDS
        else step
        for step in steps
    )


class InFunctions:
    """Tells of the SQL functions of a program, each as it was defined last."""

    def __init__(self, program: Program) -> None:
        self._program = program

    @cached_property
    def _by_table(self) -> dict[str, dict[str, list[Query]]]:
        """For each table the functions that have queries of it, with these."""
        found: dict[str, dict[str, list[Query]]] = {}
        for name, function in self._program.catalogue.defined():
            for query in self._queries(function):
                if query.target is not None:
                    found.setdefault(query.target.name, {}).setdefault(name, []).append(query)
        return found

    def _queries(self, function: SqlFunction) -> Iterator[Query]:
        for statement in self._program.body_of(function.function):
            yield from statement.queries

    @cached_property
    def _callers(self) -> dict[str, set[str]]:
        """The functions that call each function."""
        callers: dict[str, set[str]] = {}
        for name, function in self._program.catalogue.defined():
            for called in function.calls:
                callers.setdefault(called, set()).add(name)
        return callers

    def touch(self, table: str) -> bool:
        """Whether any of them has to do with a table."""
        return table in self._by_table

    def gives_up(self, table: str) -> bool:
        """Whether one that is told of a job's failure holds its attempts against a maximum."""
        named = map(self._program.catalogue.function, self._by_table.get(table, ()))
        return any(found is not None and found.function.looks_at_attempts for found in named)

    def bound_of(self, table: str) -> Bound:
        """Where those that work on a table hold attempts against a maximum."""
        functions = self._by_table.get(table, {})
        bound = Bound.NONE
        for name, queries in functions.items():
            found = self._program.catalogue.function(name)
            if found is None or not (found.function.looks_at_attempts or any(map(_ends_as_told, queries))):
                continue
            if found.function.looks_at_attempts and self._looks_at_many(name, table):
                return Bound.ALWAYS
            bound = Bound.ON_FAILURE
        return bound

    def _looks_at_many(self, name: str, table: str) -> bool:
        """Whether a function, or one that calls it, looks for jobs that nobody has told it of."""
        functions = self._by_table.get(table, {})
        around = {name, *self._callers.get(name, ())}
        return any(
            query.verb is not Kind.INSERT and not names_one(query) for one in around for query in functions.get(one, ())
        )

    def comparing(self, table: str, workers: Iterable[str]) -> Iterator[str]:
        """The Python functions that compare attempts and may have to do with a table that SQL functions work on.

        They stand in a module that names the table, such a function or one of the `workers` that call them; or such a
        module imports theirs.
        """
        words = {word.encode() for word in (table, *self._by_table.get(table, {}), *workers) if word}
        modules = [module for module in self._program.modules if not module.test]
        naming = [module for module in modules if any(word in module.data for word in words)]
        near = {module.name for module in naming} | {name for module in naming for name in _imported(module)}
        for module in modules:
            if module.name in near:
                yield from module.comparing_attempts


def _imported(module: ModuleInfo) -> Iterator[str]:
    for part in module.imports:
        yield part.loads if not part.level else module.absolute(part)
        if part.attribute is not None:
            yield f"{module.absolute(part)}.{part.attribute}"


def _ends_as_told(query: Query) -> bool:
    """Whether a query gives one job the state that its caller tells, which may be a final one."""
    return query.verb is Kind.UPDATE and names_one(query) and bool(assigned(query, is_status, *_TOLD))
