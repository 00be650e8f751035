"""A pool's configure callback that leaves a transaction open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import POOL_TRIGGERS, Callback, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA203", "configure-leaves-transaction", Severity.ERROR, triggers=POOL_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for callback in timeline.callbacks(Callback.CONFIGURE):
        for place in callback.left_in_transaction:
            yield (
                RULE.at(
                    place,
                    "this configure callback leaves a transaction open: the pool never hands the connection out, "
                    "and jobs end in PoolTimeout",
                )
                .see(callback.pool, "the pool is given it here")
                .mended("commit at its end")
            )
