"""Row locks that end with the statement that takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Confidence, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA410", "lock-without-transaction", Severity.ERROR, triggers=CLAIM_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for claim in timeline.claims_of_jobs():
        if not timeline.lock_ends_at_once(claim):
            continue
        finding = RULE.at(
            claim.place,
            "the row lock ends with its own statement, for no transaction is open: two workers take the same job",
        )
        state = claim.ran.before
        if state.switched_at is not None:
            finding = finding.see(state.switched_at, "autocommit is switched on here")
        elif state.made is not None:
            finding = finding.see(state.made, "the connection is in autocommit")
        yield (
            finding.see_call(claim.ran.call, "it runs here")
            .sure(claim.sure)
            .mended("mark the job as taken in the same statement, or open a transaction around the claim and the work")
        )
    for lock in timeline.loose_locks:
        if lock.ended is not None:
            continue
        yield (
            RULE.at(
                lock.ran.place,
                "the row lock ends with its own statement, for no transaction is open on this connection: "
                "whoever reads the row next has it as well",
            )
            .see_call(lock.ran.call, "it runs here")
            .sure(lock.ran.before.sure)
            .mended("open a transaction around the lock and all that is done under it")
        )
    for refused in timeline.locks_refused():
        yield (
            RULE.at(
                refused.place,
                "jobs are to be locked where no transaction is open: on PostgreSQL Django refuses, and raises "
                "TransactionManagementError",
            )
            .sure(Confidence.MEDIUM)
            .mended("open transaction.atomic() around the claim, and mark what was claimed in it")
        )
