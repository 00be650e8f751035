"""How a long step tells how far it has come."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """How far a step has come: `progress("reading", 12, 400)`."""

    def __call__(self, step: str, done: int, total: int) -> None: ...


def silent(step: str, done: int, total: int) -> None:
    """Progress that nobody sees."""
