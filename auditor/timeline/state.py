"""What is known at one point of one path, and where paths go from there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from auditor.timeline.connection import Deed, Mark, Status, unknown
from auditor.timeline.values import UNKNOWN, Key, Raised, Value, either

if TYPE_CHECKING:
    from collections.abc import Callable

    from auditor.findings import Place
    from auditor.program.code import ClassInfo, FunctionInfo, ModuleInfo
    from auditor.timeline.connection import ConnectionState
    from auditor.timeline.events import Event

#: At more states than this at one point, what they differ in is given up as unknown.
MOST_STATES = 48


class Keys:
    """Small numbers for what is named by where it was made: equal parts get the same number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}

    def of(self, *parts: object) -> Key:
        return self._numbers.setdefault(parts, len(self._numbers) + 1)


@dataclass(frozen=True, slots=True)
class Trace:
    """The way that led to a state, newest event first."""

    event: Event
    before: Trace | None
    length: int


@dataclass(frozen=True, slots=True)
class Job:
    """What the job in hand has done so far, across its connections."""

    claims: tuple[Mark, ...] = ()
    kept: tuple[Mark, ...] = ()  #: deeds that were committed
    undone: tuple[Mark, ...] = ()  #: deeds that were rolled back
    worked: bool = False  #: something was done for it that can fail
    counted_before_work: bool = False  #: an attempt was counted, for good, before the work began
    failed: Raised | None = None
    #: A tenant that was set on a connection, and where that connection was given back before any work.
    stranded: tuple[Place, Place] | None = None

    def begun(self) -> Job:
        """The same job, something having been done for it that can fail."""
        if not self.claims or self.worked:
            return self
        counted = any(mark.deed is Deed.COUNT or mark.counts for mark in self.kept)
        return replace(self, worked=True, counted_before_work=counted)

    def with_kept(self, marks: tuple[Mark, ...]) -> Job:
        """The same job with deeds that now last."""
        return replace(self, kept=_union(self.kept, marks)) if marks and self.claims else self

    def with_undone(self, marks: tuple[Mark, ...]) -> Job:
        """The same job with deeds that were rolled back."""
        return replace(self, undone=_union(self.undone, marks)) if marks and self.claims else self


def _union(known: tuple[Mark, ...], more: tuple[Mark, ...]) -> tuple[Mark, ...]:
    return (*known, *(mark for mark in more if mark not in known)) if more else known


NO_JOB = Job()


@dataclass(frozen=True, slots=True)
class State:
    """Never changed, always replaced: a state may be the start of many paths.

    `store` holds variables by (activation, name) and attributes by (object, name).
    """

    store: dict[tuple[Key, str], Value] = field(default_factory=dict)
    connections: dict[Key, ConnectionState] = field(default_factory=dict)
    job: Job = NO_JOB
    trace: Trace | None = field(default=None, compare=False)

    def bind(self, owner: Key, name: str, value: Value) -> State:
        if self.store.get((owner, name)) == value:
            return self
        return State({**self.store, (owner, name): value}, self.connections, self.job, self.trace)

    def bind_all(self, owner: Key, values: dict[str, Value]) -> State:
        store = self.store | {(owner, name): value for name, value in values.items()}
        return State(store, self.connections, self.job, self.trace)

    def unbind(self, owner: Key) -> State:
        """The state without the variables of an activation that has ended."""
        store = {key: value for key, value in self.store.items() if key[0] != owner}
        return State(store, self.connections, self.job, self.trace)

    def connect(self, key: Key, connection: ConnectionState) -> State:
        return State(self.store, {**self.connections, key: connection}, self.job, self.trace)

    def disconnect(self, key: Key) -> State:
        connections = {known: value for known, value in self.connections.items() if known != key}
        return State(self.store, connections, self.job, self.trace)

    def with_job(self, job: Job) -> State:
        return self if job == self.job else State(self.store, self.connections, job, self.trace)

    def saw(self, event: Event) -> State:
        length = self.trace.length + 1 if self.trace else 1
        return State(self.store, self.connections, self.job, Trace(event, self.trace, length))

    def traced_as(self, trace: Trace | None) -> State:
        return State(self.store, self.connections, self.job, trace)


@dataclass(slots=True)
class Flow:
    """Where the paths of a piece of code go when they do not just reach its end."""

    raises: list[tuple[State, Raised]] = field(default_factory=list)
    returns: list[tuple[State, Value]] = field(default_factory=list)
    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)


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
    globals: frozenset[str] = frozenset()
    nonlocals: frozenset[str] = frozenset()

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
    return joined if len(joined) <= MOST_STATES else _give_up(joined)


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
    return one.connections == other.connections and one.job == other.job


def _join(one: State, other: State) -> State:
    """Two states that agree on their connections: a variable may hold what it held in either."""
    if one.store == other.store:
        return one
    store: dict[tuple[Key, str], Value] = {}
    for key, value in one.store.items():
        twin = other.store.get(key)
        if twin is None:
            store[key] = UNKNOWN
        else:
            store[key] = value if value == twin else either([value, twin])
    for key in other.store.keys() - one.store.keys():
        store[key] = UNKNOWN
    return State(store, one.connections, one.job, one.trace)


def _give_up(states: list[State]) -> list[State]:
    """One state for all: a connection on which they differ is unknown."""
    first = states[0]
    connections: dict[Key, ConnectionState] = {}
    for key in {key for state in states for key in state.connections}:
        known = [state.connections[key] for state in states if key in state.connections]
        same = all(connection == known[0] for connection in known) and len(known) == len(states)
        connections[key] = known[0] if same or known[0].status is Status.CLOSED else unknown(known[0])
    joined = first
    for state in states[1:]:
        joined = _join(joined, state)
    return [State(joined.store, connections, first.job, first.trace)]
