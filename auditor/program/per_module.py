"""What is worked out once for each module, and is forgotten with it."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

    from auditor.program.code import ModuleInfo

    T = TypeVar("T")


def once_per_module(ask: Callable[[ModuleInfo], T]) -> Callable[[ModuleInfo], T]:
    """Keeps the answer for as long as the module is there: a cache of functools would keep all programs ever read."""
    answers: WeakKeyDictionary[ModuleInfo, T] = WeakKeyDictionary()

    @wraps(ask)
    def answered(module: ModuleInfo) -> T:
        try:
            return answers[module]
        except KeyError:
            return answers.setdefault(module, ask(module))

    return answered
