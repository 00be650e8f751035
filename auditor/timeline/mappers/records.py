"""Models that send their own statements: peewee's and piccolo's.

Facts: each library's documentation on querying, the SQL of each call shown by tests/drivers/test_peewee.py and
tests/drivers/test_piccolo.py. What their calls put together is what `auditor.timeline.mappers.orm` knows of any mapper.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers import peewee, piccolo
from auditor.drivers.model import Act
from auditor.python import nodes
from auditor.timeline.computing import strings
from auditor.timeline.mappers import orm
from auditor.timeline.mappers.orm import clause, expression
from auditor.timeline.model.values import (
    FALSE,
    NONE,
    TRUE,
    UNKNOWN,
    Asked,
    Bound,
    Built,
    Change,
    Class,
    Clause,
    Connection,
    Instance,
    Mapping,
    Pool,
    Row,
    Text,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from auditor.program.code import ClassInfo, FunctionInfo
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

_BASES = {base: driver.name for driver in (peewee.DRIVER, piccolo.DRIVER) for base in driver.models}
_KINDS = {"select": "select", "objects": "select", "update": "update", "delete": "delete", "insert": "insert"}
_ASKS = {"count": "count(*)", "exists": "1"}
#: Methods of a model, beside those that begin a statement.
_OF_CLASS = frozenset(
    {*_KINDS, *_ASKS, "raw", "get", "get_or_none", "get_by_id", "create", "insert_many", "delete_by_id", "bulk_create"}
)
_OF_OBJECT = frozenset({"save", "delete_instance", "remove", "refresh"})
_CONDITIONS = frozenset({"where", "orwhere", "having"})
_KEEPS = frozenset(
    {
        *("join", "left_outer_join", "switch", "group_by", "distinct", "from_", "objects", "dicts", "tuples", "alias"),
        *("namedtuples", "offset", "output", "columns", "freeze", "prefetch", "as_of", "callback", "on_conflict"),
        *("on_conflict_ignore", "on_conflict_replace", "cte", "with_cte"),
    }
)
_ONE = frozenset({"first", "get", "get_or_none", "scalar"})
_RUNS = frozenset({"execute", "run", "run_sync", "iterator"}) | _ONE | _ASKS.keys()
#: Arguments that are no columns.
_OPTIONS = frozenset({"force", "values", "returning"})
_LOCKS = re.compile(r"for\s+(update|no\s+key\s+update|share|key\s+share)\b", re.IGNORECASE)


class Records:
    """Gives them their meaning, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._kinds: dict[ClassInfo, str] = {}
        #: Tables whose objects are written back when they are told to, and not before.
        self._tables: dict[str, ClassInfo] = {}

    # Models

    def driver(self, info: ClassInfo) -> str:
        """The driver whose models a class is one of; empty for any other class."""
        known = self._kinds.get(info)
        if known is None:
            names = self.walker.objects.library_names(info)
            known = self._kinds[info] = next((_BASES[name] for name in sorted(names) if name in _BASES), "")
        return known

    def table(self, info: ClassInfo) -> str:
        """The table of a model; empty for any other class."""
        driver = self.driver(info)
        if not driver:
            return ""
        said = self._said(info, driver)
        made = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", info.node.name).lower()
        table = said or (made if driver == "piccolo" or self._told(info, "legacy_table_names") == FALSE else "")
        table = table or info.node.name.lower()
        self._tables.setdefault(table, info)
        return table

    def _said(self, info: ClassInfo, driver: str) -> str:
        if driver == "peewee":
            value = self._told(info, "table_name") or self._told(info, "db_table")
            return value.value if isinstance(value, Text) and not value.holes else ""
        for name, node in info.node.keywords:
            if name == "tablename" and isinstance(node, nodes.Text):
                return "".join(piece for piece in node.pieces if isinstance(piece, str))
        return ""

    def _told(self, info: ClassInfo, name: str) -> Value | None:
        """What the Meta of a model, or of one that it is derived from, says."""
        for cls in self.walker.objects.lineage(info):
            meta = self.walker.objects.meta(cls)
            value = self.walker.objects.class_member(meta, name) if meta is not None else None
            if value is not None:
                return value
            if name in ("table_name", "db_table"):
                return None
        return None

    def owns(self, table: str) -> bool:
        """Whether objects of the table wait until they are told to be saved."""
        return table in self._tables

    def is_named(self, tables: Iterable[str], function: FunctionInfo) -> bool:
        """Whether a function names the model of one of the tables."""
        models = [self._tables[table] for table in tables if table in self._tables]
        names = function.words.names
        for model in models:
            name = model.node.name
            aliases = (part.name for part in function.module.imports if part.attribute == name)
            if (function.module is model.module and name in names) or any(alias in names for alias in aliases):
                return True
        return False

    def _on(self, info: ClassInfo) -> Connection | Pool | None:
        """What the statements of a model are sent to."""
        driver = drivers.by_name(self.driver(info))
        if driver is None:
            return None
        if driver.of_task:
            return self.walker.database.tasks.pool(driver)
        told = self._told(info, "database")
        return told if isinstance(told, Connection) else None

    def attribute(self, receiver: Class, name: str) -> Value | None:
        """A method or the key that every model has; None for anything else."""
        if name == "id" and self.driver(receiver.info):
            return Clause(Text("id"), table=self.table(receiver.info))
        return Bound(receiver, name) if name in _OF_CLASS and self.driver(receiver.info) else None

    # Calls

    def call(self, receiver: Value, name: str, call: Invocation) -> Results | None:
        """A method of a model, of one of its objects, or of a statement; None for anything else."""
        if isinstance(receiver, Asked):
            return self._of_statement(receiver, name, call)
        if isinstance(receiver, Class) and name in _OF_CLASS:
            on = self._on(receiver.info)
            return self._of_class(receiver.info, on, name, call) if on is not None else None
        if name in _OF_OBJECT:
            return self._of_object(receiver, name, call)
        return None

    def _of_class(self, info: ClassInfo, on: Connection | Pool, name: str, call: Invocation) -> Results:
        driver, table = self.driver(info), self.table(info)
        if name == "raw":
            asked = Asked(driver, self._raw(driver, call), on)
            return [(call.state, asked)]
        if name in ("get", "get_or_none", "get_by_id", *_ASKS):
            conditions = call.positional
            if name == "get_by_id":
                conditions = (clause("id = ", expression(call.argument(0))),)
            query = orm.filtered(Built("select", table, entities=True), conditions)
            return self._of_statement(Asked(driver, query, on), name.removesuffix("_by_id"), call.passing())
        kind = "delete" if name == "delete_by_id" else _KINDS.get(name, "insert")
        query = self._begun(driver, kind, table, name, call)
        asked = Asked(driver, query, on)
        if name in ("create", "delete_by_id", "bulk_create"):
            return self.send(asked, call.passing(), many=False)
        return [(call.state, asked)]

    def _begun(self, driver: str, kind: str, table: str, name: str, call: Invocation) -> Built:
        if kind == "select":
            columns = tuple(expression(value) for value in call.positional if isinstance(value, Clause))
            return Built("select", table, columns=columns, entities=driver == "peewee" or name == "objects")
        if name == "delete_by_id":
            return orm.filtered(Built(kind, table), (clause("id = ", expression(call.argument(0))),))
        if kind == "delete":
            return Built(kind, table)
        return orm.setting(Built(kind, table), self._assigned(table, call))

    def _assigned(self, table: str, call: Invocation) -> list[tuple[str, Value]]:
        pairs: list[tuple[str, Value]] = []
        for first in call.positional[:1]:
            for key, value in first.pairs if isinstance(first, Mapping) else ():
                name = key.text.value if isinstance(key, Clause) else key.value if isinstance(key, Text) else ""
                pairs.extend([(name, value)] if name else [])
        named = ((name, value) for name, value in call.named if name.isidentifier() and name not in _OPTIONS)
        pairs.extend((self.walker.mapper.column_of(table, name), value) for name, value in named)
        return pairs

    @staticmethod
    def _raw(driver: str, call: Invocation) -> Clause:
        """A statement in text, and what fills its placeholders."""
        text, given = call.argument(0, "sql"), call.positional[1:]
        if not isinstance(text, Text):
            return Clause(expression(text), whole=True)
        known = drivers.by_name(driver)
        if known is None or not known.placeholder:
            return Clause(text, tuple((str(index), value) for index, value in enumerate(given)), whole=True)
        numbered, count = strings.numbered(text, known.placeholder)
        values = (given[index] if index < len(given) else UNKNOWN for index in range(count))
        return Clause(numbered, tuple((f"${index + 1}", value) for index, value in enumerate(values)), whole=True)

    # Statements

    def _of_statement(self, asked: Asked, name: str, call: Invocation) -> Results:
        query = asked.statement
        if isinstance(query, Clause):
            return self.send(asked, call, many=True) if name in _RUNS else [(call.state, asked)]
        grown = self._grown(query, name, call)
        if grown is not None:
            return [(call.state, replace(asked, statement=grown))]
        if name in _ONE and asked.driver == "piccolo":
            conditions = call.positional if name == "get" else ()
            single = replace(orm.filtered(query, conditions), limit=Text("1"))
            return [(call.state, replace(asked, statement=single))]
        if name in _ASKS:
            query = replace(query, columns=(Text(_ASKS[name]),), order=(), entities=False)
            asked = replace(asked, statement=query)
            return [(call.state, asked)] if asked.driver == "piccolo" else self.send(asked, call, many=False)
        if name in _ONE:
            query = orm.filtered(query, call.positional if name != "first" else ())
            one = replace(asked, statement=replace(query, limit=Text("1")))
            return self._one(one, call, always=name == "get")
        return self.send(asked, call, many=True) if name in _RUNS else [(call.state, UNKNOWN)]

    def _grown(self, query: Built, name: str, call: Invocation) -> Built | None:
        if name in _CONDITIONS:
            return orm.filtered(query, call.positional)
        if name == "order_by":
            back = call.argument(-1, "ascending", default=TRUE) == FALSE
            order = tuple(expression(value) for value in call.positional)
            return replace(query, order=tuple(clause(one, " DESC").text for one in order) if back else order)
        if name in ("limit", "paginate") and call.positional:
            return replace(query, limit=expression(call.positional[0]))
        if name == "values" and query.kind == "update":
            return orm.setting(query, self._assigned(query.table, call))
        if name == "returning":
            return replace(query, returning=True)
        if name == "for_update":
            return self._locked(query, call)
        if name == "lock_rows":
            strength = call.argument(0, "lock_strength", default=Text("UPDATE"))
            skip, refuse = call.argument(2, "skip_locked", default=FALSE), call.argument(1, "nowait", default=FALSE)
            word = strength.value.upper() if isinstance(strength, Text) else "UPDATE"
            return replace(query, lock=f"FOR {word}" + _manner(skip, refuse))
        return query if name in _KEEPS else None

    @staticmethod
    def _locked(query: Built, call: Invocation) -> Built:
        """for_update('FOR UPDATE SKIP LOCKED'), for_update(skip_locked=True)."""
        first = call.argument(0, "for_update", default=TRUE)
        if first in (FALSE, NONE):
            return query
        text = first.value if isinstance(first, Text) and _LOCKS.match(first.value) else "FOR UPDATE"
        skip, refuse = call.argument(3, "skip_locked", default=FALSE), call.argument(2, "nowait", default=FALSE)
        return replace(query, lock=text + _manner(skip, refuse))

    # Sending

    def send(self, asked: Asked, call: Invocation, many: bool) -> Results:
        """The statement is sent: each way out, with what is fetched."""
        database = self.walker.database
        single = isinstance(asked.statement, Built) and asked.statement.limit == Text("1")
        act = Act.EXECUTE_ALL if many and not single else Act.EXECUTE_ONE
        passed = call.passing(asked.statement)
        if isinstance(asked.on, Connection):
            return database.act(act, asked.on, passed)
        return database.tasks.run(asked.on, lambda on, inner: database.act(act, on, inner), passed)

    def _one(self, asked: Asked, call: Invocation, always: bool) -> Results:
        """One row: get() raises where there is none."""
        results = self.send(asked, call, many=False)
        if not always:
            return results
        for after, value in results:
            none = isinstance(value, Row) and value.claimed
            missing = (
                self.walker.database.endings.no_job(after, value.key) if none and isinstance(value, Row) else after
            )
            call.flow.raises.append((missing, self.walker.raised("python", None, call.span, call.frame)))
        return results

    # Objects

    def _of_object(self, receiver: Value, name: str, call: Invocation) -> Results | None:
        table = self.walker.mapper.table_of(receiver) if isinstance(receiver, Instance) else ""
        if isinstance(receiver, Row):
            table = receiver.table
        info = self._tables.get(table)
        on = self._on(info) if info is not None else None
        if info is None or on is None:
            return None
        if name == "refresh":
            return [(call.state, NONE)]
        if name in ("delete_instance", "remove"):
            gone = Change("delete", table, receiver)
            query = orm.written_back(gone)
            return self.send(Asked(self.driver(info), query, on), call, many=False)
        changes, state = self.walker.mapper.taken(receiver, call.state)
        if not changes and isinstance(receiver, Instance):
            changes = (Change("insert", table, receiver),)
        results: Results = [(state, NONE)]
        for one in changes:
            asked = Asked(self.driver(info), orm.written_back(one), on)
            results = [way for after, _ in results for way in self.send(asked, call.at(after), many=False)]
        return [(after, NONE) for after, _ in results]


def _manner(skip: Value, refuse: Value) -> str:
    return " SKIP LOCKED" if skip not in (FALSE, NONE) else " NOWAIT" if refuse == TRUE else ""
