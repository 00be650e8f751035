"""What a rule is made of. Rules, ours and a team's own, import this module and nothing else of the auditor.

A rule is a module NAME.py with a `RULE` and a `check`, and a page NAME.md beside it whose examples are run as tests:

    RULE = Rule("TA101", "session-tenant", Severity.ERROR, triggers=(rb"set_config",))

    def check(timeline: Timeline) -> Iterator[Finding]:
        for leak in timeline.handovers():
            yield RULE.at(leak.place, "…").see(leak.end, "…")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.findings import Applicability, Confidence, Finding, Fix, Place, Related, Severity
from auditor.frozen import dataclass
from auditor.triggers import (
    CLAIM_TRIGGERS,
    CONNECT_TRIGGERS,
    PARAMETER_TRIGGERS,
    POLICY_TRIGGERS,
    POOL_TRIGGERS,
    ROLE_TRIGGERS,
    SENDING_TRIGGERS,
    SETTING_TRIGGERS,
    WAITING_CALL_TRIGGERS,
    WAITING_TRIGGERS,
)

if TYPE_CHECKING:
    from auditor.directives import Unused
    from auditor.drivers.model import Callback
    from auditor.timeline import Timeline
else:
    # Rules name these in annotations only; importing them for that would make every run pay for the whole auditor.
    Timeline = Unused = object

__all__ = [
    "CLAIM_TRIGGERS",
    "CONNECT_TRIGGERS",
    "PARAMETER_TRIGGERS",
    "POLICY_TRIGGERS",
    "POOL_TRIGGERS",
    "ROLE_TRIGGERS",
    "SENDING_TRIGGERS",
    "SETTING_TRIGGERS",
    "WAITING_CALL_TRIGGERS",
    "WAITING_TRIGGERS",
    "Applicability",
    "Callback",
    "Confidence",
    "Finding",
    "Fix",
    "Place",
    "Related",
    "Rule",
    "Severity",
    "Timeline",
    "Unused",
    "means",
]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule's identity.

    `triggers` are regular expressions over bytes in lower case; a file that contains none of them, in any case, cannot
    break the rule. Each starts with at least three literal characters, so that a tree is searched at the speed of
    memory. They decide what is read at all: one too many costs time, one too few hides a fault.

    `yields_to` are the codes of rules that tell of the same fault better: where one of them names the place of a
    finding of this rule, or the finding names the place of theirs, theirs alone is reported.
    """

    code: str
    name: str
    severity: Severity
    triggers: tuple[bytes, ...] = ()
    yields_to: tuple[str, ...] = ()

    def at(self, place: Place, message: str) -> Finding:
        """A finding of this rule, at its own severity and fully sure; see `Finding.sure`, `.see` and `.mended`."""
        return Finding(self.code, self.name, self.severity, message, place)


def means(word: str, rule: Rule | Finding) -> bool:
    """Whether a word that a person wrote means a rule: its name, its code or the beginning of its code."""
    return bool(word) and (word.lower() == rule.name or rule.code.startswith(word.upper()))


def __getattr__(name: str) -> object:
    if name == "Callback":
        from auditor.drivers.model import Callback

        return Callback
    raise AttributeError(name)
