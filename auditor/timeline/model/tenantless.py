"""Work of a job on a table of tenants, on a connection on which nothing has set a tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.findings import Confidence, Place
from auditor.program.catalogue import names_tenant
from auditor.sql.meaning import Kind
from auditor.timeline.model.connection import Life
from auditor.timeline.model.entries import Entry
from auditor.timeline.model.events import Opened, Ran, Stranded, Tenantless, Worked
from auditor.timeline.model.rights import is_for_tenant
from auditor.timeline.model.settings import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.program import Program
    from auditor.timeline.answering.answers import Timeline
    from auditor.timeline.answering.security import Security
    from auditor.timeline.model.connection import ConnectionState
    from auditor.timeline.model.state import State
    from auditor.timeline.walking.walker import Walker

#: INSERT is left out: it fails, for everyone to see.
_WORK = (Kind.SELECT, Kind.UPDATE, Kind.DELETE)
#: So many events back it is looked for what may have set a tenant.
_FARTHEST = 400


class Unset(NamedTuple):
    """Work of a job on a table of tenants, with no tenant; where the same source works with one."""

    table: str
    place: Place
    taken_at: Place
    claimed_at: Place | None
    set_elsewhere: Place
    sure: Confidence


# While a program is walked


def tenantless(walker: Walker, ran: Ran, state: State) -> Tenantless | None:
    """What is told of a statement that works on a table of tenants for a job, where nothing can have set a tenant."""
    program, before = walker.program, ran.before
    if ran.statement.kind not in _WORK or ran.marks or not (state.job.claims or walker.entry is Entry.TASK):
        return None
    table = next((table for table in ran.tables if program.catalogue.holds_tenants(table)), None)
    if table is None or not _is_own(before, walker) or state.job.stranded is not None:
        return None
    if _has_any_tenant(program, before) or _may_have_set(program, ran, state):
        return None
    claim = state.job.claims[0].place if state.job.claims else None
    return Tenantless(ran.place, before, table, claim, ran.symbol)


def _is_own(connection: ConnectionState, walker: Walker) -> bool:
    """Whether the connection is one that the code has opened or borrowed itself, and that others know nothing of."""
    own = connection.life in (Life.JOB, Life.POOL) and connection.sure is Confidence.HIGH
    return own and connection.lent is None and connection.pool not in walker.database.pools.shared


def _has_any_tenant(program: Program, connection: ConnectionState) -> bool:
    """Whether a tenant is set, was set or was cleared on the connection, or it is in a role that was taken on."""
    names = (setting.name for setting in connection.settings)
    return connection.setting("role").current != NOTHING or any(
        program.catalogue.is_tenant(name) is not None for name in names
    )


def _may_have_set(program: Program, ran: Ran, state: State) -> bool:
    """Whether something since the connection was taken may have set a tenant, or another rule tells why none is."""
    if _calls_unseen(program, ran):
        return True
    trace, left = state.trace, _FARTHEST
    while trace is not None and left:
        event = trace.event
        if isinstance(event, Opened) and event.connection == ran.connection:
            return False
        if isinstance(event, Stranded) or (isinstance(event, Worked) and ran.connection in event.connections):
            return True
        if isinstance(event, Ran) and event.connection == ran.connection:
            unread = not event.statement.parsed or event.statement.kind in (Kind.OTHER, Kind.CALL, Kind.DO)
            if unread or _calls_unseen(program, event):
                return True
        trace, left = trace.before, left - 1
    return True


def _calls_unseen(program: Program, ran: Ran) -> bool:
    """Whether a statement calls a function of the database that the program does not define."""
    return any(program.catalogue.function(call.name) is None for call in ran.statement.calls)


# When it has been


def unset(timeline: Timeline, security: Security) -> Iterator[Unset]:
    """The first such work on each connection, where the same pool or function serves work with a tenant elsewhere."""
    program = timeline.program
    if _sets_by_itself(program):
        return
    rights = timeline.rights
    with_tenant = {
        _source(ran.before, timeline): ran.place
        for ran in timeline.of(Ran)
        if is_for_tenant(program, ran.before) and any(map(program.catalogue.holds_tenants, ran.tables))
    }
    either_way = {(ran.place, ran.before.root) for ran in timeline.of(Ran) if is_for_tenant(program, ran.before)}
    seen: set[Place] = set()
    for told in timeline.of(Tenantless):
        before, taken_at = told.connection, told.connection.made
        elsewhere = with_tenant.get(_source(before, timeline))
        if taken_at is None or elsewhere is None or taken_at in seen or told.table in timeline.job_tables:
            continue
        if (told.place, before.root) in either_way or not security.hides(told.table):
            continue
        if before.user and rights.right(before.user, told.table) is not None:
            continue
        seen.add(taken_at)
        sure = Confidence.LOW if security.some_role_bypasses() else Confidence.MEDIUM
        yield Unset(told.table, told.place, taken_at, told.claimed_at, elsewhere, sure)


def _source(connection: ConnectionState, timeline: Timeline) -> Place | None:
    """Where connections like this one come from: their pool, or what opens them."""
    pool = timeline.pools.get(connection.pool) if connection.pool is not None else None
    return connection.made if pool is None else pool.place


def _sets_by_itself(program: Program) -> bool:
    """Whether a role's or a database's default, or a library that is about tenants, may set one for everybody."""
    given = any(
        program.catalogue.is_tenant(setting.name.text) is not None
        for located in program.catalogue.located
        if located.statement.role is not None
        for setting in located.statement.role.settings
    )
    return given or any(
        names_tenant(part.loads.replace("_", " ")) and program.module(part.loads, module.file) is None
        for module in program.modules
        for part in module.imports
    )
