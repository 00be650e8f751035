"""SET with a parameter that the server is to bind."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.rule import Finding, Rule, Severity, Timeline

RULE = Rule(
    "TA110",
    "set-with-parameter",
    Severity.ERROR,
    triggers=(
        rb"set\s+local\s",
        rb"set\s+session\s",
        rb"set\s+[\w.\"{}]+\s*(?:=|\bto\b)\s*(?:%|\$1|:\w|\{)",
    ),
)


def check(timeline: Timeline) -> Iterator[Finding]:
    for ran, setting in timeline.settings():
        if not (setting.bound and ran.bound_on_server):
            continue
        yield (
            RULE.at(
                setting.place,
                "SET takes no parameter that the server binds: the statement always fails with a syntax error",
            )
            .see(ran.call, f"{ran.before.driver} sends the value beside the statement")
            .sure(ran.before.sure)
            .mended(f"SELECT set_config('{setting.name}', %s, true)")
        )
