"""What later migrations leave of earlier ones: policies dropped, replaced or altered, row security switched off.

Only files that are numbered tell an order. What takes a migration back is none.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from auditor.program.per_module import once_per_module
from auditor.program.revisions import is_revision, only_downgrades
from auditor.program.tree import descend
from auditor.python import nodes
from auditor.sql.meaning import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.findings import Place
    from auditor.program.catalogue import PolicyFact, TableFacts
    from auditor.program.code import FunctionInfo, ModuleInfo

_NUMBERED = re.compile(r"[vV]?(\d+(?:[-_.]\d+)*)")
_BACK = re.compile(r"(?:^|[^a-z])(?:down|downgrade|rollback|revert|undo)(?:[^a-z]|$)")


class _Step(NamedTuple):
    """A migration: the folder it stands in, and its number."""

    folder: str
    number: tuple[int, ...]

    def comes_before(self, other: _Step) -> bool:
        return self.folder == other.folder and self.number < other.number


def current(facts: TableFacts) -> Iterator[PolicyFact]:
    """The policies of a table that no later migration has done away with."""
    ended = [step for place in facts.disabled if (step := _step(place)) is not None]
    begun = [step for place in facts.enabled if (step := _step(place)) is not None]
    # A file that does both tells how to take back what it does.
    last_ended = [step for step in ended if all(other.comes_before(step) for other in begun)]
    changes = [(fact, step) for fact in (*facts.dropped, *facts.policies) if (step := _step(fact.place)) is not None]
    for fact in facts.policies:
        step = _step(fact.place)
        gone = step is not None and (
            any(step.comes_before(other) for other in last_ended)
            or any(step.comes_before(other) and _replaces(later, fact) for later, other in changes)
        )
        if not gone:
            yield fact


def is_dropped(made: Place, drops: Iterable[Place]) -> bool:
    """Whether a later migration drops what one makes."""
    step = _step(made)
    later = filter(None, map(_step, drops))
    return step is not None and any(map(step.comes_before, later))


def taken_back(module: ModuleInfo) -> Iterator[nodes.Span]:
    """The strings of a migration that only run when it is taken back.

    Django's are given as RunSQL's reverse_sql, or stand in the function that RunPython is given second. Alembic's stand
    in `downgrade`, or in what that alone calls.
    """
    if is_revision(module):
        yield from (text.span for function in only_downgrades(module) for text in function.words.texts)
        return
    functions = {function.node.name: function.node for function in module.functions()}
    for value in _reverses(module):
        below = functions.get(value.id, value) if isinstance(value, nodes.Name) else value
        yield from (text.span for text in descend(below) if isinstance(text, nodes.Text))


def only_takes_back(function: FunctionInfo) -> bool:
    """Whether a function is what takes a migration of Django back."""
    return function.node.name in _taking_back(function.module)


@once_per_module
def _taking_back(module: ModuleInfo) -> frozenset[str]:
    """The names of the functions that a module gives for the way back: each of its functions asks."""
    return frozenset(value.id for value in _reverses(module) if isinstance(value, nodes.Name))


def _reverses(module: ModuleInfo) -> Iterator[nodes.Expression]:
    """What RunSQL and RunPython are given for the way back."""
    if b"RunSQL" not in module.data and b"RunPython" not in module.data:
        return
    for call in descend(module.facts.module.body):
        if not isinstance(call, nodes.Call) or not isinstance(call.function, (nodes.Attribute, nodes.Name)):
            continue
        name = call.function.name if isinstance(call.function, nodes.Attribute) else call.function.id
        if name in ("RunSQL", "RunPython"):
            yield from call.arguments[1:2]
            yield from (value for keyword, value in call.keywords if keyword in ("reverse_sql", "reverse_code"))


def _replaces(later: PolicyFact, fact: PolicyFact) -> bool:
    alters = later.kind is Kind.ALTER_POLICY and later.policy.using is None
    return later.policy.name == fact.policy.name and not alters


def _step(place: Place) -> _Step | None:
    """The migration that a place stands in: `003_name.sql`, `003_name/up.sql`, `migrations/0003_name.py` of Django."""
    django = place.path.endswith(".py") and posixpath.basename(posixpath.dirname(place.path)) == "migrations"
    if not (place.path.endswith(".sql") or django) or _BACK.search(posixpath.basename(place.path).lower()):
        return None
    folder, name = posixpath.split(place.path)
    for _ in range(2):
        found = _NUMBERED.match(name)
        if found is not None:
            return _Step(folder, tuple(int(part) for part in re.split(r"\D", found[1])))
        folder, name = posixpath.split(folder)
    return None
