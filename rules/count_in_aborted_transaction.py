"""A count on a connection whose transaction the error has aborted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA303", "count-in-aborted-transaction", Severity.ERROR, triggers=CLAIM_TRIGGERS, yields_to=("TA301",))


_COUNTED = (
    "the failure is counted in the transaction that it aborted: PostgreSQL refuses this statement too, "
    "and nothing is counted"
)
_NOTED = (
    "the failure is written down in the transaction that it aborted: PostgreSQL refuses this statement too, "
    "and the job is the next to be taken again"
)


def check(timeline: Timeline) -> Iterator[Finding]:
    for ran, claim in timeline.refused_counts():
        finding = RULE.at(ran.place, _COUNTED if timeline.is_count(ran) else _NOTED)
        if claim is not None:
            finding = finding.see(claim.place, "the job is claimed here")
        if ran.before.aborted_at is not None:
            finding = finding.see(ran.before.aborted_at, "when this fails, the transaction is aborted")
        yield (
            finding.see_call(ran.call, "it runs here, before a rollback")
            .sure(ran.before.sure)
            .of_fault(ran.before.begun, ran.connection, also="nor does this count anything")
            .mended("roll back first, or run the work in a savepoint: with connection.transaction():")
        )
