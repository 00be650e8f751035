"""What a job does outside of the database, and does again when it is run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.findings import Confidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.findings import Place
    from auditor.timeline.jobs.leases import LeaseQueue
    from auditor.timeline.model.events import Repeated


class RepeatableCall(NamedTuple):
    """A call that leaves the process for a job; where the job is claimed, and what hands it on after a while."""

    place: Place
    name: str
    what: str
    claim: Place
    retaken_by: Place
    calls: tuple[Place, ...]
    sure: Confidence


def repeatable(called: Iterable[Repeated], queues: Iterable[LeaseQueue]) -> Iterator[RepeatableCall]:
    """Calls for jobs that another worker may be given while the first is still at them; each place once."""
    retaken = {queue.table: queue.retaken_by for queue in queues}
    told: set[Place] = set()
    for call in called:
        for claim in call.claims:
            taker = retaken.get(claim.table)
            if taker is not None and call.place not in told:
                told.add(call.place)
                sure = min(Confidence.MEDIUM, claim.sure, taker.sure)
                yield RepeatableCall(
                    call.place, f"{call.name}()", call.reach.what, claim.place, taker.place, call.calls, sure
                )
