"""What a job sets that outlives it on a connection, and tenants that ended before the work that was meant for them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from auditor import drivers
from auditor.drivers import alembic
from auditor.drivers.model import Callback
from auditor.findings import Confidence, Place
from auditor.program.catalogue import UNNAMED
from auditor.timeline.model.events import CallbackRan, Event, Handover, Inherited, Outlived, Ran, SetAnew, SettingSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from auditor.program import Program
    from auditor.timeline.connections.pools import PoolInfo
    from auditor.timeline.model.connection import ConnectionState
    from auditor.timeline.model.settings import LostCleanup, Setting
    from auditor.timeline.model.values import Key

_Kind = TypeVar("_Kind")

#: Settings that say who the session is.
ROLES = frozenset({"role", "session_authorization"})
#: Drivers whose pools set a session back, which a pooler behind them may do to another session.
_RESETTING = frozenset(driver.name for driver in drivers.DRIVERS if driver.pool_resets)


class Leak(NamedTuple):
    """A value that a job leaves on a connection for its next user."""

    name: str
    #: How sure it is that the setting holds a tenant; None for a role and others.
    tenant: Confidence | None
    set_at: Place
    kept_at: Place | None
    heir: Place | None
    #: "pool", "kept", "session", "caller", "loop" or "pooler".
    kind: str
    connection: ConnectionState
    #: A cleanup that was undone, so that the value stayed.
    lost_cleanup: LostCleanup | None
    sure: Confidence
    #: What it is set to is only known at run time.
    varies: bool = False

    @property
    def is_role(self) -> bool:
        return self.name in ROLES


class Orphan(NamedTuple):
    """Work for a tenant after the end of the transaction that it was set in."""

    place: Place
    call: Place
    name: str
    table: str
    set_at: Place
    ended_at: Place
    sure: Confidence


class Lasting:
    """Judges what was set against who uses the connection afterwards."""

    def __init__(self, program: Program, events: tuple[Event, ...], pools: Mapping[int, PoolInfo]) -> None:
        self.program = program
        self.events = events
        self.pools = pools

    def _of(self, kind: type[_Kind]) -> Iterator[_Kind]:
        return (event for event in self.events if isinstance(event, kind))

    def _settings(self) -> Iterator[tuple[Ran, SettingSet]]:
        return ((ran, setting) for ran in self._of(Ran) for setting in ran.settings)

    def leaks(self) -> Iterator[Leak]:
        """Values that outlive their job: on a pooled or kept connection, or into the next turn of a loop."""
        for handover in self._of(Handover):
            for setting in handover.after.settings:
                kept = setting.kept
                if not kept.is_value or kept.inherited or kept.since:
                    continue
                if not setting.is_cleared:
                    yield from self._leak(setting, handover.after, handover.kind, handover.heir)
                elif handover.pool is not None and setting.left_open is not None:
                    left = replace(setting, lost_cleanup=setting.left_open)
                    yield from self._leak(left, handover.after, handover.kind, handover.heir)
        for inherited in self._of(Inherited):
            yield from self._leak(inherited.setting, inherited.connection, "loop", inherited.place)

    def _leak(self, setting: Setting, connection: ConnectionState, kind: str, heir: Place | None) -> Iterator[Leak]:
        if setting.kept.origin is None:
            return
        sure = connection.sure
        pooler = self.program.pooler
        if pooler is not None and (kind == "pooler" or connection.driver in _RESETTING):
            # That this connection goes through the pooler is not seen.
            sure, kind = min(sure, Confidence.MEDIUM), "pooler"
            heir = pooler.place
        pool = self.pools.get(connection.pool) if connection.pool is not None else None
        given = pool is not None and not pool.place.path
        unseen = kind == "session" and (self._is_cleared(setting.name) or self._no_pool_keeps)
        if kind == "caller" or unseen or (given and self._any_reset_touches(setting.name)):
            # Who uses the connection next, or which pool it comes from, is not seen.
            sure = Confidence.LOW
        if pool is not None and self._is_cleared_first(setting.name, pool.returned_to):
            # What still meets the old value is only who is not seen.
            sure = Confidence.LOW
        if setting.lost_cleanup is not None and setting.lost_cleanup.left_open:
            # That somebody rolls back and goes on is not seen.
            sure = min(sure, Confidence.MEDIUM)
        yield Leak(
            setting.name,
            self.program.catalogue.is_tenant(setting.name),
            setting.kept.origin,
            setting.kept_at,
            heir,
            kind,
            connection,
            setting.lost_cleanup,
            sure,
            UNNAMED in setting.kept.value,
        )

    def search_path_leaks(self) -> Iterator[Leak]:
        """The same for search_path, where what it is set to is a tenant's: it differs, and the code says whose it is.

        A path that is the same for all, or that only a deployment chooses, may stay.
        """
        for leak in self.leaks():
            if leak.name == "search_path" and leak.varies:
                named = self.program.speaks_of_tenants(leak.set_at)
                yield leak._replace(sure=min(leak.sure, Confidence.MEDIUM) if named else Confidence.LOW)

    def lost_cleanups(self) -> Iterator[tuple[Leak, LostCleanup]]:
        """Values that stay because what was to take them away was undone."""
        named = (leak for leak in self.leaks() if leak.tenant is not None or leak.is_role)
        for leak in (*named, *self.search_path_leaks()):
            if leak.lost_cleanup is not None:
                yield leak, leak.lost_cleanup

    def _any_reset_touches(self, name: str) -> bool:
        """Whether a reset callback of some pool clears the setting."""
        return any(
            setting.clears and setting.name == name
            for callback in self._of(CallbackRan)
            if callback.callback is Callback.RESET
            for ran, setting in self._settings()
            if ran.connection == callback.connection
        )

    def _is_cleared(self, name: str) -> bool:
        """Whether anything takes the setting's value away again.

        A call that sets it on another path, reached from the same places, does not come after that: there was no tenant
        to set then.
        """
        sets = {
            (ran.call, ran.through) for ran, setting in self._settings() if setting.name == name and not setting.clears
        }
        return any(
            setting.clears and setting.name in (name, "all") and (ran.call, ran.through) not in sets
            for ran, setting in self._settings()
            if setting.place not in self._lost_places
        )

    @cached_property
    def _lost_places(self) -> frozenset[Place]:
        """Where cleanups are that come to nothing."""
        lost = (
            setting.lost_cleanup or (setting.left_open if handover.pool is not None else None)
            for handover in self._of(Handover)
            for setting in handover.after.settings
        )
        return frozenset(cleanup.place for cleanup in lost if cleanup is not None)

    def _is_cleared_first(self, name: str, pool: Key) -> bool:
        """Whether everybody who borrows from a pool begins with taking the setting's value away."""
        firsts: dict[Key, list[Ran]] = {}
        for ran in self._of(Ran):
            home = self.pools.get(ran.before.pool) if ran.before.pool is not None else None
            if home is not None and home.returned_to == pool:
                first = firsts.setdefault(ran.connection, [ran])
                if ran is not first[0] and ran.place == first[0].place:
                    # What the same statement says on another path: that of a tenant, where it clears for nobody's.
                    first.append(ran)
        rans = [ran for first in firsts.values() for ran in first]
        return bool(rans) and all(
            any(setting.clears and setting.name in (name, "all") for setting in ran.settings) for ran in rans
        )

    @cached_property
    def _no_pool_keeps(self) -> bool:
        """Whether the program makes pools, and none that keeps connections; migrations have one of their own."""
        made = [pool for pool in self.pools.values() if pool.place.path and not self._is_for_migrations(pool.place)]
        return bool(made) and all(pool.null for pool in made)

    def _is_for_migrations(self, place: Place) -> bool:
        module = self.program.module_at(place.path)
        return module is not None and any(
            part.loads == f"{alembic.PACKAGE}.context" or (part.loads, part.attribute) == (alembic.PACKAGE, "context")
            for part in module.imports
        )

    def orphans(self, job_tables: frozenset[str]) -> Iterator[Orphan]:
        """Statements that reach a tenant's table after the transaction in which the tenant was set.

        Where somebody is told of each transaction that begins, and sets it anew, that he was asked to is taken for
        granted: what he remembers of a session is not followed.
        """
        anew = {event.name for event in self._of(SetAnew)}
        for ran in self._of(Ran):
            for setting in ran.before.settings:
                if setting.name in anew:
                    continue
                ended = setting.ended
                tenant = self.program.catalogue.is_tenant(setting.name)
                if ended is None or ended.origin is None or setting.ended_at is None or tenant is None:
                    continue
                if UNNAMED not in ended.value:
                    continue  # what the code says itself is nobody's in particular: it opens a door for one transaction
                if setting.current.is_value or any(other.name == setting.name for other in ran.settings):
                    continue
                known = next((table for table in ran.tables if self.program.catalogue.holds_tenants(table)), None)
                # Where no policy is seen, a table that was reached as the tenant before is taken to need one; and so is
                # the first that is reached at all, for the tenant was set for something.
                idle = not ran.before.touched
                seen = next((table for table in ran.tables if idle or table in ran.before.tenant_tables), None)
                table = known or (seen if not self.program.catalogue.any_policies else None)
                if table is None or table in job_tables:
                    continue
                sure = min(ran.before.sure, tenant if known else Confidence.MEDIUM)
                yield Orphan(ran.place, ran.call, setting.name, table, ended.origin, setting.ended_at, sure)

    def tenants_in_turn(self) -> Iterator[tuple[Outlived, str, Confidence]]:
        """Statements under a tenant handed up by a savepoint, where another tenant follows in the same transaction."""
        followed = {
            (ran.connection, setting.name)
            for ran, setting in self._settings()
            if not setting.clears and ran.before.setting(setting.name).current.handed_up
        }
        for outlived in self._of(Outlived):
            tenant = self.program.catalogue.is_tenant(outlived.name)
            if tenant is not None and (outlived.connection, outlived.name) in followed:
                yield outlived, outlived.name, tenant
