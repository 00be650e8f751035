"""SET with a parameter that the server is to bind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import PARAMETER_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA110", "set-with-parameter", Severity.ERROR, triggers=PARAMETER_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for ran, setting in timeline.settings():
        if not (setting.bound and ran.bound_on_server):
            continue
        driver = "psycopg 3" if ran.before.driver == "psycopg" else ran.before.driver
        scope = "true" if setting.where.value == "local" else "false"
        yield (
            RULE.at(
                setting.place,
                f"SET takes no parameters, and {driver} leaves them to the server: "
                "this always fails with a syntax error",
            )
            .see_call(ran.call, "it runs here")
            .sure(ran.before.sure)
            .mended(f"set_config takes parameters: SELECT set_config('{setting.name}', %s, {scope})")
        )
