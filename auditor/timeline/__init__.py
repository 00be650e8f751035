"""What runs where, as whom, and what a rollback undoes: the program, walked, and the questions that rules ask of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.timeline.answering.answers import Timeline

if TYPE_CHECKING:
    from auditor.program import Program
    from auditor.progress import Progress

__all__ = ["Timeline", "walk"]

#: How many objects are made before the garbage collector looks through the young, the older, the old ones.
_SELDOM = (20_000, 20, 20)


def walk(program: Program, progress: Progress) -> Timeline:
    """Walk every entry point of the program."""
    import gc
    import sys

    from auditor.timeline.walking.roots import Roots
    from auditor.timeline.walking.walker import Walker

    # Calls are walked where they are made, so code sixteen calls deep needs more frames than it does when it runs.
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 12_000))
    # What was read is kept to the end, and little of what a walk makes has cycles: a collector that goes through all of
    # it, again and again, takes half as long as the walk.
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_SELDOM)
    try:
        walker = Walker(program)
        roots = Roots(walker).walk(progress)
    finally:
        sys.setrecursionlimit(limit)
        gc.set_threshold(*thresholds)
        gc.unfreeze()
    return Timeline(program, tuple(walker.events), tuple(roots), dict(walker.database.pools.known))
