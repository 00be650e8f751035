"""A callback that leaves autocommit switched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import POOL_TRIGGERS, Callback, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA206", "reset-changes-autocommit", Severity.WARNING, triggers=POOL_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for which in (Callback.RESET, Callback.CHECK):
        for callback in timeline.callbacks(which):
            for place in callback.left_switched:
                yield (
                    RULE.at(
                        place,
                        f"this {which.value} callback switches autocommit and does not switch it back on every path: "
                        "later jobs run without the transaction they count on",
                    )
                    .see(callback.pool, "the pool is given it here")
                    .mended("switch it back in finally")
                )
