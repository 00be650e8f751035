"""Frozen classes that the type checker alone watches are dataclasses in all else."""

from __future__ import annotations

from dataclasses import field, replace

from auditor.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """A place, and what it is called."""

    x: int
    y: int = 0
    name: str = field(default="", compare=False)


@dataclass(frozen=True)
class Own:
    """One that has a hash of its own."""

    x: int

    def __hash__(self) -> int:
        return 7


def test_equal_by_what_they_hold() -> None:
    assert Point(1) == Point(1, 0, "here")
    assert Point(1) != Point(2)
    assert len({Point(1), Point(1, name="here"), Point(2)}) == 2


def test_replace_and_repr() -> None:
    assert replace(Point(1), y=3) == Point(1, 3)
    assert repr(Point(1, name="here")) == "Point(x=1, y=0, name='here')"
    assert not hasattr(Point(1), "__dict__")


def test_a_hash_of_its_own_stays() -> None:
    assert hash(Own(1)) == 7
    assert Own(1) == Own(1)
