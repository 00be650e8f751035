"""What gives back every job that somebody has, as a process begins: those that other processes run are among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql import words
from auditor.sql.meaning import Kind
from auditor.sql.queue import StepKind
from auditor.sql.tokens import word_set
from auditor.timeline.jobs.guarding import guards

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.timeline.jobs.leases import At

#: What functions are called that see to it that a process begins well. What people call by hand is called otherwise.
_BEGINNINGS = word_set(
    """
    startup start starting begin init initialize initialise initialization setup boot bootstrap lifespan main launch
    recover recovers recovery recovering resume restore crash crashed orphan orphans orphaned interrupted stale stuck
    """
)


def given_back_at_start(steps: Iterable[At]) -> Iterator[At]:
    """The statements that do so, where there are several workers: their claims skip what others have locked."""
    every = list(steps)
    if not any(at.step.kind is StepKind.CLAIM and at.step.skip_locked for at in every):
        return
    # Whoever holds an advisory lock may be the only one that begins.
    alone = {at.ran.call.path for at in every if guards(at.ran.statement)}
    for at in every:
        if at.step.kind is StepKind.REAP and at.ran.call.path not in alone and _takes_all(at) and _begins(at):
            yield at


def _takes_all(at: At) -> bool:
    """Whether it asks for nothing but the state, and which queue it is: neither how long, nor whose they are."""
    step, queries = at.step, at.ran.statement.queries
    if step.watches or step.by_worker or step.by_id or not step.takes_stalled or len(queries) != 1:
        return False
    asked = {found.column for found in queries[0].conditions}
    return queries[0].verb is Kind.UPDATE and all(words.is_status(one) or words.names_queue(one) for one in asked)


def _begins(at: At) -> bool:
    names = (at.ran.symbol, at.ran.caller)
    return any(_BEGINNINGS.intersection(words.words(name.rpartition(".")[2])) for name in names)
