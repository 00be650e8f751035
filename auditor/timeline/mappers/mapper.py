"""SQLAlchemy's own words for SQL: select(), update(), func, columns of models, objects that a session writes back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import Act
from auditor.program.catalogue import UNNAMED
from auditor.program.tree import last_name, literal
from auditor.python import nodes
from auditor.sql.words import is_id, is_moment
from auditor.timeline.computing import strings
from auditor.timeline.computing.bindings import Bindings
from auditor.timeline.mappers import orm
from auditor.timeline.mappers.keyed import is_key, keys_of
from auditor.timeline.mappers.orm import clause, expression
from auditor.timeline.mappers.synonyms import stands_for
from auditor.timeline.model.state import State, merge
from auditor.timeline.model.values import (
    FALSE,
    NONE,
    TRUE,
    UNKNOWN,
    Built,
    Change,
    Class,
    Clause,
    Connection,
    Field,
    Function,
    Instance,
    Items,
    Key,
    Made,
    Mapping,
    Row,
    Text,
    Value,
    from_row,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.findings import Place
    from auditor.program.code import ClassInfo
    from auditor.timeline.model.connection import Mark
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.model.state import Frame
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

_PACKAGES = ("sqlalchemy", "sqlmodel")
_STATEMENTS = frozenset({"select", "insert", "update", "delete"})
_CONSTANTS = {"true": TRUE, "false": FALSE, "null": NONE}
_WORDS = {"and_": "AND", "or_": "OR"}
#: What says of an expression no more than how it is to be typed or ordered by.
_WRAPS = frozenset({"col", "asc", "desc", "nulls_first", "nulls_last", "nullsfirst", "nullslast"})
_GIVEN = frozenset({"bindparam", "literal", "cast", "type_coerce", "column", "literal_column"})
_MADE = frozenset({"Column", "mapped_column", "Field", "deferred", "column_property"})
_CONDITIONS = frozenset({"where", "filter", "having"})
_KEEPS = frozenset(
    {
        *("options", "execution_options", "join", "outerjoin", "distinct", "select_from", "offset", "group_by", "cte"),
        *(
            "join_from",
            "with_hint",
            "enable_eagerloads",
            "yield_per",
            "populate_existing",
            "subquery",
            "alias",
            "params",
        ),
        *("with_only_columns", "scalar_subquery", "correlate", "prefix_with", "on_conflict_do_nothing", "with_session"),
        *("add_columns", "union", "union_all", "exists", "as_scalar", "from_statement", "on_conflict_do_update"),
    }
)
_DECLARATIVE = frozenset({"sqlalchemy.orm.DeclarativeBase", "sqlalchemy.orm.decl_api.DeclarativeBase"})
#: Under these names a project's own base looks for the table's in a model's Meta.
_IN_META = ("table_name", "tablename", "table", "db_table")
#: Under these names a table, or what is mapped to it, has its columns.
_COLUMNS = frozenset({"c", "columns", "__table__"})
_TABLE_COLUMNS = "sqlalchemy.columns of a table"
_ONE = frozenset({"first", "one", "one_or_none", "scalar", "get", "scalar_one", "scalar_one_or_none"})
_MANY = frozenset({"all", "__iter__", "fetchall"})


class Mapper:
    """Reads them on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._tables: dict[ClassInfo, str] = {}

    # Models

    def table_of(self, value: Value) -> str:
        """The table of a model or of a Core table; empty of anything else."""
        if isinstance(value, Class):
            return self._table(value.info)
        if isinstance(value, Instance):
            return self._table(value.info)
        if isinstance(value, Made) and value.name.rpartition(".")[2] == "Table" and value.name.startswith(_PACKAGES):
            name = value.argument(0, "name")
            # One that is named at run time has columns of its own all the same.
            return name.value if isinstance(name, Text) and not name.holes else f"{UNNAMED}table"
        return orm.open_table(value)

    def table_of_class(self, info: ClassInfo) -> str:
        """The table that a class is mapped to; empty of any other class."""
        return self._table(info)

    def _table(self, info: ClassInfo) -> str:
        known = self._tables.get(info)
        if known is None:
            self._tables[info] = self.walker.records.table(info)
            if self._tables[info]:
                return self._tables[info]
            named = self.walker.objects.class_member(Class(info), "__tablename__") if self._maps(info) else None
            known = named.value if isinstance(named, Text) and not named.holes else ""
            if not known and (isinstance(named, Function) or self.application_of(info) is not None):
                # A mixin or an extension makes it of the class's name.
                known = _snake(info.node.name)
            known = known or self._named_otherwise(info)
            if not known and "SQLModel" in {
                name.rpartition(".")[2] for name in self.walker.objects.library_names(info)
            }:
                known = info.node.name.lower() if any(name == "table" for name, _ in info.node.keywords) else ""
            self._tables[info] = known
        return known

    def _named_otherwise(self, info: ClassInfo) -> str:
        """The table of a model in which no `__tablename__` stands: SQLAlchemy refuses it unless something names one.

        That is a Core table that it is mapped to, or what the project's own base makes of the class or of its Meta.
        """
        mapped = self.walker.objects.class_member(Class(info), "__table__")
        if isinstance(mapped, Made):
            return self.table_of(mapped)
        own = any(
            isinstance(member, nodes.Assign) and member.annotation is not None for member in info.members.values()
        )
        if self._maps(info) or "__abstract__" in info.members or not own or not self._is_declarative(info):
            return ""
        meta = self.walker.objects.meta(info)
        told = [self.walker.objects.class_member(meta, name) for name in _IN_META] if meta is not None else []
        return next((name.value for name in told if isinstance(name, Text) and not name.holes), _snake(info.node.name))

    def _is_declarative(self, info: ClassInfo) -> bool:
        """Whether a class is derived from a base of the project's that is one of SQLAlchemy's, and not such a base."""
        names = self.walker.objects.library_names(info)
        own = any(isinstance(base, Class) for base in self.walker.objects.bases(info))
        return own and not names.isdisjoint(_DECLARATIVE)

    def application_of(self, info: ClassInfo) -> Key | None:
        """The extension that an application's model is derived from: `db` of `class Job(db.Model)`."""
        for cls in self.walker.objects.lineage(info):
            for base in self.walker.objects.bases(cls):
                if isinstance(base, Made) and base.name == "flask_sqlalchemy.Model":
                    return base.key
        return None

    def _query_of(self, model: Class) -> Value | None:
        """`Job.query` of an application's model."""
        key, driver = self.application_of(model.info), drivers.by_name("sqlalchemy")
        if key is None or driver is None:
            return None
        session = self.walker.database.sessions.of_application(driver, key, "session")
        assert isinstance(session, Connection)
        return Built("select", self._table(model.info), entities=True, session=session.key)

    def method_of(self, row: Value, name: str) -> Function | None:
        """A method of the model that an object which was fetched is of; None of anything else."""
        if not isinstance(row, Row) or not row.table or row.many:
            return None
        # A look at a member may load another module, whose models are noted here, too.
        for info, known in tuple(self._tables.items()):
            member = self.walker.objects.class_member(Class(info), name) if known == row.table else None
            if isinstance(member, Function):
                return member
        return None

    def column_of(self, table: str, attribute: str) -> str:
        """The column of a table that an attribute of its model stands for."""
        for info, known in tuple(self._tables.items()):
            if known == table:
                column = self.column(info, attribute)
                return column.text.value if column is not None else attribute
        return attribute

    def _maps(self, info: ClassInfo) -> bool:
        return any("__tablename__" in base.members for base in self.walker.objects.lineage(info))

    def column(self, info: ClassInfo, name: str) -> Clause | None:
        """The column that an attribute of a model stands for."""
        if name.startswith("__") or not self._table(info):
            return None
        lineage = tuple(self.walker.objects.lineage(info))
        defined = next((base.members[name] for base in lineage if name in base.members), None)
        name = stands_for(defined) or name
        for base in lineage:
            member = base.members.get(name)
            if isinstance(member, nodes.Assign):
                column = self._named(member, name)
                if is_key(member, (one for each in lineage for one in each.members.values())):
                    self.walker.program.catalogue.keys.add(self._table(info), (column,))
                return Clause(Text(column), table=self._table(info))
        return Clause(Text(name), table=self._table(info)) if self._is_inherited(info, name) else None

    def _is_inherited(self, info: ClassInfo, name: str) -> bool:
        """Whether a name is that of a key or a time, such as bases of other packages give to the models of many."""
        known = any(name in base.members for base in self.walker.objects.lineage(info))
        if known or not (is_id(name, self._table(info)) or is_moment(name)):
            return False
        names = self.walker.objects.library_names(info)
        return any(base.partition(".")[0] not in _PACKAGES for base in names)

    def attribute(self, receiver: Value, name: str) -> Value | None:
        """An attribute of a model or of an object of one that stands for a column; None for any other."""
        if isinstance(receiver, Row) and receiver.table and not receiver.many:
            return Field(receiver, self.column_of(receiver.table, name))
        if isinstance(receiver, Made):
            return self._of_table(receiver, name)
        if isinstance(receiver, Built) and receiver.kind == "select":
            return Made(_TABLE_COLUMNS, (receiver,)) if name in _COLUMNS else None
        if not isinstance(receiver, (Class, Instance)):
            return None
        if isinstance(receiver, Class) and name in _COLUMNS and self._table(receiver.info):
            return receiver
        if isinstance(receiver, Class) and name == "query":
            return self._query_of(receiver)
        column = self.column(receiver.info, name)
        if column is None or isinstance(receiver, Class):
            return column
        return Field(Row(receiver.key, table=column.table, claimed=receiver.row), column.text.value)

    def _of_table(self, receiver: Made, name: str) -> Value | None:
        """`table.c`, and a column of it."""
        if receiver.name == _TABLE_COLUMNS and isinstance(receiver.arguments[0], Built):
            # A column of a query or a CTE: what is compared with it is among what that gives.
            return replace(receiver.arguments[0], columns=(Text(name),))
        if receiver.name == _TABLE_COLUMNS:
            table = self.table_of(receiver.arguments[0])
            made = receiver.arguments[0].arguments if isinstance(receiver.arguments[0], Made) else ()
            if any(column.argument(0, "name") == Text(name) for column in keys_of(made)):
                self.walker.program.catalogue.keys.add(table, (name,))
            return Clause(Text(name), table=table)
        return Made(_TABLE_COLUMNS, (receiver,)) if name in _COLUMNS and self.table_of(receiver) else None

    def of_table(self, receiver: Value, name: str, call: Invocation) -> Value | None:
        """`table.update()`, `table.select()` and their like; None of anything else."""
        if name not in _STATEMENTS or not self.table_of(receiver):
            return None
        return self._statement(name, call.passing(receiver))

    @staticmethod
    def _named(member: nodes.Assign, name: str) -> str:
        """The name of a column: the first argument of what makes it, else that of the attribute."""
        made = member.value
        if isinstance(made, nodes.Call) and made.arguments and last_name(made.function) in _MADE:
            return literal(made.arguments[0]) or name
        return name

    # Functions

    def function(self, name: str, call: Invocation) -> Value | None:
        """What a call of a function of the library stands for; None where that is nothing in SQL."""
        package, _, rest = name.partition(".")
        if package not in _PACKAGES:
            return None
        parts = rest.split(".")
        last = parts[-1]
        if "func" in parts[:-1]:
            called = ".".join(parts[parts.index("func") + 1 :])
            return orm.call(called, call.positional, call.frame.module.path, call.span)
        if last in _STATEMENTS:
            return self._statement(last, call)
        if last in _CONSTANTS and not call.positional:
            return Clause(expression(_CONSTANTS[last]))
        if last in _WORDS:
            return orm.joined(_WORDS[last], call.positional)
        if last == "not_" and call.positional:
            return clause("NOT (", expression(call.positional[0]), ")")
        if last == "case":
            return orm.case(call.positional, call.argument(len(call.positional), "else_", default=NONE))
        if last in _GIVEN:
            return self._given(last, call)
        return self._wrapped(last, call.argument(0)) if last in _WRAPS else None

    @staticmethod
    def _wrapped(last: str, value: Value) -> Value:
        """SQLModel's `col(Job.status)`, and `desc(Job.priority)`: the expression, or what a method of it makes."""
        value = orm.column_of_open(value)
        if not isinstance(value, Clause):
            return Clause(expression(value))
        return orm.method(value, last, ()) or value

    @staticmethod
    def _given(last: str, call: Invocation) -> Value:
        first = call.argument(0)
        if last in ("column", "literal_column"):
            return Clause(first) if isinstance(first, Text) else UNKNOWN
        if last == "bindparam":
            return Clause(expression(call.argument(1, "value")))
        return Clause(expression(first))

    def _statement(self, kind: str, call: Invocation) -> Value:
        call = call.passing(*map(orm.column_of_open, call.positional), named=call.named)
        tables = [table for value in call.positional if (table := self.table_of(value))]
        if kind != "select":
            return Built(kind, tables[0] if tables else "…")
        columns = call.positional
        if len(columns) == 1 and isinstance(columns[0], Items):
            columns = columns[0].items  # select([…]) of 1.3
        tables = [table for value in columns if (table := self.table_of(value))]
        table = tables[0] if tables else self._table_of_columns(columns)
        plain = tuple(expression(value) for value in columns if not self.table_of(value))
        return Built("select", table, columns=() if tables else plain, entities=len(columns) == 1 and bool(tables))

    @staticmethod
    def _table_of_columns(columns: tuple[Value, ...]) -> str:
        """The table that columns are of, which only those that are told by their model say."""
        return next((value.table for value in columns if isinstance(value, Clause) and value.table), "")

    # Methods

    def method(self, receiver: Built | Clause, name: str, call: Invocation) -> Results:
        """A method of a statement or an expression."""
        ways = orm.ways(call.positional)
        if len(ways) > 1:
            return [way for one in ways for way in self.method(receiver, name, call.passing(*one, named=call.named))]
        if isinstance(receiver, Clause) and receiver.whole:
            again = strings.statement_of(receiver.text, name, (*receiver.parameters, *call.named))
            return [(call.state, receiver if isinstance(again, Text) else again or UNKNOWN)]
        if isinstance(receiver, Clause):
            made = orm.method(receiver, name, call.positional)
            return [(call.state, made if made is not None else UNKNOWN)]
        grown = self._grown(receiver, name, call)
        if grown is not None:
            return [(call.state, grown)]
        return self._run(receiver, name, call)

    def _grown(self, query: Built, name: str, call: Invocation) -> Built | None:
        if name in _CONDITIONS:
            return orm.filtered(query, call.positional)
        if name == "filter_by":
            named = ((self.column_of(query.table, key), value) for key, value in call.named)
            equal = (clause(key, " = ", expression(value)) for key, value in named)
            return orm.filtered(query, equal)
        if name in ("values", "ordered_values") and query.kind != "select":
            return orm.setting(query, self._assigned(query, call))
        if name == "order_by":
            return replace(query, order=tuple(expression(value) for value in call.positional))
        if name in ("limit", "fetch") and call.positional:
            return replace(query, limit=expression(call.positional[0]))
        if name == "with_for_update":
            skip, refuse = call.argument(-1, "skip_locked", default=FALSE), call.argument(-1, "nowait", default=FALSE)
            share, key = call.argument(-1, "read", default=FALSE), call.argument(-1, "key_share", default=FALSE)
            return orm.locking(query, skip != FALSE, refuse == TRUE, share == TRUE, key == TRUE)
        if name in ("returning", "return_defaults"):
            return replace(query, returning=True, entities=len(call.positional) == 1)
        return query if name in _KEEPS else None

    def _assigned(self, query: Built, call: Invocation) -> list[tuple[str, Value]]:
        return [(self.column_of(query.table, name), value) for name, value in _assignments(call)]

    def _run(self, query: Built, name: str, call: Invocation) -> Results:
        """A query of a session is run when something is fetched."""
        if query.session is None:
            return [(call.state, UNKNOWN)]
        connection = Connection(query.session)
        if name == "update" and query.kind == "select":
            query = orm.setting(replace(query, kind="update", columns=()), self._assigned(query, call))
        elif name == "delete" and query.kind == "select":
            query = replace(query, kind="delete", columns=())
        elif name == "count":
            query = replace(query, columns=(Text("count(*)"),), order=(), entities=False)
        elif name == "get":
            query = orm.filtered(query, (clause("id = ", expression(call.argument(0))),))
        elif name not in _ONE and name not in _MANY:
            return [(call.state, UNKNOWN)]
        database = self.walker.database
        results: Results = []
        for after, cursor in database.call(connection, "execute", call.passing(query)):
            if name in _ONE or name in _MANY:
                results.extend(database.call(cursor, "first" if name in _ONE else "all", call.passing().at(after)))
            else:
                results.append((after, UNKNOWN))
        return results

    def asked(self, connection: Connection, call: Invocation) -> Built:
        """`session.query(Model)`."""
        query = self._statement("select", call)
        assert isinstance(query, Built)
        return replace(query, session=connection.key)

    def got(self, connection: Connection, call: Invocation) -> Results:
        """`session.get(Model, id)`."""
        query = self.asked(connection, call.passing(*call.positional[:1]))
        if call.argument(-1, "with_for_update", default=NONE) not in (NONE, FALSE):
            options = call.argument(-1, "with_for_update")
            skip = isinstance(options, Mapping) and options.get(Text("skip_locked")) == TRUE
            query = orm.locking(query, skip)
        return self._run(query, "get", call.passing(*call.positional[1:2]))

    def act(self, act: Act, connection: Connection, call: Invocation) -> Results:
        """What a session does for the mapper."""
        if act is Act.QUERY:
            return [(call.state, self.asked(connection, call))]
        if act is Act.GET:
            return self.got(connection, call)
        if act is Act.FLUSH:
            return [(after, NONE) for after in self.flush(connection.key, call)]
        if act is Act.REFRESH:
            return self._refreshed(connection, call)
        if act is Act.BULK:
            return self._bulk(connection, call)
        if act is Act.MERGE:
            merged = call.argument(0, "instance")
            return [(self.added(merged, call.state, call), merged)]
        given = call.argument(0)
        state = call.state
        for value in given.items if isinstance(given, Items) else (given,):
            state = self.added(value, state, call, "delete" if act is Act.DELETE else "insert")
        return [(state, NONE)]

    def _refreshed(self, connection: Connection, call: Invocation) -> Results:
        """`session.refresh(object)`: its row is asked for anew. What that tells of a job in hand is nothing new."""
        given, states = call.argument(0, "instance"), self.flush(connection.key, call)
        table = given.table if isinstance(given, Row) else self.table_of(given) if isinstance(given, Instance) else ""
        if not table or call.state.job.claims or from_row(given):
            return [(after, NONE) for after in states]
        query = orm.filtered(Built("select", table), (clause("id = ", expression(given)),))
        ask = [self.walker.database.call(connection, "execute", call.at(after).passing(query)) for after in states]
        return [(after, NONE) for ways in ask for after, _ in ways]

    def _bulk(self, connection: Connection, call: Invocation) -> Results:
        """`session.bulk_update_mappings(Model, rows)`: the rows that are known of are like each other."""
        rows = self.walker.elements(call.argument(1, "mappings"))
        row = next((row for row in rows if isinstance(row, Mapping)), Mapping((), open=True))
        pairs = [(name.value, value) for name, value in row.pairs if isinstance(name, Text) and name.value != "id"]
        which = row.get(Text("id")) or UNKNOWN
        table = self.table_of(call.argument(0, "mapper"))
        query = orm.setting(
            Built("update", table or "…"), [(self.column_of(table, name), value) for name, value in pairs]
        )
        chosen = orm.filtered(query, (clause("id = ", expression(which)),))
        return self.walker.database.call(connection, "execute", call.passing(chosen))

    # Objects that are written back

    def changed(self, receiver: Value, name: str, value: Value, state: State, frame: Frame, span: nodes.Span) -> State:
        """`object.column = value`: it waits to be written back. Of a column without a name, anything may be."""
        table = receiver.table if isinstance(receiver, Row) else self.table_of(receiver)
        if not table:
            return state
        if isinstance(receiver, Instance) and not self._is_stored(receiver, state):
            return state
        assigned = ((self.column_of(table, name), expression(value)),)
        return self._wait(Change("update", table, receiver, assigned, frame.module.path, span), state)

    def _is_stored(self, instance: Instance, state: State) -> bool:
        """Whether an object is known to a session: it was handed in, or is waiting to be inserted."""
        added = any(change.which == instance for change in state.waiting)
        return added or self.walker.types.is_typed(instance)

    def _wait(self, change: Change, state: State) -> State:
        self.walker.database.used += 1
        late = state.job.failed is not None
        return state.await_(orm.with_change(state.waiting, replace(change, late=late)))

    def added(self, value: Value, state: State, call: Invocation, kind: str = "insert") -> State:
        """`session.add(object)` and `session.delete(object)`."""
        for option in options_of(value):
            table = option.table if isinstance(option, Row) else self.table_of(option)
            if not table or (kind == "insert" and not isinstance(option, Instance)):
                continue
            if kind == "insert" and any(one.kind == "update" and one.which == option for one in state.waiting):
                continue  # It is written back anyhow: what is changed is known to the session.
            assigned = tuple(self._held(option, state)) if isinstance(option, Instance) and kind == "insert" else ()
            state = self._wait(Change(kind, table, option, assigned, call.frame.module.path, call.span), state)
        return state

    def _held(self, instance: Instance, state: State) -> Iterator[tuple[str, Text]]:
        table = self._table(instance.info)
        for name, value in state.heap.get(instance.key, {}).items():
            yield self.column_of(table, name), expression(value)

    def flush(self, key: Key, call: Invocation) -> list[State]:
        """What waits is written back through the session."""
        # What is only written when it is told to goes on waiting.
        later = tuple(one for one in call.state.waiting if self.walker.records.owns(one.table))
        now = tuple(one for one in call.state.waiting if one not in later and not _is_unread(one))
        if not now:
            return [call.state.await_(later)]
        self.walker.database.used += 1
        states = [call.state.await_(later)]
        for change in now:
            states = merge([after for state in states for after in self._write(key, change, call.at(state))])
        return states

    def taken(self, receiver: Value, state: State) -> tuple[tuple[Change, ...], State]:
        """What waits to be written back of one object, and the state in which it waits no more."""
        mine = tuple(one for one in state.waiting if one.which == receiver)
        return mine, state.await_(tuple(one for one in state.waiting if one not in mine))

    def _write(self, key: Key, change: Change, call: Invocation) -> list[State]:
        if change.span is not None and change.path == call.frame.module.path:
            call = call._replace(span=change.span)
        states: list[State] = []
        for begun in self.walker.database.sessions.begins(key, call):
            text = orm.statement(orm.written_back(change))
            states.extend(self.walker.database.statements.execute(key, text, NONE, False, call.at(begun)))
        return states

    def ending(self, key: Key, call: Invocation, how: str) -> list[State]:
        """The states in which a transaction ends: a commit flushes first, a rollback forgets."""
        return self.flush(key, call) if how == "commit" else [self.forgotten(call.state)]

    def forgotten(self, state: State) -> State:
        """A rollback: what was waiting is not written back any more, and is undone as if it had been."""
        job = state.job
        for change in state.waiting if job.claims else ():
            if change.late:
                continue
            module = self.walker.program.module_at(change.path)
            if module is not None and change.span is not None:
                job = job.with_undone(self._marks(change, module.place(change.span)))
        return state.with_job(job).await_(())

    def _marks(self, change: Change, place: Place) -> tuple[Mark, ...]:
        """The deeds of the statement that would write a change back."""
        text = orm.statement(orm.written_back(change))
        done = (
            self.walker.database.statements.effects.steps(statement, Bindings(text, NONE), lambda _: place)
            for statement in self.walker.program.read_sql(text.value)
        )
        return tuple(mark for one in done for mark in one.marks)


def _snake(name: str) -> str:
    """`EmailQueue` as email_queue."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def _assignments(call: Invocation) -> list[tuple[str, Value]]:
    """What values(…) and update({…}) assign, by column."""
    pairs: list[tuple[str, Value]] = []
    first = call.argument(0, default=NONE)
    if isinstance(first, Mapping):
        for key, value in first.pairs:
            name = key.text.value if isinstance(key, Clause) else key.value if isinstance(key, Text) else ""
            pairs.extend([(name, value)] if name else [])
    pairs.extend((name, value) for name, value in call.named if name.isidentifier() and name != "synchronize_session")
    return pairs


def _is_unread(change: Change) -> bool:
    """Whether it is not known which columns are written: what they would tell of the job is missing."""
    return any(name == UNNAMED for name, _ in change.assigned)
