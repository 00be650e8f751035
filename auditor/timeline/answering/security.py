"""Row security as a worker meets it: what policies come to while there is no tenant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from auditor.findings import Confidence, Place
from auditor.program.catalogue import UNNAMED
from auditor.program.migrations import current
from auditor.sql.meaning import HOLE_OPEN, TermKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.program import Program
    from auditor.program.catalogue import PolicyFact
    from auditor.sql.policy import Outcomes
    from auditor.timeline.jobs.queues import Claim


_WORDS = re.compile(r"\w+")


class JudgedPolicy(NamedTuple):
    """A policy that reads a tenant setting. `raises` is "missing", "empty" or "both", None where it does not."""

    place: Place
    read_at: Place
    setting: str
    raises: str | None
    shows: bool
    sure: Confidence
    #: Where a function that the policy calls reads the setting, if the policy itself does not.
    read_by: Place | None = None


def _names_tenant_of(claim: Claim, fact: PolicyFact) -> bool:
    """Whether a claim asks for the jobs of one tenant: it knows whose they are, and may well be logged in as that."""
    words = set(_WORDS.findall((fact.policy.using or "").lower()))
    return not words.isdisjoint(claim.step.named)


class HiddenQueue(NamedTuple):
    """A queue whose jobs a worker without a tenant cannot see."""

    table: str
    policy: Place
    claim: Place
    sure: Confidence


class Security:
    """The row security of a program."""

    def __init__(self, program: Program) -> None:
        self._catalogue = program.catalogue

    def judged(self) -> Iterator[JudgedPolicy]:
        """Each policy that needs a tenant, with what it comes to without one.

        A text that is read both as it is written and as it is run is told of once, by the setting's name.
        """
        told: dict[tuple[Place, str | None], JudgedPolicy] = {}
        for one in self._each():
            known = told.get((one.read_at, one.raises))
            if known is None or known.setting == UNNAMED:
                told[one.read_at, one.raises] = one
        yield from told.values()

    def _each(self) -> Iterator[JudgedPolicy]:
        for fact in self._current():
            settings = self._catalogue.reads_tenant(fact.policy)
            outcomes = [
                found for found in (self._outcomes(fact.policy.using), self._outcomes(fact.policy.check)) if found
            ]
            if not settings or not outcomes:
                continue
            missing = any(outcome.missing == "raises" for outcome in outcomes)
            empty = any(outcome.empty == "raises" for outcome in outcomes)
            using = self._outcomes(fact.policy.using)
            opens = using is not None and "shows" in (using.missing, using.empty) and fact.policy.permissive
            # What a condition that is kept apart shows may be narrowed by what is put in beside it.
            apart = not fact.policy.table.name
            yield JudgedPolicy(
                fact.place,
                self._read_at(fact),
                settings[0],
                "both" if missing and empty else "missing" if missing else "empty" if empty else None,
                opens and not apart,
                min(self._sure_of(settings), Confidence.MEDIUM) if apart else self._sure_of(settings),
                self._read_by(fact),
            )

    def _current(self) -> Iterator[PolicyFact]:
        for facts in self._catalogue.tables.values():
            yield from current(facts)
        yield from self._catalogue.clauses

    def _outcomes(self, expression: str | None) -> Outcomes | None:
        if expression is None:
            return None
        from auditor.sql.policy import outcomes

        functions = self._catalogue.returned_expressions()
        return outcomes(expression, functions, self._names_a_tenant)

    def _names_a_tenant(self, name: str) -> bool:
        """A name that is filled in later is taken for a tenant's: policies read hardly any other setting."""
        return HOLE_OPEN in name or self._catalogue.is_tenant(name) is not None

    def _sure_of(self, settings: tuple[str, ...]) -> Confidence:
        return min((self._catalogue.is_tenant(name) or Confidence.MEDIUM for name in settings), default=Confidence.LOW)

    def _read_at(self, fact: PolicyFact) -> Place:
        """Where the policy itself reads the tenant; the policy's own place when a function does."""
        for read in fact.policy.reads:
            if read.name.kind is TermKind.HOLE or self._names_a_tenant(read.name.text):
                return fact.locate(read.span)
        return fact.place

    def _read_by(self, fact: PolicyFact) -> Place | None:
        for call in fact.policy.calls if not fact.policy.reads else ():
            for known in self._catalogue.functions.get(call.name.lower(), ()):
                for statement in known.function.body:
                    for read in statement.setting_reads:
                        return known.locate(read.span)
        return None

    # Queues under row security

    def hidden(self, claim: Claim) -> Iterator[HiddenQueue]:
        """The policy that hides a queue from its claim, unless another lets the worker in."""
        facts = self._catalogue.tables.get(claim.step.table)
        policies = list(current(facts)) if facts is not None else []
        if facts is None or not policies or self._lets_in(policies) or self._role_bypasses(claim):
            return
        fact = policies[0]
        sure = min(
            Confidence.HIGH if facts.enabled else Confidence.MEDIUM,
            claim.mark.sure,
            *(
                found
                for name in self._catalogue.reads_tenant(fact.policy)
                if (found := self._catalogue.is_tenant(name))
            ),
        )
        if self.some_role_bypasses() or _names_tenant_of(claim, fact):
            sure = Confidence.LOW
        yield HiddenQueue(facts.name, fact.place, claim.mark.place, sure)

    def hides(self, table: str) -> bool:
        """Whether it is certain that a session without a tenant sees no row of a table, be it the owner's."""
        facts = self._catalogue.tables.get(table)
        policies = list(current(facts)) if facts is not None else []
        if facts is None or not facts.enabled or not facts.forced or not policies:
            return False
        return not self._lets_in(policies)

    def _lets_in(self, policies: list[PolicyFact]) -> bool:
        """Whether some permissive policy shows rows to a session without a tenant."""
        for fact in policies:
            if not fact.policy.permissive or fact.policy.command in ("insert", "delete"):
                continue
            outcome = self._outcomes(fact.policy.using)
            if outcome is None or "hides" != outcome.missing != "raises":
                return True
        return False

    def _role_bypasses(self, claim: Claim) -> bool:
        return bool(claim.role)

    def some_role_bypasses(self) -> bool:
        """Whether the program makes a role that row security does not bind: the worker may be logged in as that."""
        return any("bypassrls" in role.attributes for roles in self._catalogue.roles.values() for role in roles)
