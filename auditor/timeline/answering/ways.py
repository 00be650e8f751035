"""The places that lead to a fault, in the order of events, where several rules tell the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.findings import Related

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.timeline.answering.answers import OutsideCall
    from auditor.timeline.answering.lasting import Leak

_HEIRS = {
    "pool": "the next job to borrow this connection starts here",
    "kept": "the next call finds the connection as it was left",
    "session": "whoever ends this session's transaction keeps it, and its pool lends the connection on",
    "caller": "whoever passed the connection goes on with it",
    "loop": "the next turn runs this first",
}


def of_leak(leak: Leak, *, ends_block: bool, still: str) -> Iterator[Related]:
    """What keeps a value, and who meets it; `still` says as what. `ends_block`: a block ends where it is kept."""
    if leak.kept_at is not None and leak.kept_at == leak.set_at:
        yield Related(leak.connection.made or leak.set_at, "in autocommit it is kept at once")
    elif leak.kept_at is not None and leak.kept_at != leak.heir:
        commits = "the end of this block commits, and keeps it" if ends_block else "the commit keeps it"
        yield Related(leak.kept_at, commits)
    if leak.heir is not None and leak.kind == "pooler":
        yield Related(leak.heir, f"the pooler gives the connection to somebody else after a transaction, still {still}")
    elif leak.heir is not None:
        yield Related(leak.heir, f"{_HEIRS[leak.kind]}, still {still}")


def of_outside_call(call: OutsideCall, *, begins: str) -> Iterator[Related]:
    """Where a transaction begins to hold something, which `begins` tells, and the calls that lead outside."""
    if call.reached.held.held_at is not None:
        yield Related(call.reached.held.held_at, begins)
    for place in call.reached.through[:-1]:
        yield Related(place, "through this call")
    if call.reached.through:
        yield Related(call.reached.through[-1], f"here {call.name} is called")
