"""Jobs that are ended by whoever once held them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Confidence, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA402", "unfenced-finish", Severity.ERROR, triggers=CLAIM_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    yield from _of_jobs(timeline)
    yield from _of_locks(timeline)


def _of_jobs(timeline: Timeline) -> Iterator[Finding]:
    for queue in timeline.lease_queues():
        if not queue.unproven:
            continue
        first, *others = queue.unproven
        by = "its id and a state that the next worker gives it too" if first.step.asks else "its id alone"
        finding = RULE.at(
            first.place,
            f"the job is ended by {by}: a worker that lost it to another still ends it, while the other runs it",
        ).see(queue.claim.place, "the job is claimed here")
        unread = queue.unread_proof(first)
        if unread:
            finding = finding.see(first.ran.call, f"{unread} is given to this function, which looks at it nowhere")
        if queue.retaken_by is not None and queue.retaken_by.place != queue.claim.place:
            finding = finding.see(queue.retaken_by.place, "and given to others here while its worker may be at it")
        for other in (one for one in others if queue.fences_on_demand(one) == queue.fences_on_demand(first)):
            finding = finding.see(other.place, "this ends it by its id alone, too")
        proof = queue.proof or "a number that each claim raises"
        if queue.fences_on_demand(first):
            # Who calls it may always give the proof.
            finding = finding.sure(Confidence.LOW)
        yield finding.sure(min(first.sure, queue.claim.sure)).mended(
            f"add {proof}, as the claim has set it, to the conditions, and undo the work where no row is changed"
        )


def _of_locks(timeline: Timeline) -> Iterator[Finding]:
    for lock in timeline.unfenced_locks():
        first, *others = lock.ends
        finding = RULE.at(
            first.place,
            "the lock is ended by its key alone: who held it for longer than its time ends that of whoever has taken "
            "it over, and a third begins beside him",
        ).see(lock.taken_over.place, "one that has run out is taken over here")
        for other in others:
            finding = finding.see(other.place, "this ends it by its key alone, too")
        yield finding.sure(min(first.sure, Confidence.MEDIUM)).mended(
            "give each lock a token of its own as it is taken, and add it to the conditions of whatever ends it"
        )
