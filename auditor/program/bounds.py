"""Where Python code compares the number of attempts with a maximum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.program.tree import descend, last_name, literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.program.code import ModuleInfo
    from auditor.python import nodes

#: What the names of attempt counters are made of.
_COUNTERS = ("attempt", "retr", "tries", "failure", "fail_count", "deliver", "error_count", "receive_count", "read_ct")
#: A maximum that is held against something else is only being checked itself.
_MAXIMA = ("max", "limit", "allowed", "total")
#: What functions are called that tell how long to wait for the next attempt.
_DELAYS = ("delay", "backoff", "back_off", "countdown", "interval")


def functions_comparing_attempts(module: ModuleInfo) -> Iterator[str]:
    """The qualified names of the functions that compare an attempt counter by size; what tells a delay ends nothing."""
    for function in module.functions():
        waits = any(word in function.node.name.lower() for word in _DELAYS)
        if not waits and any(_compares(part) for part in function.words.compares):
            yield function.qualname


def _compares(part: nodes.Compare) -> bool:
    return any(operator in ("<", "<=", ">", ">=") for operator in part.operators) and any(
        _is_counter(side) for side in (part.left, *part.rights)
    )


def _is_counter(expression: nodes.Expression) -> bool:
    """A name, attribute or key that counts attempts; what is added to it changes nothing."""
    for part in descend(expression):
        lowered = (last_name(part) or literal(part) or "").lower()
        if any(word in lowered for word in _COUNTERS) and not any(word in lowered for word in _MAXIMA):
            return True
    return False
