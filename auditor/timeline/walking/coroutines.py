"""What was called earlier and only runs now: coroutines, generators, threads and tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.timeline.model.state import NO_JOB, Flow
from auditor.timeline.model.values import (
    UNKNOWN,
    Asked,
    Block,
    Bound,
    Class,
    Either,
    Function,
    Instance,
    Pending,
    Query,
)

if TYPE_CHECKING:
    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.model.state import State
    from auditor.timeline.model.values import Value
    from auditor.timeline.walking.calls import OnYield
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker


class Coroutines:
    """Runs what waits to run, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker

    def pending(self, pending: Pending, call: Invocation, on_yield: OnYield | None = None) -> Results:
        """Run what was called earlier and only runs now, from the state and place of `call`."""
        return self.walker.calls.run(
            pending.function, call.passing(*pending.arguments, named=pending.keywords), on_yield
        )

    def awaited(self, value: Value, call: Invocation) -> Results:
        """`await value`: a coroutine runs now; anything else already has."""
        if isinstance(value, Either):
            return [result for option in value.options for result in self.awaited(option, call)]
        if isinstance(value, Block) and value.kind == "borrow":
            return list(self.walker.database.pools.acquire(value.key, call.state, call.frame, value.site))
        if isinstance(value, Block) and value.kind == "borrow cursor":
            taken = self.walker.database.pools.acquire(value.key, call.state, call.frame, value.site)
            return [(after, self.walker.database.cursor_of(connection)) for after, connection in taken]
        if isinstance(value, Block) and value.kind in ("transaction", "task"):
            # It begins, and is ended by hand.
            return [(after, value) for after, _ in self.walker.blocks.by_hand(value, "start", call)]
        if isinstance(value, Asked):
            return self.walker.records.send(value, call, many=True)
        if isinstance(value, Query):
            return self.walker.models.rows(value, call)
        if isinstance(value, Pending) and not value.manager and not value.function.info.node.is_generator:
            return self.pending(value, call)
        return [(call.state, value)]

    def delegated(self, value: Value, call: Invocation) -> Results:
        """`yield from value`: the inner generator's yields are the outer one's."""

        def on_yield(after: State, got: Value, out: Flow) -> list[State]:
            return self.walker.yielded(after, got, call.frame, out, call.span)

        if isinstance(value, Pending):
            return self.pending(value, call, on_yield)
        return [(after, UNKNOWN) for after in on_yield(call.state, UNKNOWN, call.flow)]

    def spawn(self, callee: Value, call: Invocation) -> None:
        """Something that runs beside what is walked: a thread, a task. It has its own way, from here on."""
        job = call.state.job
        # What is given one of the jobs that were looked for works on it.
        given = {self.walker.models.table_of(value) for value in call.everything} if job.looked else set()
        looked = tuple(mark for mark in job.looked if mark.table in given)
        beside = replace(NO_JOB, looked=looked, guarded=job.guarded) if looked else NO_JOB
        apart = call._replace(state=call.state.with_job(beside), flow=Flow())
        for value in call.everything:
            self.walker.unseen.shared(value)
        ends: Results = []
        with self.walker.scout.beside(call.state):
            if isinstance(callee, Pending):
                ends = list(self.pending(callee, apart))
            elif isinstance(callee, (Function, Bound, Class, Instance)):
                ends = [
                    way
                    for after, value in self.walker.calls.apply(callee, apart)
                    for way in self.awaited(value, apart.at(after))
                ]
        for after in (*(state for state, _ in ends), *(state for state, _ in apart.flow.raises)):
            if after.job.claims:
                self.walker.database.endings.job_ends(after, call.place, call.frame.symbol)
