"""A policy that raises where the tenant is missing or empty."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.rule import POLICY_TRIGGERS, Finding, Rule, Severity, Timeline

RULE = Rule("TA602", "policy-breaks-on-empty", Severity.WARNING, triggers=POLICY_TRIGGERS)

_WHEN = {
    "missing": "in a session that has never set it",
    "empty": "once a local setting has ended, which leaves the empty string",
    "both": "whenever there is no tenant",
}


def check(timeline: Timeline) -> Iterator[Finding]:
    for judged in timeline.policies():
        if judged.raises is None:
            continue
        yield (
            RULE.at(
                judged.read_at,
                f"without {judged.setting} this policy raises instead of hiding rows, {_WHEN[judged.raises]}",
            )
            .see(judged.place, "the policy")
            .sure(judged.sure)
            .mended(f"nullif(current_setting('{judged.setting}', true), '') and the cast around that")
        )
