"""What an expression can be, as far as the audit follows it.

Values are frozen and compared by what they are, so that two ways through the code that lead to the same state meet
again. What is not followed is `Unknown`; what can be one of several is `Either`.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Union

from auditor.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from auditor.findings import Place
    from auditor.program.code import ClassInfo, FunctionInfo, ModuleInfo
    from auditor.program.origins import Origin
    from auditor.python import nodes

#: Beyond this many alternatives a value is not followed any more.
MOST_OPTIONS = 8
#: A text longer than this many characters is not followed: nobody executes it statement by statement.
LONGEST_TEXT = 2_000_000

#: Names an activation, an object or a connection by where it was made and on whose behalf; see `Keys`.
Key = int


@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything. `row` is set where it was computed from the row that a claim returned.

    `setting` names the setting that a statement has read it from. `called` is what the program calls it where it is
    first asked for, a key or a name: all by which the name of a table that is only known at run time is told from
    another.
    """

    row: bool = False
    setting: str = ""
    called: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Literal:
    value: bool | int | float | None

    def __eq__(self, other: object) -> bool:
        # 1 == True in Python, and 0 == False: here they are different values.
        return isinstance(other, Literal) and other.value == self.value and type(other.value) is type(self.value)

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Text:
    """A string, with `holes` where its content is only known at run time: each hole's mark stands in `value`.

    Two texts are the same when they read the same, wherever they come from.
    """

    value: str
    holes: tuple[Value, ...] = ()
    origins: tuple[Origin, ...] = ()
    #: Made by psycopg's sql module, which quotes what is put into it.
    composed: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text) and other.value == self.value and other.holes == self.holes

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass(frozen=True, slots=True)
class Clause:
    """A statement, or a part of one, that calls have put together, with the values that travel beside it."""

    text: Text
    parameters: tuple[tuple[str, Value], ...] = ()
    #: A whole statement; a part of one is run as what it selects.
    whole: bool = False
    #: Of a column: the table that it is of.
    table: str = ""
    #: A library that is not read has made it of a text.
    unread: bool = False

    def with_parameters(self, given: Value) -> Value:
        """Its parameters, with those that are given when it is run."""
        if not self.parameters:
            return given
        pairs = tuple((Text(name), value) for name, value in self.parameters)
        more = given.pairs if isinstance(given, Mapping) else ()
        return Mapping((*pairs, *more), isinstance(given, Mapping) and given.open)


@dataclass(frozen=True, slots=True)
class Built:
    """A statement that calls are still putting together; `table` is empty where it reads from none."""

    kind: str  #: "select", "insert", "update" or "delete"
    table: str = ""
    columns: tuple[Text, ...] = ()
    where: tuple[Text, ...] = ()
    assigned: tuple[tuple[str, Text], ...] = ()
    order: tuple[Text, ...] = ()
    limit: Text | None = None
    lock: str = ""
    returning: bool = False
    #: What is fetched are objects of the table, whose changes are written back.
    entities: bool = False
    #: The connection that it was asked of, and that runs it when something is fetched.
    session: Key | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Asked:
    """A statement of a model that sends its own, which is sent when it is awaited, run, or gone through."""

    driver: str
    statement: Built | Clause
    on: Connection | Pool


@dataclass(frozen=True, slots=True)
class Change:
    """An object that was changed, or made, and not written back yet; `which` tells one from another."""

    kind: str  #: "insert", "update" or "delete"
    table: str
    which: Value
    assigned: tuple[tuple[str, Text], ...] = ()
    path: str = field(default="", compare=False)
    span: nodes.Span | None = field(default=None, compare=False)
    #: It was made when the job had failed: what handles a failure is not the work.
    late: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Field:
    """An attribute of an object that an object-relational mapper has fetched."""

    row: Row
    column: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A hole of a template string: its value, and the format behind the colon."""

    value: Value
    format: str


@dataclass(frozen=True, slots=True)
class Template:
    """A template string (PEP 750): what stands in its holes is kept apart, for whoever runs it."""

    parts: tuple[Text | Slot, ...]


@dataclass(frozen=True, slots=True)
class Quoted:
    """What psycopg's sql.Identifier or sql.Literal makes of a value: safe to stand in a statement."""

    value: Value
    identifier: bool


@dataclass(frozen=True, slots=True)
class Items:
    kind: str  #: "tuple", "list" or "set"
    items: tuple[Value, ...]
    #: More items may follow that are not known.
    open: bool = False


@dataclass(frozen=True, slots=True)
class Mapping:
    """A dict as far as it is known: pairs in order, keys being values; `open` when there may be others."""

    pairs: tuple[tuple[Value, Value], ...]
    open: bool = False

    def get(self, key: Value) -> Value | None:
        """The value under `key`, or None when it isn't known to be there."""
        return next((value for known, value in reversed(self.pairs) if known == key), None)


@dataclass(frozen=True, slots=True)
class Module:
    module: ModuleInfo


@dataclass(frozen=True, slots=True)
class Imported:
    """A name that was imported from a file of the project, not looked up yet: import cycles are no trouble then."""

    module: ModuleInfo
    attribute: str


@dataclass(frozen=True, slots=True)
class External:
    """Something of a library or the standard library, by its dotted name."""

    name: str


@dataclass(frozen=True, slots=True)
class Made:
    """What a call of an external callable returned. `row` as for Unknown; attributes set on it are kept under `key`."""

    name: str
    arguments: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()
    row: bool = False
    key: Key = 0

    def argument(self, index: int, name: str) -> Value | None:
        """The argument at `index`, or the one passed by `name`."""
        if index < len(self.arguments):
            return self.arguments[index]
        return next((value for known, value in self.keywords if known == name), None)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the project. `frame` is the activation it was defined in; `bound` its first argument, if given."""

    info: FunctionInfo
    frame: Key
    bound: Value | None = None
    #: functools.partial: arguments given ahead.
    arguments: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()
    #: What a decorator of contextlib made of it.
    manager: bool = False
    #: It stands in for what an interface leaves open: that it is the one which is meant is likely, and not seen.
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Class:
    info: ClassInfo


@dataclass(frozen=True, slots=True)
class Instance:
    """An object of a class of the project; its attributes are kept in the state, under `key`."""

    info: ClassInfo
    key: Key
    #: It was made of something that a claim returned.
    row: bool = field(default=False, compare=False)
    #: It is what a claim on this connection returned, or None when there was no job.
    claim: Key = 0


@dataclass(frozen=True, slots=True)
class Super:
    """super(): the attributes of the classes after `after`."""

    after: ClassInfo
    instance: Value


@dataclass(frozen=True, slots=True)
class Bound:
    """A method of something that is no project class: a string, a list, a driver's object, a library's object."""

    receiver: Value
    name: str


@dataclass(frozen=True, slots=True)
class Pending:
    """A coroutine, generator or context manager that has been called and not yet run."""

    function: Function
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    site: nodes.Span
    caller: Key
    manager: bool = False


@dataclass(frozen=True, slots=True)
class Pool:
    """A connection pool; its configuration is kept by the walk under `key`."""

    key: Key


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection; what state it is in is kept in the state, under `key`."""

    key: Key
    #: The project's own class of it, derived from the driver's; attributes set on it are kept under `key`, too.
    info: ClassInfo | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Cursor:
    connection: Key
    client: bool = False  #: binds its parameters in the client whatever the driver does
    claimed: bool = False  #: its last statement was a claim: what it fetches is a job, or None
    query: Built | None = None  #: what it fetches are objects of this query
    prepared: Value | None = None  #: the statement that runs whenever it is asked for rows


@dataclass(frozen=True, slots=True)
class Block:
    """A driver's context manager not yet entered: a transaction, a pipeline, a borrowed connection."""

    kind: str
    key: Key  #: of the connection or pool
    site: nodes.Span
    forced_rollback: bool = False
    #: Inside a transaction it begins a savepoint; else it only joins it.
    savepoint: bool = True
    #: It must be the outermost.
    durable: bool = False
    #: It must not be: it is always a savepoint.
    nested: bool = False
    #: The isolation level that it asks for.
    isolation: str = ""
    #: Of one that has begun before it is entered: what it has begun, and how many savepoints there were.
    how: str = ""
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """What a claim returned: a job, or None when there is none. `key` is the connection that claimed.

    Of a `table` where a mapper has made an object of it; not `claimed` where the mapper has only read it.
    """

    key: Key
    many: bool = False
    #: What each of many is, where they are objects of a class.
    item: Instance | None = None
    table: str = ""
    claimed: bool = True


@dataclass(frozen=True, slots=True)
class Query:
    """The rows of a model that an ORM has been asked for, and has not been made to fetch yet."""

    model: ClassInfo
    #: The project's own classes of such queries: its methods are looked for in one after the other.
    kinds: tuple[ClassInfo, ...] = ()
    #: The name of its connection; empty for the default.
    alias: str = ""
    #: Conditions as they stand in SQL, each with what fills its placeholders.
    where: tuple[tuple[str, tuple[Value, ...]], ...] = ()
    order: tuple[str, ...] = ()
    limit: Value | None = None
    lock: str = ""
    #: Where the lock is asked for, and in which activation of a function.
    locked_at: tuple[Place, Key] | None = None
    #: Rows are asked for as tuples, dicts or values, not as objects.
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception: `kind` is "sql" (a statement failed), "python" (some call did), "raise" or "exit".

    Where it was raised only explains: two of one kind are the same.
    """

    kind: str
    type: Value | None
    path: str = field(compare=False)
    span: nodes.Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Either:
    options: tuple[Value, ...]


Value = Union[
    Unknown,
    Literal,
    Text,
    Clause,
    Built,
    Asked,
    Change,
    Field,
    Template,
    Quoted,
    Items,
    Mapping,
    Module,
    Imported,
    External,
    Made,
    Function,
    Class,
    Instance,
    Super,
    Bound,
    Pending,
    Pool,
    Connection,
    Cursor,
    Block,
    Row,
    Query,
    Raised,
    Either,
]

UNKNOWN = Unknown()
NONE = Literal(None)
TRUE = Literal(True)
FALSE = Literal(False)

#: What carries nothing else, and is of no row: most of what is met.
_BARE = frozenset({Literal, Function, Class, Module, External})


def either(values: list[Value]) -> Value:
    """One of `values`: themselves when they are all the same, unknown when they are too many."""
    options: list[Value] = []
    for value in values:
        for option in value.options if isinstance(value, Either) else (value,):
            if option not in options:
                options.append(option)
    if len(options) == 1:
        return options[0]
    return Either(tuple(options)) if 0 < len(options) <= MOST_OPTIONS else UNKNOWN


def says_nothing(value: Value | None) -> bool:
    """Whether a value is None in the program that is read, or is not known at all."""
    if type(value) is Literal:
        return value.value is None
    return type(value) is Unknown and value == UNKNOWN


def options_of(value: Value) -> tuple[Value, ...]:
    """The alternatives of a value, itself when there is but one."""
    return value.options if isinstance(value, Either) else (value,)


def likely(value: Either) -> tuple[Value, ...]:
    """The alternatives that tell what is done: beside a connection, what is not known is taken for that connection.

    It is one of a kind, and what is asked of it later is asked of the same one: otherwise a commit would miss it.
    """
    if not any(isinstance(option, Connection) for option in value.options):
        return value.options
    return tuple(option for option in value.options if not isinstance(option, (Unknown, Made)))


def from_row(value: Value) -> bool:
    """Whether a value was computed from what a claim returned."""
    if type(value) in _BARE:
        return False
    if isinstance(value, (Unknown, Made, Instance)):
        return value.row
    if isinstance(value, Row):
        return value.claimed
    if isinstance(value, Field):
        return value.row.claimed
    if isinstance(value, Clause):
        return from_row(value.text)
    if isinstance(value, Bound):
        return from_row(value.receiver)
    if isinstance(value, Items):
        return any(from_row(item) for item in value.items)
    if isinstance(value, Mapping):
        return any(from_row(item) for _, item in value.pairs)
    if isinstance(value, Text):
        return any(from_row(item) for item in value.holes)
    return isinstance(value, Either) and any(from_row(item) for item in value.options)


def holds_connection(value: Value) -> Key | None:
    """The connection that a value is or carries, so that whoever receives the value can use it."""
    if type(value) in _BARE or isinstance(value, (Text, Unknown, Instance)):
        return None
    if isinstance(value, Connection):
        return value.key
    if isinstance(value, Cursor):
        return value.connection
    if isinstance(value, (Items, Either)):
        parts = value.items if isinstance(value, Items) else value.options
        return connection_among(parts)
    if isinstance(value, Mapping):
        return connection_among(part for _, part in value.pairs)
    return None


def connection_among(values: Iterable[Value]) -> Key | None:
    """The first connection that one of several values is or carries."""
    return next((key for value in values if (key := holds_connection(value)) is not None), None)


def key_of(receiver: Value) -> Key:
    """The connection that a connection or cursor works on."""
    if isinstance(receiver, Connection):
        return receiver.key
    assert isinstance(receiver, Cursor)
    return receiver.connection
