"""A pool's check callback that leaves a transaction open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import POOL_TRIGGERS, Callback, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA204", "check-leaves-transaction", Severity.ERROR, triggers=POOL_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for callback in timeline.callbacks(Callback.CHECK):
        for place in callback.left_in_transaction:
            yield (
                RULE.at(
                    place,
                    "this check callback leaves a transaction open: the job receives a connection already in one, "
                    "and its own transaction() is only a savepoint",
                )
                .see(callback.pool, "the pool is given it here")
                .mended("commit at its end, or use ConnectionPool.check_connection")
            )
