"""What happens on a timeline: the events that a walk leaves behind, and that rules ask about.

Events are frozen and hold places, not code, so that the same event met on two paths is one event.
"""

from __future__ import annotations

import enum
from dataclasses import field
from typing import TYPE_CHECKING, Union

from auditor.frozen import dataclass

if TYPE_CHECKING:
    from auditor.drivers.model import Callback
    from auditor.findings import Confidence, Place
    from auditor.sql.meaning import Statement
    from auditor.sql.queue import Step
    from auditor.timeline.leaving.outside import Outside
    from auditor.timeline.model.connection import Autocommit, ConnectionState, Deed, Mark
    from auditor.timeline.model.settings import Held, Setting
    from auditor.timeline.model.values import Key, Raised


class Where(enum.Enum):
    """Where a setting's scope comes from: written out, or from outside."""

    LOCAL = "local"
    SESSION = "session"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SettingSet:
    """A setting that a statement changed, or tried to."""

    name: str
    #: How sure it is that the setting holds a tenant; None: it does not. The role is no tenant.
    tenant: Confidence | None
    where: Where
    clears: bool
    value: str
    place: Place
    #: SET …, not set_config().
    as_statement: bool
    #: Its value is a parameter that the driver sends beside the statement.
    bound: bool = False
    #: Its value is text that was put into the statement, not quoted by anyone.
    interpolated: bool = False
    #: Its value differs from job to job.
    of_task: bool = False


@dataclass(frozen=True, slots=True)
class Ran:
    """A statement that ran on a connection. `before` is the state the server was in when it got it."""

    place: Place
    call: Place
    connection: Key
    before: ConnectionState
    after: ConnectionState
    statement: Statement = field(compare=False)
    text: str
    settings: tuple[SettingSet, ...] = ()
    #: Placeholders are sent beside the statement, and there are some.
    bound_on_server: bool = False
    symbol: str = ""
    tables: tuple[str, ...] = ()
    #: What it did for a queue, SQL functions that it calls included.
    steps: tuple[Step, ...] = field(default=(), compare=False)
    step_places: tuple[Place, ...] = field(default=(), compare=False)
    marks: tuple[Mark, ...] = ()
    #: Nobody looks at what the call returned.
    ignored: bool = False
    #: It calls a SQL function that nothing in the program names: who else works on the same rows is not known.
    alone: bool = False
    #: The calls that led to the function it runs in, the first one first.
    through: tuple[Place, ...] = field(default=(), compare=False)
    #: The function that has called the one it runs in.
    caller: str = field(default="", compare=False)

    @property
    def deeds(self) -> frozenset[Deed]:
        return frozenset(mark.deed for mark in self.marks)


@dataclass(frozen=True, slots=True)
class GivenToRole:
    """A setting that a role, or a database, gives to every connection that is opened from then on."""

    place: Place
    role: str
    setting: SettingSet
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Tenantless:
    """A job's work on a table of tenants, on a connection on which nothing can have set a tenant."""

    place: Place
    connection: ConnectionState
    table: str
    claimed_at: Place | None
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection was opened, or borrowed from a pool."""

    place: Place
    connection: Key
    after: ConnectionState
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Began:
    """A transaction or a savepoint was begun by a block or a call, not by a statement in text."""

    place: Place
    connection: Key
    after: ConnectionState
    savepoint: bool = False
    symbol: str = ""


#: What ended a transaction, where no call did.
END_OF_BLOCK = "the end of the block"


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction or savepoint ended. `how` is commit, rollback, release or rollback to; `by` says who did it."""

    place: Place
    connection: Key
    how: str
    by: str
    before: ConnectionState
    after: ConnectionState
    symbol: str = ""
    #: Where the context manager is entered in which it ends, if it does in one.
    block: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Handover:
    """A connection goes to its next user, in the state `after`. `kind` is pool, module, object or caller."""

    place: Place
    connection: Key
    kind: str
    before: ConnectionState
    after: ConnectionState
    heir: Place | None
    pool: Key | None = None
    symbol: str = ""
    sure: Confidence | None = None


@dataclass(frozen=True, slots=True)
class Inherited:
    """A statement ran as the tenant that an earlier job left on the connection."""

    place: Place
    connection: ConnectionState
    setting: Setting
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class SetAnew:
    """Who listens to the begin of transactions has set this, as whoever comes by may have asked."""

    place: Place
    connection: Key
    name: str
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class PointedBack:
    """A connection's object was told to work in the schema again that it was found in."""

    place: Place
    connection: Key
    pointed: Place  #: where it was told another
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class LeftPointed:
    """An entry point was left, by an exception or not, while a connection's object remembers another schema."""

    place: Place
    connection: Key
    pointed: Place
    raised: bool
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Exit:
    """One way a pool's callback ends: the connection's state, and the statement that left it so."""

    after: ConnectionState
    raised: bool
    last: Place | None


@dataclass(frozen=True, slots=True)
class CallbackRan:
    """A pool's callback, run on a connection as the pool gives it to it."""

    place: Place  #: the function
    pool: Place
    connection: Key
    callback: Callback
    before: Autocommit
    exits: tuple[Exit, ...]
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Worked:
    """Something was done for a job that may fail: a handler was called, or control went to code that is not seen."""

    place: Place
    what: str
    connections: tuple[Key, ...] = ()
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A job has run to its end on one path.

    `pending` are deeds of transactions that are still open; `failed` is what went wrong, caught or not.
    """

    place: Place
    claims: tuple[Mark, ...]
    kept: tuple[Mark, ...]
    undone: tuple[Mark, ...]
    pending: tuple[Mark, ...]
    counted_before_work: bool
    worked: bool
    failed: Raised | None
    failed_at: Place | None
    root: str
    symbol: str = ""
    #: More was done for it than statements.
    called: bool = False
    #: The lease is committed, or left to be, before the job is done: what came before that was taking it.
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class LockRefused:
    """A command asks a mapper to lock jobs that wait, where no transaction is open: it raises, and sends nothing."""

    place: Place
    connection: Key
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """A job that was looked for without a lock at `found_at` is taken by its id, and others are kept from it."""

    place: Place
    found_at: Place


@dataclass(frozen=True, slots=True)
class Unguarded:
    """A job was taken, or finished, that nothing kept from others.

    `freed_at` is the commit that let go of the row lock of its claim; None where the job was only looked for, at
    `found_at`, without any lock. `batch` tells that the commit was meant for another job of the same claim.
    """

    place: Place
    call: Place
    table: str
    found_at: Place
    freed_at: Place | None
    batch: bool
    sure: Confidence
    symbol: str = ""
    #: The call that led to that commit, where it stands in another function.
    freed_by: Place | None = None
    #: The job was deleted, or given up, and not marked as taken: what else is done to it tells why.
    given_up: bool = False
    #: Nobody had it when it was locked: it is taken a second time if jobs that are done stay in their table.
    if_kept: bool = False


@dataclass(frozen=True, slots=True)
class Outlived:
    """A local tenant handed up by a savepoint was still in force when a statement ran outside of it."""

    place: Place
    connection: Key
    name: str
    held: Held
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Stranded:
    """Work ran without a tenant on one connection after the tenant was set on another that had been given back."""

    place: Place
    set_at: Place
    released_at: Place
    tables: tuple[str, ...]
    sure: Confidence
    symbol: str = ""
    #: No other connection is seen: nothing was done on this one, and whoever asked for it goes on.
    over: bool = False


@dataclass(frozen=True, slots=True)
class Reached:
    """A call left the process while a transaction held rows or a snapshot.

    `place` is the call to speak of: the first on the way out that is made after the transaction began to hold
    something. `through` are the calls inside of it, the last of them the one that leaves. `in_job` tells that the
    transaction is the one that claimed, `of_worker` that a worker process runs it, `of_listener` that it is told of a
    row as soon as that is written, `tells_row` that a task is told of a row.
    """

    place: Place
    connection: Key
    held: ConnectionState
    name: str
    reach: Outside
    at: Place
    through: tuple[Place, ...] = ()
    keyed: bool = False
    in_job: bool = False
    of_worker: bool = False
    of_listener: bool = False
    tells_row: bool = False
    root: str = ""
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Repeated:
    """A call left the process on behalf of a job, and whoever it reaches cannot know it from its repetition."""

    place: Place
    name: str
    reach: Outside
    claims: tuple[Mark, ...]
    calls: tuple[Place, ...] = ()
    symbol: str = ""


Event = Union[
    Ran,
    GivenToRole,
    Tenantless,
    Opened,
    Began,
    Ended,
    Handover,
    Inherited,
    SetAnew,
    PointedBack,
    LeftPointed,
    CallbackRan,
    Worked,
    JobEnded,
    LockRefused,
    Taken,
    Unguarded,
    Outlived,
    Stranded,
    Reached,
    Repeated,
]
