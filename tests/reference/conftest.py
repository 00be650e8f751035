"""A queue for each test, in a database of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.reference.harness import Queue

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def queue(database: str) -> Iterator[Queue]:
    found = Queue(database)
    yield found
    found.close()
