"""What is known at one point of one path, and where paths go from there."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, NamedTuple

from auditor.findings import Confidence
from auditor.frozen import dataclass
from auditor.timeline.model.connection import Autocommit, Deed, Life, Mark, Status, handled, unknown
from auditor.timeline.model.settings import NOT_KNOWN, Setting
from auditor.timeline.model.values import UNKNOWN, Change, Key, Raised, Value, either

if TYPE_CHECKING:
    from collections.abc import Callable

    from auditor.findings import Place
    from auditor.program.code import ClassInfo, FunctionInfo, ModuleInfo
    from auditor.timeline.model.connection import ConnectionState
    from auditor.timeline.model.events import Event

#: At more states than this at one point, what they differ in is given up as unknown.
MOST_STATES = 48
#: Beyond so many, those are joined that differ only in connections on which nothing was done that matters.
MANY_STATES = 8


class TooMuchError(Exception):
    """An entry point has more paths than are worth following."""


class Keys:
    """Small numbers for what is named by where it was made: equal parts get the same number.

    Activations of functions have negative numbers, so that their variables can be told from what outlives them.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}

    def of(self, *parts: object) -> Key:
        return self._numbers.setdefault(parts, len(self._numbers) + 1)

    def of_activation(self, *parts: object) -> Key:
        return self._numbers.setdefault(parts, -len(self._numbers) - 1)


@dataclass(frozen=True, slots=True)
class Trace:
    """The way that led to a state, newest event first."""

    event: Event
    before: Trace | None
    length: int


class Freed(NamedTuple):
    """A claim by row locks, the commit that ended them, and whether only some of its rows had been changed by then.

    That only some were is known once a loop over the rows has turned in which the commit stands: `turned`.
    """

    claim: Mark
    place: Place
    batch: bool
    turned: bool = False
    #: The call that led to the commit, where that is made elsewhere.
    called: Place | None = None


def _freed(marks: tuple[Mark, ...], place: Place, called: Place | None) -> Freed | None:
    """The claim whose row locks a commit of these deeds lets go, if that makes rows of it free again."""
    for claim in marks:
        if claim.deed is not Deed.CLAIM or claim.how != "row lock" or not claim.table:
            continue
        changes = [mark for mark in marks if mark is not claim and mark.table == claim.table]
        if not changes or (claim.many and all(mark.one for mark in changes)):
            return Freed(claim, place, bool(changes), called=called)
    return None


def goes_on(marks: tuple[Mark, ...]) -> bool:
    """Whether these deeds leave a job that is taken, and not done."""
    leased = [mark for mark in marks if mark.deed is Deed.CLAIM and mark.how == "lease"]
    return bool(leased) and not any(mark.may_end(claim) for mark in marks for claim in leased)


class Stray(NamedTuple):
    """Where a tenant was set, and where its connection was given back, or closed, before any work."""

    set_at: Place
    released_at: Place
    closed: bool


@dataclass(frozen=True, slots=True)
class Job:
    """What the job in hand has done so far, across its connections."""

    claims: tuple[Mark, ...] = ()
    kept: tuple[Mark, ...] = ()  #: deeds that were committed
    undone: tuple[Mark, ...] = ()  #: deeds that were rolled back
    worked: bool = False  #: something was done for it that can fail
    called: bool = False  #: and by more than statements
    counted_before_work: bool = False  #: an attempt was counted, for good, before the work began
    failed: Raised | None = None
    #: A lease was committed before the job was done: the job goes on from there.
    goes_on: bool = False
    #: A tenant that was set on a connection, and where that connection was given back before any work.
    stranded: tuple[Place, Place] | None = None
    #: The same, also for a tenant's search_path, where no code that is not seen can have worked with the connection.
    stray: Stray | None = None
    #: Where jobs were looked for without a lock, and on which table.
    looked: tuple[Mark, ...] = ()
    #: Something else keeps other workers away: an advisory lock, a lock on the table.
    guarded: bool = False
    #: A claim whose row locks were let go while rows of it were as they had been.
    freed: Freed | None = None

    def begun(self, by_call: bool = False) -> Job:
        """The same job, something having been done for it that can fail."""
        if not self.claims or (self.worked and self.called >= by_call) or self._is_given_back:
            return self
        counted = any(mark.deed is Deed.COUNT or mark.counts for mark in self.kept)
        counted = self.counted_before_work if self.worked else counted
        return replace(self, worked=True, called=self.called or by_call, counted_before_work=counted)

    @property
    def _is_given_back(self) -> bool:
        """Whether its claim was rolled back: what is done from then on is done for none."""
        undone = {mark.place for mark in self.undone if mark.deed is Deed.CLAIM}
        return bool(undone) and all(claim.place in undone for claim in self.claims)

    def anew(self) -> Job:
        """Another job in the same hands: nothing was done for it."""
        return Job(stranded=self.stranded, stray=self.stray, looked=self.looked, guarded=self.guarded, freed=self.freed)

    def caught(self) -> Job:
        """The same job after a failure that was caught: what comes now handles it, and is not the work."""
        return replace(self, stranded=None) if self.stranded is not None else self

    def with_kept(self, marks: tuple[Mark, ...], place: Place | None = None, calls: tuple[Place, ...] = ()) -> Job:
        """The same job with deeds that now last; `place` is the commit of their transaction, `calls` led to it."""
        if not marks or not self.claims:
            return self
        freed = _freed(marks, place, calls[-1] if calls else None) if place is not None else None
        further = self.goes_on or goes_on(marks)
        return replace(self, kept=_union(self.kept, marks), freed=freed or self.freed, goes_on=further)

    def let_go(self, marks: tuple[Mark, ...], place: Place, calls: tuple[Place, ...]) -> Job:
        """The same job, where a block or connection has ended, and not its work: of what it locked nothing is held."""
        if self.worked or self.failed is not None or not self.claims:
            return self
        return replace(self, freed=_freed(marks, place, calls[-1] if calls else None) or self.freed)

    def with_undone(self, marks: tuple[Mark, ...]) -> Job:
        """The same job with deeds that were rolled back."""
        return replace(self, undone=_union(self.undone, marks)) if marks and self.claims else self


def _union(known: tuple[Mark, ...], more: tuple[Mark, ...]) -> tuple[Mark, ...]:
    return (*known, *(mark for mark in more if mark not in known)) if more else known


NO_JOB = Job()


Variables = dict[str, Value]


@dataclass(frozen=True, slots=True)
class State:
    """Never changed, always replaced: a state may be the start of many paths.

    `frames` holds the variables of activations, `heap` attributes of objects and changed globals of modules.
    """

    frames: dict[Key, Variables] = field(default_factory=dict)
    heap: dict[Key, Variables] = field(default_factory=dict)
    connections: dict[Key, ConnectionState] = field(default_factory=dict)
    job: Job = NO_JOB
    trace: Trace | None = field(default=None, compare=False)
    #: Objects that were changed, and are not written back yet.
    waiting: tuple[Change, ...] = ()

    def get(self, owner: Key, name: str) -> Value | None:
        """A variable or attribute, if it was set on this path."""
        variables = (self.frames if owner < 0 else self.heap).get(owner)
        return variables.get(name) if variables is not None else None

    def bind(self, owner: Key, name: str, value: Value) -> State:
        if self.get(owner, name) == value:
            return self
        return self.bind_all(owner, {name: value})

    def bind_all(self, owner: Key, values: Variables) -> State:
        held = self.frames if owner < 0 else self.heap
        changed = {**held, owner: {**held[owner], **values} if owner in held else values}
        if owner < 0:
            return State(changed, self.heap, self.connections, self.job, self.trace, self.waiting)
        return State(self.frames, changed, self.connections, self.job, self.trace, self.waiting)

    def unbind(self, owner: Key) -> State:
        """The state without the variables of an activation that has ended."""
        held = self.frames if owner < 0 else self.heap
        if owner not in held:
            return self
        left = {key: variables for key, variables in held.items() if key != owner}
        if owner < 0:
            return State(left, self.heap, self.connections, self.job, self.trace, self.waiting)
        return State(self.frames, left, self.connections, self.job, self.trace, self.waiting)

    def connect(self, key: Key, connection: ConnectionState) -> State:
        return State(self.frames, self.heap, {**self.connections, key: connection}, self.job, self.trace, self.waiting)

    def disconnect(self, key: Key) -> State:
        if key not in self.connections:
            return self
        connections = {known: value for known, value in self.connections.items() if known != key}
        return State(self.frames, self.heap, connections, self.job, self.trace, self.waiting)

    def await_(self, waiting: tuple[Change, ...]) -> State:
        """The state with these objects to be written back."""
        if waiting == self.waiting:
            return self
        return State(self.frames, self.heap, self.connections, self.job, self.trace, waiting)

    def with_job(self, job: Job) -> State:
        if job == self.job:
            return self
        return State(self.frames, self.heap, self.connections, job, self.trace, self.waiting)

    def caught(self, raised: Raised) -> State:
        """The state in which a handler finds what that failure left."""
        state = self.with_job(self.job.caught())
        for key, connection in self.connections.items():
            after = handled(connection, raised.kind == "python")
            if after is not connection:
                state = state.connect(key, after)
        return state

    def saw(self, event: Event) -> State:
        length = self.trace.length + 1 if self.trace else 1
        return self.traced_as(Trace(event, self.trace, length))

    def traced_as(self, trace: Trace | None) -> State:
        return State(self.frames, self.heap, self.connections, self.job, trace, self.waiting)


@dataclass(slots=True)
class Flow:
    """Where the paths of a piece of code go when they do not just reach its end."""

    raises: list[tuple[State, Raised]] = field(default_factory=list)
    returns: list[tuple[State, Value]] = field(default_factory=list)
    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)

    def followed_by(self, what: Callable[[State], list[State]], ends: list[State]) -> list[State]:
        """Have something happen at each way out, be it by return or by an exception; the ends after it."""
        self.returns[:] = [(after, value) for state, value in self.returns for after in what(state)]
        self.raises[:] = [(after, raised) for state, raised in self.raises for after in what(state)]
        return [after for end in ends for after in what(end)]


@dataclass(frozen=True)
class Frame:
    """One activation of a function, or of a module's top level.

    `scopes` are the activations whose variables it sees, its own first and the module's last. `stack` are the functions
    that are running, for cutting recursion. `on_yield` is what happens at a yield: given the state and what is yielded,
    it returns the states in which the generator goes on.
    """

    key: Key
    module: ModuleInfo
    function: FunctionInfo | None = None
    owner: ClassInfo | None = None
    scopes: tuple[Key, ...] = ()
    stack: tuple[FunctionInfo, ...] = ()
    on_yield: Callable[[State, Value, Flow], list[State]] | None = None
    #: The calls that led here, the first one first.
    calls: tuple[Place, ...] = ()
    globals: frozenset[str] = frozenset()
    nonlocals: frozenset[str] = frozenset()

    @property
    def outside(self) -> Frame:
        """The same for what is called from outside: the function itself is not among what is running."""
        return Frame(self.key, self.module, scopes=self.scopes)

    @property
    def symbol(self) -> str:
        """The name of the function for people; empty at the top of a module."""
        return self.function.qualname if self.function else ""


# Joining paths


def merge(states: list[State]) -> list[State]:
    """The same paths, joined where they agree on their connections and the job: variables hold what either held."""
    if len(states) < 2:
        return states
    joined: list[State] = []
    for state in states:
        for index, known in enumerate(joined):
            if state is known:
                break
            if _alike(known, state):
                joined[index] = _join(known, state)
                break
        else:
            joined.append(state)
    if len(joined) > MANY_STATES:
        joined = _merge_near(joined)
    return joined if len(joined) <= MOST_STATES else _give_up(joined)


def _merge_near(states: list[State]) -> list[State]:
    """The same, joined too where the paths differ only in connections on which nothing was done that matters."""
    joined: list[State] = []
    for state in states:
        for index, known in enumerate(joined):
            alike = known.job == state.job and known.waiting == state.waiting
            connections = _joined_connections(known, state) if alike else None
            if connections is not None:
                joined[index] = replace(_join(known, state), connections=connections)
                break
        else:
            joined.append(state)
    return joined


def _joined_connections(one: State, other: State) -> dict[Key, ConnectionState] | None:
    """The connections of both, if nothing was done that matters on those in which they differ."""
    joined = dict(one.connections)
    for key in one.connections.keys() | other.connections.keys():
        here, there = one.connections.get(key), other.connections.get(key)
        if here == there:
            continue
        if any(known is not None and not known.is_bare for known in (here, there)):
            return None
        if any(_is_kept_open(known) for known in (here, there)) and None in (here, there):
            # A connection that others keep is there on every path, also where nothing was done with it.
            return None
        if there is None or there.status is Status.CLOSED:
            continue
        if here is None or here.status is Status.CLOSED:
            joined[key] = there
        elif _told_to_driver(here) != _told_to_driver(there):
            return None
        else:
            same = (here.status, here.savepoints, here.blocks) == (there.status, there.savepoints, there.blocks)
            either_ = replace(here, touched=here.touched or there.touched, wrote=here.wrote or there.wrote)
            joined[key] = either_ if same else replace(either_, status=Status.UNKNOWN, savepoints=())
    return joined


def _told_to_driver(connection: ConnectionState) -> tuple[Autocommit, bool, bool]:
    """What decides which transactions the driver begins and ends."""
    return connection.autocommit, connection.misled, connection.is_barred_by_text


def unsure(state: State) -> State:
    """The state after what is only likely to be done: nothing on its connections is sure."""
    for key, connection in state.connections.items():
        if connection.sure > Confidence.MEDIUM:
            state = state.connect(key, replace(connection, sure=Confidence.MEDIUM))
    return state


def passed(state: State) -> State:
    """The state after code that is not seen: it may have found whatever connection something was set on."""
    for key, connection in state.connections.items():
        if connection.settings and not connection.passed:
            state = state.connect(key, replace(connection, passed=True))
    return state


def _is_kept_open(connection: ConnectionState | None) -> bool:
    return connection is not None and connection.life is Life.KEPT and connection.in_transaction


#: Where the value of an expression is put while states are joined.
_VALUE: Key = 0


def merge_values(ways: list[tuple[State, Value]]) -> list[tuple[State, Value]]:
    """Ways through an expression, joined as `merge` joins states: the value then is what either gave."""
    if len(ways) < 2:
        return ways
    first = ways[0][0]
    if all(state is first for state, _ in ways):
        return [(first, either([value for _, value in ways]))]
    # The value travels as a variable, so that joining states joins it too.
    marked = merge([state.bind_all(_VALUE, {"value": value}) for state, value in ways])
    return [(state.unbind(_VALUE), state.get(_VALUE, "value") or UNKNOWN) for state in marked]


def merge_raises(raises: list[tuple[State, Raised]]) -> list[tuple[State, Raised]]:
    """Exceptions of one kind that meet on equal connections are one: what the variables held is joined."""
    groups: list[tuple[State, Raised]] = []
    for state, raised in raises:
        for index, (known, like) in enumerate(groups):
            if like.kind == raised.kind and like.type == raised.type and _alike(known, state):
                if known != state:
                    groups[index] = (_join(known, state), like)
                break
        else:
            groups.append((state, raised))
    return groups


def _alike(one: State, other: State) -> bool:
    return one.connections == other.connections and one.job == other.job and one.waiting == other.waiting


def _join(one: State, other: State) -> State:
    """Two states that agree on their connections: a variable may hold what it held in either."""
    frames, heap = _join_all(one.frames, other.frames), _join_all(one.heap, other.heap)
    if frames is one.frames and heap is one.heap:
        return one
    return State(frames, heap, one.connections, one.job, one.trace, one.waiting)


def _join_all(one: dict[Key, Variables], other: dict[Key, Variables]) -> dict[Key, Variables]:
    if one is other:
        return one
    joined: dict[Key, Variables] = {}
    same = True
    for owner, variables in one.items():
        twin = other.get(owner, {})
        joined[owner] = variables if variables is twin else _join_variables(variables, twin)
        same = same and joined[owner] is variables
    for owner in other.keys() - one.keys():
        joined[owner] = dict.fromkeys(other[owner], UNKNOWN)
        same = False
    return one if same else joined


def _join_variables(one: Variables, other: Variables) -> Variables:
    if one == other:
        return one
    joined: Variables = dict.fromkeys(other.keys() - one.keys(), UNKNOWN)
    for name, value in one.items():
        twin = other.get(name, UNKNOWN)
        joined[name] = value if value is twin else either([value, twin])
    return joined


def _give_up(states: list[State]) -> list[State]:
    """One state for all: a connection on which they differ is unknown."""
    first = states[0]
    connections: dict[Key, ConnectionState] = {}
    for key in {key for state in states for key in state.connections}:
        known = [state.connections[key] for state in states if key in state.connections]
        same = all(connection == known[0] for connection in known) and len(known) == len(states)
        connections[key] = known[0] if same or known[0].status is Status.CLOSED else _any_of(known)
    joined = first
    for state in states[1:]:
        joined = _join(joined, state)
    return [State(joined.frames, joined.heap, connections, first.job, first.trace, first.waiting)]


def _any_of(known: list[ConnectionState]) -> ConnectionState:
    """What is still known of a connection that is in one of these states, and nobody can tell in which."""
    names = sorted({setting.name for state in known for setting in state.settings})
    switches = {state.autocommit for state in known}
    return replace(
        unknown(known[0]),
        autocommit=known[0].autocommit if len(switches) == 1 else Autocommit.UNKNOWN,
        settings=tuple(Setting(name, NOT_KNOWN) for name in names),
    )
