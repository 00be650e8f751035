"""The team's own queue, as the audit saw it: what a migration to the reference begins from."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from auditor.errors import UserError
from auditor.program.catalogue import TENANT_WORDS
from auditor.reference.write import Names
from auditor.sql import words
from auditor.sql.meaning import HOLE_OPEN, TermKind
from auditor.sql.queue import StepKind
from auditor.sql.queue_view import inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from auditor.program import Program
    from auditor.sql.meaning import Comparison, Query, Statement, Term
    from auditor.timeline import Timeline

#: What a tenant's type is called in the reference.
_TYPES = {
    "bigint": "bigint",
    "int8": "bigint",
    "bigserial": "bigint",
    "integer": "integer",
    "int": "integer",
    "int4": "integer",
    "serial": "integer",
    "smallint": "smallint",
    "int2": "smallint",
    "uuid": "uuid",
    "text": "text",
    "citext": "text",
}


@dataclass(frozen=True)
class SeenQueue:
    """A jobs table of the audited code."""

    table: str
    schema: str  #: empty where it is only named without one
    columns: Mapping[str, str]  #: every column that was seen, with its type where the tree creates the table
    created: bool  #: the tree creates the table, so that its columns are all known
    states: Mapping[str, tuple[str, ...]]  #: the words in its status column: of "queued", "running", "done", …
    claimed: tuple[str, ...]  #: those of them that claims ask for
    other_words: tuple[str, ...]  #: words there that no state is known for
    claims: frozenset[str]  #: how jobs are claimed: "row lock", "lease", "delete", "advisory lock"
    maximum: int | None  #: what its attempts are held against, where that is a number in the code
    tenant_column: str  #: empty where none was seen
    tenant_type: str
    setting: str  #: the tenant setting; empty where none was seen
    guarded: bool  #: under row security
    others: frozenset[str]  #: the other tables of the tree


def look(timeline: Timeline, table: str) -> SeenQueue:
    """All that is said of that jobs table."""
    program = timeline.program
    statements = list(_statements(timeline))
    queries = [query for query in _queries(statements) if _is_of(query, table)]
    steps = {id(each): [step for step in program.queue_steps(each) if step.table == table] for each in statements}
    claiming = [each for each in statements if any(step.kind is StepKind.CLAIM for step in steps[id(each)])]
    asked = [found for query in _queries(claiming) for found in query.conditions if words.is_status(found.column)]
    shape = program.catalogue.tables.get(table)
    columns = {name: typed for name, typed in shape.columns.items() if _is_name(name)} if shape is not None else {}
    created = bool(columns)
    for name in _columns(queries, table):
        columns.setdefault(name, "")
    tenant_column = _tenant_column(program, columns)
    schemas = Counter(query.target.schema for query in queries if query.target is not None and query.target.schema)
    return SeenQueue(
        table,
        next((name for name, _ in schemas.most_common(1)), ""),
        columns,
        created,
        _states(queries),
        _claimed(asked),
        _other_words(queries),
        frozenset(step.how for each in claiming for step in steps[id(each)] if step.how),
        _maximum(queries),
        tenant_column,
        _type_of(program, tenant_column, columns),
        _setting(timeline),
        bool(shape and shape.enabled),
        frozenset(program.catalogue.tables) - {table},
    )


def names(seen: SeenQueue) -> Names:
    """The team's names, and ours for what was not seen. A table that is named without a schema is in public."""
    ours = Names()
    return Names(
        seen.schema or "public",
        seen.table,
        seen.tenant_column or ours.column,
        seen.tenant_type or ours.type,
        seen.setting or ours.setting,
    )


def choose(timeline: Timeline, wanted: str | None) -> str:
    """The jobs table of that name, or the only one there is; a `UserError` where that leaves none or several."""
    tables = sorted(name for name in timeline.job_tables if HOLE_OPEN not in name)
    if wanted is not None and wanted not in tables:
        return _unclaimed(timeline, wanted, tables)
    if not tables:
        raise UserError("no statement there takes jobs out of a table; name the table with --jobs-table")
    if wanted is None and len(tables) > 1:
        raise UserError(f"jobs are taken out of several tables, {', '.join(tables)}; choose one with --jobs-table")
    return wanted or tables[0]


def _unclaimed(timeline: Timeline, wanted: str, tables: list[str]) -> str:
    if wanted not in timeline.program.catalogue.tables:
        told = f"; jobs are taken out of {', '.join(tables)}" if tables else ""
        raise UserError(f"--jobs-table {wanted!r}: there is no such table in the code{told}")
    return wanted


# Which statements


def _statements(timeline: Timeline) -> Iterator[Statement]:
    """Every statement of the tree, run or only defined, each once."""
    from auditor.timeline.model.events import Ran

    ran = (event.statement for event in timeline.of(Ran))
    found = (*ran, *(located.statement for located in timeline.program.catalogue.located))
    seen: set[int] = set()
    pending = list(reversed(found))
    while pending:
        statement = pending.pop()
        if id(statement) not in seen:
            seen.add(id(statement))
            yield statement
            pending.extend((*statement.body, *(statement.function.body if statement.function else ())))


def _queries(statements: Iterable[Statement]) -> Iterator[Query]:
    return (query for statement in statements for query in statement.queries)


def _is_of(query: Query, table: str) -> bool:
    return (query.target is not None and query.target.name == table) or [each.name for each in query.tables] == [table]


# What they say


def _columns(queries: Iterable[Query], table: str) -> Iterator[str]:
    """The columns that the statements name; nothing where several tables may have them."""
    for query in queries:
        if query.target is not None and query.target.name == table:
            yield from (made.column for made in query.assignments if _is_name(made.column))
        if {each.name for each in query.tables} | {query.target.name if query.target else table} != {table}:
            continue
        yield from (found.column for found in (*query.conditions, *query.cases) if _is_name(found.column))
        yield from (name for name in query.returning if _is_name(name))


def _is_name(name: str) -> bool:
    """Whether it is a column that can be written down again: what is made of it will be run."""
    return re.fullmatch(r"[A-Za-z_][\w $-]*", name) is not None


def _states(queries: Iterable[Query]) -> dict[str, tuple[str, ...]]:
    """The words for each state, the most usual first."""
    found: dict[str, dict[str, None]] = {}
    for query in queries:
        for word in (word for value in _of_status(query) for word in _words(value)):
            state = words.state_of(word)
            if state:
                found.setdefault("running" if state == "active" else state, {})[word] = None
    return {state: tuple(sorted(known, key=words.usual)) for state, known in found.items()}


def _claimed(conditions: Iterable[Comparison]) -> tuple[str, ...]:
    """The states that conditions ask for."""
    found = {word for each in conditions if each.operator in ("=", "in") for word in _words(each.value)}
    return tuple(sorted(filter(words.state_of, found), key=words.usual))


def _other_words(queries: Iterable[Query]) -> tuple[str, ...]:
    found = (word for query in queries for value in _of_status(query) for word in _words(value))
    return tuple(dict.fromkeys(word for word in found if not words.state_of(word)))


def _of_status(query: Query) -> Iterator[Term]:
    """The values that a query gives the status column, or holds against it."""
    yield from (made.value for made in query.assignments if words.is_status(made.column))
    yield from (found.value for found in (*query.conditions, *query.cases) if words.is_status(found.column))


def _words(value: Term) -> Iterator[str]:
    return (part.text for part in inside(value) if part.kind is TermKind.LITERAL and _is_word(part.text))


def _is_word(text: str) -> bool:
    return re.fullmatch(r"\w[\w .:-]{0,47}", text) is not None


def _maximum(queries: Iterable[Query]) -> int | None:
    """The number that attempts are held against: `attempts < 5` allows five."""
    for query in queries:
        for found in (*query.conditions, *query.cases):
            number = found.value.text
            if words.is_attempts(found.column) and number.isdecimal() and found.operator in ("<", "<=", ">", ">="):
                return int(number) + (found.operator in ("<=", ">"))
    return None


def _tenant_column(program: Program, columns: Mapping[str, str]) -> str:
    """The column that policies elsewhere hold against the tenant, or one that is named after a tenant."""
    for fact in program.catalogue.policies():
        if program.catalogue.reads_tenant(fact.policy):
            text = fact.policy.using or fact.policy.check or ""
            for name in _compared(text):
                if name in columns:
                    return name
    named = [name for name in columns if words.words(name)[:1] and words.words(name)[0] in TENANT_WORDS]
    return next((name for name in named if words.words(name)[-1:] == ("id",)), next(iter(named), ""))


def _compared(text: str) -> Iterator[str]:
    """The columns that an expression compares with something."""
    from sqlglot import exp

    from auditor.sql.dialect import parse_expression
    from auditor.sql.tokens import tokenize

    tree = parse_expression(tokenize(text, 0, len(text), 0), text)
    for equal in tree.find_all(exp.EQ) if tree is not None else ():
        for side in (equal.this, equal.expression):
            while isinstance(side, (exp.Cast, exp.Paren)):
                side = side.this
            if isinstance(side, exp.Column):
                yield side.name.lower()


def _type_of(program: Program, column: str, columns: Mapping[str, str]) -> str:
    """The tenant's type, from the jobs table or else from another table that has the column."""
    tables = [columns, *(facts.columns for facts in program.catalogue.tables.values())]
    for known in tables:
        typed = known.get(column, "").split("(", 1)[0].strip()
        if typed in _TYPES:
            return _TYPES[typed]
        if typed in ("varchar", "character varying"):
            return "text"
    return ""


def _setting(timeline: Timeline) -> str:
    catalogue = timeline.program.catalogue
    read = sorted(name for name in catalogue.policy_settings() if catalogue.is_tenant(name) is not None)
    made = Counter(setting.name for _, setting in timeline.settings() if setting.tenant is not None)
    return max(read, key=lambda name: made[name], default=next((name for name, _ in made.most_common(1)), ""))
