"""How PostgreSQL keeps a setting: one value for the session, and layers that transactions and savepoints put over it.

A session-level SET inside a transaction is pending until the commit, a local one ends with it; a rolled back level
takes what it set away, a released savepoint hands it to the level around it. After a custom setting has been set once
it is the empty string where it would have been missing. All of it is held against a real server by the tests.
"""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from auditor.frozen import dataclass
from auditor.program.catalogue import UNNAMED

if TYPE_CHECKING:
    from auditor.findings import Place

#: What a connection was given a setting by, when it was opened.
OPTION, CALLBACK = "option", "callback"


class Holding(enum.Enum):
    """What a setting holds."""

    UNSET = "unset"  #: nothing was ever set, or it was cleared: no tenant
    VALUE = "value"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Held:
    """What a setting holds and where that was said."""

    holding: Holding
    value: str = ""  #: as the timeline shows it
    origin: Place | None = None
    #: Handed up by a savepoint that was released, to a transaction that did not set it itself.
    handed_up: bool = False
    #: Set by an earlier job on this connection.
    inherited: bool = False
    local: bool = False
    #: It differs from job to job: what only the job in hand can have put there.
    of_task: bool = False
    #: What the connection was given it by when it was opened, OPTION or CALLBACK; empty for what a job has set.
    since: str = ""

    @property
    def is_value(self) -> bool:
        """Whether some tenant (or role) is in force."""
        return self.holding is Holding.VALUE


NOTHING = Held(Holding.UNSET)
NOT_KNOWN = Held(Holding.UNKNOWN)


class LostCleanup(NamedTuple):
    """A cleanup that came to nothing: what rolled it back, or the failure after which it was refused.

    One that is left open comes to nothing as soon as the next user rolls back.
    """

    place: Place
    undone_at: Place | None
    refused: bool = False
    left_open: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """What one level of a transaction did: `local` hides `session` until the level that set it ends."""

    level: int
    session: Held | None = None
    local: Held | None = None

    @property
    def visible(self) -> Held | None:
        return self.local or self.session


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of one session. Level 1 is the transaction itself, level 2 the first savepoint in it."""

    name: str
    kept: Held = NOTHING
    layers: tuple[Layer, ...] = ()
    #: The local value that ended with the last commit, and where the commit is: what the work after it lacks.
    ended: Held | None = None
    ended_at: Place | None = None
    #: Where the session's value became permanent.
    kept_at: Place | None = None
    #: A cleanup that was undone while the session's value stood.
    lost_cleanup: LostCleanup | None = None

    @property
    def current(self) -> Held:
        """What current_setting() returns now."""
        for layer in reversed(self.layers):
            if layer.visible is not None:
                return layer.visible
        return self.kept

    @property
    def pending(self) -> Held | None:
        """The session-level value that the commit will keep."""
        return next((layer.session for layer in reversed(self.layers) if layer.session is not None), None)

    @property
    def is_cleared(self) -> bool:
        """Whether a cleanup is under way that the next commit will keep."""
        return self.pending is not None and not self.pending.is_value

    @property
    def left_open(self) -> LostCleanup | None:
        """The cleanup that is under way, as whoever goes on in its transaction meets it."""
        cleanup = self.pending
        if cleanup is None or cleanup.is_value or cleanup.origin is None or not self.kept.is_value:
            return None
        return LostCleanup(cleanup.origin, None, left_open=True)

    def at_session(self, held: Held, level: int, place: Place) -> Setting:
        """SET SESSION at `level`; 0 is outside any transaction, where it is kept at once."""
        if level == 0:
            return replace(self, kept=held, kept_at=place, layers=(), ended=None, ended_at=None, lost_cleanup=None)
        return self._over(Layer(level, session=held), level)

    def at_local(self, held: Held, level: int) -> Setting:
        """SET LOCAL at `level`, 1 or deeper."""
        top = self.layers[-1] if self.layers and self.layers[-1].level == level else None
        return self._over(Layer(level, session=top.session if top else None, local=replace(held, local=True)), level)

    def released(self, level: int) -> Setting:
        """RELEASE SAVEPOINT of `level`: what it set belongs to the level around it."""
        top = self.layers[-1] if self.layers and self.layers[-1].level == level else None
        if top is None:
            return self
        below = self.layers[-2] if len(self.layers) > 1 and self.layers[-2].level == level - 1 else None
        outer = [layer.local.origin for layer in self.layers[:-1] if layer.local is not None]
        # What sets it at every begin has set the same in the transaction around.
        local = replace(top.local, handed_up=top.local.origin not in outer) if top.local else None
        session = top.session or (below.session if below else None)
        if below and not top.session and not top.local:
            local = below.local
        merged = Layer(level - 1, session=session, local=local)
        return replace(self, layers=(*self.layers[: -2 if below else -1], merged))

    def rolled_back(self, level: int, place: Place) -> Setting:
        """ROLLBACK of `level` and all above it; level 1 is the whole transaction."""
        gone = tuple(layer for layer in self.layers if layer.level >= level)
        if not gone:
            return self
        cleanup = next((layer.session for layer in reversed(gone) if layer.session), None)
        lost = self.lost_cleanup
        if cleanup and cleanup.origin and not cleanup.is_value and self.kept.is_value:
            lost = LostCleanup(cleanup.origin, place)
        left = tuple(layer for layer in self.layers if layer.level < level)
        ended, ended_at = self._ended(place) if not left else (self.ended, self.ended_at)
        return replace(self, layers=left, lost_cleanup=lost, ended=ended, ended_at=ended_at)

    def committed(self, place: Place) -> Setting:
        """COMMIT: session-level values stay, local ones end."""
        if not self.layers:
            return self
        pending = self.pending
        ended, ended_at = self._ended(place)
        if pending is None:
            return replace(self, layers=(), ended=ended, ended_at=ended_at)
        return replace(self, layers=(), kept=pending, kept_at=place, lost_cleanup=None, ended=ended, ended_at=ended_at)

    def _ended(self, place: Place) -> tuple[Held | None, Place | None]:
        """The local value that ends with the transaction, and where; the one before it where there is none."""
        visible = self.current
        return (visible, place) if visible.local and visible.is_value else (self.ended, self.ended_at)

    @property
    def is_constant(self) -> bool:
        """Whether it is kept at what the code says itself, the same for everybody."""
        return self.kept.is_value and UNNAMED not in self.kept.value

    def aged(self, before: Setting | None) -> Setting:
        """The same setting for the next job: what this job set, and the one before it did not, is inherited.

        A local value that ended is missed by the next job only where it was set for both of them.
        """
        for_both = before is not None and self.ended in (before.ended, before.current)
        ended, ended_at = (self.ended, self.ended_at) if for_both else (None, None)
        if (
            not self.kept.is_value
            or self.kept.inherited
            or self.kept.since
            or (before is not None and before.kept == self.kept)
        ):
            return replace(self, ended=ended, ended_at=ended_at) if self.ended != ended else self
        return replace(self, kept=replace(self.kept, inherited=True), ended=ended, ended_at=ended_at)

    def taken_over(self) -> Setting:
        """The same setting where this job goes on: what it holds is its own."""
        return replace(self, kept=replace(self.kept, inherited=False)) if self.kept.inherited else self

    def _over(self, layer: Layer, level: int) -> Setting:
        keep = self.layers[:-1] if self.layers and self.layers[-1].level == level else self.layers
        return replace(self, layers=(*keep, layer), ended=None, ended_at=None)
