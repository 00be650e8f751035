"""A tenant that is set on a connection of its own, on which nothing else is done, for whoever asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.findings import Confidence
from auditor.sql.words import words
from auditor.timeline.model.events import Stranded

if TYPE_CHECKING:
    from auditor.findings import Place
    from auditor.program.program import Program
    from auditor.timeline.model.state import State

#: How helpers are named that make something ready for what comes after them.
_PREPARES = {
    *("set", "use", "enter", "switch", "activate", "bind", "apply", "select", "assume", "begin", "start", "init"),
    *("initialize", "configure", "establish", "ensure", "change", "push", "inject", "prepare", "connect", "with"),
}


def set_for_nobody(program: Program, state: State, place: Place, symbol: str) -> Stranded | None:
    """What a walk that ends at `place` has set for nobody.

    It takes a helper that gives the connection back: it gives something to work with, or says that it prepares. A job
    of that shape is not believed to be all that there is.
    """
    if state.job.stray is None:
        return None
    set_at, released_at, closed = state.job.stray
    helper = program.function_at(released_at)
    # What it gives is no connection that it has closed.
    gives = helper is not None and helper.gives_value and not closed
    if helper is None or not (gives or _PREPARES.intersection(words(helper.node.name)[:1])):
        return None
    return Stranded(place, set_at, released_at, (), Confidence.MEDIUM, symbol, over=True)
