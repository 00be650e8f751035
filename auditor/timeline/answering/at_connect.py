"""Tenants that a connection is given when it is opened, and keeps or loses while it serves one job after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.drivers.model import Callback
from auditor.findings import Confidence, Place
from auditor.program.catalogue import UNNAMED
from auditor.timeline.model.connection import Life
from auditor.timeline.model.events import CallbackRan, Handover, Opened, Where
from auditor.timeline.model.settings import CALLBACK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.timeline.answering.answers import Timeline
    from auditor.timeline.connections.pools import PoolInfo
    from auditor.timeline.model.settings import Held


class AtConnect(NamedTuple):
    """A tenant that a connection has from the beginning.

    `gone_after_first` tells that the pool takes it away when the connection first comes back. `used_at` is where a job
    takes such a connection out of the pool, if one is seen to.
    """

    name: str
    set_at: Place
    pool_at: Place | None
    used_at: Place | None
    gone_after_first: bool
    sure: Confidence


def tenants_at_connect(timeline: Timeline) -> Iterator[AtConnect]:
    """Each with the first job that is seen to meet it."""
    found: dict[Place, AtConnect] = {}
    for fixed in (*_handed_on(timeline), *_taken_away(timeline), *_never_borrowed(timeline)):
        known = found.get(fixed.set_at)
        if known is None or known.sure < fixed.sure:
            found[fixed.set_at] = fixed
    return iter(found.values())


def _handed_on(timeline: Timeline) -> Iterator[AtConnect]:
    """A connection goes to its next user with the tenant it was opened with, and no job has set its own."""
    own = {(one.heir, setting.name) for one in timeline.of(Handover) for setting in one.after.settings if setting.ended}
    places = _places_by_name(timeline)
    for handover in timeline.of(Handover):
        for setting in handover.after.settings:
            held = setting.kept
            if not handover.after.touched and len(places.get(setting.name, ())) > 1:
                continue  # what each job does is to be seen elsewhere
            if (handover.heir, setting.name) in own or not held.is_value or not held.since:
                continue
            if held.origin is not None and _varies(held):
                tenant = timeline.program.catalogue.is_tenant(setting.name)
                if tenant is not None and handover.after.life is not Life.GIVEN:
                    sure = min(tenant, handover.after.sure, _sure_of(held))
                    sure = sure if handover.after.touched else min(sure, Confidence.MEDIUM)
                    pool = _pool_at(timeline, handover.pool)
                    yield AtConnect(setting.name, held.origin, pool, handover.heir, False, sure)


def _taken_away(timeline: Timeline) -> Iterator[AtConnect]:
    """The pool sets back what the session holds when a connection is released: only its first job has the tenant."""
    local = {one.name for _, one in timeline.settings() if one.where is not Where.SESSION}
    for opened in timeline.of(Opened):
        info = timeline.pools.get(opened.after.pool) if opened.after.pool is not None else None
        if info is None or not _sets_back(info):
            continue
        for setting in opened.after.settings:
            held = setting.kept
            tenant = timeline.program.catalogue.is_tenant(setting.name)
            if held.since == CALLBACK and held.origin is not None and tenant is not None and setting.name not in local:
                sure = min(tenant, opened.after.sure)
                yield AtConnect(setting.name, held.origin, info.place, opened.place, True, sure)


def _sets_back(info: PoolInfo) -> bool:
    """Whether a pool takes away what a connection was given as it was opened, once it comes back."""
    return not info.null and info.driver.pool_resets and info.callback(Callback.RESET) is None


def _never_borrowed(timeline: Timeline) -> Iterator[AtConnect]:
    """A pool that nobody is seen to take connections from, and no other place that sets the tenant."""
    borrowed = {_pool_at(timeline, opened.after.pool) for opened in timeline.of(Opened)}
    places = _places_by_name(timeline)
    resetting = {info.place for info in timeline.pools.values() if _sets_back(info)}
    for callback in timeline.of(CallbackRan):
        if callback.callback is not Callback.CONFIGURE or callback.pool in borrowed:
            continue
        for left in (way for way in callback.exits if not way.raised):
            for setting in left.after.settings:
                held, tenant = setting.kept, timeline.program.catalogue.is_tenant(setting.name)
                if len(places.get(setting.name, ())) > 1 or tenant is None or held.origin is None or not held.is_value:
                    continue
                if held.of_task or callback.pool in resetting:
                    sure = min(tenant, Confidence.MEDIUM)
                    yield AtConnect(setting.name, held.origin, callback.pool, None, callback.pool in resetting, sure)


def _places_by_name(timeline: Timeline) -> dict[str, set[Place]]:
    places: dict[str, set[Place]] = {}
    for _, setting in timeline.settings():
        places.setdefault(setting.name, set()).add(setting.place)
    return places


def _pool_at(timeline: Timeline, pool: int | None) -> Place | None:
    info = timeline.pools.get(pool) if pool is not None else None
    return info.place if info is not None and info.place.path else None


def _varies(held: Held) -> bool:
    return held.of_task or UNNAMED in held.value


def _sure_of(held: Held) -> Confidence:
    """What is only known at run time may as well be the same for the whole process, or for the pool."""
    return Confidence.HIGH if held.of_task else Confidence.LOW
