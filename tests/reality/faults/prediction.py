"""What the audit says of each probe of a program: the states in which it may run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from auditor.config import Config
from auditor.packs import load_packs, own_pack, triggers
from auditor.program import read_program
from auditor.progress import silent
from auditor.sources import find_files
from auditor.timeline import walk
from auditor.timeline.model.connection import Status
from auditor.timeline.model.events import Ran
from auditor.timeline.model.settings import Holding

if TYPE_CHECKING:
    from pathlib import Path

    from auditor.timeline.model.connection import ConnectionState

_RULES = load_packs([own_pack()])
_TRIGGERS = (*triggers(_RULES, _RULES), rb"probe\(")
SETTING = "app.tenant"
#: Some tenant, of which the text of the program does not tell which.
SOME = "…"
UNKNOWN = "?"


class Seen(NamedTuple):
    """The transaction status after a probe, and the tenant that it ran as: "" for none, None where nobody can tell."""

    status: str
    tenant: str | None

    @property
    def is_unknown(self) -> bool:
        return UNKNOWN in (self.status, self.tenant)

    def allows(self, other: Seen) -> bool:
        """Whether a prediction has come true."""
        status = self.status in (other.status, UNKNOWN)
        if self.status == "aborted" or other.tenant is None:
            return status
        return status and (self.tenant in (other.tenant, UNKNOWN) or (self.tenant == SOME and other.tenant != ""))


@dataclass
class Prediction:
    """The states of each probe that is reached at all."""

    states: dict[int, set[Seen]] = field(default_factory=dict)
    #: The audit has not followed all of the program's paths.
    given_up: bool = False


def predict(folder: Path, files: dict[str, str]) -> Prediction:
    """Audit the program of these files."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    config = Config(str(folder))
    timeline = walk(read_program(find_files([], config, str(folder)), _TRIGGERS, config, 1, silent), silent)
    prediction = Prediction(given_up=any(root.given_up for root in timeline.roots))
    for ran in timeline.of(Ran):
        found = re.search(r"probe\((\d+)\)", ran.text)
        if found:
            prediction.states.setdefault(int(found[1]), set()).add(_seen(ran))
    return prediction


def _seen(ran: Ran) -> Seen:
    status = UNKNOWN if ran.after.status is Status.UNKNOWN else ran.after.status.value
    return Seen(status, None if ran.before.status is Status.ABORTED else _tenant(ran.before))


def _tenant(connection: ConnectionState) -> str:
    held = connection.setting(SETTING).current
    if held.holding is Holding.UNKNOWN:
        return UNKNOWN
    return held.value if held.holding is Holding.VALUE else ""
