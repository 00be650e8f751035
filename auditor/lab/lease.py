"""What becomes of a job that takes longer than its lease?"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from auditor.lab.chart import Spans
from auditor.lab.experiment import Experiment, Outcome, Row, judged
from auditor.lab.workers import LEASE, REAP, RUN

if TYPE_CHECKING:
    import psycopg

    from auditor.lab.place import Place

_LOOK = 0.1
_FENCE = " AND attempts = %(attempt)s AND status = 'running'"
_BEAT = """
    UPDATE jobs SET locked_until = least(clock_timestamp() + %(lease)s * interval '1 second', deadline)
     WHERE id = %(job)s AND attempts = %(attempt)s AND status = 'running' AND locked_until > clock_timestamp()
"""


class Way(NamedTuple):
    """How the workers guard their jobs, and what is expected: runs, finishes that were taken, the status."""

    name: str
    fenced: bool
    beats: bool
    expected: tuple[int, int, str]
    article: str = ""
    loops: bool = False  #: both workers look for a job again when one is over, and reap
    hangs: bool = False  #: the first run does not end by itself
    limit: float | None = None  #: seconds that a run may take, whatever the heartbeats say


_WAYS = (
    Way("a lease", False, False, (2, 2, "done"), "runs twice, both finish"),
    Way("and a fence", True, False, (2, 1, "done"), "runs twice, the late finish is refused"),
    Way("and heartbeats", True, True, (1, 1, "done"), "runs once"),
    Way("a fence without heartbeats, both workers loop", True, False, (3, 0, "dead"), loops=True),
    Way("heartbeats, the first run hangs", True, True, (1, 0, "running"), hangs=True),
    Way("the same, with a maximum run time", True, True, (2, 1, "done"), hangs=True, limit=1.5),
)


def run(place: Place) -> Outcome:
    rows, lanes = [], {}
    for way in _WAYS:
        place.say(way.name)
        scene = _Scene(place, way)
        rows.append(scene.play())
        lanes.update({f"{way.name}: {name}": tuple(spans) for name, spans in sorted(scene.lanes.items())})
    outcome = judged(rows, "a fence keeps a late worker out of the database, and only heartbeats keep it from working")
    return Outcome(outcome.rows, outcome.verdict, (Spans("Who worked when", lanes),))


@dataclass
class _Scene:
    """One job and two workers: the second looks for it until the first has ended and a while longer."""

    place: Place
    way: Way
    began: float = 0.0
    lanes: dict[str, list[tuple[float, float, str]]] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)
    finishes: int = 0
    errors: list[BaseException] = field(default_factory=list)

    @property
    def lease(self) -> float:
        return 2.0 if self.place.full else 1.0

    @property
    def work(self) -> float:
        """How long the job takes."""
        return 1.5 * self.lease

    def play(self) -> Row:
        with self.place.admin() as admin:
            admin.execute("TRUNCATE jobs, job_runs RESTART IDENTITY")
            admin.execute("ALTER TABLE jobs ADD COLUMN IF NOT EXISTS deadline timestamptz")
            admin.execute("INSERT INTO jobs DEFAULT VALUES")
            self.began = time.monotonic()
            threads = [threading.Thread(target=self._worker, args=(name,)) for name in ("first", "second")]
            try:
                for thread in threads:
                    thread.start()
                    self._until_claimed(admin)
                self._until_over(admin)
            finally:  # also after Ctrl-C, which only this thread is told of
                self.over.set()
                for thread in threads:
                    if thread.ident is not None:
                        thread.join()
            if self.errors:
                raise self.errors[0]
            state = "SELECT status, (SELECT count(*) FROM job_runs) FROM jobs"
            status, worked = admin.execute(state).fetchone() or ("", 0)
        return self._row(int(worked), str(status))

    def _row(self, worked: int, status: str) -> Row:
        told = f"worked {worked} times, {self.finishes} finished, {status}".replace("1 times", "once")
        figures = {"worked": worked, "finished": self.finishes, "status": status}
        return Row(self.way.name, self.way.article, told, (worked, self.finishes, status) == self.way.expected, figures)

    def _until_claimed(self, admin: psycopg.Connection[Any]) -> None:
        while not self.errors and admin.execute("SELECT FROM job_runs").fetchone() is None:
            time.sleep(0.01)

    def _until_over(self, admin: psycopg.Connection[Any]) -> None:
        """Until nobody works any more; where a run hangs, and nothing ends it, for some leases."""
        until = time.monotonic() + 4 * self.lease
        while not self.errors:
            ended = admin.execute("SELECT FROM jobs WHERE status IN ('done', 'dead')").fetchone() is not None
            if (ended and not self._works()) or (self.way.hangs and time.monotonic() > until):
                return
            time.sleep(_LOOK)

    def _works(self) -> bool:
        return any(end == 0.0 for lane in self.lanes.values() for _, end, _ in lane)

    def _worker(self, name: str) -> None:
        import psycopg

        try:
            with psycopg.connect(self.place.worker_dsn, autocommit=True) as conn:
                while not self.over.is_set():
                    if self._run(conn, name) and not self.way.loops:
                        return
                    self.over.wait(_LOOK)
        except BaseException as error:
            self.errors.append(error)

    def _run(self, conn: psycopg.Connection[Any], name: str) -> bool:
        """Claim the job and work on it, if it is to be had."""
        if self.way.loops:
            conn.execute(REAP)
        with conn.transaction():
            job = conn.execute(LEASE, (self.lease,)).fetchone()
            if job is None:
                return False
            conn.execute(RUN, (job[0], name, job[3]))
            if self.way.limit is not None:
                limit = "UPDATE jobs SET deadline = clock_timestamp() + %s * interval '1 second' WHERE id = %s"
                conn.execute(limit, (self.way.limit * self.lease, job[0]))
        lane, begin = self.lanes.setdefault(name, []), time.monotonic() - self.began
        lane.append((begin, 0.0, "works"))
        worked = self._work(job)
        taken = worked and self._finish(conn, job)
        self.finishes += taken
        ended = "finished" if taken else "refused" if worked else "hangs"
        lane[-1] = (begin, time.monotonic() - self.began, ended)
        return True

    def _work(self, job: tuple[Any, ...]) -> bool:
        """Work, with heartbeats beside it. Whether the work has come to its end, and was not stopped."""
        hangs = self.way.hangs and job[3] == 1
        ends = time.monotonic() + (3600 if hangs else self.work)
        if not self.way.beats:
            return not self.over.wait(ends - time.monotonic())
        return self._work_with_beats(job, ends)

    def _work_with_beats(self, job: tuple[Any, ...], ends: float) -> bool:
        import psycopg

        words = {"job": job[0], "attempt": job[3], "lease": self.lease}
        with psycopg.connect(self.place.worker_dsn, autocommit=True) as beside:
            while time.monotonic() < ends and not self.over.wait(
                min(self.lease / 4, max(0.0, ends - time.monotonic()))
            ):
                if time.monotonic() < ends and beside.execute(_BEAT, words).rowcount == 0:
                    return False
        return not self.over.is_set()

    def _finish(self, conn: psycopg.Connection[Any], job: tuple[Any, ...]) -> bool:
        words = {"job": job[0], "attempt": job[3]}
        fence = _FENCE if self.way.fenced else ""
        return conn.execute(f"UPDATE jobs SET status = 'done' WHERE id = %(job)s{fence}", words).rowcount == 1


EXPERIMENT = Experiment(
    "lease",
    "What becomes of a job that takes longer than its lease?",
    "Heartbeats on a connection of their own, up to a maximum run time; and a fence for who is late. TA402, TA404",
    run,
)
