"""Plain classes of named values, cheap to import and to make.

To a type checker a record is a frozen dataclass. At run time it has slots, and nothing watches assignments: a frozen
dataclass takes four times as long to make, which a tree of a million nodes feels, and fifty of them take 60 ms to
import, which every commit would pay.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Callable[[Any], Any]:
        return lambda decorator: decorator


Kind = TypeVar("Kind")


class Record:
    """What all records share: they are equal when they are of one class and hold equal values."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()
    _values: ClassVar[staticmethod[[Any], tuple[Any, ...]]]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self._values(self) == self._values(other)

    def __hash__(self) -> int:
        return hash(self._values(self))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__name__}({values})"


def getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """What takes the values of these names out of a record."""
    if len(names) > 1:
        return attrgetter(*names)
    (name,) = names
    return lambda made: (getattr(made, name),)


@dataclass_transform(frozen_default=True)
def record(kind: type[Kind]) -> type[Kind]:
    """Make a class a record of what it annotates, in that order."""
    names = tuple(kind.__annotations__)
    body = {name: value for name, value in vars(kind).items() if name not in (*names, "__dict__", "__weakref__")}
    defaults = {name: value for name, value in vars(kind).items() if name in names}
    given = ", ".join(f"{name}=defaults[{name!r}]" if name in defaults else name for name in names)
    made: dict[str, Any] = {}
    lines = [f"def __init__(self, {given}):", *(f" self.{name} = {name}" for name in names)]
    exec("\n".join(lines), {"defaults": defaults}, made)
    body.update(made, __slots__=names, __match_args__=names, _values=staticmethod(getter(names)))
    return type(kind.__name__, (Record,), body)
