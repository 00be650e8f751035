"""A scope that is only known at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA104", "dynamic-scope", Severity.NOTE, triggers=SETTING_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for ran, setting in timeline.settings_of_unknown_scope():
        if setting.tenant is None:
            continue
        yield (
            RULE.at(
                setting.place,
                f"whether {setting.name} ends with its transaction or reaches the next job is decided at run time",
            )
            .sure(min(ran.before.sure, setting.tenant))
            .mended("write true for is_local, or have a function of its own for each scope")
        )
