"""Transactions that may stand still for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA503", "no-idle-timeout", Severity.NOTE, triggers=CLAIM_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for wait in timeline.endless_waits():
        yield (
            RULE.at(
                wait.place,
                "nothing in the program limits how long a transaction on these connections may stand idle: "
                "a worker that hangs in one holds its rows, and VACUUM, until somebody ends it",
            )
            .see(wait.claim, "jobs are claimed on them here")
            .sure(wait.sure)
            .mended(
                "ALTER ROLE worker SET idle_in_transaction_session_timeout = '1min', "
                "or options='-c idle_in_transaction_session_timeout=60000' where the connection is made"
            )
        )
