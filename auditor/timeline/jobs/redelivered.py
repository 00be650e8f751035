"""Tasks that a broker hands out once more when the worker that has them dies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.program.tree import descend
from auditor.python import nodes
from auditor.sql.queue import StepKind
from auditor.sql.words import HELD, state_called, state_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.findings import Place
    from auditor.program import Program
    from auditor.program.code import FunctionInfo
    from auditor.timeline.jobs.queues import Told
    from auditor.timeline.model.events import Ran

#: Dramatiq's tasks are acknowledged when they are done.
_DRAMATIQ = "actor"
#: With the first alone, Celery gives up a task whose process was killed, and keeps those of a worker that is gone.
_CELERY = ("acks_late", "reject_on_worker_lost")


def told_again(program: Program, told: Iterable[Told]) -> frozenset[Place]:
    """The claims of jobs, by their ids, that such a task makes again when it is run again."""
    claims = (one for one in told if one.step.kind is StepKind.CLAIM and one.step.by_id and one.step.how == "lease")
    return frozenset(
        one.place
        for one in claims
        if one.ran is not None and not one.step.rechecks and _is_told_again(program, one.ran)
    )


def _is_told_again(program: Program, ran: Ran) -> bool:
    found = (program.function_at(place) for place in (*ran.through, ran.call, ran.place))
    functions = [function for function in found if function is not None]
    return any(map(_is_handed_out_again, functions)) and not any(map(_takes_only_what_waits, functions))


def _is_handed_out_again(task: FunctionInfo) -> bool:
    if _DRAMATIQ in task.decorator_names:
        return True
    calls = [decorator for decorator in task.node.decorators if isinstance(decorator, nodes.Call)]
    return any(all(_says_yes(call, name) for name in _CELERY) for call in calls)


def _says_yes(call: nodes.Call, name: str) -> bool:
    return any(key == name and isinstance(given, nodes.Constant) and given.value for key, given in call.keywords)


def _takes_only_what_waits(function: FunctionInfo) -> bool:
    """Whether it looks at the state and lets through only jobs that wait: what is told again is refused then."""
    compared = [frozenset(_states(part)) for part in function.words.compares]
    return any("queued" in states and not HELD & states for states in compared)


def _states(part: nodes.Compare) -> Iterator[str]:
    for inner in descend(part):
        if isinstance(inner, nodes.Attribute):
            yield state_of(state_called(inner.name))
        elif isinstance(inner, nodes.Name):
            yield state_of(state_called(inner.id))
        elif isinstance(inner, nodes.Text):
            yield from (state_of(piece) for piece in inner.pieces if isinstance(piece, str))
