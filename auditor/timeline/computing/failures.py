"""Which handler catches which failure."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.timeline.model.values import Class, Either, External, Instance, Items, Made, Raised, Value

if TYPE_CHECKING:
    from auditor.timeline.walking.walker import Walker

#: Exceptions that `except Exception` lets through.
_EXITS = frozenset(
    {
        "builtins.GeneratorExit",
        "builtins.KeyboardInterrupt",
        "builtins.SystemExit",
        "asyncio.CancelledError",
        "asyncio.exceptions.CancelledError",
    }
)
_EVERYTHING = frozenset({"builtins.Exception", "builtins.BaseException"})


def class_of(value: Value) -> Value | None:
    """The class of what is raised: `raise E` and `raise E(...)` are the same."""
    if isinstance(value, Instance):
        return Class(value.info)
    if isinstance(value, Made):
        return External(value.name)
    return value if isinstance(value, (Class, External)) else None


def catches(handler: Value, raised: Raised, walker: Walker) -> bool | None:
    """Whether `except handler:` catches it; None when it may or may not."""
    if isinstance(handler, (Items, Either)):
        answers = [
            catches(part, raised, walker) for part in (handler.items if isinstance(handler, Items) else handler.options)
        ]
        return True if True in answers else (None if None in answers else False)
    if raised.kind == "exit":
        return isinstance(handler, External) and handler.name in ("builtins.BaseException", *_EXITS)
    if isinstance(handler, External) and handler.name in _EVERYTHING:
        return not (
            isinstance(raised.type, External) and raised.type.name in _EXITS and handler.name == "builtins.Exception"
        )
    if raised.kind == "sql":
        return _catches_sql(handler, walker)
    if raised.type is None:
        return None  # some call failed, with what is not known: every handler may be the one
    return _is_a(raised.type, handler, walker)


def _catches_sql(handler: Value, walker: Walker) -> bool | None:
    """A statement that fails raises an error of its driver."""
    if isinstance(handler, External):
        if any(handler.name in driver.errors for driver in drivers.DRIVERS):
            return True
        return None if drivers.holding(handler.name) is not None else False
    if isinstance(handler, Class):
        names = walker.objects.library_names(handler.info)
        return None if any(_catches_sql(External(name), walker) is not False for name in names) else False
    return None


def _is_a(type_: Value, handler: Value, walker: Walker) -> bool | None:
    if isinstance(type_, Class):
        lineage = list(walker.objects.lineage(type_.info))
        if isinstance(handler, Class):
            return handler.info in lineage
        if isinstance(handler, External):
            names = walker.objects.library_names(type_.info)
            answers = [_is_a(External(name), handler, walker) for name in names]
            return True if True in answers else (None if None in answers else False)
        return None
    if isinstance(type_, External) and isinstance(handler, External):
        if type_.name == handler.name:
            return True
        for driver in drivers.DRIVERS:
            if type_.name == driver.refuses_with and handler.name in driver.errors | driver.refusals_are:
                return handler.name in driver.refusals_are
        one, other = _builtin(type_.name), _builtin(handler.name)
        if one is not None and other is not None:
            return issubclass(one, other)
        return False if one is not None or type_.name.partition(".")[0] != handler.name.partition(".")[0] else None
    return False if isinstance(handler, (Class, External)) else None


def _builtin(name: str) -> type | None:
    """A builtin exception by its dotted name."""
    package, _, attribute = name.partition(".")
    found = getattr(builtins, attribute, None) if package == "builtins" else None
    return found if isinstance(found, type) else None
