"""The `dataclass` of the standard library, without the watch over frozen ones at run time.

To a type checker it is the same, so it is mypy that keeps frozen values from being changed. At run time a watched class
takes twice as long to make, which every commit would pay for each of eighty, and its values four times as long, which
a walk pays by the million (measured with Python 3.11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses

    from auditor.python.record import Record

    def dataclass(kind: type | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True) -> Any:
        if kind is None:
            return lambda given: dataclass(given, frozen=frozen, slots=slots, eq=eq)
        hashed = frozen and eq and "__hash__" not in vars(kind)
        made = dataclasses.dataclass(slots=slots, eq=eq, unsafe_hash=hashed, repr=False)(kind)
        if "__repr__" not in vars(made):
            made.__repr__ = Record.__repr__
        return made
