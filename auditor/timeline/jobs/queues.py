"""What is known of queues: claims, how their jobs end, and what bounds them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from auditor.findings import Confidence
from auditor.frozen import dataclass
from auditor.program.catalogue import UNNAMED, is_unnamed
from auditor.program.engines import is_for_another
from auditor.program.unread import unread_parameters
from auditor.sql.queue import Step, StepKind
from auditor.sql.words import is_queue, is_run_at, is_schedule, is_started, names_queue
from auditor.timeline.jobs.holds import LooseEnd, loose_ends
from auditor.timeline.jobs.in_functions import Bound, InFunctions
from auditor.timeline.jobs.leases import ENDS, At, LeaseQueue, Seen, only_wakes, queues_of
from auditor.timeline.jobs.looked_after import looked_after_beside, sweeps_by_name
from auditor.timeline.jobs.offered import read_and_marked
from auditor.timeline.jobs.redelivered import told_again
from auditor.timeline.model.connection import Deed, Mark, Status
from auditor.timeline.model.events import Ended, Event, JobEnded, Ran, Taken, Unguarded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.findings import Place
    from auditor.program import Program


@dataclass(frozen=True)
class JobRun:
    """All the ways in which jobs of one claim, made from one entry point, were seen to end."""

    claim: Mark
    endings: tuple[JobEnded, ...]
    #: It looks after jobs that have stalled: nobody's work is done in its transaction.
    sweeps: bool = False
    #: The rows that it locks are marked as taken, and counted, by another claim from the same entry point.
    marks_later: bool = False

    @property
    def root(self) -> str:
        """The entry point that they were made from."""
        return self.endings[0].root

    @property
    def failures(self) -> tuple[JobEnded, ...]:
        """Endings of jobs whose work failed, whether somebody caught it or not."""
        return tuple(ending for ending in self.endings if ending.failed is not None)

    @property
    def counts_last(self) -> bool:
        """Whether some failing job leaves a count, or is moved to another state or out of the queue, for good."""
        return any(
            _lasts(ending, Deed.COUNT) or _lasts(ending, Deed.FINISH) or self._moves(ending) for ending in self.failures
        )

    def _moves(self, ending: JobEnded) -> bool:
        """Whether a claim that takes the job out of the queue lasts."""
        return self.claim.how == "delete" and any(mark.deed is Deed.CLAIM for mark in ending.kept)

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
                if mark.deed is deed and self._worked(ending):
                    found.setdefault(mark.place, (mark, ending))
        return tuple(found.values())

    @property
    def unseen_lease(self) -> JobEnded | None:
        """A failure that rolled the claim back with the work: nobody saw the lease while the work went on."""
        if self.claim.how != "lease":
            return None
        return next(
            (
                ending
                for ending in self.failures
                if self._worked(ending) and any(mark.place == self.claim.place for mark in ending.undone)
            ),
            None,
        )

    @property
    def forgotten_failure(self) -> JobEnded | None:
        """A failure that gives the job back as it was and leaves nothing, where no failure leaves anything."""
        if self.counts_last or not self._works_off:
            return None
        return next((ending for ending in self.failures if self._worked(ending) and self._gives_back(ending)), None)

    def _worked(self, ending: JobEnded) -> bool:
        """Whether the job's work had begun when it failed.

        Where a lease is committed before the job is done, statements up to that commit belong to the taking of it; and
        what looks after stalled jobs works on none.
        """
        leaves = self.counts_at_claim or any(other.goes_on for other in self.endings)
        taking = self.marks_later or (not ending.called and leaves)
        return ending.worked and not self.sweeps and not taking

    @property
    def counts_at_claim(self) -> bool:
        """Whether a job is left marked as taken, and counted, with no failure: it is worked off somewhere else."""
        if self.claim.how == "row lock":
            return False
        whole = [(*one.kept, *one.pending) for one in self.endings if one.failed is None]
        return any(
            {Deed.CLAIM, Deed.COUNT} <= {mark.deed for mark in marks}
            and not any(mark.may_end(self.claim) for mark in marks)
            for marks in whole
        )

    @property
    def _works_off(self) -> bool:
        """Whether a job is done where it is claimed: one that is only marked as taken is worked off elsewhere."""
        if self.claim.how in ("row lock", "delete"):
            return True
        deeds = {mark.deed for ending in self.endings for mark in (*ending.kept, *ending.pending, *ending.undone)}
        return Deed.FINISH in deeds or Deed.COUNT in deeds

    @property
    def ends_jobs(self) -> bool:
        """Whether the same run that takes a job also ends it."""
        return any(mark.deed is Deed.FINISH for ending in self.endings for mark in (*ending.kept, *ending.pending))

    def _gives_back(self, ending: JobEnded) -> bool:
        """Whether the claim was rolled back, or the work alone while all that held the job was a row lock."""
        undone = {mark.deed for mark in ending.undone}
        return Deed.CLAIM in undone or (self.claim.how == "row lock" and Deed.WORK in undone)

    @property
    def counted_by_handler(self) -> Mark | None:
        """The count of a caught failure, where nothing is counted before the work."""
        if any(ending.counted_before_work for ending in self.endings) or not any(e.worked for e in self.endings):
            return None
        if self.counts_at_claim:
            return None
        for ending in self.failures:
            for mark in (*ending.kept, *ending.pending):
                if mark.deed is Deed.COUNT:
                    return mark
        return None


def _sets_next_attempt(step: Step) -> bool:
    takes = step.kind is StepKind.CLAIM or (step.counts and not step.by_id)
    return takes and any(is_run_at(column) for column in step.sets)


def _is_retry(step: Step) -> bool:
    """Whether a failed job goes back to the queue; with no attempts any more, somebody wants it done anew.

    An error that is the same whatever went wrong tells that somebody sent the job back, and not that its work failed.
    """
    back = step.kind is StepKind.REQUEUE and step.by_id and "queued" in step.states
    return back and (step.counts or (step.tells_error and not step.fixed_error)) and not step.resets


def _waits_after_failure(step: Step) -> bool:
    return step.delayed and (_is_retry(step) or (step.kind is StepKind.FAIL and step.by_id))


def _polls(step: Step) -> bool:
    """Whether a step asks for whatever waits: a job that is taken by its id is brought to its worker by others."""
    if step.kind is StepKind.LOOK:
        return step.free and not {"done", "failed", "dead"} & set(step.asks)
    return step.kind is StepKind.CLAIM and not step.by_id


#: Steps that choose jobs by the state they are in: what somebody asks for as in hand, somebody has marked so.
_ASKED_FOR = frozenset({StepKind.LOOK, StepKind.REAP, StepKind.REQUEUE, StepKind.FAIL, StepKind.BURY})


def _gives_time(step: Step) -> bool:
    return step.kind is StepKind.EXTEND and bool(step.until)


def _only_moves_on(claim: Step) -> bool:
    """Whether a claim moves one row on from a state it must be in, and nothing else says that it is a job."""
    held = claim.token or claim.until or claim.counts or any(map(is_started, claim.sets))
    return claim.by_id and claim.rechecks and not held and not is_queue(claim.table)


def _start(place: Place) -> tuple[str, int, int]:
    return place.path, place.line, place.column


def _lasts(ending: JobEnded, deed: Deed) -> bool:
    return any(mark.deed is deed for mark in (*ending.kept, *ending.pending))


class Claim(NamedTuple):
    """A claim as a statement makes it, and the settings in force where it runs."""

    step: Step
    mark: Mark
    settings_in_force: tuple[str, ...]
    role: str = ""
    symbol: str = ""  #: the function that makes it
    alone: bool = False  #: it stands in a SQL function that nothing in the program names


class Told(NamedTuple):
    """A step of a queue, where it stands and in which function; `ran` is None where it is only defined."""

    step: Step
    place: Place
    symbol: str
    ran: Ran | None = None


class Recovery(NamedTuple):
    """What gives stalled jobs back or claims them without end; whether the attempts are counted on that way."""

    reaper: At
    claim: At
    counted: bool


class UnboundedClaim(NamedTuple):
    """A claim without a bound; `recovery` is what brings a stalled job back whatever its count, or takes it again."""

    claim: Mark
    counted_at: Place | None
    recovery: Place | None


class Queues:
    """The queues of a program."""

    def __init__(self, program: Program, events: tuple[Event, ...]) -> None:
        self._program = program
        self._events = events
        self._in_functions = InFunctions(program)
        self._comparing_of: dict[str, tuple[str, ...]] = {}

    @cached_property
    def runs(self) -> tuple[JobRun, ...]:
        by_claim: dict[tuple[Place, str], tuple[Mark, list[JobEnded]]] = {}
        for event in self._events:
            for claim in event.claims if isinstance(event, JobEnded) else ():
                assert isinstance(event, JobEnded)
                by_claim.setdefault((claim.place, event.root), (claim, []))[1].append(event)
        claims = list(self.claims())
        ends = {told.place for told in self._told if told.step.kind is StepKind.FINISH}
        # What sets one row by its id to whatever state it is told takes nobody's job.
        doubted = {claim.mark.place for claim in claims if claim.step.by_id and claim.mark.place in ends}
        doubted |= {claim.mark.place for claim in claims if not self._is_of_jobs(claim.step)}
        picked = {claim.step.table for claim in claims if not claim.step.by_id}
        moved = (claim for claim in claims if claim.step.table not in picked and _only_moves_on(claim.step))
        doubted |= {claim.mark.place for claim in moved}
        sweeps = {claim.mark.place for claim in claims if claim.step.takes_stalled}
        runs = [
            JobRun(
                replace(claim, sure=Confidence.LOW) if claim.place in doubted else claim,
                tuple(endings),
                claim.place in sweeps,
            )
            for claim, endings in by_claim.values()
        ]
        marking = {(run.claim.table, run.root) for run in runs if run.claim.how == "lease" and run.counts_at_claim}
        return tuple(
            replace(run, marks_later=run.claim.how == "row lock" and (run.claim.table, run.root) in marking)
            for run in runs
        )

    def _is_of_jobs(self, claim: Step) -> bool:
        """Whether a claim takes jobs, some at a time: rows that are locked to be looked after are no queue."""
        if claim.how != "row lock":
            return True
        if not claim.limited or is_schedule(claim.table):
            return False
        kinds = (StepKind.COUNT, StepKind.BOUND, StepKind.FAIL, StepKind.REQUEUE, StepKind.BURY, StepKind.ENQUEUE)
        told = any(step.step.states or step.step.kind in kinds for step in self._of(claim.table, *StepKind))
        told = told or any(map(names_queue, claim.named))
        return told or claim.bounded or is_queue(claim.table) or claim.table in self._program.config.job_tables

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
                held = role.value if role.is_value else ""
                yield Claim(step, mark, force, held, event.symbol, event.alone)

    @cached_property
    def _told(self) -> tuple[Told, ...]:
        """Every step that the program runs, with its place and function; then those it only defines."""
        told = [
            Told(step, place, event.symbol, event)
            for event in self._events
            if isinstance(event, Ran)
            for step, place in zip(event.steps, event.step_places, strict=True)
        ]
        told = [self._as_taken(one, told) for one in told]
        for located in self._program.catalogue.located:
            function = located.statement.function
            statements = (located.statement, *(self._program.body_of(function) if function else ()))
            told.extend(
                Told(step, located.locate(step.span), "")
                for statement in statements
                for step in self._program.queue_steps(statement)
            )
        return tuple(told)

    @cached_property
    def _worked_under(self) -> frozenset[Place]:
        """The claims whose jobs are worked on while their locks are held."""
        ended = (event.before.pending for event in self._events if isinstance(event, Ended))
        under = (pending for pending in ended if any(mark.deed is Deed.WORK for mark in pending))
        return frozenset(mark.place for pending in under for mark in pending if mark.deed is Deed.CLAIM)

    def _as_taken(self, one: Told, told: list[Told]) -> Told:
        """A time that a job is given while the lock that chose it is held: no heartbeat, no failure, but a claim."""
        step, ran = one.step, one.ran
        if ran is None or not step.by_id or not (_gives_time(step) or step.gives_turn):
            return one
        chosen = {mark.place for mark in ran.before.pending if mark.deed is Deed.CLAIM and mark.table == step.table}
        locks = [other.step for other in told if other.place in chosen and other.step.how == "row lock"]
        if _gives_time(step):
            lock = next((lock for lock in locks if lock.watches), None)
            taken = step._replace(kind=StepKind.CLAIM, how="lease", watches=lock.watches) if lock is not None else step
            return one._replace(step=taken)
        due = any(lock.delayed and lock.once for lock in locks)
        # What is put off while others are worked on under the same lock is left for later, and taken by nobody.
        worked = not chosen.isdisjoint(self._worked_under)
        until = next(filter(is_run_at, step.sets), "")
        taken = step._replace(kind=StepKind.CLAIM, how="lease", until=until, delayed=True)
        return one._replace(step=taken) if due and not worked else one

    def _of(self, table: str, *kinds: StepKind) -> Iterator[Told]:
        return (told for told in self._told if told.step.table == table and told.step.kind in kinds)

    @cached_property
    def leases(self) -> tuple[LeaseQueue, ...]:
        """The queues whose jobs are marked as taken."""
        ended = (event for event in self._events if isinstance(event, Ended))
        hidden = {mark.place for event in ended for mark in event.before.pending if mark.deed is Deed.HIDDEN}
        done = {run.claim.place for run in self.runs if run.ends_jobs}
        beside = looked_after_beside(self._events) | sweeps_by_name(self._program, self._put_back)
        again = told_again(self._program, self._told)
        seen = Seen(frozenset(hidden), self._called_off, frozenset(done), again, self._unread, self._timed)
        return queues_of(self._told, seen, beside)

    def unfenced_locks(self) -> Iterator[LooseEnd]:
        """Locks with a time limit, kept as rows, whose ends name nothing but their keys."""
        return loose_ends(self._told, self._events, {queue.table for queue in self.leases})

    @property
    def _unread(self) -> frozenset[tuple[Place, str]]:
        """The ends of jobs that stand in functions which are told something and look at it nowhere."""
        found: set[tuple[Place, str]] = set()
        ends = {told.place: told.ran.call for told in self._told if told.ran is not None and told.step.kind in ENDS}
        for place, call in ends.items():
            function = self._program.function_at(call)
            found.update((place, name) for name in (unread_parameters(function) if function is not None else ()))
        return frozenset(found)

    @property
    def _timed(self) -> frozenset[str]:
        """The functions that ask by the clock whether the time of something is up."""
        return frozenset(name for module in self._program.modules if not module.test for name in module.comparing_ages)

    @property
    def _put_back(self) -> dict[str, frozenset[str]]:
        """For each table the functions that put a job back by its id, or give it up."""
        found: dict[str, frozenset[str]] = {}
        for told in self._told:
            if told.step.by_id and told.step.kind in (StepKind.REQUEUE, StepKind.FAIL, StepKind.BURY):
                name = frozenset({told.symbol.rpartition(".")[2]})
                found[told.step.table] = found.get(told.step.table, frozenset()) | name
        return found

    def endless_recoveries(self) -> Iterator[Recovery]:
        """What gives stalled jobs back for ever: on the way round that a crash takes, nothing counts, or none looks."""
        for queue in self.leases:
            if not any(True for _ in queue.may_any_of(StepKind.COUNT)):
                # Nothing of the table is ever counted: where it is kept otherwise, or old jobs are given up, who knows.
                if not (queue.is_ended and queue.is_gone_through and not queue.is_ever_buried):
                    continue
                backs: tuple[At, ...] = ()
                if self._bound_of(queue.table) is Bound.NONE:
                    backs = (*queue.gives_back, *queue.at_start, *queue.claims_lost_jobs)
                elif not self._comparing(queue.table) and not any(self._bounds_of(queue.table)):
                    # That somebody lets jobs fail stops none that never comes to fail.
                    backs = queue.at_start
                yield from (Recovery(back, queue.claim, False) for back in backs)
                continue
            if not any(True for _ in queue.any_of(StepKind.COUNT)):
                continue
            bounded = any(claim.step.bounded for claim in queue.claims) or self._bound_of(queue.table) is Bound.ALWAYS
            counted = any(claim.step.counts for claim in queue.claims)
            for reaper in queue.gives_back:
                if (bounded or reaper.step.bounded) and (counted or reaper.step.counts):
                    continue
                yield Recovery(reaper, queue.claim, counted or reaper.step.counts)

    def claims_of_jobs(self) -> Iterator[At]:
        """Every claim that takes jobs, whatever holds them."""
        for told in self._told:
            if told.ran is not None and told.step.kind is StepKind.CLAIM and self._is_of_jobs(told.step):
                yield At(told.step, told.ran, told.place)

    def unguarded(self) -> Iterator[Unguarded]:
        """Jobs that were taken or finished while nothing kept them from others."""
        locked = {
            _start(told.ran.place)
            for told in self._told
            if told.ran is not None and told.step.kind is StepKind.CLAIM and told.step.locked
        }
        shown = {event.found_at for event in self._events if isinstance(event, Unguarded)}
        apart = read_and_marked(self._program, self._told, self._events)
        yield from {one.found_at: one for one in apart if one.found_at not in shown}.values()
        for event in self._events:
            # Where the lock is a part of the text that some path leaves out, who wrote it knows of it.
            if (
                isinstance(event, Unguarded)
                and (event.freed_at is not None or _start(event.found_at) not in locked)
                and not self._calls_off(event)
                and not (event.if_kept and event.table not in self._kept)
            ):
                yield event

    @cached_property
    def _marked(self) -> frozenset[str]:
        """The tables whose jobs are marked as taken before they are done, or are asked for as such."""
        many = (told.step for told in self._told if told.step.kind in _ASKED_FOR and not told.step.by_id)
        asked = {step.table for step in many if step.takes_stalled and step.table}
        return frozenset(asked.union(claim.step.table for claim in self.claims() if claim.step.how == "lease"))

    @cached_property
    def _kept(self) -> frozenset[str]:
        """The tables in which jobs stay that are done."""
        ends = (told.step for told in self._told if told.step.kind in ENDS)
        return frozenset(step.table for step in ends if "done" in step.states)

    def _calls_off(self, event: Unguarded) -> bool:
        """Whether a job that nobody has marked as taken goes, where workers mark theirs: nobody has worked on it."""
        return event.given_up and event.table in self._marked

    @cached_property
    def _called_off(self) -> frozenset[Place]:
        """What looks for jobs that wait so as to call them off, and for nothing else."""
        events = [event for event in self._events if isinstance(event, Unguarded) and event.freed_at is None]
        taken = {event.found_at for event in events if not self._calls_off(event)}
        taken |= {event.found_at for event in self._events if isinstance(event, Taken)}
        return frozenset(event.found_at for event in events) - taken

    def retries_at_once(self) -> Iterator[At]:
        """Failed jobs that go back to the queue with nothing to wait for."""
        waiting = {claim.step.table for claim in self.claims_of_jobs()}
        waiting &= {told.step.table for told in self._told if _polls(told.step)}
        # Where what takes a job sets the time of its next attempt, a failure need not.
        waiting -= {told.step.table for told in self._told if _sets_next_attempt(told.step)}
        # Where some failure waits, that another does not is chosen; also where failed jobs keep a state of their own.
        waiting -= {told.step.table for told in self._told if _waits_after_failure(told.step)}
        # What looks after stalled jobs gives them back: none of them has failed.
        rescued = {at.place for queue in self.leases for at in queue.rescues}
        for told in self._told:
            step = told.step
            if told.place in rescued or (told.ran is not None and told.ran.alone):
                continue
            if told.ran is not None and _is_retry(step) and not step.delayed and step.table in waiting:
                yield At(step, told.ran, told.place)

    def reaper_counts(self, table: str) -> bool:
        """Whether what takes back stalled jobs, many at once or one by one, counts the attempt that was lost."""
        many = (told.step for told in self._of(table, StepKind.REAP, StepKind.REQUEUE) if not told.step.by_id)
        rescues = (at.step for queue in self.leases if queue.table == table for at in queue.rescues)
        return any(step.counts for step in (*many, *rescues))

    def recovery(self, claim: Mark) -> Place | None:
        """What gives the stalled jobs of a claim's table back however often they were tried, the nearest if several."""
        places = [
            told.place
            for told in self._of(claim.table, StepKind.REAP, StepKind.REQUEUE)
            if not (told.step.by_id or told.step.bounded or only_wakes(told.step))
        ]
        return min(places, key=lambda place: place.path != claim.place.path, default=None)

    def unbounded(self) -> Iterator[UnboundedClaim]:
        """Claims that take a job however often it has been tried, where attempts are counted at all."""
        claims = {claim.mark.place: claim for claim in self.claims()}
        for claim in claims.values():
            count = self._count_of(claim)
            if claim.step.by_id and not (claim.step.states or claim.step.asks):
                continue  # what stores a job as a whole, in whatever state it is, takes none
            if claim.step.bounded or claim.step.table in ("", UNNAMED) or count is None:
                continue
            bound = self._bound_of(claim.step.table)
            recovery = self.recovery(claim.mark) or self._retaken_by_claims(claim.step.table)
            if bound is Bound.NONE and not claim.alone:
                # Who only hands jobs out leaves it to whoever works on them how often that is tried.
                known = self._is_worked_here(claim.mark)
                yield UnboundedClaim(claim.mark if known else replace(claim.mark, sure=Confidence.LOW), count, None)
            elif bound is Bound.ON_FAILURE and claim.step.counts and recovery is not None:
                yield UnboundedClaim(claim.mark, count, recovery)

    def _is_worked_here(self, claim: Mark) -> bool:
        """Whether the jobs of a claim are seen to be worked on, or ended, by the one who has taken them."""
        runs = (run for run in self.runs if run.claim.place == claim.place)
        return any(run.ends_jobs or any(ending.worked for ending in run.endings) for run in runs)

    def _retaken_by_claims(self, table: str) -> Place | None:
        """The claim that takes jobs whose time is up as it takes those that wait, whatever their count.

        What looks at the count where it claims may well do so before the work.
        """
        claims = [at for queue in self.leases if queue.table == table for at in queue.claims_lost_jobs]
        claiming = {told.symbol for told in self._of(table, StepKind.CLAIM)}
        compared = self._comparing(table)
        if not self._gives_up_on_failure(table, compared) or not claiming.isdisjoint(compared):
            return None
        return next((at.place for at in claims), None)

    def _gives_up_on_failure(self, table: str, compared: tuple[str, ...]) -> bool:
        """Whether what handles a failure is seen to hold attempts against a maximum, or to give up for good."""
        failures = list(self._of(table, StepKind.FAIL, StepKind.REQUEUE, StepKind.BURY))
        if compared or self._in_functions.gives_up(table) or any(told.step.bounded for told in failures):
            return True
        # A worker that only says that a job is dead may do so as soon as it has claimed it.
        buries = any(told.step.by_id for told in failures if told.step.kind is StepKind.BURY)
        return not buries and self._in_functions.touch(table) and self._fails_for_good(table)

    def _count_of(self, claim: Claim) -> Place | None:
        if claim.step.counts:
            return claim.mark.place
        counts = self._of(claim.step.table, StepKind.COUNT)
        # What an aborted transaction refuses counts nothing, and hides what would have run after it.
        return next(
            (told.place for told in counts if told.ran is None or told.ran.before.status is not Status.ABORTED), None
        )

    def _bound_of(self, table: str) -> Bound:
        """Where the attempts of a table are held against a maximum."""
        bounds = list(self._bounds_of(table))
        if any(not told.step.by_id for told in bounds):
            return Bound.ALWAYS
        failing = {
            told.symbol for told in self._of(table, StepKind.FAIL, StepKind.REQUEUE, StepKind.BURY) if told.step.by_id
        }
        # What claims jobs, and gives up those of them that were tried too often, does so before their work.
        failing -= {told.symbol for told in self._of(table, StepKind.CLAIM)}
        failing.update(name for module in self._program.modules for name in module.comparing_on_failure)
        compared = self._comparing(table)
        within = self._in_functions.bound_of(table)
        if within is Bound.ALWAYS or any(function not in failing for function in compared):
            return Bound.ALWAYS
        some = bounds or compared or within is Bound.ON_FAILURE or self._fails_for_good(table)
        return Bound.ON_FAILURE if some else Bound.NONE

    def _comparing(self, table: str) -> tuple[str, ...]:
        """The functions that compare attempts, and may be those of this table."""
        if table not in self._comparing_of:
            self._comparing_of[table] = tuple(self._compare(table))
        return self._comparing_of[table]

    def _compare(self, table: str) -> Iterator[str]:
        if self._in_functions.touch(table):
            workers = {told.symbol.rpartition(".")[2] for told in self._of(table, *StepKind) if told.ran is not None}
            yield from self._in_functions.comparing(table, workers)
            return
        for module in self._program.modules:
            if not module.test:
                # What keeps jobs in another database looks at its own.
                yield from (name for name in module.comparing_attempts if not is_for_another(module.path, name))

    def _bounds_of(self, table: str) -> Iterator[Told]:
        """What holds attempts against a maximum, or gives jobs up, in SQL."""
        for told in self._told:
            mine = told.step.table == table or is_unnamed(told.step.table)
            if mine and told.step.kind in (StepKind.BOUND, StepKind.BURY):
                yield told

    def _fails_for_good(self, table: str) -> bool:
        """Whether something lets a job fail that no claim takes again, and whoever calls it decides when."""
        again = any("failed" in told.step.asks for told in self._of(table, StepKind.CLAIM, StepKind.LOOK))
        # Where the same function sends others back, it decides itself, and holds nothing against a maximum.
        deciding = {told.symbol for told in self._of(table, StepKind.REQUEUE)}
        return not again and any(
            told.step.by_id and "failed" in told.step.states and told.symbol and told.symbol not in deciding
            for told in self._of(table, StepKind.FAIL)
        )
