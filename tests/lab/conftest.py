"""A place for an experiment on each server that this machine has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from auditor.lab.place import Place

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def place(database: str) -> Iterator[Place]:
    found = Place(database, full=False, seed=1)
    found.prepare()
    yield found
    found.remove()
