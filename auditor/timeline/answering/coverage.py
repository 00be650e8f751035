"""Which tables row security covers, and whom it does not bind: what the program's SQL says of them, taken together."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from auditor.findings import Confidence, Place
from auditor.program.migrations import current
from auditor.program.tree import descend
from auditor.python import nodes
from auditor.sql.meaning import HOLE_OPEN, Kind
from auditor.sql.words import is_people, is_queue, words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from auditor.program import Program
    from auditor.program.catalogue import TableFacts
    from auditor.program.code import ModuleInfo

_FORCES = re.compile(rb"\bforce[^\n]{0,40}\brow\s+level|\brow\s+level[^\n]{0,40}\bforce\b", re.IGNORECASE)
_ENABLES = re.compile(rb"\benable[^\n]{0,40}\brow\s+level|\brow\s+level[^\n]{0,40}\benable\b", re.IGNORECASE)
_WORDS = re.compile(r"[a-z_][a-z0-9_]*")
#: Words in the names of tables that are read before there is a tenant, or by those who work for all tenants.
_APART = frozenset(
    {
        *("tenant", "tenants", "membership", "memberships", "member", "members", "invite", "invites", "invitation"),
        *("invitations", "key", "keys", "token", "tokens", "domain", "domains", "subscription", "subscriptions"),
        *("plan", "plans", "billing", "usage", "migration", "migrations", "partition", "archive", "backup", "tmp"),
        *("temp", "staging", "role", "roles", "setting", "settings", "config", "feature", "features", "flag", "flags"),
        *("default", "old", "new", "log", "logs", "audit", "metrics", "stats"),
    }
)


class Unforced(NamedTuple):
    """Tables of one file whose policies their owner does not feel; the first of them, and the others.

    A table that is only named at run time has no name.
    """

    table: str
    place: Place
    others: tuple[tuple[str, Place], ...]
    sure: Confidence


class Uncovered(NamedTuple):
    """A table with the tenant's column and no row security, and one like it that has some."""

    table: str
    column: str
    place: Place
    sibling: str
    sibling_at: Place


class Coverage:
    """The row security of a program's tables."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._catalogue = program.catalogue

    def _protected(self) -> Iterator[TableFacts]:
        """Tables under policies that need a tenant, and that no later migration has taken out of them."""
        for facts in self._catalogue.tables.values():
            if facts.enabled and any(self._catalogue.reads_tenant(fact.policy) for fact in current(facts)):
                yield facts

    def _hides_some(self, places: Iterable[Place], written: re.Pattern[bytes]) -> bool:
        """Whether a module writes of something more often than it was understood to do it."""
        known = [place.path for place in places]
        return any(
            _times_written(module, written) > known.count(module.path)
            for module in self._program.modules
            if len(written.findall(module.data)) > known.count(module.path)
        )

    # Owners

    @cached_property
    def forced_unseen(self) -> bool:
        """Whether row security may be forced on tables whose names are not seen."""
        tables = self._catalogue.tables.values()
        forced = [place for facts in tables for place in facts.forced]
        return any(facts.forced for facts in tables if HOLE_OPEN in facts.name) or self._hides_some(forced, _FORCES)

    def unforced(self) -> Iterator[Unforced]:
        """Tables where row security is switched on and forced by nothing, file by file."""
        if self.forced_unseen:
            return
        by_file: dict[str, list[TableFacts]] = {}
        for facts in self._protected():
            if not facts.forced:
                by_file.setdefault(facts.enabled[-1].path, []).append(facts)
        sure = Confidence.LOW if self._tells_of_roles() else Confidence.MEDIUM
        for found in by_file.values():
            first, *others = sorted(found, key=lambda facts: facts.enabled[-1])
            rest = tuple((_name(facts), facts.enabled[-1]) for facts in others)
            yield Unforced(_name(first), first.enabled[-1], rest, sure)

    def _tells_of_roles(self) -> bool:
        """Whether the program tells of roles, owners or grants: its workers may well be no owners then."""
        return (
            bool(self._catalogue.roles)
            or any(facts.owner for facts in self._catalogue.tables.values())
            or any(fact.policy.roles for fact in self._catalogue.policies())
            or any(_is_of_roles(located.statement.kind) for located in self._catalogue.located)
        )

    # Tables left out

    def uncovered(self, queues: Collection[str]) -> Iterator[Uncovered]:
        """Tables that have the column by which others are protected, and are not; those of queues are left out."""
        tables = self._catalogue.tables.values()
        protected = [facts for facts in self._protected() if HOLE_OPEN not in facts.name]
        enabled = [place for facts in tables for place in facts.enabled]
        unnamed = any(HOLE_OPEN in facts.name and (facts.enabled or facts.policies) for facts in tables)
        if len(protected) < 2 or unnamed or self._hides_some(enabled, _ENABLES):
            return
        columns = [(column, facts) for facts in protected for column in self._compared(facts)]
        for located in self._catalogue.located:
            shape = located.statement.shape
            if shape is None or located.statement.kind is not Kind.CREATE_TABLE or HOLE_OPEN in shape.table.name:
                continue
            facts = self._catalogue.table(shape.table.name)
            if facts.enabled or facts.policies or facts.name in queues or _is_apart(facts.name):
                continue
            names = {column.name for column in shape.columns}
            found = next(((column, other) for column, other in columns if column in names), None)
            if found is not None:
                column, other = found
                place = located.place_of(shape.table)
                yield Uncovered(facts.name, column, place, other.name, other.enabled[-1])

    def _compared(self, facts: TableFacts) -> Iterator[str]:
        """The columns of a table that its policies name, where it is certain which that is."""
        for fact in current(facts):
            if fact.policy.using is None or not self._catalogue.reads_tenant(fact.policy):
                continue
            used = set(_WORDS.findall(fact.policy.using.lower()))
            named = [column for column in facts.columns if column.lower() in used]
            if len(named) == 1 and named[0] != "id":
                yield named[0]


def _name(facts: TableFacts) -> str:
    return "" if HOLE_OPEN in facts.name else facts.name


def _is_of_roles(kind: Kind) -> bool:
    return kind in (Kind.GRANT, Kind.REVOKE)


def _is_apart(table: str) -> bool:
    """Tables that are read before there is a tenant, or by those who work for all: logins, queues, what is metered."""
    return is_queue(table) or is_people(table) or bool(_APART & set(words(table)))


def _times_written(module: ModuleInfo, written: re.Pattern[bytes]) -> int:
    """How often a module says it where it has texts: its comments and docstrings do nothing."""
    texts = (part for part in descend(module.facts.module) if isinstance(part, nodes.Text))
    lines = {line for text in texts for line in range(text.span[0], text.span[2] + 1)}
    return sum(module.data.count(b"\n", 0, found.start()) + 1 in lines for found in written.finditer(module.data))
