"""The questions that rules ask. Each answer is about one fault's shape, with the places that lead to it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from auditor import drivers
from auditor.drivers.django_tenants import PUTS_BACK
from auditor.findings import Confidence, Place
from auditor.program.catalogue import UNNAMED
from auditor.sql.meaning import Kind
from auditor.sql.queue import StepKind
from auditor.sql.words import is_queue
from auditor.timeline.answering import ways
from auditor.timeline.answering.at_connect import AtConnect, tenants_at_connect
from auditor.timeline.answering.chains import Chains
from auditor.timeline.answering.chances import sure_of
from auditor.timeline.answering.coverage import Coverage, Uncovered, Unforced
from auditor.timeline.answering.idle import EndlessWait, endless_waits
from auditor.timeline.answering.lasting import Lasting
from auditor.timeline.answering.loose_locks import LooseLock, loose_locks
from auditor.timeline.answering.security import HiddenQueue, JudgedPolicy, Security
from auditor.timeline.answering.wrappers import Forgotten, forgetful_wrappers
from auditor.timeline.jobs.guarding import ANSWERS
from auditor.timeline.jobs.leases import STILL
from auditor.timeline.jobs.queues import Claim, JobRun, Queues, Recovery, UnboundedClaim
from auditor.timeline.jobs.repeats import RepeatableCall, repeatable
from auditor.timeline.jobs.within_call import changed_in_its_call
from auditor.timeline.model.connection import Autocommit, Deed, Life, Mark, Status
from auditor.timeline.model.entries import is_task
from auditor.timeline.model.events import (
    END_OF_BLOCK,
    CallbackRan,
    Ended,
    Event,
    GivenToRole,
    LeftPointed,
    LockRefused,
    Opened,
    Outlived,
    PointedBack,
    Ran,
    Reached,
    Repeated,
    SettingSet,
    Stranded,
    Unguarded,
    Where,
)
from auditor.timeline.model.rights import Bypass, Rights, bypasses
from auditor.timeline.model.tenantless import Unset, unset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from auditor.drivers.model import Callback
    from auditor.findings import Finding, Related
    from auditor.program import Program
    from auditor.program.versions import Version
    from auditor.timeline.answering.lasting import Leak, Orphan
    from auditor.timeline.connections.pools import PoolInfo
    from auditor.timeline.jobs.holds import LooseEnd
    from auditor.timeline.jobs.leases import At, LeaseQueue
    from auditor.timeline.model.settings import LostCleanup
    from auditor.timeline.walking.roots import Root

_Kind = TypeVar("_Kind")

#: What tells which rows a statement has changed.
_ROWS = frozenset({"fetchone", "fetchall", "fetchmany", "fetchval", "fetchrow", "scalar", "first", "one"})
#: What the names are made of that limit how long something may take.
_LIMITS = ("timeout", "wait_for", "deadline", "max_run", "time_limit", "max_duration")


class OutsideCall(NamedTuple):
    """A call that leaves the process while a transaction holds rows or a snapshot."""

    place: Place
    reached: Reached
    sure: Confidence

    @property
    def wrote(self) -> bool:
        """Whether the transaction holds rows, and not only a snapshot."""
        return self.reached.held.wrote

    @property
    def name(self) -> str:
        """The call as people know it: `requests.post()`, `publish()`."""
        return f"{self.reached.name}()"


class PoolCallback(NamedTuple):
    """A pool's callback and the places where it leaves the connection otherwise than it got it."""

    place: Place
    pool: Place
    left_in_transaction: tuple[Place, ...]
    left_switched: tuple[Place, ...]


def _telling(reached: Reached) -> tuple[bool, bool, int, int]:
    return reached.held.wrote, reached.in_job, reached.held.sure.rank, -len(reached.through)


def _says_failed(ran: Ran) -> bool:
    """Whether a statement marks one job as failed, or gives it back, and says why."""
    return any(step.kind is StepKind.FAIL or (step.kind is StepKind.REQUEUE and step.tells_error) for step in ran.steps)


class Timeline:
    """What a walk has seen."""

    def __init__(
        self, program: Program, events: tuple[Event, ...], roots: tuple[Root, ...], pools: Mapping[int, PoolInfo]
    ) -> None:
        self.program = program
        self.events = events
        self.roots = roots
        self.pools = pools

    def of(self, kind: type[_Kind]) -> Iterator[_Kind]:
        """The events of one kind, in the order they were first seen."""
        return (event for event in self.events if isinstance(event, kind))

    @cached_property
    def _ends_of_blocks(self) -> frozenset[Place]:
        return frozenset(ended.place for ended in self.of(Ended) if ended.by == END_OF_BLOCK)

    def ends_block(self, place: Place) -> bool:
        """Whether what ends a transaction at a place is the end of the block that begins there."""
        return place in self._ends_of_blocks

    # Ways

    def way_of_leak(self, leak: Leak, *, still: str) -> Iterator[Related]:
        """The places that keep a value on its connection and lead to who meets it, `still` as what."""
        ends_block = leak.kept_at is not None and self.ends_block(leak.kept_at)
        return ways.of_leak(leak, ends_block=ends_block, still=still)

    def way_outside(self, call: OutsideCall, *, begins: str) -> Iterator[Related]:
        """Where the transaction begins to hold something, as `begins` says, and the calls that lead outside."""
        return ways.of_outside_call(call, begins=begins)

    def with_calls(self, finding: Finding) -> Finding:
        """The finding with the calls that lead to its places, where these stand in several modules."""
        return self._chains.tell(finding)

    @cached_property
    def _chains(self) -> Chains:
        return Chains(self.program, self.of(Ran), self.of(Opened))

    # Settings

    def settings(self) -> Iterator[tuple[Ran, SettingSet]]:
        """Every change of a setting, with the statement that made it."""
        return ((ran, setting) for ran in self.of(Ran) for setting in ran.settings)

    def sent_at(self, setting: Place) -> Place:
        """Where a statement is sent that stands at the top of its module, or in another one; else where it stands."""
        calls = {ran.call for ran, one in self.settings() if one.place == setting and ran.call.path == setting.path}
        told = sorted(call for call in calls if self.program.function_at(setting) is not self.program.function_at(call))
        return told[0] if told else setting

    @cached_property
    def _lasting(self) -> Lasting:
        return Lasting(self.program, self.events, self.pools)

    def leaks(self) -> Iterator[Leak]:
        """Values that outlive their job: on a pooled or kept connection, or into the next turn of a loop."""
        return self._lasting.leaks()

    def tenants_at_connect(self) -> Iterator[AtConnect]:
        """Tenants that connections are given when they are opened, though they serve the jobs of others."""
        return tenants_at_connect(self)

    def tenants_of_roles(self) -> Iterator[GivenToRole]:
        """Tenants that vary and are given to a role, or a database, that does not."""
        for given in self.of(GivenToRole):
            if UNNAMED not in given.role and given.setting.tenant is not None and UNNAMED in given.setting.value:
                yield given

    def search_path_leaks(self) -> Iterator[Leak]:
        """The same for search_path, where what it is set to is a tenant's: it differs, and the code says whose it is.

        A path that is the same for all, or that only a deployment chooses, may stay.
        """
        return self._lasting.search_path_leaks()

    def schemas_kept_by_tasks(self) -> Iterator[LeftPointed]:
        """Connections that a task leaves in a tenant's schema, where nobody puts them back behind each task."""
        if self.program.uses(PUTS_BACK):
            return
        told: set[Place] = set()
        for left in self.of(LeftPointed):
            task = self.program.function_at(left.place)
            if not left.raised and task is not None and is_task(task) and left.pointed not in told:
                told.add(left.pointed)
                yield left

    def schemas_left(self) -> Iterator[tuple[LeftPointed, Place]]:
        """Connections left in another schema by who puts back, elsewhere, the one that they were found in.

        What is put back in `finally` is put back on every way, but where nothing is seen to have been found.
        """
        back = {event.pointed: event.place for event in self.of(PointedBack)}
        told: set[Place] = set()
        for left in self.of(LeftPointed):
            place = back.get(left.pointed)
            if place is None or left.pointed in told or self.program.is_in_finally(place):
                continue
            if self.program.function_at(left.pointed) is self.program.function_at(place):
                told.add(left.pointed)
                yield left, place

    def forgetful_wrappers(self) -> Iterator[Forgotten]:
        """Classes of connections that leave one tenant's search_path to the next."""
        return forgetful_wrappers(self.program)

    def lost_cleanups(self) -> Iterator[tuple[Leak, LostCleanup]]:
        """Values that stay because what was to take them away was undone."""
        return self._lasting.lost_cleanups()

    def ends_at_once(self, ran: Ran, setting: SettingSet) -> bool:
        """Whether a local setting ends with its own statement, which makes no use of it itself."""
        before = ran.before
        alone = before.autocommit is Autocommit.ON or before.misled
        outside = before.status is Status.IDLE and alone and not before.pipeline
        return setting.where is Where.LOCAL and outside and not ran.tables

    def settings_of_unknown_scope(self) -> Iterator[tuple[Ran, SettingSet]]:
        """Settings of which no caller tells whether they are local."""
        known = {setting.place for _, setting in self.settings() if setting.where is not Where.UNKNOWN}
        for ran, setting in self.settings():
            if setting.where is Where.UNKNOWN and setting.place not in known:
                yield ran, setting

    def orphans(self) -> Iterator[Orphan]:
        """Statements that reach a tenant's table after the transaction in which the tenant was set."""
        return self._lasting.orphans(self.job_tables)

    def tenants_in_turn(self) -> Iterator[tuple[Outlived, str, Confidence]]:
        """Statements under a tenant handed up by a savepoint, where another tenant follows in the same transaction."""
        return self._lasting.tenants_in_turn()

    def stranded(self) -> Iterator[Stranded]:
        """Work that ran without a tenant after the tenant was set on another connection.

        Where no other connection is seen it is told of what nothing was ever done under, and what does not leak.
        """
        found = list(self.of(Stranded))
        told = {stranded.set_at for stranded in found if not stranded.over} | {leak.set_at for leak in self.leaks()}
        used = {
            setting.current.origin
            for ran in self.of(Ran)
            for setting in ran.before.settings
            if not ran.settings and setting.current.is_value
        }
        for stranded in found:
            if not stranded.over or stranded.set_at not in told | used:
                yield stranded

    # What waits outside

    def outside_calls(self) -> Iterator[OutsideCall]:
        """Calls that leave the process while a transaction holds something: of each place the one that tells most."""
        found: dict[Place, Reached] = {}
        for reached in self.of(Reached):
            known = found.get(reached.place)
            if known is None or _telling(reached) > _telling(known):
                found[reached.place] = reached
        scripts = {module.name for module in self.program.modules}
        for reached in found.values():
            # A script that ends holds others up once.
            once = reached.root in scripts and not reached.in_job and reached.held.life is not Life.POOL
            yield OutsideCall(reached.place, reached, Confidence.LOW if once else sure_of(self.program, reached))

    def repeatable_calls(self) -> Iterator[RepeatableCall]:
        """Calls for a job that leave the process again when the job is run again, and that nobody can know from it."""
        return repeatable(self.of(Repeated), self.lease_queues())

    # Pools

    def callbacks(self, which: Callback) -> Iterator[PoolCallback]:
        """The callbacks of one kind, with what they leave behind when they return."""
        for callback in self.of(CallbackRan):
            if callback.callback is not which:
                continue
            returned = [way for way in callback.exits if not way.raised]
            in_transaction = [way.last or callback.place for way in returned if way.after.in_transaction]
            switched = [
                way.after.switched_at
                for way in returned
                if way.after.autocommit is not callback.before and way.after.switched_at is not None
            ]
            yield PoolCallback(
                callback.place, callback.pool, tuple(dict.fromkeys(in_transaction)), tuple(dict.fromkeys(switched))
            )

    def discards(self) -> Iterator[Ran]:
        """DISCARD ALL and DEALLOCATE ALL, which drop every prepared statement."""
        for ran in self.of(Ran):
            if ran.statement.kind in (Kind.DISCARD, Kind.DEALLOCATE) and ran.statement.name.lower() == "all":
                yield ran

    def version_of(self, ran: Ran) -> Version | None:
        """The version of the driver that a statement runs through, where the project tells it."""
        return self.program.version_of(ran.before.driver, ran.call.path)

    def notices_discard(self, ran: Ran) -> bool:
        """Whether that version notices, by luck, that DISCARD ALL has dropped the statements of its connection."""
        driver, version = drivers.by_name(ran.before.driver), self.version_of(ran)
        since = driver.notices_discard if driver is not None else ()
        return version is not None and bool(since) and version.numbers >= since

    def is_used_again(self, ran: Ran) -> bool:
        """Whether the connection that a statement ran on serves other jobs after it."""
        if ran.before.life is not Life.JOB:
            return True
        return any(
            other.connection == ran.connection and other.place == ran.place and other is not ran
            for other in self.of(Ran)
        )

    def pool_of(self, ran: Ran) -> Place | None:
        """Where the pool of the connection is made, if that is seen."""
        pool = self.pools.get(ran.before.pool) if ran.before.pool is not None else None
        return pool.place if pool is not None and pool.place.path else None

    # Jobs

    @cached_property
    def _queues(self) -> Queues:
        return Queues(self.program, self.events)

    @property
    def jobs(self) -> tuple[JobRun, ...]:
        """The jobs that were worked on, by their claim."""
        return self._queues.runs

    @property
    def job_tables(self) -> frozenset[str]:
        """Tables that are claimed from, and those that the configuration names."""
        return self._queues.tables

    def rolled_back_at(self, claim: Mark) -> Ended | None:
        """Where the transaction of a claim is rolled back together with what was done for the job."""
        return next(
            (
                ended
                for ended in self.of(Ended)
                if ended.how == "rollback"
                and claim in ended.before.pending
                and any(mark.deed is Deed.WORK for mark in ended.before.pending)
            ),
            None,
        )

    @cached_property
    def _statements_at(self) -> frozenset[Place]:
        """Where the program sends statements itself."""
        return frozenset(place for ran in self.of(Ran) for place in (ran.place, ran.call))

    @staticmethod
    def is_count(ran: Ran) -> bool:
        """Whether a statement raises the count of a job's attempts."""
        return Deed.COUNT in ran.deeds

    def refused_counts(self) -> Iterator[tuple[Ran, Mark | None]]:
        """Counts of a failure on the connection that the failure has aborted, and the claim made in its transaction.

        Where the claim is seen, so is what only says that the job has failed.
        """
        for ran in self.of(Ran):
            counts = self.is_count(ran)
            if ran.before.status is not Status.ABORTED or not (counts or _says_failed(ran)):
                continue
            if ran.before.aborted_before or ran.before.aborted_by_books:
                continue
            marks = {mark.deed: mark for mark in ran.before.pending}
            claimed, worked = Deed.CLAIM in marks, Deed.WORK in marks
            # What is only marked as failed may be so for other reasons, unless it was the job's own code that failed.
            by_code = ran.before.aborted_at not in self._statements_at
            if (claimed and worked and by_code) or (counts and (claimed or worked)):
                yield ran, marks.get(Deed.CLAIM)

    def reaper_counts(self, table: str) -> bool:
        """Whether what takes back stalled jobs counts the attempt that was lost."""
        return self._queues.reaper_counts(table)

    def comes_back(self, run: JobRun) -> bool:
        """Whether a job whose process dies is handed out again: a lease that was committed needs somebody to end it."""
        if not any(ending.goes_on for ending in run.endings):
            return True
        return any(queue.is_ever_retaken for queue in self.lease_queues() if queue.table == run.claim.table)

    def recovery(self, claim: Mark) -> Place | None:
        """What gives the stalled jobs of a claim's table back to the queue however often they were tried."""
        return self._queues.recovery(claim)

    def unbounded_claims(self) -> Iterator[UnboundedClaim]:
        """Claims that take a job however often it has been tried."""
        return self._queues.unbounded()

    # Leases

    def lease_queues(self) -> tuple[LeaseQueue, ...]:
        """The queues whose jobs are marked as taken, with what is done to them."""
        return self._queues.leases

    def unfenced_locks(self) -> Iterator[LooseEnd]:
        """Locks with a time limit, kept as rows, whose ends name nothing but their keys."""
        return self._queues.unfenced_locks()

    def claims_of_jobs(self) -> Iterator[At]:
        """Every claim that takes jobs, whatever holds them."""
        return self._queues.claims_of_jobs()

    def lock_ends_at_once(self, claim: At) -> bool:
        """Whether all that holds a claimed job is a row lock, taken outside a transaction."""
        changes = (StepKind.FINISH, StepKind.FAIL, StepKind.COUNT, StepKind.REQUEUE)
        changed = any(step.how == "lease" or step.kind in changes for step in claim.ran.steps)
        before, after = claim.ran.before, claim.ran.after
        alone = before.status is Status.IDLE and after.status is Status.IDLE and not before.pipeline
        at_once = claim.step.how == "row lock" and alone and not changed
        return at_once and not changed_in_its_call(self.program, claim)

    @cached_property
    def loose_locks(self) -> tuple[LooseLock, ...]:
        """Row locks that are no claim of jobs, and hold nothing."""
        return tuple(loose_locks(self.events))

    def locks_refused(self) -> Iterator[LockRefused]:
        """Row locks that a mapper is asked for where no transaction is open, each place once."""
        yield from {event.place: event for event in self.events if isinstance(event, LockRefused)}.values()

    #: How sure it is, at most, that something is nowhere to be found.
    of_absence = Confidence.MEDIUM

    def stale_clocks(self) -> Iterator[At]:
        """Leases that are reckoned by the beginning of a transaction in which work was done before."""
        for queue in self.lease_queues():
            for at in queue.every(StepKind.CLAIM, StepKind.EXTEND):
                if at.step.clock in STILL and at.step.extends and at.earlier is not None:
                    yield at

    def ignored_fences(self) -> Iterator[tuple[At, Place]]:
        """Fenced ends of jobs in the transaction of the work whose answer nobody reads; and that work."""
        for queue in self.lease_queues():
            for at in queue.every(StepKind.FINISH, StepKind.FAIL) if queue.retaken_by is not None else ():
                work = at.work if at.step.fence and at.step.by_id and not at.is_held else None
                if work is not None and at.ran.ignored and not self._asks_afterwards(at):
                    yield at, work

    def _asks_afterwards(self, at: At) -> bool:
        """Whether the function that runs a statement looks at what a statement has done, this one or another."""
        return not self._names_around(at).isdisjoint(ANSWERS | _ROWS if at.step.returns else ANSWERS)

    def endless_waits(self) -> Iterator[EndlessWait]:
        """The connection on which jobs are claimed and that no limit on idle transactions is seen for, once."""
        return endless_waits(self.program, self.claims_of_jobs(), self.pool_of)

    def limits_time_near(self, at: At) -> bool:
        """Whether the module in which a statement runs speaks of a limit on how long things take."""
        module = self.program.module_at(at.ran.call.path)
        return module is not None and any(word in name.lower() for name in module.words.names for word in _LIMITS)

    def _names_around(self, at: At) -> frozenset[str]:
        module = self.program.module_at(at.ran.call.path)
        functions = module.functions() if module is not None else ()
        return frozenset(
            name for function in functions if function.qualname == at.ran.symbol for name in function.words.names
        )

    def unguarded_jobs(self) -> Iterator[Unguarded]:
        """Jobs that were taken or finished while nothing kept them from others."""
        return self._queues.unguarded()

    def endless_recoveries(self) -> Iterator[Recovery]:
        """What gives stalled jobs back for ever."""
        return self._queues.endless_recoveries()

    def retries_at_once(self) -> Iterator[At]:
        """Failed jobs that go back to the queue with nothing to wait for."""
        return self._queues.retries_at_once()

    # Row security

    @cached_property
    def _security(self) -> Security:
        return Security(self.program)

    def policies(self) -> Iterator[JudgedPolicy]:
        """Policies that need a tenant, and what they come to without one."""
        return self._security.judged()

    @cached_property
    def _coverage(self) -> Coverage:
        return Coverage(self.program)

    def unforced_tables(self) -> Iterator[Unforced]:
        """Tables whose owner row security does not bind, by file."""
        return self._coverage.unforced()

    def uncovered_tables(self) -> Iterator[Uncovered]:
        """Tables of tenants that row security was not switched on for, while others like them have it."""
        return self._coverage.uncovered(self.job_tables)

    @cached_property
    def rights(self) -> Rights:
        """Whom row security does not bind."""
        return Rights(self.program)

    def bypasses(self) -> Iterator[Bypass]:
        """Work for a tenant in roles that row security does not bind."""
        return bypasses(self, self._coverage.forced_unseen)

    def unset_tenants(self) -> Iterator[Unset]:
        """Work of a job on a table of tenants, on a connection on which no tenant is set."""
        return unset(self, self._security)

    def hidden_queues(self) -> Iterator[HiddenQueue]:
        """Tables that are claimed from without a tenant, under policies that then hide every row.

        Where some way leads to the claim as a tenant, there is a worker for each.
        """
        claims = list(self._queues.claims())
        as_tenants = {claim.mark.place for claim in claims if self._has_tenant(claim)}
        for claim in claims:
            # A row that is locked to be changed is no job, be its state what it may.
            takes = claim.step.how != "row lock" or claim.step.skip_locked or is_queue(claim.step.table)
            if takes and claim.mark.place not in as_tenants:
                yield from self._security.hidden(claim)

    def _has_tenant(self, claim: Claim) -> bool:
        return any(self.program.catalogue.is_tenant(name) is not None for name in claim.settings_in_force)
