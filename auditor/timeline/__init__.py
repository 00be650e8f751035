"""What runs where, as whom, and what a rollback undoes: the program, walked, and the questions that rules ask of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.timeline.answers import Timeline

if TYPE_CHECKING:
    from auditor.program import Program
    from auditor.progress import Progress

__all__ = ["Timeline", "walk"]


def walk(program: Program, progress: Progress) -> Timeline:
    """Walk every entry point of the program."""
    import sys

    from auditor.timeline.roots import Roots
    from auditor.timeline.walker import Walker

    # Calls are walked where they are made, so code sixteen calls deep needs more frames than it does when it runs.
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 12_000))
    try:
        walker = Walker(program)
        roots = Roots(walker).walk(progress)
    finally:
        sys.setrecursionlimit(limit)
    return Timeline(program, tuple(walker.events), tuple(roots), dict(walker.database.pools.known))
