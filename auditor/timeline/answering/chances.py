"""What the text around a call tells of how likely it is met while a transaction holds rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from auditor.findings import Confidence
from auditor.program.tree import descend, last_name
from auditor.python import nodes
from auditor.timeline.leaving.services import SLEEP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.program import Program
    from auditor.timeline.model.events import Reached

_Body = tuple[nodes.Node, ...]
_LEAVES = (nodes.Return, nodes.Raise, nodes.Break, nodes.Continue)


def sure_of(program: Program, reached: Reached) -> Confidence:
    """How sure it is that somebody waits, and is made to wait for long."""
    # A task is handed over in a moment; in a worker that is still a moment for each job. A task that is told of a row
    # looks for that row.
    tells = reached.of_listener or reached.tells_row
    brief = reached.reach.hands_over and not (reached.in_job or reached.of_worker or tells)
    if brief or any(rare(program, reached) for rare in (_waits_to_try_again, _waits_for_more, _is_chosen, _makes_once)):
        return Confidence.LOW
    return min(reached.held.sure, reached.reach.sure)


def _waits_to_try_again(program: Program, reached: Reached) -> bool:
    """Whether it is a pause after a failure: what failed has most often taken the transaction with it."""
    function = program.function_at(reached.at) if reached.reach.what == SLEEP else None
    return function is not None and _follows_failure(function.node.body, reached.at.line)


def _waits_for_more(program: Program, reached: Reached) -> bool:
    """Whether it is a pause where the block around it has given nothing: it has most often locked nothing, either."""
    function = program.function_at(reached.at) if reached.reach.what == SLEEP else None
    if function is None:
        return False
    around = [part for part in descend(function.node.body, into_functions=False) if _holds(part, reached.at.line)]
    given = {name.id for part in around if isinstance(part, nodes.With) for _, name in part.items if _is_name(name)}
    tests = (part for part in around if isinstance(part, nodes.If))
    return any(_nothing_asked(part, reached.at.line) in given for part in tests)


def _is_name(target: nodes.Expression | None) -> TypeGuard[nodes.Name]:
    return isinstance(target, nodes.Name)


def _nothing_asked(part: nodes.If, line: int) -> str | None:
    """The variable that holds nothing in the branch of that line: `if x: … else: HERE`, `if not x: HERE`."""
    test, body = part.test, part.orelse
    if isinstance(test, nodes.Not):
        test, body = test.value, part.body
    elif isinstance(test, nodes.Compare) and test.operators in (("is",), ("is not",)):
        body = part.body if test.operators == ("is",) else part.orelse
        test = test.left
    there = any(_holds(one, line) for one in body)
    return test.id if there and isinstance(test, nodes.Name) else None


def _follows_failure(body: _Body, line: int) -> bool:
    for index, part in enumerate(body):
        if not _holds(part, line):
            continue
        if any(isinstance(one, nodes.Try) and one.handlers and _leaves(one.body) for one in body[:index]):
            return True
        if isinstance(part, nodes.Try) and any(_holds(handler, line) for handler in part.handlers):
            return True
        return any(_follows_failure(inner, line) for inner in _bodies(part))
    return False


def _leaves(body: _Body) -> bool:
    """Whether nothing behind a body is reached from its end."""
    last = body[-1] if body else None
    return isinstance(last, _LEAVES) or (isinstance(last, nodes.With) and _leaves(last.body))


def _is_chosen(program: Program, reached: Reached) -> bool:
    """Whether a branch opens the transaction around a call that another branch makes without.

    What is called may ask again what the branch was chosen by.
    """
    begun = reached.held.begun
    function = program.function_at(begun) if begun is not None else None
    if begun is None or function is None:
        return False
    parts = list(descend(function.node.body, into_functions=False))
    block = next((one for one in parts if isinstance(one, nodes.With) and one.span[0] == begun.line), None)
    through = [place.line for place in reached.held.held_in if place.path == begun.path]
    if block is None or not any(_holds(block, line) for line in through):
        return False
    inside = {id(part) for part in descend(block.body, into_functions=False)}
    calls = [(one, last_name(one.function)) for one in parts if isinstance(one, nodes.Call)]
    around = {name for one, name in calls if id(one) in inside and one.span[0] in through}
    return any(name in around for one, name in calls if id(one) not in inside)


def _makes_once(program: Program, reached: Reached) -> bool:
    """Whether rows are only held where a function that gives what there is had to make it: the first time of all."""
    held = reached.held.held_at
    function = program.function_at(held) if held is not None and not reached.in_job else None
    if held is None or function is None:
        return False
    before = (part for part in function.node.body if isinstance(part, nodes.If) and part.span[2] < held.line)
    return any(_gives_what_is_there(part) for part in before)


def _gives_what_is_there(part: nodes.If) -> bool:
    """`if found: return found`, or `if found is not None:`."""
    test, last = part.test, part.body[-1]
    if isinstance(test, nodes.Compare) and test.operators == ("is not",):
        test = test.left
    given = last.value if isinstance(last, nodes.Return) else None
    return isinstance(test, nodes.Name) and isinstance(given, nodes.Name) and test.id == given.id


def _holds(part: object, line: int) -> bool:
    span = getattr(part, "span", None)
    return span is not None and bool(span[0] <= line <= span[2])


def _bodies(part: nodes.Node) -> Iterator[_Body]:
    for name in ("body", "orelse", "final"):
        yield getattr(part, name, ())
