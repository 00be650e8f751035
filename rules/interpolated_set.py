"""A tenant formatted into the text of a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA109", "interpolated-set", Severity.WARNING, triggers=SETTING_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for ran, setting in timeline.settings():
        if setting.tenant is None or not setting.interpolated:
            continue
        yield (
            RULE.at(
                setting.place,
                f"the value of {setting.name} is formatted into the statement: "
                "a quote in it ends the string, and what follows runs",
            )
            .see_call(ran.call, "it runs here")
            .sure(setting.tenant)
            .mended(f"pass it as a parameter: SELECT set_config('{setting.name}', %s, true)")
        )
