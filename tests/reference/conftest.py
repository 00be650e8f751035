"""A queue for each test, in a database of its own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.reference.harness import Queue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def queue(database: str) -> Iterator[Queue]:
    found = Queue(database)
    yield found
    found.close()


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the command is to write, as a package whose modules `load_written` imports."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "written"
    for name in [name for name in sys.modules if name.split(".", 1)[0] == "written"]:
        del sys.modules[name]
