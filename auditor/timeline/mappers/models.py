"""Django's models: their queries, which are sent when somebody asks for rows, and their objects, which are saved.

Facts: the documentation's pages "QuerySet API reference" and "Model instance reference", each call's SQL shown by
tests/drivers/test_django_orm.py with Django 5.2. Tortoise's are made after their pattern: they have no managers, send a
query when it is awaited, and lock in autocommit, as tests/drivers/test_tortoise.py shows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.drivers import tortoise
from auditor.drivers.model import Act
from auditor.python import nodes
from auditor.timeline.mappers.expressions import Expressions, as_number, field
from auditor.timeline.mappers.keyed import keys_of
from auditor.timeline.mappers.managers import Managers
from auditor.timeline.mappers.written import Piece, delete, insert, select, statement, update
from auditor.timeline.model.connection import Autocommit, Status
from auditor.timeline.model.entries import Entry
from auditor.timeline.model.events import LockRefused
from auditor.timeline.model.relations import FOREIGN, leads_to
from auditor.timeline.model.values import (
    FALSE,
    NONE,
    UNKNOWN,
    Bound,
    Class,
    Connection,
    Field,
    Function,
    Instance,
    Items,
    Key,
    Literal,
    Made,
    Query,
    Row,
    Super,
    Text,
    Unknown,
    Value,
    either,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from auditor.findings import Place
    from auditor.program.code import ClassInfo
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.model.state import State
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

#: Methods of a query that change nothing the audit asks for.
_SAME = frozenset(
    {
        "all",
        "get_queryset",
        "distinct",
        "select_related",
        "prefetch_related",
        "only",
        "defer",
        "annotate",
        "alias",
        "extra",
    }
)
_SHAPES = frozenset({"values", "values_list", "dates", "datetimes"})
#: What tells of an object of a model without the database.
_ASKED = {"exists": "1", "count": "count(*)", "aggregate": "count(*)"}
#: Methods that send nothing yet.
_GROWS = frozenset(
    {*_SAME, *_SHAPES, "filter", "exclude", "order_by", "using", "using_db", "db_manager", "select_for_update"}
) | {"limit", "offset"}
#: What a model's own methods of these names hand on to the framework's.
_KEEPS = frozenset({"save", "asave", "delete", "adelete"})
#: Where Tortoise's fields are declared, and what refers to another table.
_OF_FIELDS = "tortoise.fields."
_PRIMARY = frozenset({"pk", "id"})


class Models:
    """Gives the models of a project their meaning, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self.managers = Managers(walker)
        #: Objects that were made by code, and are not in the database yet.
        self._made: set[int] = set()
        self._calls: dict[str, Callable[[Query, Invocation], Results]] = {
            **dict.fromkeys((*_SAME, "using_db", "offset"), lambda query, call: [(call.state, query)]),
            **dict.fromkeys(_SHAPES, lambda query, call: [(call.state, replace(query, plain=True))]),
            **dict.fromkeys(_ASKED, self._asks),
            "filter": lambda query, call: [(call.state, self._narrowed(query, call, negated=False))],
            "exclude": lambda query, call: [(call.state, self._narrowed(query, call, negated=True))],
            "order_by": self._ordered,
            "using": lambda query, call: [(call.state, replace(query, alias=_alias(call.argument(0, "alias"))))],
            "db_manager": lambda query, call: [(call.state, replace(query, alias=_alias(call.argument(0, "using"))))],
            "select_for_update": self._locked,
            "iterator": self._rows,
            "get": lambda query, call: self._one(self._narrowed(query, call, negated=False), call, always=True),
            **dict.fromkeys(("first", "last"), lambda query, call: self._one(query, call, always=False)),
            **dict.fromkeys(("earliest", "latest"), lambda query, call: self._one(query, call, always=True)),
            "update": self._updates,
            "delete": self._deletes,
            "create": self._creates,
            "get_or_create": self._gets_or_creates,
            "update_or_create": self._gets_or_creates,
            "bulk_create": self._creates_many,
            "bulk_update": self._updates_many,
            "raw": self._raw,
            "limit": lambda query, call: [(call.state, replace(query, limit=call.argument(0, "limit")))],
            "get_or_none": lambda query, call: self._one(self._narrowed(query, call, negated=False), call, False),
        }

    def has(self, info: ClassInfo) -> bool:
        """Whether objects of a class are rows of a table, by whatever mapper."""
        return self.managers.is_model(info) or bool(self.walker.mapper.table_of_class(info))

    def table_of(self, value: Value) -> str:
        """The table of which a value is a row, or part of one, by whatever mapper; empty of anything else."""
        if isinstance(value, Instance):
            of_manager = self.managers.is_model(value.info)
            return self.managers.table(value.info) if of_manager else self.walker.mapper.table_of(value)
        row = value.row if isinstance(value, Field) else value
        return row.table if isinstance(row, Row) else ""

    def _field(self, info: ClassInfo, name: str) -> Made | None:
        """The declaration of a field."""
        member = self.walker.objects.class_member(Class(info), name)
        return member if isinstance(member, Made) and (".models" in member.name or _OF_FIELDS in member.name) else None

    def _column(self, info: ClassInfo, name: str) -> str:
        if name == "pk":
            return "id"
        declared = self._field(info, name)
        if declared is None:
            return name
        if keys_of((declared,)):
            self.walker.program.catalogue.keys.add(self.managers.table(info), (name,))
        said = dict(declared.keywords).get("source_field" if _OF_FIELDS in declared.name else "db_column")
        if isinstance(said, Text):
            return said.value
        return f"{name}_id" if declared.name.rpartition(".")[2] in FOREIGN else name

    def _expressions(self, info: ClassInfo) -> Expressions:
        return Expressions(
            lambda name: self._column(info, name),
            lambda query: self._written(query, "id"),
            lambda name: self._related(info, name),
        )

    def _related(self, info: ClassInfo, name: str) -> tuple[str, Expressions] | None:
        """The table that a field leads to, and what is said of it."""
        target = leads_to(self._field(info, name), self.walker.program.classes())
        if target is None or not self.managers.is_model(target):
            return None
        return self.managers.table(target), self._expressions(target)

    # Attributes

    def attribute(self, receiver: Value, name: str, state: State) -> Value | None:
        """What a model, its object or its query has under a name; None where Python's own rules give it."""
        if isinstance(receiver, Query):
            return self._of_query(receiver, name)
        if isinstance(receiver, Super):
            return self._of_super(receiver, name)
        if isinstance(receiver, Made) and receiver.name == "<fetched>":
            return FALSE if name == "adding" else None
        if isinstance(receiver, Made) and receiver.name == "<meta>":
            return self._of_meta(receiver, name)
        if not isinstance(receiver, (Class, Instance)) or not self.managers.is_model(receiver.info):
            return None
        if name == "_meta":
            return Made("<meta>", (Class(receiver.info),))
        if isinstance(receiver, Class):
            return self._of_class(receiver.info, name)
        if name == "_state" and receiver.row:
            return Made("<fetched>")
        if state.get(receiver.key, name) is not None:
            return None
        if name in _PRIMARY or self._field(receiver.info, name) is not None:
            return field(name, receiver.row)
        if name.endswith("_id") and self._field(receiver.info, name.removesuffix("_id")) is not None:
            return field(name, receiver.row)
        return None

    def _of_super(self, receiver: Super, name: str) -> Value | None:
        """`super().save()` of a model's own save(), which does what Django's would have done."""
        instance = receiver.instance
        if isinstance(instance, Query):
            return Bound(instance, name)
        if not isinstance(instance, Instance) or not self.managers.is_model(instance.info):
            return None
        return None if self.walker.objects.class_member(receiver, name) is not None else Bound(instance, name)

    def _of_query(self, query: Query, name: str) -> Value:
        for kind in query.kinds:
            member = self.walker.objects.class_member(Class(kind), name)
            if isinstance(member, Function) and not member.info.is_static:
                return replace(member, bound=query)
        return Class(query.model) if name == "model" else Bound(query, name)

    def _of_class(self, info: ClassInfo, name: str) -> Value | None:
        """A manager of a model; Tortoise's models are asked themselves."""
        if self.managers.driver(info) is tortoise.DRIVER:
            return Bound(Query(info), name) if name in self._calls else None
        return self.managers.begins(info, name)

    def _of_meta(self, receiver: Made, name: str) -> Value | None:
        """`Model._meta.db_table`."""
        model = receiver.arguments[0] if receiver.name == "<meta>" else None
        return Text(self.managers.table(model.info)) if isinstance(model, Class) and name == "db_table" else None

    # Calls

    def call(self, receiver: Value, name: str, call: Invocation) -> Results | None:
        """A method of a query, or one that every object of a model has; None for anything else."""
        if isinstance(receiver, Query):
            known = self._calls.get(name) or (self._calls.get(name[1:]) if name.startswith("a") else None)
            if known is None:
                return [(call.state, UNKNOWN)]
            return known(receiver, call) if name in _GROWS else self._on(receiver, known, call)
        if name == "quote_name":
            return [(call.state, call.argument(0, "name"))]
        if not isinstance(receiver, Instance) or not self.managers.is_model(receiver.info):
            return None
        acts = {"save": self._saves, "delete": self._deletes_object, "refresh_from_db": self._reads_object}
        act = acts.get(name) or acts.get(name.removeprefix("a"))
        if act is None:
            return None
        return self._on(Query(receiver.info), lambda _, inner: act(receiver, inner), call)

    def _deletes_object(self, instance: Instance, call: Invocation) -> Results:
        piece = delete(self.managers.table(instance.info), [_by_id(instance)])
        return [(after, NONE) for after in self._send(piece, Query(instance.info), call)]

    def _reads_object(self, instance: Instance, call: Invocation) -> Results:
        piece = select(self.managers.table(instance.info), [_by_id(instance)])
        return [(after.unbind(instance.key), NONE) for after in self._send(piece, Query(instance.info), call)]

    def _in_transaction(self, key: Key, query: Query, call: Invocation) -> State | None:
        """select_for_update() asks for a transaction: in autocommit Django refuses to send it."""
        connection = self.walker.database.state_of(key, call.state)
        if connection.status is Status.IDLE and connection.autocommit is Autocommit.ON:
            raised = self.walker.raised("sql", None, call.span, call.frame)
            seen = call.state
            # Whoever locks one row of many others knows of its transaction; a worker's claim is all there is of it.
            if "SKIP LOCKED" in query.lock and self.walker.entry is Entry.COMMAND:
                place = self._place(query, call) or call.place
                seen = self.walker.see(LockRefused(place, key, call.frame.symbol), seen)
            call.flow.raises.append((self.walker.failed(seen, raised), raised))
            return None
        if connection.status is Status.UNKNOWN:
            connection = replace(connection, status=Status.OPEN)
        return call.state.connect(key, connection)

    def _send(self, piece: Piece, query: Query, call: Invocation, locks: bool = False) -> list[State]:
        key = self._connection(query).key
        text, parameters = statement(piece)
        if locks and not self.managers.driver(query.model).of_task:
            state = self._in_transaction(key, query, call)
            if state is None:
                return []
            call = call.at(state)
        return self.walker.database.statements.execute(key, text, parameters, True, call, self._place(query, call))

    def _place(self, query: Query, call: Invocation) -> Place | None:
        """Where a statement stands that a method of the project makes or sends for others, if not where it is sent.

        Rows are locked where the lock is asked for; a model's own save() keeps what its caller has changed.
        """
        frame = call.frame
        if query.locked_at is not None and query.locked_at[1] != frame.key:
            return query.locked_at[0]
        if frame.function is None or frame.function.node.name not in _KEEPS or not frame.calls:
            return None
        return frame.calls[-1] if frame.owner in self.walker.objects.lineage(query.model) else None

    def _connection(self, query: Query) -> Connection:
        driver = self.managers.driver(query.model)
        database = self.walker.database
        if driver.of_task:
            return Connection(database.tasks.current(database.tasks.pool(driver).key))
        return database.held.of_alias(driver, query.alias or driver.default_alias)

    def _on(self, query: Query, ask: Callable[[Query, Invocation], Results], call: Invocation) -> Results:
        """Ask for something that is sent: on a connection that is taken out for it, where the driver does so."""
        driver = self.managers.driver(query.model)
        if not driver.of_task:
            return ask(query, call)
        tasks = self.walker.database.tasks
        return tasks.run(tasks.pool(driver), lambda _, inner: ask(query, inner), call)

    # Queries

    def _narrowed(self, query: Query, call: Invocation, negated: bool) -> Query:
        expressions = self._expressions(query.model)
        write = expressions.negated if negated else expressions.conditions
        found = write(call.positional, call.named)
        return replace(query, where=(*query.where, *((piece.text, piece.values) for piece in found)))

    def _ordered(self, query: Query, call: Invocation) -> Results:
        order = tuple(value.value for value in call.positional if isinstance(value, Text) and not value.holes)
        return [(call.state, replace(query, order=order))]

    def _locked(self, query: Query, call: Invocation) -> Results:
        def told(name: str) -> bool:
            return call.given(-1, name) and call.argument(-1, name) != FALSE

        lock = "FOR NO KEY UPDATE" if told("no_key") else "FOR UPDATE"
        skips = told("skip_locked") or call.argument(1, "skip_locked", default=FALSE) == Literal(True)
        lock += " SKIP LOCKED" if skips else " NOWAIT" if told("nowait") else ""
        return [(call.state, replace(query, lock=lock, locked_at=(call.place, call.frame.key)))]

    def taken(self, query: Query, key: nodes.Expression, index: Value, call: Invocation) -> Results:
        """`query[:limit]`, which is sent later, and `query[index]`, which is sent now."""
        if not isinstance(key, nodes.Opaque):
            return self._one(replace(query, limit=Literal(1)), call, always=True)
        only = key.parts[0] if len(key.parts) == 1 else None
        limit = Literal(only.value) if isinstance(only, nodes.Constant) else UNKNOWN
        return [(call.state, replace(query, limit=limit))]

    def _written(self, query: Query, columns: str = "*") -> Piece:
        expressions = self._expressions(query.model)
        order = []
        for said in query.order:
            back, bare = said.startswith("-"), said.lstrip("-")
            if bare.isidentifier() and "__" not in bare:
                order.append(expressions.column(bare) + (" DESC" if back else ""))
        conditions = [Piece(*part) for part in query.where]
        limit = as_number(query.limit)
        return select(self.managers.table(query.model), conditions, columns, order, limit, query.lock)

    def rows(self, query: Query, call: Invocation) -> Results:
        """All rows of a query, as a loop, list() or await asks for them."""
        return self._on(query, self._rows, call)

    def _rows(self, query: Query, call: Invocation) -> Results:
        results: Results = []
        for after in self._send(self._written(query), query, call, locks=bool(query.lock)):
            results.append(self._fetched(query, after, call, many=True))
        return results

    def _fetched(self, query: Query, state: State, call: Invocation, many: bool) -> tuple[State, Value]:
        key = self._connection(query).key
        claimed = self.walker.database.state_of(key, state).fetches_claim
        if query.plain:
            return state, (Row(key, many=many) if claimed else UNKNOWN)
        mark = self.walker.keys.of("record", call.frame.key, call.span, query.model)
        record = Instance(query.model, mark, row=claimed, claim=key if claimed and not many else 0)
        state = state.unbind(mark)
        if many:
            return state, (Row(key, many=True, item=record) if claimed else Items("list", (record,), open=True))
        return state, record

    def _one(self, query: Query, call: Invocation, always: bool) -> Results:
        """One row: get() and its like raise where there is none, first() gives None."""
        results: Results = []
        single = query if always else replace(query, limit=Literal(1))
        key = self._connection(query).key
        for after in self._send(self._written(single), query, call, locks=bool(query.lock)):
            state, value = self._fetched(query, after, call, many=False)
            if always:
                missing = (
                    self.walker.database.endings.no_job(state, key)
                    if isinstance(value, Instance) and value.claim
                    else state
                )
                raised = self.walker.raised("python", None, call.span, call.frame)
                call.flow.raises.append((missing, raised))
                value = replace(value, claim=0) if isinstance(value, Instance) else value
            elif isinstance(value, Instance) and not value.claim:
                value = either([value, NONE])
            results.append((state, value))
        return results

    def _asks(self, query: Query, call: Invocation) -> Results:
        piece = self._written(replace(query, order=()), "1" if query.limit is None else "count(*)")
        return [(after, Unknown()) for after in self._send(piece, query, call)]

    def _updates(self, query: Query, call: Invocation) -> Results:
        expressions = self._expressions(query.model)
        sets = [
            (self._column(query.model, name), expressions.assigned(value)) for name, value in call.named if name != "**"
        ]
        if not sets:
            sets = [("id", Piece("%s", (UNKNOWN,)))]
        piece = update(self.managers.table(query.model), sets, [Piece(*part) for part in query.where])
        return [(after, UNKNOWN) for after in self._send(piece, query, call)]

    def _deletes(self, query: Query, call: Invocation) -> Results:
        piece = delete(self.managers.table(query.model), [Piece(*part) for part in query.where])
        return [(after, UNKNOWN) for after in self._send(piece, query, call)]

    def _creates(self, query: Query, call: Invocation) -> Results:
        piece = insert(self.managers.table(query.model), self._assigned(query.model, call.named))
        mark = self.walker.keys.of("record", call.frame.key, call.span, query.model)
        return [(after.unbind(mark), Instance(query.model, mark)) for after in self._send(piece, query, call)]

    def _assigned(self, info: ClassInfo, named: Sequence[tuple[str, Value]]) -> list[tuple[str, Piece]]:
        expressions = self._expressions(info)
        return [(self._column(info, name), expressions.operand(value)) for name, value in named if name != "**"]

    def _gets_or_creates(self, query: Query, call: Invocation) -> Results:
        asked = tuple((name, value) for name, value in call.named if name not in ("defaults", "create_defaults"))
        expressions = self._expressions(query.model)
        found = select(self.managers.table(query.model), expressions.conditions((), asked))
        made = insert(
            self.managers.table(query.model),
            self._assigned(query.model, [pair for pair in asked if "__" not in pair[0]]),
        )
        mark = self.walker.keys.of("record", call.frame.key, call.span, query.model)
        states = [
            then
            for after in self._send(found, query, call)
            for then in (after, *self._send(made, query, call.at(after)))
        ]
        pair = Items("tuple", (Instance(query.model, mark), UNKNOWN))
        return [(state.unbind(mark), pair) for state in states]

    def _creates_many(self, query: Query, call: Invocation) -> Results:
        piece = insert(self.managers.table(query.model), [("id", Piece("%s", (call.argument(0, "objs"),)))])
        return [(after, UNKNOWN) for after in self._send(piece, query, call)]

    def _updates_many(self, query: Query, call: Invocation) -> Results:
        names = call.argument(1, "fields")
        known = names.items if isinstance(names, Items) else ()
        sets = [
            (self._column(query.model, one.value), Piece("%s", (UNKNOWN,))) for one in known if isinstance(one, Text)
        ]
        conditions = [Piece("id = ANY(%s)", (call.argument(0, "objs"),))]
        piece = update(self.managers.table(query.model), sets or [("id", Piece("id"))], conditions)
        return [(after, UNKNOWN) for after in self._send(piece, query, call)]

    def _raw(self, query: Query, call: Invocation) -> Results:
        """raw(sql, params): rows of whatever the statement returns."""
        connection = self._connection(query)
        results: Results = []
        for after, _ in self.walker.database.act(Act.EXECUTE, self.walker.database.cursor_of(connection), call):
            results.append(self._fetched(query, after, call, many=True))
        return results

    # Objects

    def made(self, instance: Instance, call: Invocation) -> Results | None:
        """`Model(field=value)`: an object that is saved later; None for any other class."""
        if not self.managers.is_model(instance.info):
            return None
        self._made.add(instance.key)
        given = {name: value for name, value in call.named if name != "**"}
        return [(call.state.unbind(instance.key).bind_all(instance.key, {**given, _NEW: NONE}), instance)]

    def _saves(self, instance: Instance, call: Invocation) -> Results:
        info = instance.info
        held = call.state.heap.get(instance.key, {})
        fields = call.argument(3, "update_fields", default=NONE)
        only = {one.value for one in fields.items if isinstance(one, Text)} if isinstance(fields, Items) else None
        expressions = self._expressions(info)
        sets = [
            (self._column(info, name), expressions.assigned(value))
            for name, value in held.items()
            if name.isidentifier()
            and (only is None or name in only)
            and self._is_column(info, name)
            # Kept as it is, or else cleared: nothing is marked by that.
            and not any(option == field(name, instance.row) for option in options_of(value))
        ]
        named = {column for column, _ in sets}
        sets += [
            (self._column(info, name), Piece("%s", (UNKNOWN,)))
            for name in sorted(only or ())
            if self._column(info, name) not in named
        ]
        if _NEW in held and only is None:
            piece = insert(self.managers.table(info), sets)
        else:
            piece = update(self.managers.table(info), sets or [("id", Piece("id"))], [_by_id(instance)])
        alias = _alias(call.argument(-1, "using", default=NONE))
        # What was reckoned from columns is in the database now, and saved once.
        return [(after.unbind(instance.key), NONE) for after in self._send(piece, Query(info, alias=alias), call)]

    def _is_column(self, info: ClassInfo, name: str) -> bool:
        return self._field(info, name) is not None or self._field(info, name.removesuffix("_id")) is not None


#: Stands among the attributes of an object that no row is for yet.
_NEW = "<new>"


def _by_id(instance: Instance) -> Piece:
    return Piece("id = %s", (field("id", instance.row),))


def _alias(value: Value) -> str:
    return value.value if isinstance(value, Text) and not value.holes else ""
