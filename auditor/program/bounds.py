"""Where Python code compares the number of attempts with a maximum, or the age of something with now."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from auditor.program.tree import descend, last_name, literal
from auditor.python import nodes
from auditor.sql.words import is_moment, is_past, is_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.program.code import FunctionInfo, ModuleInfo

#: What the names of attempt counters are made of.
_COUNTERS = re.compile(
    r"attempt|retry|retries|(?<![a-z])tries|failure|fail_count|deliver|error_count|receive_count|read_ct"
)
#: A maximum that is held against something else is only being checked itself.
_MAXIMA = ("max", "limit", "allowed", "total")
#: What functions are called that tell how long to wait for the next attempt.
_DELAYS = ("delay", "backoff", "back_off", "countdown", "interval")

#: What the names of functions are made of that only tell somebody.
_TELLS = frozenset({"format", "render", "describe", "display", "print", "show", "repr", "str"})


def functions_comparing_attempts(module: ModuleInfo) -> Iterator[str]:
    """The qualified names of the functions that compare an attempt counter by size.

    What tells a delay ends nothing, nor does what only tells people.
    """
    for function in module.functions():
        if _comparisons(function):
            yield function.qualname


def functions_comparing_on_failure(module: ModuleInfo) -> Iterator[str]:
    """Those of them that do so nowhere but where something has failed: in an `except`, or told what went wrong."""
    for function in module.functions():
        compares = _comparisons(function)
        if compares and (_is_told_error(function) or _caught(function).issuperset(map(id, compares))):
            yield function.qualname


def _comparisons(function: FunctionInfo) -> list[nodes.Compare]:
    name = function.node.name.lower()
    if any(word in name for word in _DELAYS) or not _TELLS.isdisjoint(name.split("_")):
        return []
    compares = [part for part in function.words.compares if _compares(part)]
    turns = _turns(function) if compares else frozenset()
    return [part for part in compares if not turns.intersection(_names(part))]


#: What a function calls that which has gone wrong.
_ERRORS = frozenset({"error", "err", "exc", "exception", "exc_info", "failure", "error_message", "last_error", "cause"})


def _is_told_error(function: FunctionInfo) -> bool:
    return any(parameter.name in _ERRORS for parameter in function.node.parameters)


def _caught(function: FunctionInfo) -> frozenset[int]:
    """All that stands in handlers of exceptions."""
    tries = (part for part in descend(function.node) if isinstance(part, nodes.Try))
    return frozenset(id(part) for one in tries for handler in one.handlers for part in descend(handler))


def _turns(function: FunctionInfo) -> frozenset[str]:
    """What counts the turns of a function's own loops: it tries again by itself, and asks nothing of a job."""
    loops = (part for part in descend(function.node) if isinstance(part, nodes.For))
    return frozenset(
        loop.target.id
        for loop in loops
        if isinstance(loop.target, nodes.Name)
        and isinstance(loop.iterable, nodes.Call)
        and last_name(loop.iterable.function) in ("range", "count")
    )


def _names(part: nodes.Compare) -> Iterator[str]:
    return (name.id for name in descend((part.left, *part.rights)) if isinstance(name, nodes.Name))


def _compares(part: nodes.Compare) -> bool:
    """Whether it holds a counter against a number by its size; whether something was counted at all is no bound."""
    sides = (part.left, *part.rights)
    return (
        any(operator in ("<", "<=", ">", ">=") for operator in part.operators)
        and any(_is_counter(side) for side in sides)
        and not any(isinstance(side, nodes.Constant) and side.value == 0 for side in sides)
    )


def _is_counter(expression: nodes.Expression) -> bool:
    """A name, attribute or key that counts attempts; what is added to it changes nothing."""
    for part in descend(expression):
        lowered = (last_name(part) or literal(part) or "").lower()
        if _COUNTERS.search(lowered) and not any(word in lowered for word in _MAXIMA) and not _is_time(lowered):
            return True
    return False


#: The last words of names that tell when something is tried again, or for how long it is not: retry_at, retry_after.
_TIMES = frozenset({"at", "on", "after", "before", "until", "time", "delay", "seconds", "interval", "timeout", "ts"})


def _is_time(name: str) -> bool:
    return name.rpartition("_")[2] in _TIMES


#: What a clock is asked by.
_NOW = frozenset({"now", "utcnow", "time", "monotonic"})


def functions_comparing_ages(module: ModuleInfo) -> Iterator[str]:
    """The qualified names of the functions that ask by the clock whether the time of something is up."""
    for function in module.functions():
        names = function.words.names
        if (
            not _NOW.isdisjoint(names)
            and any(map(_is_of_the_past, names))
            and any(map(_by_size, function.words.compares))
        ):
            yield function.qualname


def _is_of_the_past(name: str) -> bool:
    return (is_moment(name) and not is_past(name)) or is_until(name)


def _by_size(part: nodes.Compare) -> bool:
    """Whether two things are compared by their size, and neither is a number."""
    sides = (part.left, *part.rights)
    sized = any(operator in ("<", "<=", ">", ">=") for operator in part.operators)
    return sized and not any(isinstance(side, nodes.Constant) for side in sides)
