"""Where Python code looks at who holds a job, or at the state it is in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from auditor.program.tree import descend, last_name, literal
from auditor.sql import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from auditor.program.code import FunctionInfo, ModuleInfo
    from auditor.python import nodes

#: Columns that tell whether a job is still its worker's.
_TELLING = (
    *(words.is_token, words.is_bare_token, words.is_status, words.is_until, words.is_started, words.is_attempts),
    *(words.is_finished, words.is_version),
)


def tells_holder(column: str) -> bool:
    """Whether a column tells who has a job, since when, or whether somebody has it."""
    return any(named(column) for named in _TELLING)


class HolderChecks:
    """The functions of a program that ask whether a job is still their worker's, or call what asks."""

    def __init__(self, modules: Iterable[ModuleInfo]) -> None:
        self._asking = frozenset(
            function.node.name for module in modules for function in module.functions() if _asks(function)
        )

    def asked_by(self, running: Iterable[FunctionInfo]) -> bool:
        """Whether one of the functions asks, the innermost first, up to the one that changes rows itself."""
        for function in running:
            if _asks(function) or self._calls_what_asks(function):
                return True
            if any(_changes(text) for text in function.words.texts):
                return False
        return False

    @staticmethod
    def asks_only_held(running: Iterable[FunctionInfo]) -> bool:
        """Whether the functions look at nothing but whether somebody has the job: one that is done nobody has."""
        asking = [function for function in running if _asks(function)]
        return bool(asking) and all(map(_asks_only_held, asking))

    @staticmethod
    def compared_by(running: Iterable[FunctionInfo]) -> bool:
        """Whether the innermost of the functions, or the one that called it, compares who holds a job with somebody.

        One that nobody holds yet is known by its state: who finds it waiting calls it off.
        """
        return any(_compares(function, words.is_token) or _finds_waiting(function) for function in tuple(running)[:2])

    def _calls_what_asks(self, function: FunctionInfo) -> bool:
        """Whether it calls a method that asks, or a function that by its name is there to ask."""
        names = self._asking & function.words.names
        return any(name not in function.words.called or _CHECKS.search(name) for name in names)


#: What functions are called that look whether something may go on.
_CHECKS = re.compile(
    r"check|ensure|assert|verify|valid|require|guard|(?:^|_)(?:is|has|owns?|holds?|can|may|still)_", re.IGNORECASE
)


def _changes(text: nodes.Text) -> bool:
    first = text.pieces[0] if text.pieces else ""
    return isinstance(first, str) and first.lstrip()[:6].lower() in ("update", "delete")


def _asks(function: FunctionInfo) -> bool:
    """Whether it compares such a column, or asks for one that is true or false."""
    flags = (name for name in function.words.names if name.islower())
    return _compares(function, tells_holder) or any(words.flagged(name, True) for name in flags)


def _compares(function: FunctionInfo, named: Callable[[str], bool]) -> bool:
    """Whether it compares a column of that name; what is passed in was not read of the job, a class has a capital."""
    given = {parameter.name for parameter in function.node.parameters}
    parts = function.words.compares
    names = (name for part in parts for name in _names_in(part))
    return any(named(name) and name not in given and not name[:1].isupper() for name in names)


def _asks_only_held(function: FunctionInfo) -> bool:
    """Whether it compares the state of a job with such as a worker gives it, and nothing else that tells who has it."""
    if any(words.flagged(name, True) for name in function.words.names if name.islower()):
        return False
    parts = [part for part in function.words.compares if any(map(tells_holder, _names_in(part)))]
    said = [{state for name in _names_in(part) for state in _states(name)} - {""} for part in parts]
    states = {words.state_of(state) or state for one in said for state in one}
    others = any(not words.is_status(name) for part in parts for name in _names_in(part) if tells_holder(name))
    return bool(parts) and all(said) and not others and states <= words.HELD


def _finds_waiting(function: FunctionInfo) -> bool:
    """Whether it compares the state of a job with one in which it waits: `job.status == "queued"`."""
    asked = (pair.partition("=") for pair in function.words.equal)
    return any(words.is_status(name) and "queued" in _states(said) for name, _, said in asked)


def _states(said: str) -> set[str]:
    return {words.state_of(said), words.state_called(said)}


def _names_in(part: nodes.Compare) -> Iterator[str]:
    for inner in descend(part):
        name = last_name(inner) or literal(inner)
        if name:
            yield name
