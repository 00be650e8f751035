"""Connections of workers that may stand in a transaction for ever, as far as the program says."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.findings import Confidence
from auditor.timeline.model.connection import Autocommit, Life

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from auditor.findings import Place
    from auditor.program import Program
    from auditor.timeline.jobs.leases import At
    from auditor.timeline.model.events import Ran

_ENDS = frozenset({"idle_in_transaction_session_timeout", "transaction_timeout"})


class EndlessWait(NamedTuple):
    """Where a worker's connections are made, and a claim that runs on one of them."""

    place: Place
    claim: Place
    sure: Confidence


def endless_waits(
    program: Program, claims: Iterable[At], pool_of: Callable[[Ran], Place | None]
) -> Iterator[EndlessWait]:
    """The first of the connections that outlive their job, where no source speaks of a limit on idle transactions.

    What the server or the role is set to by others is not seen: who sets other limits of that kind in the program would
    have set this one there as well.
    """
    found = sorted(wait for at in claims if (wait := _wait(at, pool_of)) is not None)
    if not found or program.limits & _ENDS:
        return
    place, claim, sure = found[0]
    yield EndlessWait(place, claim, min(sure, Confidence.MEDIUM) if program.limits else Confidence.LOW)


def _wait(at: At, pool_of: Callable[[Ran], Place | None]) -> EndlessWait | None:
    before = at.ran.before
    made = pool_of(at.ran) if before.life is Life.POOL else before.made if before.life is Life.KEPT else None
    if made is None or not made.path or before.autocommit is Autocommit.ON:
        return None
    return EndlessWait(made, at.place, before.sure)
