"""What a rule is made of. Rules, ours and a team's own, import this module and nothing else of the auditor.

A rule is a module NAME.py with a `RULE` and a `check`, and a page NAME.md beside it whose examples are run as tests:

    RULE = Rule("TA101", "session-tenant", Severity.ERROR, triggers=(rb"set_config",))

    def check(timeline: Timeline) -> Iterator[Finding]:
        for leak in timeline.handovers():
            yield RULE.at(leak.place, "…").see(leak.end, "…")
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from auditor.findings import Applicability, Confidence, Finding, Fix, Place, Related, Severity

if TYPE_CHECKING:
    from auditor.timeline import Timeline

__all__ = [
    "Applicability",
    "Confidence",
    "Finding",
    "Fix",
    "Place",
    "Related",
    "Rule",
    "Severity",
    "Timeline",
]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule's identity.

    `triggers` are regular expressions over bytes in lower case; a file that contains none of them, in any case, cannot
    break the rule. Each starts with at least three literal characters, so that a tree is searched at the speed of
    memory. They decide what is read at all: one too many costs time, one too few hides a fault.
    """

    code: str
    name: str
    severity: Severity
    triggers: tuple[bytes, ...] = ()

    def at(self, place: Place, message: str) -> Finding:
        """A finding of this rule, at its own severity and fully sure; see `Finding.sure`, `.see` and `.mended`."""
        return Finding(self.code, self.name, self.severity, message, place)


def __getattr__(name: str) -> object:
    # Rules name Timeline in annotations only; importing it for that would make every rule pay for the whole auditor.
    if name == "Timeline":
        from auditor.timeline import Timeline

        return Timeline
    raise AttributeError(name)
