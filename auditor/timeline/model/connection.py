"""The state of one connection, and what moves it: begin, commit, rollback, savepoints, settings, errors.

Everything here is a table of PostgreSQL's own behaviour; which of it a driver sends, and when, is the driver's.
"""

from __future__ import annotations

import enum
from dataclasses import field, replace
from typing import TYPE_CHECKING

from auditor.findings import Confidence, Place
from auditor.frozen import dataclass
from auditor.program.catalogue import is_unnamed
from auditor.sql.words import is_queue
from auditor.timeline.model.settings import NOT_KNOWN, NOTHING, OPTION, Held, Setting

if TYPE_CHECKING:
    from auditor.timeline.model.values import Key


class Autocommit(enum.Enum):
    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class Status(enum.Enum):
    """The transaction status, as libpq names it, and what cannot be told."""

    IDLE = "idle"
    OPEN = "open"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    CLOSED = "closed"


class Life(enum.Enum):
    """How long a connection lives, which decides whether it has a next user."""

    JOB = "job"  #: opened and closed by the code that works on it
    POOL = "pool"
    KEPT = "kept"  #: held by a module, an object or a closure
    GIVEN = "given"  #: an argument of a function whose caller is not seen


class Deed(enum.Enum):
    """What a statement did for the queue, while it is not yet known whether it lasts."""

    CLAIM = "claim"
    COUNT = "count"
    FINISH = "finish"
    RUN_LOG = "run log"
    WORK = "work"
    HOLD = "hold"  #: locks jobs without claiming them, one by its id or many that stalled: none other ends them
    BEAT = "beat"  #: a heartbeat that is seen once its transaction ends
    HIDDEN = "hidden"  #: and one after which there was work in the same transaction
    CHANGE = "change"  #: writes to a job table what has no other name here
    CLEANUP = "cleanup"


#: How a job is held that is read without a lock, and of which Python then asks who has it.
READ = "read"
#: How one is held of which Python asks only whether somebody has it, and not whether it is done.
ONLY_HELD = "only held"


@dataclass(frozen=True, slots=True)
class Mark:
    """A deed at a place. `how` is the kind of claim; `level` the depth of the savepoint it stands in."""

    deed: Deed
    place: Place
    table: str = ""
    how: str = ""
    level: int = 1
    counts: bool = False
    many: bool = False  #: a claim that may take several jobs at once
    one: bool = False  #: a change of one job, named by a single id
    proves: bool = True  #: a lock on one job: it is asked too whether somebody else has it by now
    sure: Confidence = Confidence.HIGH

    def may_end(self, claim: Mark) -> bool:
        """Whether it may be the end of the job that was claimed: in another table that is known it ends none."""
        other = self.table != claim.table and _is_told(self.table) and _is_told(claim.table)
        return self.deed is Deed.FINISH and not other


def _is_told(table: str) -> bool:
    """Whether it is known which table is meant: by its name, or by what the program calls the name that it puts in."""
    return bool(table) and (not is_unnamed(table) or is_queue(table))


@dataclass(frozen=True, slots=True)
class ConnectionState:
    """What is known of a connection at one point of one path. Places that only explain do not tell states apart."""

    driver: str
    life: Life
    made: Place | None = field(default=None, compare=False)
    pool: Key | None = None
    sure: Confidence = Confidence.HIGH
    autocommit: Autocommit = Autocommit.OFF
    status: Status = Status.IDLE
    begun: Place | None = field(default=None, compare=False)
    #: Names of the savepoints; a driver's own have none.
    savepoints: tuple[str, ...] = ()
    #: How many of the driver's transaction() blocks are open.
    blocks: int = 0
    #: The library commits each statement that writes, while no transaction of its own is under way.
    commits_writes: bool = False
    #: How many blocks are open that keep it from being closed.
    holders: int = 0
    #: It wrote rows or locked them, and holds them to its end.
    wrote: bool = False
    #: It read under an isolation level that keeps one snapshot to its end.
    snapshot: bool = False
    #: The statement since which it holds rows or a snapshot, and the calls around that.
    held_at: Place | None = field(default=None, compare=False)
    held_in: tuple[Place, ...] = field(default=(), compare=False)
    isolation: str = ""
    #: The level of transactions that do not say another.
    usual_isolation: str = ""
    settings: tuple[Setting, ...] = ()
    #: The role it was opened as; empty where that is not seen.
    user: str = ""
    #: None: the driver never prepares by itself.
    prepares_after: int | None = None
    client_cursors: bool = False
    pending: tuple[Mark, ...] = ()
    #: Deeds of the transaction that was last undone, until something else is done.
    undone: tuple[Mark, ...] = field(default=(), compare=False)
    pipeline: bool = False
    #: What is under the driver only remembers what it has sent itself.
    blind: bool = False
    #: What is under the driver begins nothing, and ends nothing, where the text of a statement has begun.
    refuses_begun: bool = False
    #: And that is how this transaction was begun, in autocommit.
    begun_by_text: bool = False
    #: The driver takes a transaction to be open that the text of a statement has ended, and begins no other.
    misled: bool = False
    #: A transaction of the driver's own is under way, whatever the server says.
    under_way: bool = False
    #: The driver refuses statements until the transaction is rolled back, though the server would take them.
    doomed: bool = False
    #: The transaction of a block was ended inside of it: nothing runs until the end of the block.
    barred: bool = False
    #: The last statement claimed a job: what is fetched next is that job, or nothing.
    fetches_claim: bool = False
    #: The last statement only asked what this setting holds: what is fetched next is that.
    fetches_setting: str = ""
    #: The tables that were read or written as some tenant since it was opened or borrowed.
    tenant_tables: frozenset[str] = frozenset()
    #: What failed, so that the transaction is aborted.
    aborted_at: Place | None = field(default=None, compare=False)
    #: Some handler let that pass, and what is handled now is another failure, which did not abort it.
    aborted_before: bool = False
    #: It was a statement that only keeps the job's own row, no work: what fails there is the connection.
    aborted_by_books: bool = False
    #: Where autocommit was last switched.
    switched_at: Place | None = field(default=None, compare=False)
    #: It was worked with since it was opened or borrowed: by a statement, or by a call that is not followed.
    touched: bool = False
    #: Code that is not seen ran while it was open, and may have found it: in a context variable, on the request.
    passed: bool = False
    #: Where it was given, outside a transaction, to code that is not followed: what that did belongs to the transaction
    #: which the driver began with it, and which the next statement is taken to begin.
    lent: Place | None = None
    #: Where it went back into its pool.
    released: Place | None = field(default=None, compare=False)
    #: Where the object was told to work in another schema than it was found in; None: it remembers that one.
    pointed: Place | None = None
    #: The entry point that opened it: whoever comes later finds it as that one left it.
    root: str = ""

    @property
    def level(self) -> int:
        """0 outside a transaction, 1 in it, one more for each savepoint."""
        return 0 if self.status is Status.IDLE else 1 + len(self.savepoints)

    @property
    def is_bare(self) -> bool:
        """Whether nothing was set on it, and nothing done for a job: it may as well not have been opened yet."""
        return not (self.settings or self.pending or self.undone)

    @property
    def holds(self) -> bool:
        """Whether its transaction keeps others waiting, or keeps what is dead from being cleared, while it is open."""
        return self.status is Status.OPEN and (self.wrote or self.snapshot)

    @property
    def in_transaction(self) -> bool:
        return self.status in (Status.OPEN, Status.ABORTED)

    @property
    def is_barred_by_text(self) -> bool:
        """Whether what is under the driver has no part in the transaction that is open, and refuses to work in it."""
        return self.begun_by_text and self.in_transaction

    def setting(self, name: str) -> Setting:
        """The setting of that name; one never touched holds nothing, or something unknown on a connection given."""
        for setting in self.settings:
            if setting.name == name:
                return setting
        return Setting(name, NOT_KNOWN if self.life is Life.GIVEN else NOTHING)

    def with_setting(self, setting: Setting) -> ConnectionState:
        others = [known for known in self.settings if known.name != setting.name]
        return replace(self, settings=tuple(sorted((*others, setting), key=lambda known: known.name)))

    def marked(self, mark: Mark) -> ConnectionState:
        """The same state with a deed of the open transaction; of work it is kept only that there was some."""
        work = mark.deed is Deed.WORK
        pending = _hiding(self.pending) if work else self.pending
        if not any(known.deed is mark.deed and (work or known.place == mark.place) for known in pending):
            pending = (*pending, replace(mark, level=max(self.level, 1)))
        return self if pending is self.pending else replace(self, pending=pending)


def _hiding(pending: tuple[Mark, ...]) -> tuple[Mark, ...]:
    """The deeds of a transaction that goes on with work: its heartbeats wait for the end of that."""
    if not any(mark.deed is Deed.BEAT for mark in pending):
        return pending
    return tuple(replace(mark, deed=Deed.HIDDEN) if mark.deed is Deed.BEAT else mark for mark in pending)


def begin(state: ConnectionState, place: Place, isolation: str = "") -> ConnectionState:
    """BEGIN; inside a transaction it is only a warning."""
    if state.in_transaction:
        return state
    return replace(
        state,
        status=Status.OPEN,
        begun=place,
        savepoints=(),
        wrote=False,
        snapshot=False,
        isolation=isolation or state.isolation,
        pending=(Mark(Deed.WORK, state.lent),) if state.lent is not None else (),
        undone=(),
        lent=None,
        begun_by_text=False,
    )


def commit(state: ConnectionState, place: Place) -> tuple[ConnectionState, tuple[Mark, ...]]:
    """COMMIT: the state after it, and the deeds that now last. Of an aborted transaction it is a rollback."""
    if state.status is Status.ABORTED:
        return rollback(state, place), ()
    settings = tuple(setting.committed(place) for setting in state.settings)
    return _ended(replace(state, settings=settings), undone=()), state.pending


def rollback(state: ConnectionState, place: Place) -> ConnectionState:
    """ROLLBACK of the whole transaction; `undone` tells what is gone."""
    settings = tuple(setting.rolled_back(1, place) for setting in state.settings)
    return _ended(replace(state, settings=settings), undone=state.pending)


def _ended(state: ConnectionState, undone: tuple[Mark, ...]) -> ConnectionState:
    return replace(
        state,
        status=Status.IDLE,
        begun=None,
        savepoints=(),
        wrote=False,
        snapshot=False,
        held_at=None,
        held_in=(),
        isolation=state.usual_isolation,
        pending=(),
        undone=undone,
        aborted_at=None,
        aborted_before=False,
        aborted_by_books=False,
        lent=None,
        doomed=False,
        begun_by_text=False,
    )


def savepoint(state: ConnectionState, name: str) -> ConnectionState:
    return replace(state, savepoints=(*state.savepoints, name))


def release(state: ConnectionState, name: str | None) -> ConnectionState:
    """RELEASE SAVEPOINT; None is the driver's own, the innermost."""
    depth = _depth_of(state, name)
    if depth is None:
        return state
    for level in range(1 + len(state.savepoints), depth, -1):
        settings = tuple(setting.released(level) for setting in state.settings)
        pending = tuple(replace(mark, level=min(mark.level, level - 1)) for mark in state.pending)
        state = replace(state, settings=settings, pending=pending)
    return replace(state, savepoints=state.savepoints[: depth - 1])


def rollback_to(state: ConnectionState, name: str | None, place: Place) -> ConnectionState:
    """ROLLBACK TO SAVEPOINT, which stays; it makes an aborted transaction usable again."""
    depth = _depth_of(state, name)
    if depth is None:
        return state
    level = depth + 1
    settings = tuple(setting.rolled_back(level, place) for setting in state.settings)
    return replace(
        state,
        status=Status.OPEN,
        aborted_before=False,
        aborted_by_books=False,
        doomed=False,
        settings=settings,
        savepoints=state.savepoints[:depth],
        pending=tuple(mark for mark in state.pending if mark.level < level),
        undone=tuple(mark for mark in state.pending if mark.level >= level),
    )


def _depth_of(state: ConnectionState, name: str | None) -> int | None:
    """How many savepoints lie up to and with the one of that name."""
    if name is None:
        return len(state.savepoints) or None
    for index in range(len(state.savepoints) - 1, -1, -1):
        if state.savepoints[index] == name:
            return index + 1
    return None


def abort(state: ConnectionState, place: Place) -> ConnectionState:
    """A statement failed at `place`: a transaction is aborted; outside one nothing has changed."""
    return replace(state, status=Status.ABORTED, aborted_at=place) if state.status is Status.OPEN else state


def handled(state: ConnectionState, by_call: bool) -> ConnectionState:
    """A failure is caught; one of a call that ran no statement here has not aborted what it finds aborted."""
    if by_call is state.aborted_before or state.status is not Status.ABORTED:
        return state
    return replace(state, aborted_before=by_call)


#: Isolation levels that keep one snapshot for the whole transaction.
_SNAPSHOTS = frozenset({"repeatable read", "serializable"})


def hold(state: ConnectionState, wrote: bool, place: Place, calls: tuple[Place, ...]) -> ConnectionState:
    """A statement in a transaction wrote or locked rows, or only read: what is held to the end from here on."""
    if not state.in_transaction:
        return state
    snapshot = state.snapshot or state.isolation in _SNAPSHOTS
    if (wrote or state.wrote, snapshot) == (state.wrote, state.snapshot):
        return state
    held_at, held_in = (place, calls) if wrote and not state.wrote else (state.held_at or place, state.held_in or calls)
    return replace(state, wrote=wrote or state.wrote, snapshot=snapshot, held_at=held_at, held_in=held_in)


def unhold(state: ConnectionState) -> ConnectionState:
    """The statement since which rows are held has found none."""
    return replace(state, wrote=False, held_at=state.held_at if state.snapshot else None)


def set_setting(state: ConnectionState, name: str, held: Held, local: bool, place: Place) -> ConnectionState:
    """SET or set_config. A local one outside a transaction ends with its own statement and changes nothing."""
    setting = state.setting(name)
    if not local:
        return state.with_setting(setting.at_session(held, state.level, place))
    if state.level == 0:
        return state
    return state.with_setting(setting.at_local(held, state.level))


#: Settings that RESET ALL leaves alone.
KEPT_BY_RESET_ALL = frozenset({"role", "session_authorization"})


def out_of_block(state: ConnectionState) -> ConnectionState:
    """One of the driver's blocks is over."""
    return replace(state, blocks=max(state.blocks - 1, 0))


def reset_all(state: ConnectionState, place: Place, keep: frozenset[str] = frozenset()) -> ConnectionState:
    """RESET ALL: every setting but those in `keep` holds nothing, for the session, or what it was opened with."""
    for setting in state.settings:
        if setting.name not in keep and setting.kept.since != OPTION:
            held = replace(NOTHING, origin=place)
            state = state.with_setting(setting.at_session(held, state.level, place))
    return state


def unknown(state: ConnectionState) -> ConnectionState:
    """The same connection after something that was not followed: nothing of its transaction is known."""
    return replace(
        state,
        status=Status.UNKNOWN,
        savepoints=(),
        pending=(),
        undone=(),
        settings=tuple(Setting(setting.name, NOT_KNOWN) for setting in state.settings),
    )
