"""What the timeline says of a program's probes, and what a real run of it shows."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from auditor.config import Config
from auditor.packs import load_packs, own_pack, triggers
from auditor.program import read_program
from auditor.progress import silent
from auditor.sources import find_files
from auditor.timeline import walk
from auditor.timeline.connections.effects import is_refused
from auditor.timeline.connections.statements import _ENDS, Statements
from auditor.timeline.model.connection import Status
from auditor.timeline.model.events import Ran
from auditor.timeline.model.settings import Holding
from tests.reality.watching import Seen, probe_in, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RULES = load_packs([own_pack()])
WORDS = (*triggers(RULES, RULES), rb"probe\(")
#: The statement that always fails; no other one does.
_FAILS = "1 / 0"

UNKNOWN = "unknown"


# What the audit says


def predicted(folder: Path) -> set[Seen]:
    """The states in which each probe may run, along every path, when nothing fails but what always does."""
    config = Config(str(folder))
    inventory = find_files([], config, str(folder))
    with _nothing_else_fails():
        timeline = walk(read_program(inventory, WORDS, config, 1, silent), silent)
    found = set()
    for ran in timeline.of(Ran):
        probe = probe_in(ran.text)
        if probe is not None:
            held = ran.before.setting("app.tenant").current
            tenant = UNKNOWN if held.holding is Holding.UNKNOWN else held.value if held.is_value else ""
            status = ran.before.status
            found.add(Seen(probe, UNKNOWN if status is Status.UNKNOWN else status.value, tenant))
    return found


@contextlib.contextmanager
def _nothing_else_fails() -> Iterator[None]:
    """Any statement may fail, as the audit sees it: here only those are followed that do."""
    fails, one = Statements._fails, Statements._one
    current: list[Any] = []

    def only_always(self: Any, run: Any, state: Any, before: Any, place: Any) -> Any:
        (statement,) = current
        refused = before.status is Status.ABORTED and statement.kind not in _ENDS
        refused = refused or _FAILS in statement.text or is_refused(statement, before)
        return fails(self, run, state, before, place) if refused else []

    def and_no_other_way(self: Any, run: Any, statement: Any, state: Any) -> Any:
        current[:] = [statement]
        after = one(self, run, statement, state)
        return [] if _FAILS in statement.text else after

    with (
        mock.patch.object(Statements, "_fails", only_always),
        mock.patch.object(Statements, "_breaks", return_value=None),
        mock.patch.object(Statements, "_one", and_no_other_way),
    ):
        yield


# What happens


def observed(folder: Path, dsn: str) -> list[Seen]:
    """The probes of a real run, in order."""
    with mock.patch.dict(os.environ, {"DSN": dsn}):
        return run(folder)


# Both


class Comparison(NamedTuple):
    missed: set[Seen]  #: seen in reality, and not foretold
    extra: set[Seen]  #: foretold, and never seen, of probes that ran
    unknown: int  #: probes seen that were only foretold as unknown
    probes: int


def compare(folder: Path, dsn: str) -> Comparison:
    """A program's probes as foretold and as seen. In an aborted transaction no tenant can be asked for."""
    told, seen = predicted(folder), set(observed(folder, dsn))
    told = {one._replace(tenant="") if one.status == Status.ABORTED.value else one for one in told}
    unknown = {one.probe for one in told if UNKNOWN in (one.status, one.tenant)}
    ran = {one.probe for one in seen}
    missed = {one for one in seen - told if one.probe not in unknown}
    extra = {one for one in told - seen if one.probe in ran and one.probe not in unknown}
    return Comparison(missed, extra, len(ran & unknown), len(ran))
