"""Whom row security does not bind, as far as the program's SQL tells: roles, what they inherit, what they own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.findings import Confidence, Place
from auditor.program.catalogue import UNNAMED
from auditor.sql.meaning import Change, Kind, TermKind
from auditor.timeline.model.events import Ran
from auditor.timeline.model.settings import NOTHING, Holding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.program import Program
    from auditor.timeline.answering.answers import Timeline
    from auditor.timeline.model.connection import ConnectionState

_WORK = (Kind.SELECT, Kind.INSERT, Kind.UPDATE, Kind.DELETE, Kind.MERGE)
#: Attributes under which no policy holds, each with what takes it away.
_BYPASS = {"bypassrls": "nobypassrls", "superuser": "nosuperuser"}


class Right(NamedTuple):
    """Why row security does not bind a role: an attribute it was made with, or a table that it owns."""

    what: str
    place: Place
    by_owning: bool = False


class Bypass(NamedTuple):
    """Work for a tenant in a role that row security does not bind."""

    role: str
    #: Where the role is taken on, or the connection opened as it.
    taken_at: Place
    table: str
    work_at: Place
    right: Right
    sure: Confidence


class Rights:
    """The roles of a program."""

    def __init__(self, program: Program) -> None:
        self._catalogue = program.catalogue
        self._attributes: dict[str, dict[str, Place]] = {}
        self._groups: dict[str, set[str]] = {}
        self._owners: dict[str, dict[str, Place]] = {}
        acting: dict[str, str] = {}
        for located in self._catalogue.located:
            statement, place = located.statement, located.place
            role, shape = statement.role, statement.shape
            if role is not None and role.name:
                for name in (role.name, *role.others):
                    self._groups.setdefault(name, set()).update(role.member_of)
                for attribute in role.attributes:
                    self._attributes.setdefault(role.name, {}).setdefault(attribute, place)
            for setting in statement.settings:
                if setting.name.text == "role" and setting.name.kind is TermKind.LITERAL:
                    known = setting.change is Change.SET and setting.value.kind is TermKind.LITERAL
                    acting[place.path] = setting.value.text if known else ""
            if shape is not None:
                made_by = acting.get(place.path, "") if statement.kind is Kind.CREATE_TABLE else ""
                if shape.owner or made_by:
                    self._owners.setdefault(shape.table.name, {}).setdefault(shape.owner or made_by, place)

    def right(self, role: str, table: str) -> Right | None:
        """Why the policies of a table do not hold for a role, where that is certain."""
        attributes = self._attributes.get(role, {})
        for attribute, taken in _BYPASS.items():
            if attribute in attributes and taken not in attributes:
                return Right(f"is made with {attribute.upper()}", attributes[attribute])
        facts = self._catalogue.tables.get(table)
        owners = self._owners.get(table, {})
        if facts is None or facts.forced or len(owners) != 1:
            return None
        owner, place = next(iter(owners.items()))
        return Right(f"owns {table}", place, by_owning=True) if owner in self._with_inherited(role) else None

    def _with_inherited(self, role: str) -> frozenset[str]:
        """The role and the roles whose rights it has without taking them on."""
        found: set[str] = set()
        waiting = [role]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                if "noinherit" not in self._attributes.get(name, {}):
                    waiting.extend(self._groups.get(name, ()))
        return frozenset(found)


def bypasses(timeline: Timeline, forced_unseen: bool) -> Iterator[Bypass]:
    """The first work for a tenant that is done in each role that row security does not bind, as it is taken on.

    `forced_unseen` tells that row security may be forced on tables whose names are not seen.
    """
    program, rights = timeline.program, timeline.rights
    seen: set[tuple[str, Place]] = set()
    for ran in timeline.of(Ran):
        if ran.statement.kind not in _WORK or not is_for_tenant(program, ran.before):
            continue
        role, taken_at = _role_of(ran.before, timeline)
        table = next((table for table in ran.tables if _is_protected(program, table)), None)
        if not role or UNNAMED in role or taken_at is None or table is None or (role, taken_at) in seen:
            continue
        right = rights.right(role, table)
        if right is None or (right.by_owning and forced_unseen):
            continue
        seen.add((role, taken_at))
        sure = min(ran.before.sure, Confidence.MEDIUM if right.by_owning else Confidence.HIGH)
        yield Bypass(role, taken_at, table, ran.place, right, sure)


def is_for_tenant(program: Program, connection: ConnectionState) -> bool:
    """Whether a tenant is in force: work in the name of nobody may well be meant to see everything."""
    return any(
        setting.current.is_value and program.catalogue.is_tenant(setting.name) is not None
        for setting in connection.settings
    )


def _is_protected(program: Program, table: str) -> bool:
    facts = program.catalogue.tables.get(table)
    return facts is not None and bool(facts.enabled) and program.catalogue.holds_tenants(table)


def _role_of(connection: ConnectionState, timeline: Timeline) -> tuple[str, Place | None]:
    """The role in which a statement runs, and where that is said; no name where it is not known."""
    role = connection.setting("role").current
    if role.is_value:
        return role.value, role.origin
    if role.holding is not Holding.UNSET or connection.setting("session_authorization").current != NOTHING:
        return "", None
    pool = timeline.pools.get(connection.pool) if connection.pool is not None else None
    return connection.user, connection.made if pool is None else pool.place
