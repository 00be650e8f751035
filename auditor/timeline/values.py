"""What an expression can be, as far as the audit follows it.

Values are frozen and compared by what they are, so that two ways through the code that lead to the same state meet
again. What is not followed is `Unknown`; what can be one of several is `Either`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Union

from auditor.sql.meaning import HOLE_CLOSE, HOLE_OPEN, hole

if TYPE_CHECKING:
    from auditor.program.code import ClassInfo, FunctionInfo, ModuleInfo
    from auditor.python import nodes

#: Beyond this many alternatives a value is not followed any more.
MOST_OPTIONS = 8
#: A text longer than this many characters is not followed: nobody executes it statement by statement.
LONGEST_TEXT = 2_000_000

#: Names an activation, an object or a connection by where it was made and on whose behalf; see `Keys`.
Key = int


@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything. `row` is set where it was computed from the row that a claim returned."""

    row: bool = False


@dataclass(frozen=True, slots=True)
class Literal:
    value: bool | int | float | None

    def __eq__(self, other: object) -> bool:
        # 1 == True in Python, and 0 == False: here they are different values.
        return isinstance(other, Literal) and other.value == self.value and type(other.value) is type(self.value)

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


class Origin(NamedTuple):
    """From where a stretch of a text comes: characters `start` up to `end` are those of piece `piece`, `skip` in.

    `path` is a file; for Python `span` is that of the literal in it, for a .sql file `span` is None and the characters
    are those of the file itself.
    """

    start: int
    end: int
    path: str
    span: nodes.Span | None
    piece: int
    skip: int


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


@dataclass(frozen=True, slots=True)
class Class:
    info: ClassInfo


@dataclass(frozen=True, slots=True)
class Instance:
    """An object of a class of the project; its attributes are kept in the state, under `key`."""

    info: ClassInfo
    key: Key


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


@dataclass(frozen=True, slots=True)
class Cursor:
    connection: Key
    client: bool = False  #: binds its parameters in the client whatever the driver does
    claimed: bool = False  #: its last statement was a claim: what it fetches is a job, or None


@dataclass(frozen=True, slots=True)
class Block:
    """A driver's context manager not yet entered: a transaction, a pipeline, a borrowed connection."""

    kind: str
    key: Key  #: of the connection or pool
    site: nodes.Span
    forced_rollback: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """What a claim returned: a job, or None when there is none. `key` is the connection that claimed."""

    key: Key
    many: bool = False


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
    Raised,
    Either,
]

UNKNOWN = Unknown()
NONE = Literal(None)
TRUE = Literal(True)
FALSE = Literal(False)


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


def options_of(value: Value) -> tuple[Value, ...]:
    """The alternatives of a value, itself when there is but one."""
    return value.options if isinstance(value, Either) else (value,)


def from_row(value: Value) -> bool:
    """Whether a value was computed from what a claim returned."""
    if isinstance(value, (Unknown, Made)):
        return value.row
    if isinstance(value, Row):
        return True
    if isinstance(value, Items):
        return any(from_row(item) for item in value.items)
    if isinstance(value, Mapping):
        return any(from_row(item) for _, item in value.pairs)
    if isinstance(value, Text):
        return any(from_row(item) for item in value.holes)
    return isinstance(value, Either) and any(from_row(item) for item in value.options)


def holds_connection(value: Value) -> Key | None:
    """The connection that a value is or carries, so that whoever receives the value can use it."""
    if isinstance(value, Connection):
        return value.key
    if isinstance(value, Cursor):
        return value.connection
    if isinstance(value, (Items, Either)):
        parts = value.items if isinstance(value, Items) else value.options
        return next((key for part in parts if (key := holds_connection(part)) is not None), None)
    if isinstance(value, Mapping):
        return next((key for _, part in value.pairs if (key := holds_connection(part)) is not None), None)
    return None


# Texts


def text_of(value: Value) -> Text:
    """A value as it would stand in a string: a text is itself, a literal is written out, anything else is a hole."""
    if isinstance(value, Text):
        return value
    if isinstance(value, Literal):
        return Text(str(value.value))
    if isinstance(value, Quoted):
        written = _written(value)
        if written is not None:
            return Text(written, composed=True)
    return Text(hole(0), (value,))


def _written(quoted: Quoted) -> str | None:
    """What psycopg's Identifier or Literal writes into a statement, where that is known."""
    inner = quoted.value
    if not quoted.identifier:
        if isinstance(inner, Literal):
            return "NULL" if inner.value is None else str(inner.value).lower()
        return "'" + inner.value.replace("'", "''") + "'" if isinstance(inner, Text) and not inner.holes else None
    names = inner.items if isinstance(inner, Items) else (inner,)
    known = [name.value for name in names if isinstance(name, Text) and not name.holes]
    return ".".join('"' + name.replace('"', '""') + '"' for name in known) if len(known) == len(names) else None


def join_texts(pieces: list[Text]) -> Text:
    """The texts one after the other, their holes numbered anew."""
    parts: list[str] = []
    holes: list[Value] = []
    origins: list[Origin] = []
    length = 0
    for piece in pieces:
        value = renumber(piece.value, len(holes)) if piece.holes and holes else piece.value
        shift = _shift_of(piece.value, value)
        origins.extend(
            origin._replace(start=shift(origin.start) + length, end=shift(origin.end) + length)
            for origin in piece.origins
        )
        parts.append(value)
        holes.extend(piece.holes)
        length += len(value)
        if length > LONGEST_TEXT:
            return Text(hole(0), (UNKNOWN,))
    return Text("".join(parts), tuple(holes), tuple(origins), composed=any(piece.composed for piece in pieces))


def renumber(value: str, by: int) -> str:
    """`value` with every hole's number raised."""
    out = []
    for index, part in enumerate(value.split(HOLE_OPEN)):
        if index == 0:
            out.append(part)
            continue
        number, close, rest = part.partition(HOLE_CLOSE)
        out.append(f"{HOLE_OPEN}{int(number) + by}{close}{rest}" if close and number.isdecimal() else HOLE_OPEN + part)
    return "".join(out)


class _Shift:
    """Where an offset of a text lies after its holes were renumbered, which may have made their marks longer."""

    def __init__(self, before: str, after: str) -> None:
        self.moves: list[tuple[int, int]] = []
        old = new = 0
        while (old := before.find(HOLE_CLOSE, old)) >= 0 and (new := after.find(HOLE_CLOSE, new)) >= 0:
            self.moves.append((old, new - old))
            old, new = old + 1, new + 1

    def __call__(self, offset: int) -> int:
        moved = 0
        for old, by in self.moves:
            if offset <= old:
                break
            moved = by
        return offset + moved


def _shift_of(before: str, after: str) -> _Shift:
    return _Shift(before, after) if len(before) != len(after) else _Shift("", "")
