"""The words in which a driver is described. A driver's file is tables of these; the timeline gives them effect."""

from __future__ import annotations

import enum
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING

from auditor.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


class Thing(enum.Enum):
    """What a driver's call makes, and what a value from it is."""

    CONNECTION = "connection"
    POOL = "pool"
    POOLED = "connection that its owner takes out of a pool and, when it is closed, gives back"
    NULL_POOL = "pool that keeps nothing"
    CURSOR = "cursor"
    CLIENT_CURSOR = "cursor that binds in the client"
    STATEMENT = "statement that was prepared by hand"
    CONNECTIONS = "connections by alias"
    ASYNC_POOL = "pool of connections for coroutines"
    SESSION = "session: a connection that is taken out of a pool when it is needed"
    SESSIONS = "factory of sessions"
    ASYNC_SESSIONS = "factory of sessions for coroutines"
    SCOPED = "the session of whoever asks"
    ASYNC_SESSION = "session for coroutines"
    ASYNC_CONNECTION = "connection for coroutines"
    INFO = "connection info"
    ADAPTERS = "anything else of the driver that touches no transaction"


class Act(enum.Enum):
    """What a call on one of the driver's things does."""

    EXECUTE = enum.auto()  #: runs the SQL in its first argument with the parameters in its second
    EXECUTE_MANY = enum.auto()
    COPY = enum.auto()  #: runs the SQL in its first argument and streams rows through what it returns
    CALL = enum.auto()  #: callproc(name, parameters)
    CURSOR = enum.auto()
    FETCH_ONE = enum.auto()
    FETCH_MANY = enum.auto()
    COMMIT = enum.auto()
    ROLLBACK = enum.auto()
    CLOSE = enum.auto()
    RESET = enum.auto()  #: rolls back and sets every setting back (psycopg2)
    TRANSACTION = enum.auto()  #: a block: a transaction, or a savepoint when one is open
    OUTERMOST = enum.auto()  #: a block: a transaction, refused where a block is open
    JOIN = enum.auto()  #: a block: a transaction, or nothing of its own when one is open
    NEST = enum.auto()  #: a block: a savepoint, which the server refuses outside of a transaction
    HOLD = enum.auto()  #: a block at whose end the connection is closed
    START = enum.auto()  #: sends BEGIN
    PIPELINE = enum.auto()
    SET_AUTOCOMMIT = enum.auto()
    SET_SESSION = enum.auto()  #: set_session(isolation_level, readonly, deferrable, autocommit)
    SET_ISOLATION = enum.auto()
    ACQUIRE = enum.auto()  #: takes a connection out of a pool
    RELEASE = enum.auto()  #: gives its first argument back to the pool
    BORROW = enum.auto()  #: a block that acquires and releases
    BORROW_CURSOR = enum.auto()  #: the same for a connection of which only a cursor is given
    CHECK = enum.auto()  #: the pool's own check of a connection, which leaves it as it was
    CLOSE_POOL = enum.auto()
    MARK_ROLLBACK = enum.auto()  #: set_rollback(value): from here on the transaction can only be rolled back
    DEFER = enum.auto()  #: runs its first argument once the transaction is committed; at once outside of one
    SAVEPOINT = enum.auto()
    RELEASE_SAVEPOINT = enum.auto()
    ROLLBACK_SAVEPOINT = enum.auto()
    HELD = enum.auto()  #: gives the connection of an alias that the driver keeps
    ALL = enum.auto()  #: gives all of them
    BEGIN = enum.auto()  #: begins a transaction; what it returns ends it, by hand or as a block
    BEGIN_NESTED = enum.auto()  #: the same with a savepoint, in a transaction that is begun where none is
    EXECUTE_ONE = enum.auto()  #: runs a statement and fetches the first row or value of it
    EXECUTE_ALL = enum.auto()  #: runs a statement and fetches all rows of it
    PREPARE = enum.auto()  #: gives the statement in its first argument, which runs when it is asked for rows
    SAME = enum.auto()  #: gives what it is called on, or another view of it
    OPTIONS = enum.auto()  #: execution_options(isolation_level=…), configure(bind=…)
    RUN = enum.auto()  #: calls its first argument with the thing it is called on
    QUERY = enum.auto()  #: a statement about the model in its first argument, which runs when something is fetched
    GET = enum.auto()  #: fetches the object of a model by its key
    MERGE = enum.auto()  #: an object that is added, or found by its id, and given back
    BULK = enum.auto()  #: bulk_update_mappings(model, rows): writes rows back by their ids
    ADD = enum.auto()  #: the objects are inserted when the session is flushed
    DELETE = enum.auto()  #: the object is deleted when the session is flushed
    FLUSH = enum.auto()  #: writes back what was changed
    REFRESH = enum.auto()  #: writes back what was changed, and reads its first argument anew
    DISCARD = enum.auto()  #: the connection will not be used again
    POINT = enum.auto()  #: what the object remembers is changed: whoever uses it works in this schema
    POINT_HOME = enum.auto()  #: in the one that all share
    POINTED = enum.auto()  #: gives the schema that it remembers
    NOTHING = enum.auto()  #: known, and of no consequence here


class Binding(enum.Enum):
    """Who puts the parameters into the statement."""

    SERVER = "server"
    CLIENT = "client"


class Filling(enum.Enum):
    """What becomes of a hole of a template string."""

    PARAMETER = "parameter"
    IDENTIFIER = "identifier"
    LITERAL = "literal"
    SQL = "sql"


class AfterBlock(enum.Enum):
    """What `with connection:` does after it has ended the transaction."""

    CLOSE = "close"
    KEEP = "keep"
    RELEASE = "release"  #: nothing is committed: it is closed, and goes back to the pool it came from
    END = "end"  #: the block is a transaction of its own, and the outermost closes the connection
    DROP = "drop"  #: nothing is committed: it is closed, and the server rolls back what is open


class Given(enum.Enum):
    """What `with transaction as x` gives."""

    NOTHING = "nothing of use"
    CONNECTION = "the connection that it has taken out of its pool"
    ENDING = "what commits and rolls back, once and for all"
    RENEWING = "what commits and rolls back, and begins anew at once"


class Callback(enum.Enum):
    """A pool's callbacks, each given the connection."""

    CONFIGURE = "configure"
    CHECK = "check"
    RESET = "reset"
    RETURNED = "returned"  #: told once the pool has rolled back: what is begun here is met by the next borrower
    CHECKOUT = "checkout"


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver's semantics, as far as transactions, sessions and pools go.

    `makes` maps the dotted names of callables to what they make, `types` those of classes to what a value annotated so
    is. `methods` and `attributes` map (thing, name). `errors` are the dotted names of exception classes that any
    failing statement is an instance of; `error_packages` are the packages below which every exception class is one of
    the driver's.
    """

    name: str
    packages: tuple[str, ...]
    makes: Mapping[str, Thing]
    types: Mapping[str, Thing]
    methods: Mapping[tuple[Thing, str], Act]
    errors: frozenset[str]
    #: Callables that run SQL on a connection or cursor given first, the SQL second (psycopg2.extras.execute_values).
    helpers: Mapping[str, Act] = field(default_factory=lambda: MappingProxyType({}))
    #: A statement outside a transaction begins one, unless the connection is in autocommit.
    begins_by_itself: bool = True
    #: It asks the server whether a transaction is open; else it only remembers what it has sent itself, and begins none
    #: after a COMMIT in the text of a statement.
    watches_status: bool = True
    binding: Binding = Binding.SERVER
    #: Parameters stand one by one behind the statement.
    spreads_parameters: bool = False
    #: Parameters stand behind the statement by their names.
    names_parameters: bool = False
    #: What stands for a parameter in a statement, where it is no placeholder of PostgreSQL or the DBAPI.
    placeholder: str = ""
    #: Executions of one statement after which it is prepared on the server; None: never by itself.
    prepares_after: int | None = None
    #: The option of connect() that says another number; its None stands for never.
    prepare_option: str = "prepare_threshold"
    #: The option of connect() for the size of the cache of prepared statements, where 0 stands for none.
    cache_option: str = ""
    #: From this version on it notices that DISCARD ALL has dropped its statements, by luck alone; empty: never.
    notices_discard: tuple[int, ...] = ()
    after_block: AfterBlock = AfterBlock.CLOSE
    #: `with connection:` begins a transaction even in autocommit, and cannot stand in another one.
    block_begins: bool = False
    #: The names it is installed under; empty: its own alone.
    distributions: tuple[str, ...] = ()
    #: The version from which on the block does; empty: always.
    block_begins_since: tuple[int, ...] = ()
    #: Before this version connections commit by themselves what begins with one of `commits_after`, outside of begin().
    commits_writes_before: tuple[int, ...] = ()
    commits_after: tuple[str, ...] = ()
    #: commit() and rollback() raise inside a transaction() block.
    block_forbids_commit: bool = False
    #: The commit of a transaction that an error has aborted raises, though it ends it; so does one in text.
    commit_raises: bool = False
    #: Whether a block is a savepoint is told by the blocks around it: it is refused in a transaction begun by hand.
    block_counts: bool = False
    #: The settings that a connection's reset() leaves as they are. It rolls back, too, and forgets the blocks that are
    #: counted: the next one is the outermost.
    reset_keeps: frozenset[str] = frozenset()
    #: A block that joins the transaction around it keeps it from being committed once an exception has left the block.
    join_dooms: bool = True
    #: What a block of a transaction gives.
    block_gives: Given = Given.NOTHING
    #: The pool hands out a connection for each statement, and within a block to whoever runs in it the same one.
    of_task: bool = False
    #: The block of a borrowed connection commits what is open at its end.
    borrow_commits: bool = True
    #: Exceptions that only roll back the transaction() block they are raised in, which keeps them from going further.
    block_rollbacks: frozenset[str] = frozenset()
    #: Switching autocommit inside a transaction raises; else it is rolled back first.
    autocommit_switch_raises: bool = True
    #: set_isolation_level rolls back what is open first.
    isolation_switch_rolls_back: bool = False
    #: A connection that comes back in a transaction is rolled back; one a callback leaves in one is thrown away.
    pool_discards_busy: bool = True
    #: A connection that comes back in a transaction is closed.
    pool_closes_busy: bool = False
    #: The pool sets back what the session holds when a connection is released, unless a reset callback does it.
    pool_resets: bool = False
    #: The keyword of the pool under which it takes the arguments of connect(); None: it takes them as its own.
    pool_kwargs: str | None = None
    #: The keywords of the pool for how many connections it keeps at most; the first that is given counts.
    pool_limits: tuple[str, ...] = ()
    #: The keywords of the pool for its callbacks.
    callbacks: Mapping[str, Callback] = field(default_factory=lambda: MappingProxyType({}))
    #: Isolation levels under which no transaction is begun, by the name or number they are written with.
    autocommit_levels: frozenset[str] = frozenset()
    isolation_names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    #: Attributes of a connection that tell which schema it remembers.
    tell_schema: frozenset[str] = frozenset()
    #: The classes that a model is derived from, where models send their own statements.
    models: frozenset[str] = frozenset()
    #: What it makes is kept in modules of its own, from which it is imported: all that import the driver are read.
    kept_in_modules: bool = False
    #: The dialects in its URLs that stand for PostgreSQL, where it speaks to other databases, too.
    speaks: tuple[str, ...] = ()
    #: Connections that the driver itself keeps for the process, by the dotted name under which code finds them.
    held: Mapping[str, Thing] = field(default_factory=lambda: MappingProxyType({}))
    #: Functions that work on one of these: on the one whose alias they are given, else on the default.
    functions: Mapping[str, Act] = field(default_factory=lambda: MappingProxyType({}))
    default_alias: str = "default"
    #: What of its packages tells, where it is imported, that a module works on connections; empty: anything.
    imports: frozenset[str] = frozenset()
    #: Names that only stand together where its connections are worked on: they tell it where nothing imports it.
    spoken: tuple[frozenset[str], ...] = ()
    #: Its connections are in autocommit when nobody says otherwise.
    autocommit: bool = False
    #: A connection that was closed is opened again, as new, by whoever uses it next.
    reopens: bool = False
    #: The end of a savepoint's block raises where a statement in it has failed and the failure was caught.
    release_raises: bool = False
    #: The savepoint is rolled back then; else the transaction stays aborted.
    release_recovers: bool = True
    #: A block that cannot roll back to its savepoint, which is gone, raises; else that is passed over.
    rollback_raises: bool = False
    #: It has transactions of its own, which begin with the first statement, also in autocommit, and which only its own
    #: methods end: whatever the text of a statement does to the server's, they go on.
    own_transactions: bool = False
    #: Once the transaction of a block is ended inside of it, everything is refused until the block's end.
    block_bars: bool = False
    #: The drivers under it that bind parameters in the client, by the name in the URL; "" is the default one.
    client_dbapis: frozenset[str] = frozenset()
    #: Those that do not watch the transaction's status, see `watches_status`.
    blind_dbapis: frozenset[str] = frozenset()
    #: Those that refuse to begin, and end nothing, in a transaction that the text of a statement has begun.
    refusing_dbapis: frozenset[str] = frozenset()
    #: What the driver raises where it refuses what it is asked.
    refuses_with: str = ""
    #: The driver's exception classes that this is one of; it is none of the others in `errors`.
    refusals_are: frozenset[str] = frozenset()
    #: The formats of a template string (PEP 750) that is executed; none where the driver takes no templates.
    template_formats: Mapping[str, Filling] = field(default_factory=lambda: MappingProxyType({}))
