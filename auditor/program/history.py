"""What migrations leave behind, told by running them in their order: a catalogue in which what is dropped is gone."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.program.catalogue import Catalogue, Located, PolicyFact
from auditor.sql.meaning import HOLE_CLOSE, HOLE_OPEN, Kind

if TYPE_CHECKING:
    from auditor.findings import Place
    from auditor.program.catalogue import Locator, TableFacts
    from auditor.sql.meaning import RowSecurity, Statement, TableShape

_HOLE = re.compile(f"{HOLE_OPEN}[^{HOLE_CLOSE}]*{HOLE_CLOSE}")


class History(Catalogue):
    """Filled statement by statement, each of which changes what those before it have left."""

    def __init__(self, tenant_settings: tuple[str, ...] = ()) -> None:
        super().__init__(tenant_settings)
        #: Where statements stand that were run.
        self.ran: set[Place] = set()
        self._told: set[tuple[Place, str]] = set()

    def add(self, statement: Statement, locate: Locator) -> None:
        place = locate(statement.span)
        if statement.function is not None and statement.function.name:
            self.located = [one for one in self.located if not _is_older(one.statement, statement)]
        if (place, statement.text) not in self._told:
            self.located.append(Located(statement, locate))
        self._told.add((place, statement.text))
        self.ran.add(place)
        for table in statement.dropped:
            self.tables.pop(table.name, None)
            self.located = [one for one in self.located if not _creates(one.statement, table.name)]
        for name in statement.dropped_functions:
            self.functions.pop(name.lower(), None)
        if statement.function is not None:
            self.drops.pop(statement.function.name.lower(), None)
        self._take(statement, locate)

    def _take_policy(self, fact: PolicyFact) -> None:
        if fact.kind is Kind.CREATE_POLICY:
            facts = self.table(fact.policy.table.name)
            facts.policies = [one for one in facts.policies if one.policy.name != fact.policy.name]
            facts.policies.append(fact)
            return
        for facts in self._called(fact.policy.table.name):
            left = (_altered(one, fact) if _same(one, fact) else one for one in facts.policies)
            facts.policies = [one for one in left if one is not None]

    def _take_row_security(self, change: RowSecurity, place: Place) -> None:
        facts = self.table(change.table.name)
        if change.action in ("disable", "enable"):
            facts.enabled = [place] if change.action == "enable" else []
        else:
            facts.forced = [place] if change.action == "force" else []

    def _take_shape(self, shape: TableShape, place: Place) -> None:
        super()._take_shape(shape, place)
        if shape.renamed:
            facts = self.tables.pop(shape.table.name)
            facts.name = shape.renamed
            self.tables[shape.renamed] = facts

    def _called(self, name: str) -> list[TableFacts]:
        """The table of that name; any where the name is only known at run time."""
        if HOLE_OPEN in name:
            return [facts for known, facts in self.tables.items() if _fits(known, name)]
        return [self.table(name)]


def _creates(statement: Statement, table: str) -> bool:
    shape = statement.shape
    return shape is not None and shape.table.name == table and statement.kind is Kind.CREATE_TABLE


def _is_older(statement: Statement, later: Statement) -> bool:
    """Whether a statement defines the function that a later one defines again."""
    one, other = statement.function, later.function
    return one is not None and other is not None and (one.name, one.parameters) == (other.name, other.parameters)


def _same(fact: PolicyFact, later: PolicyFact) -> bool:
    return _fits(fact.policy.name, later.policy.name)


def _fits(name: str, written: str) -> bool:
    """Whether a name is what one may come to that is partly known at run time."""
    if name == written:
        return True
    parts = _HOLE.split(written)
    return len(parts) > 1 and re.fullmatch(".*".join(map(re.escape, parts)), name, re.DOTALL) is not None


def _altered(fact: PolicyFact, later: PolicyFact) -> PolicyFact | None:
    """A policy after DROP or ALTER POLICY."""
    if later.kind is Kind.DROP_POLICY:
        return None
    policy, change = fact.policy, later.policy
    if change.using is None and change.check is None:
        return replace(fact, policy=policy._replace(roles=change.roles or policy.roles))
    whole = change.using is not None
    altered = change._replace(
        command=policy.command,
        permissive=policy.permissive,
        roles=change.roles or policy.roles,
        using=change.using if whole else policy.using,
        check=policy.check if change.check is None else change.check,
        reads=change.reads if whole else (*policy.reads, *change.reads),
        calls=change.calls if whole else (*policy.calls, *change.calls),
    )
    return replace(later, policy=altered) if whole else replace(fact, policy=altered)
