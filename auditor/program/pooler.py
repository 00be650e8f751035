"""PgBouncer before the database, as its configuration in the tree tells, or the project's own for us.

In transaction mode a client has a connection of the server for one transaction: what a session is set to stays there
for whoever comes next, and nothing that the client sends afterwards is sure to reach it. (PgBouncer's documentation,
"SQL feature map for pooling modes"; shown by the experiment `leak`.)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from auditor.files import read
from auditor.findings import Place
from auditor.lines import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.files import SourceFile

#: Modes in which a connection of the server is given up before the client is gone.
SHARING = frozenset({"transaction", "statement"})
_MODE = re.compile(r"(?:^|\s)pool_mode\s*=\s*'?(\w+)")


class Pooler(NamedTuple):
    """A pooler that gives its connections to others after each transaction, and where that is said, if in a file."""

    mode: str
    place: Place | None


def find_pooler(told: str | None, files: Iterable[SourceFile]) -> Pooler | None:
    """What the configuration has `told`; without a word there, what files of PgBouncer say."""
    if told is not None:
        return Pooler(told, None) if told in SHARING else None
    return next((found for file in files if file.file.endswith(".ini") for found in _of_file(file)), None)


def _of_file(file: SourceFile) -> Iterator[Pooler]:
    data = read(file)
    for number, line in enumerate(decode(data).splitlines() if isinstance(data, bytes) else (), 1):
        found = _MODE.search(line) if not line.lstrip().startswith((";", "#")) else None
        if found is not None and found[1].lower() in SHARING:
            place = Place(file.path, number, found.start(1) + 1, number, found.end(1) + 1)
            yield Pooler(found[1].lower(), place)
