"""A pool's reset callback that leaves a transaction open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import POOL_TRIGGERS, Callback, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA202", "reset-leaves-transaction", Severity.ERROR, triggers=POOL_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for callback in timeline.callbacks(Callback.RESET):
        for place in callback.left_in_transaction:
            yield (
                RULE.at(
                    place,
                    "this reset callback leaves a transaction open: "
                    "the pool throws the connection away after every job and opens a new one",
                )
                .see(callback.pool, "the pool is given it here")
                .mended(
                    "commit at its end, or run it in autocommit and switch back; "
                    "or set the tenant locally and need no reset"
                )
            )
