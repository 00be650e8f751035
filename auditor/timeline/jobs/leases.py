"""What is known of one queue's leases: who takes jobs, who may take them again, and what ends, prolongs or buries them.

A queue is a table that jobs are claimed from by marking them: with a state, a holder, a time limit. What only runs is
told of it; what is only defined in SQL files counts where it is asked whether something is there at all.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from auditor.frozen import dataclass
from auditor.program.catalogue import UNNAMED, is_unnamed
from auditor.sql.queue import Step, StepKind
from auditor.sql.words import HELD, is_heartbeat, is_key, is_run_at, is_started, is_token, is_until, tells_of_part
from auditor.timeline.jobs.at_start import given_back_at_start
from auditor.timeline.jobs.guarding import only_asks
from auditor.timeline.model.connection import READ, Deed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.findings import Confidence, Place
    from auditor.timeline.jobs.queues import Told
    from auditor.timeline.model.events import Ran


class At(NamedTuple):
    """A step that ran, and where."""

    step: Step
    ran: Ran
    place: Place

    @property
    def sure(self) -> Confidence:
        return self.ran.before.sure

    @property
    def work(self) -> Place | None:
        """The work of the job in the transaction that the step runs in."""
        pending = self.ran.before.pending if self.ran.before.in_transaction else ()
        return next((mark.place for mark in pending if mark.deed is Deed.WORK), None)

    @property
    def earlier(self) -> Place | None:
        """What was done for a job in the same transaction before."""
        pending = self.ran.before.pending if self.ran.before.in_transaction else ()
        return next((mark.place for mark in pending if mark.deed in (Deed.WORK, Deed.FINISH)), None)

    @property
    def is_held(self) -> bool:
        """Whether the job's row is locked in the same transaction: by the claim, or by whoever proves to have it."""
        locks = (Deed.CLAIM, Deed.HOLD)
        pending = self.ran.before.pending
        return any(mark.deed in locks and mark.proves and mark.table == self.step.table for mark in pending)

    @property
    def is_held_elsewhere(self) -> bool:
        """Whether a row of another table, which tells who holds it, is locked in the same transaction."""
        pending = self.ran.before.pending
        return any(mark.deed is Deed.HOLD and mark.proves and mark.table != self.step.table for mark in pending)

    @property
    def is_in_claim(self) -> bool:
        """Whether it is held otherwise than by the lock with which a claim chooses: what is marked is not committed."""
        return any(
            mark.table == self.step.table
            and ((mark.deed is Deed.HOLD and mark.how != READ) or (mark.deed is Deed.CLAIM and mark.how != "row lock"))
            for mark in self.ran.before.pending
        )

    @property
    def is_in_work(self) -> bool:
        """Whether it runs in the transaction of the work, or of the claim."""
        claimed = any(mark.deed is Deed.CLAIM for mark in self.ran.before.pending)
        return self.ran.before.in_transaction and (claimed or self.work is not None)


#: What becomes of one job.
ENDS = (StepKind.FINISH, StepKind.FAIL, StepKind.REQUEUE)
#: What becomes of a job that was tried.
_TRIED = (*ENDS, StepKind.BURY)
#: What shows that the jobs of a table are worked off.
_OF_JOBS = (*ENDS, StepKind.COUNT, StepKind.BOUND, StepKind.EXTEND, StepKind.REAP, StepKind.BURY)
#: The clocks that stand still while a transaction lasts.
STILL = frozenset({"now", "current_timestamp", "transaction_timestamp", "localtimestamp"})


@dataclass(frozen=True)
class LeaseQueue:
    """One queue whose jobs are marked as taken."""

    table: str
    ran: tuple[At, ...]
    defined: tuple[Step, ...]
    #: What is done to tables whose names are not known at all, which may be this one.
    elsewhere: tuple[Step, ...] = ()
    #: The heartbeats after which there was work in the same transaction.
    hidden: frozenset[Place] = frozenset()
    #: The queries for jobs that wait, and are then called off.
    called_off: frozenset[Place] = frozenset()
    #: The claims after which the same run also ends the job.
    done_at_once: frozenset[Place] = frozenset()
    #: The claims of jobs that a broker tells once more when a worker dies, and that take them once more.
    told_again: frozenset[Place] = frozenset()
    #: The statements whose functions are told something and look at it nowhere, with what it is called.
    unread: frozenset[tuple[Place, str]] = frozenset()
    #: The functions that ask by the clock whether the time of something is up.
    timed: frozenset[str] = frozenset()
    #: Something asks for stalled jobs by another table's time limit, and reads this table beside it.
    watched_beside: bool = False

    def of(self, *kinds: StepKind) -> tuple[At, ...]:
        """The steps of these kinds that ran, each place once, the surest."""
        best: dict[tuple[Place, StepKind], At] = {}
        for at in self.ran:
            known = best.get((at.place, at.step.kind))
            if at.step.kind in kinds and (known is None or at.sure > known.sure):
                best[(at.place, at.step.kind)] = at
        return tuple(best.values())

    def every(self, *kinds: StepKind) -> Iterator[At]:
        """The same, on each path on which they ran."""
        return (at for at in self.ran if at.step.kind in kinds)

    def any_of(self, *kinds: StepKind) -> Iterator[Step]:
        """The steps of these kinds, also those that are only defined."""
        yield from (at.step for at in self.ran if at.step.kind in kinds)
        yield from (step for step in self.defined if step.kind in kinds)

    def may_any_of(self, *kinds: StepKind) -> Iterator[Step]:
        """The same, and those that may be: for what a rule says that is nowhere."""
        yield from self.any_of(*kinds)
        yield from (step for step in self.elsewhere if step.kind in kinds)

    @cached_property
    def claims(self) -> tuple[At, ...]:
        """The claims that mark jobs as taken."""
        return tuple(at for at in self.of(StepKind.CLAIM) if at.step.how == "lease")

    @property
    def claim(self) -> At:
        """The claim that a finding names: where several are alike, the first."""
        return min(self.claims, key=lambda at: (at.step.by_id, at.place))

    @property
    def is_left_to_others(self) -> bool:
        """Whether the claims stand in SQL functions that no module names: who looks after jobs is not seen."""
        return all(claim.ran.alone for claim in self.claims)

    @cached_property
    def is_worked_off(self) -> bool:
        """Whether something is done with the jobs, so that the table is a queue and no list of other things."""
        return any(True for _ in self.any_of(*_OF_JOBS))

    @cached_property
    def is_ended(self) -> bool:
        """Whether the program ends jobs too: where it only claims, what becomes of them is left to others."""
        return any(step.by_id for step in self.any_of(*ENDS, StepKind.COUNT))

    # Which part of a row is the job

    @cached_property
    def _states_in(self) -> frozenset[str]:
        """The columns of states that the claims set."""
        return frozenset(claim.step.state_in for claim in self.claims if claim.step.states) - {""}

    def _is_of_the_job(self, step: Step) -> bool:
        """Whether a step is about the job, and not about another state of the same row: what became of a document."""
        return not (step.state_in and self._states_in) or step.state_in in self._states_in

    @property
    def parts(self) -> Iterator[LeaseQueue]:
        """The kinds of jobs done for the rows of one table, each with a state of its own, if there are several."""
        columns = {claim.step.state_in for claim in self.claims} - {""}
        if len(columns | {at.step.state_in for at in self.ran if at.step.by_id} - {""}) < 2:
            return
        for column in sorted(one for one in columns if tells_of_part(one, self.table)):
            ran = tuple(at for at in self.ran if _is_of_part(at.step, column))
            defined = tuple(step for step in self.defined if _is_of_part(step, column))
            part = replace(self, ran=ran, defined=defined)
            if part.claims and part.is_worked_off:
                yield part

    @cached_property
    def _is_beside(self) -> bool:
        """Whether the job is done for a row that has a life of its own, so that to delete it is not to end the job."""
        other = any(not self._is_of_the_job(at.step) for at in self.ran)
        return other or (bool(self._states_in) and all(tells_of_part(one, self.table) for one in self._states_in))

    # Who else may take a job

    @cached_property
    def reapers(self) -> tuple[At, ...]:
        """What gives stalled jobs back: those whose time is up, or whose worker is gone."""
        reapers = (at for at in self.of(StepKind.REAP) if at.step.watches or at.step.by_worker)
        return tuple(at for at in reapers if not self._still_waits(at.step) and self._is_of_the_job(at.step))

    @cached_property
    def at_start(self) -> tuple[At, ...]:
        """What gives back, as a process begins, also the jobs that others run."""
        return tuple(given_back_at_start(self.ran))

    def _still_waits(self, step: Step) -> bool:
        """Whether it asks for jobs that wait, where a claim gives them another state."""
        waits = bool(step.asks) and set(step.asks) <= {"queued"}
        return waits and any(set(claim.step.states) - {"queued"} for claim in self.claims)

    @cached_property
    def rescues(self) -> tuple[At, ...]:
        """What gives back or gives up, one by one, jobs that a query for held or stalled ones has found."""
        looks = [
            at
            for at in self.every(StepKind.LOOK, StepKind.CLAIM)
            if at.step.how != "lease"
            and (self._takes_stalled(at.step) or HELD & set(at.step.asks))
            and self._is_of_the_job(at.step)
        ]
        one_by_one = self.every(StepKind.REQUEUE, StepKind.FAIL, StepKind.BURY)
        rescues = (at for at in one_by_one if at.step.by_id and any(self._is_found_by(at, look) for look in looks))
        return tuple({(at.place, at.step.kind): at for at in rescues}.values())

    def _is_found_by(self, rescue: At, look: At) -> bool:
        """Whether a function looks for jobs and has the rescue done, itself or by one that it calls for that."""
        if rescue.ran.symbol == look.ran.symbol:
            return True
        together = rescue.ran.caller == look.ran.symbol or look.ran.caller == rescue.ran.symbol
        # Who asks a service what has become of a job, and notes the answer, rescues none.
        lost = bool(look.step.watches or HELD & set(rescue.step.asks))
        return together and (lost or not self.timed.isdisjoint((rescue.ran.symbol, look.ran.symbol)))

    @cached_property
    def gives_back(self) -> tuple[At, ...]:
        """What gives all stalled jobs back, many at once or one by one; what gives some of them up looks at each."""
        if any(at.step.kind is not StepKind.REQUEUE for at in self.rescues):
            return self.reapers
        counted = {at.ran.symbol for at in self.every(StepKind.COUNT)}
        one_by_one = (at for at in self.rescues if at.ran.symbol not in counted and not at.step.bounded)
        return (*self.reapers, *one_by_one)

    @property
    def is_gone_through(self) -> bool:
        """Whether a job is done for good some day: what is only put off again is a schedule, and no job."""
        return any(step.by_id for step in self.any_of(StepKind.FINISH, StepKind.BURY))

    @property
    def claims_lost_jobs(self) -> Iterator[At]:
        """The claims that pick, among many, also jobs whose time is up.

        A time that no claim sets tells when a job may begin.
        """
        leased = (claim for claim in self.claims if self._takes_again(claim.step) and claim.step.picks)
        picking = (claim for claim in (*leased, *self._picks) if not claim.step.by_id)
        return (claim for claim in picking if not claim.step.bounded)

    def _takes_again(self, claim: Step) -> bool:
        """Whether a claim also takes jobs whose time is up, which it sets itself."""
        timed = self._takes_stalled(claim) and claim.watches in claim.sets
        return timed or (claim.is_put_off and claim.until in claim.sets)

    @property
    def counted_on_failure(self) -> At | None:
        """The count of a failure that was caught, where claims take lost jobs again and nothing else counts any."""
        # What gives lost ones back uncounted is told of by itself.
        again = any(self._takes_again(claim.step) for claim in self.claims) or any(True for _ in self._picks)
        takes = again and not self.gives_back
        counts = self.of(StepKind.COUNT)
        told = {(at.ran.place, at.step.kind) for at in self.ran}
        with_an_end = all(at.step.by_id and any((at.ran.place, kind) in told for kind in _TRIED) for at in counts)
        own = {at.step for at in self.ran}
        elsewhere = (
            self.is_left_to_others
            or any(step.counts and step not in own for step in (*self.defined, *self.elsewhere))
            or any(at.step.counts for at in (*self.claims, *self.reapers, *self.rescues))
        )
        return counts[0] if takes and counts and with_an_end and not elsewhere else None

    @cached_property
    def takers(self) -> tuple[At, ...]:
        """The same, and claims that look for stalled jobs themselves."""
        return (*self.reapers, *(claim for claim in self.claims if self._takes_stalled(claim.step)))

    def _takes_stalled(self, step: Step) -> bool:
        """Whether a claim, or a query for jobs, looks for such as have stalled.

        One that asks for a state in which a job waits finds none of those that claims have given another.
        """
        leaves_out = step.waiting and any(HELD.intersection(claim.step.states) for claim in self.claims)
        return bool(step.watches) and not leaves_out

    @cached_property
    def retaken_by(self) -> At | None:
        """What hands a job on whose worker may still be at it."""
        if self.reapers or self.at_start:
            return (*self.reapers, *self.at_start)[0]
        overdue = (at for at in self.of(StepKind.REQUEUE) if _is_overdue(at.step))
        for rescue in (*self.rescues, *overdue):
            if rescue.step.kind is StepKind.REQUEUE and self._is_of_the_job(rescue.step):
                return rescue
        for claim in self.claims:
            if self._takes_stalled(claim.step) or (claim.step.delayed and is_run_at(claim.step.until)):
                return claim
        return next(self._picks, None)

    @property
    def _picks(self) -> Iterator[At]:
        """What chooses, under locks, jobs that the same function then marks by their ids: those of others too."""
        told = {(claim.ran.symbol, column) for claim in self.claims for column in claim.step.sets}
        for at in self.every(StepKind.CLAIM):
            taken = at.step.how == "row lock" and self._takes_stalled(at.step)
            if taken and (at.ran.symbol, at.step.watches) in told:
                yield at

    @property
    def is_ever_retaken(self) -> bool:
        """Whether anything at all brings back, gives up or looks for jobs whose worker is gone."""
        back = self.may_any_of(StepKind.REAP, StepKind.REQUEUE, StepKind.BURY)
        many = (step for step in back if not (step.by_id or only_wakes(step)))
        looks = list(self.may_any_of(StepKind.LOOK, StepKind.CLAIM))
        stalled = any(map(self._takes_stalled, looks)) or any(one.kind is StepKind.LOOK and one.states for one in looks)
        # Who locks those that somebody has, and not one by its id, looks after them.
        locks = (step for step in self.may_any_of(StepKind.CLAIM) if step.how == "row lock")
        watched = any(HELD.intersection(step.asks) for step in locks)
        return self.retaken_by is not None or bool(self.rescues) or any(True for _ in many) or stalled or watched

    # Fences

    @cached_property
    def unfenced(self) -> tuple[At, ...]:
        """Ends of one job that do not ask whether it is still the worker's, the telling ones first."""
        order = {StepKind.FINISH: 0, StepKind.FAIL: 1, StepKind.REQUEUE: 2}
        rescued = {(at.place, at.step.kind) for at in self.rescues}
        loose = [at for at in self.of(*ENDS) if _is_loose(at) and (at.place, at.step.kind) not in rescued]
        # Of several parts of a row, each with a state of its own, not all may be taken again.
        taking = (claim for claim in self.claims if claim.step.watches or claim.step.delayed)
        again = {at.step.state_in for at in (*self.reapers, *self.rescues, *self._picks, *taking)} - {""}
        loose = [at for at in loose if self._is_of_the_job(at.step)]
        loose = [at for at in loose if not again or at.step.state_in in again or not at.step.state_in]
        if self.fenced:
            # Whoever fences the ends of jobs deletes the rest by hand.
            loose = [at for at in loose if at.step.states or self.unread_proof(at)]
        elif self._is_beside or any(at.step.sets for at in self.of(StepKind.FINISH)):
            # Where jobs are marked as done, and stay, whoever deletes one clears it away.
            loose = [at for at in loose if at.step.sets or self.unread_proof(at)]
        return tuple(
            sorted(
                loose,
                key=lambda at: (self.fences_on_demand(at), order[at.step.kind], not at.step.states, at.place),
            )
        )

    @property
    def proof(self) -> str:
        """The column by which a claim can be told from the next one of the same job: a token, or the attempts."""
        tokens = (claim.step.token for claim in self.claims)
        counts = next((at.step.column for at in self.of(StepKind.COUNT)), "")
        return next(filter(None, tokens), counts if any(claim.step.counts for claim in self.claims) else "")

    @cached_property
    def fenced(self) -> tuple[At, ...]:
        return tuple(at for at in self.of(StepKind.FINISH, StepKind.FAIL) if at.step.fence and at.step.by_id)

    @property
    def unproven(self) -> tuple[At, ...]:
        """The same, where jobs are handed on while their workers may be at them, or proof is given for nothing."""
        if self.retaken_by is not None:
            return self.unfenced
        return tuple(at for at in self.unfenced if self.unread_proof(at))

    def unread_proof(self, at: At) -> str:
        """What only the job's holder knows, as each claim sets it anew, where an end is told it and asks for it not."""
        renewed = {column for claim in self.claims for column in claim.step.renews if is_token(column)}
        return next((name for place, name in sorted(self.unread) if place == at.place and name in renewed), "")

    def fences_on_demand(self, at: At) -> bool:
        """Whether who calls it decides if a step asks for proof: the same function also takes one and asks for it."""
        alike = [other for other in self.ran if other.step.kind is at.step.kind]
        proven = (other.ran for other in alike if other.step.fence)
        elsewhere = any(other.place == at.place and other.is_held_elsewhere for other in alike)
        return elsewhere or any(at.ran.symbol in (ran.symbol, ran.caller) for ran in proven)

    # Heartbeats

    @cached_property
    def heartbeats(self) -> tuple[At, ...]:
        """What prolongs a job: by a time that claims set too, or by one that says that its worker lives."""
        return tuple(at for at in self.of(StepKind.EXTEND) if self._prolongs(at.step))

    @property
    def beats(self) -> Iterator[At]:
        """The same, on each path on which they ran."""
        return (at for at in self.every(StepKind.EXTEND) if self._prolongs(at.step))

    def _prolongs(self, step: Step) -> bool:
        known = {column for claim in self.claims for column in (*claim.step.sets, claim.step.watches)}
        return not is_until(step.extends) or is_heartbeat(step.extends) or step.extends in known

    def hides(self, beat: At) -> bool:
        """Whether nobody sees a heartbeat before work that comes after it is over; one with the last write is seen."""
        return beat.is_in_work and beat.place in self.hidden

    @property
    def unlimited_heartbeat(self) -> At | None:
        """A heartbeat that goes on as long as its worker lives, however long the job hangs."""
        beats = [at for at in self.heartbeats if at.step.by_id or at.step.by_worker]
        return beats[0] if beats and not any(at.step.capped for at in self.heartbeats) else None

    @cached_property
    def bounded_by(self) -> At | None:
        """What stops taking a job back once it has been tried often enough, by itself."""
        return next((at for at in (*self.takers, *self._picks) if at.step.bounded), None)

    @property
    def leaves_lost_jobs(self) -> bool:
        """Whether a job whose worker dies stays marked as taken for ever: nothing takes back or asks for such."""
        claim = self.claim.step
        marked = bool(HELD & set(claim.states)) or bool(claim.token or claim.until)
        # A claim that is committed with the end of its job goes with the worker.
        ends = list(self.every(*ENDS))
        # Nor is it, where one and the same statement takes jobs and ends others: it locks each for itself.
        shared = {claim.place for claim in self.claims}
        alone = any(at.step.kind is StepKind.FINISH and (not at.is_in_claim or at.place in shared) for at in ends)
        lasts = alone or not any(at.is_in_claim for at in ends)
        told_again = all(at.place in self.told_again for at in self.claims)
        looked_after = self.is_ever_retaken or self.watched_beside or self.is_left_to_others or told_again
        told_once = self.is_polled or self.refuses_again
        return marked and lasts and self.is_ended and told_once and not looked_after

    @property
    def refuses_again(self) -> bool:
        """Whether a job that is told by its id, and done at once, is only taken while it waits.

        Told again after a crash, it is refused. What is taken in one request and ended in another is done by people.
        """
        refused = (at.step.by_id and at.step.rechecks and set(at.step.asks) == {"queued"} for at in self.claims)
        return all(refused) and any(at.place in self.done_at_once for at in self.claims)

    @property
    def is_polled(self) -> bool:
        """Whether workers look here for jobs that wait; where each is told by its id, what tells it delivers it again.

        A broker does so, and may be one of several behind an interface.
        """
        kinds = (StepKind.CLAIM, StepKind.LOOK)
        seen = (at for at in self.ran if at.step.kind in kinds and at.place not in self.called_off)
        ran = (at.step for at in seen if at.step.kind is StepKind.CLAIM or not only_asks(at.ran.statement))
        defined = (step for step in self.defined if step.kind in kinds)
        # What also asks for those that somebody has counts them, and takes none. What belongs to one other thing, told
        # by its id, is taken by whoever goes through that.
        return any(
            (not step.by_id or step.how != "lease")
            and not any(map(is_key, step.named))
            and not (step.kind is StepKind.LOOK and HELD.intersection(step.asks))
            for step in (*ran, *defined)
        )

    @property
    def leaves_exhausted_jobs(self) -> At | None:
        """What takes back jobs while they have attempts left, where nothing buries those that have none."""
        buried = self.is_ever_buried or self._buries_as_it_counts or self.is_left_to_others
        left = self.is_ended and not buried
        return self.bounded_by if left else None

    @property
    def _buries_as_it_counts(self) -> bool:
        """Whether whoever counts a failure gives the job up when it was the last: a crash counts none."""
        counts = [step for step in self.may_any_of(StepKind.COUNT, StepKind.CLAIM, StepKind.REAP) if step.counts]
        buried = {at.place for at in self.of(StepKind.BURY)}
        failures = [at for at in self.of(StepKind.COUNT) if at.place in buried]
        return bool(failures) and {at.step for at in failures}.issuperset(counts)

    def lets_anyone_prolong(self, beat: At) -> bool:
        """Whether a heartbeat asks for no proof that the other statements ask for."""
        retaken = self.retaken_by is not None and self.retaken_by not in self.rescues
        fenced = bool(self.fenced) and bool(self.proof) and retaken
        return fenced and beat.step.by_id and not beat.step.fence

    @property
    def unheard_heartbeat(self) -> tuple[At, At] | None:
        """What takes jobs back by another column than the heartbeat renews; and that heartbeat."""
        beats = [at for at in self.heartbeats if at.step.extends]
        if not beats or any(_renews(beat, taker) for beat in beats for taker in self.takers):
            return None
        timed = (taker for taker in self.takers if is_started(taker.step.watches) or is_until(taker.step.watches))
        # A time that no claim sets is of another part of the job's life.
        set_at = {column for claim in self.claims for column in claim.step.sets}
        taker = next((taker for taker in timed if taker.step.watches in set_at), None)
        return (taker, beats[0]) if taker is not None else None

    @property
    def is_ever_buried(self) -> bool:
        """Whether something gives up jobs that were tried too often, without their worker."""
        ended = (step for step in self.may_any_of(StepKind.FINISH, StepKind.FAIL) if step.bounded)
        looked_for = any(map(self._finds_exhausted, self.may_any_of(StepKind.LOOK, StepKind.CLAIM)))
        return looked_for or any(not step.by_id for step in (*self.may_any_of(StepKind.BURY), *ended))

    def _finds_exhausted(self, step: Step) -> bool:
        """Whether a query asks for stalled jobs at their maximum: whoever lists these gives them up one by one."""
        return step.how != "lease" and self._takes_stalled(step) and step.bounded and not step.capped and not step.free

    @property
    def is_prolonged(self) -> bool:
        """Whether something tells, while the work runs, that it still runs: in the job's row or for its worker."""
        of_workers = any(step.by_worker and not step.watches for step in self.may_any_of(StepKind.REAP))
        return of_workers or any(True for _ in self.may_any_of(StepKind.EXTEND))


def _is_of_part(step: Step, column: str) -> bool:
    """Whether a step may be about the state that a column holds; what asks for jobs in hand may ask for it, too."""
    other = tells_of_part(step.state_in, step.table) if step.state_in else False
    return step.state_in == column or (not other and "running" in step.asks)


def _is_overdue(step: Step) -> bool:
    """Whether a change of one job asks for itself whether somebody has it whose time is up."""
    return step.by_id and bool(step.watches) and HELD.issuperset(step.asks or ("",))


def _is_loose(at: At) -> bool:
    step = at.step
    # To undo a failure, or to give a job back, is also what people do by hand.
    # So it is where the attempts begin anew, or where the error is taken away.
    failed = step.tells_error and not (step.fixed_error and step.resets)
    by_worker = step.kind is not StepKind.REQUEUE or step.counts or failed or (step.bounded and step.one)
    # A job that still waits, or has failed, is nobody's: it is called off, or tried again.
    waits = bool(step.asks) and set(step.asks) <= {"queued", "failed"}
    return step.by_id and not step.fence and not at.is_held and by_worker and not waits and not _is_overdue(step)


def _renews(beat: At, taker: At) -> bool:
    return taker.step.watches in beat.step.sets or not taker.step.watches


def _with_fences(steps: list[At]) -> tuple[At, ...]:
    """The steps, where a column is a fence because claims renew it and an end compares it, whatever its name is."""
    claims = [at.step for at in steps if at.step.kind is StepKind.CLAIM and at.step.how == "lease"]
    renewed = {column for claim in claims for column in claim.renews if column not in claim.compares}
    return tuple(
        at._replace(step=at.step._replace(fence=next((one for one in at.step.compares if one in renewed), "")))
        if not at.step.fence and at.step.kind is not StepKind.CLAIM
        else at
        for at in steps
    )


class Seen(NamedTuple):
    """Places that a queue is told of: see LeaseQueue."""

    hidden: frozenset[Place]
    called_off: frozenset[Place]
    done_at_once: frozenset[Place]
    told_again: frozenset[Place]
    unread: frozenset[tuple[Place, str]]
    timed: frozenset[str]


def only_wakes(step: Step) -> bool:
    """Whether a step makes jobs begin that wait, and so takes none back that somebody has."""
    back = step.kind in (StepKind.REAP, StepKind.REQUEUE)
    return back and bool(step.asks) and not HELD.intersection(step.asks)


def queues_of(told: Iterable[Told], seen: Seen, looked_after: frozenset[str] = frozenset()) -> tuple[LeaseQueue, ...]:
    """The queues among all steps."""
    ran: dict[tuple[str, str], list[At]] = {}
    defined: dict[str, list[Step]] = {}
    unnamed: list[tuple[str, Step]] = []
    beside = set(looked_after)
    for one in told:
        table = one.step.table
        if is_unnamed(table):
            unnamed.append((table, one.step))
        if one.ran is not None and one.step.watches:
            queries = one.ran.statement.queries
            beside.update(read.name for query in queries for read in query.tables if read.name != table)
        if one.ran is None:
            defined.setdefault(table, []).append(one.step)
        elif table and table != UNNAMED:
            # Of tables that are only named at run time, those of one file that it calls the same are taken for one.
            file = one.ran.call.path if UNNAMED in table else ""
            ran.setdefault((table, file), []).append(At(one.step, one.ran, one.place))
    found = (
        LeaseQueue(
            table,
            _with_fences(steps),
            tuple(defined.get(table, ())),
            tuple(step for name, step in unnamed if name != table or UNNAMED in table),
            *seen,
            table in beside,
        )
        for (table, _), steps in ran.items()
    )
    return tuple(queue for queue in found if queue.claims and queue.is_worked_off)
