"""What policies ask of a row, where it is kept apart from them: a library's conditions, under names of their own.

A policy whose whole condition is put in by whoever uses it tells nothing. The conditions that stand beside it as texts
of their own do: they are written to be put in.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from auditor.program.catalogue import PolicyFact
from auditor.sql.meaning import HOLE_CLOSE, HOLE_OPEN, Policy, Span, Table

if TYPE_CHECKING:
    from auditor.program.catalogue import Catalogue, Locator

#: What each of them reads a setting with.
READS = "current_setting"
_OPEN = re.compile(rf"\s*{HOLE_OPEN}\d+{HOLE_CLOSE}\s*")
_BEGINS = re.compile(rf"\s*[\w(\"'{HOLE_OPEN}]")
_ANYWHERE = Span(0, 0)


def are_put_in(catalogue: Catalogue) -> bool:
    """Whether some policy leaves its whole condition to whoever makes it."""
    return any(
        condition is not None and _OPEN.fullmatch(condition)
        for fact in catalogue.policies()
        for condition in (fact.policy.using, fact.policy.check)
    )


def clause(text: str, locate: Locator) -> PolicyFact | None:
    """What a text asks of a row, as the condition of a policy of its own; None where it is no condition."""
    from sqlglot import exp

    from auditor.sql.dialect import parse_expression
    from auditor.sql.scan import calls_in
    from auditor.sql.tokens import tokenize

    if _BEGINS.match(text) is None:
        return None
    tokens = tokenize(text)
    tree = parse_expression(tokens, text) if tokens else None
    if tree is None or isinstance(tree, (exp.Query, exp.Alias)):
        return None
    called = calls_in(tokens)
    whole = Span(0, len(text))
    policy = Policy("", Table(""), "all", (), True, text, None, called.reads, called.calls, whole, _ANYWHERE)
    return PolicyFact(policy, locate, whole)
