"""What is known of queues: claims, how their jobs end, and what bounds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from auditor.program.bounds import compares_attempts
from auditor.sql.queue import Step, StepKind
from auditor.timeline.connection import Deed, Mark
from auditor.timeline.events import Event, JobEnded, Ran

if TYPE_CHECKING:
    from auditor.findings import Place
    from auditor.program import Program


@dataclass(frozen=True)
class JobRun:
    """All the ways in which jobs of one claim, made from one entry point, were seen to end."""

    claim: Mark
    endings: tuple[JobEnded, ...]

    @property
    def failures(self) -> tuple[JobEnded, ...]:
        """Endings of jobs whose work failed, whether somebody caught it or not."""
        return tuple(ending for ending in self.endings if ending.failed is not None)

    @property
    def counts_last(self) -> bool:
        """Whether some failing job leaves a count, or is moved to another state, for good."""
        return any(_lasts(ending, Deed.COUNT) or _lasts(ending, Deed.FINISH) for ending in self.failures)

    @property
    def lost_counts(self) -> tuple[tuple[Mark, JobEnded], ...]:
        """Counts that a failure rolled back, with the ending that shows it."""
        return self._undone(Deed.COUNT)

    @property
    def lost_logs(self) -> tuple[tuple[Mark, JobEnded], ...]:
        """Records of a run that a failure rolled back."""
        return self._undone(Deed.RUN_LOG)

    def _undone(self, deed: Deed) -> tuple[tuple[Mark, JobEnded], ...]:
        found: dict[Place, tuple[Mark, JobEnded]] = {}
        for ending in self.failures:
            for mark in ending.undone:
                if mark.deed is deed and ending.worked:
                    found.setdefault(mark.place, (mark, ending))
        return tuple(found.values())

    @property
    def forgotten_failure(self) -> JobEnded | None:
        """A failure that rolls the claim back and leaves nothing, where no failure leaves anything."""
        if self.counts_last:
            return None
        return next(
            (
                ending
                for ending in self.failures
                if ending.worked and any(mark.deed is Deed.CLAIM for mark in ending.undone)
            ),
            None,
        )

    @property
    def counted_by_handler(self) -> Mark | None:
        """The count of a caught failure, where nothing is counted before the work."""
        if any(ending.counted_before_work for ending in self.endings) or not any(e.worked for e in self.endings):
            return None
        for ending in self.failures:
            for mark in (*ending.kept, *ending.pending):
                if mark.deed is Deed.COUNT:
                    return mark
        return None


def _lasts(ending: JobEnded, deed: Deed) -> bool:
    return any(mark.deed is deed for mark in (*ending.kept, *ending.pending))


class Claim(NamedTuple):
    """A claim as a statement makes it, and the settings in force where it runs."""

    step: Step
    mark: Mark
    settings_in_force: tuple[str, ...]
    role: str = ""


class UnboundedClaim(NamedTuple):
    """A claim without a bound; `recovery` is what brings a stalled job back whatever its count."""

    claim: Mark
    counted_at: Place | None
    recovery: Place | None


class Queues:
    """The queues of a program."""

    def __init__(self, program: Program, events: tuple[Event, ...]) -> None:
        self._program = program
        self._events = events

    @cached_property
    def runs(self) -> tuple[JobRun, ...]:
        by_claim: dict[tuple[Place, str], tuple[Mark, list[JobEnded]]] = {}
        for event in self._events:
            for claim in event.claims if isinstance(event, JobEnded) else ():
                assert isinstance(event, JobEnded)
                by_claim.setdefault((claim.place, event.root), (claim, []))[1].append(event)
        return tuple(JobRun(claim, tuple(endings)) for claim, endings in by_claim.values())

    @cached_property
    def tables(self) -> frozenset[str]:
        claimed = {claim.step.table for claim in self.claims()}
        return frozenset(claimed | set(self._program.config.job_tables)) - {""}

    def claims(self) -> Iterator[Claim]:
        """Every claim that ran."""
        for event in self._events:
            if not isinstance(event, Ran) or Deed.CLAIM not in event.deeds:
                continue
            force = tuple(setting.name for setting in event.before.settings if setting.current.is_value)
            role = event.before.setting("role").current
            marks = [mark for mark in event.marks if mark.deed is Deed.CLAIM]
            steps = [step for step in event.steps if step.kind is StepKind.CLAIM]
            for mark, step in zip(marks, steps, strict=True):
                yield Claim(step, mark, force, role.value if role.is_value else "")

    def _all_steps(self, kind: StepKind) -> Iterator[tuple[Step, Place]]:
        """Every step of a kind that the program runs or defines, with its statement's place."""
        for event in self._events:
            if isinstance(event, Ran):
                yield from ((step, event.place) for step in event.steps if step.kind is kind)
        for located in self._program.catalogue.located:
            statements = (located.statement, *(located.statement.function.body if located.statement.function else ()))
            for statement in statements:
                for step in self._program.queue_steps(statement):
                    if step.kind is kind:
                        yield step, located.locate(step.span)

    def reaper_counts(self, table: str) -> bool:
        """Whether what takes back stalled jobs counts the attempt that was lost."""
        return any(step.table == table and step.counts for step, _ in self._all_steps(StepKind.REAP))

    def unbounded(self) -> Iterator[UnboundedClaim]:
        """Claims that take a job however often it has been tried, where attempts are counted at all."""
        claims = {claim.mark.place: claim for claim in self.claims()}
        for claim in claims.values():
            if claim.step.bounded or not claim.step.table:
                continue
            count = self._count_of(claim)
            if count is None or self._is_bounded(claim.step.table):
                continue
            yield UnboundedClaim(claim.mark, count, None)

    def _count_of(self, claim: Claim) -> Place | None:
        if claim.step.counts:
            return claim.mark.place
        return next((place for step, place in self._all_steps(StepKind.COUNT) if step.table == claim.step.table), None)

    def _is_bounded(self, table: str) -> bool:
        """Whether any statement compares the attempts of the table with a maximum, or any code does."""
        kinds = (StepKind.BOUND, StepKind.BURY)
        if any(step.table == table for kind in kinds for step, _ in self._all_steps(kind)):
            return True
        return any(compares_attempts(module) for module in self._program.modules if not module.test)
