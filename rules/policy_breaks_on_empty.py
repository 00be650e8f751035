"""A policy that raises where the tenant is missing or empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import POLICY_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA602", "policy-breaks-on-empty", Severity.WARNING, triggers=POLICY_TRIGGERS)

_TOLD = {
    "missing": "where {name} was never set, this policy raises instead of hiding rows",
    "empty": "once a local {name} has ended it is the empty string, and this policy raises instead of hiding rows",
    "both": "without {name} this policy raises instead of hiding rows",
}
_MENDS = {
    "missing": "current_setting('{name}', true) is NULL where the setting is missing, and hides the row",
    "empty": "put nullif inside the cast: nullif(current_setting('{name}', true), '')",
    "both": "put nullif inside the cast: nullif(current_setting('{name}', true), '')",
}


def check(timeline: Timeline) -> Iterator[Finding]:
    for judged in timeline.policies():
        if judged.raises is None:
            continue
        finding = RULE.at(judged.read_at, _TOLD[judged.raises].format(name=judged.setting))
        if judged.read_by is not None:
            finding = finding.see(judged.read_by, "it calls this, which reads the setting")
        elif judged.place != judged.read_at:
            finding = finding.see(judged.place, "the policy")
        yield finding.sure(judged.sure).mended(_MENDS[judged.raises].format(name=judged.setting))
