"""What becomes of a job that ends its process?"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from auditor.lab.experiment import Experiment, Outcome, Row, judged
from auditor.lab.workers import CRASHED, REAP, Handling, leased, single

if TYPE_CHECKING:
    from typing import Any

    import psycopg

    from auditor.lab.place import Place

_WORKERS = 5


def run(place: Place) -> Outcome:
    rows = [_single(place), _leased(place, reaps=False), _leased(place, reaps=True)]
    return judged(rows, "in one transaction every worker dies and nothing is counted; counted at the claim, three do")


def _prepare(admin: psycopg.Connection[Any]) -> None:
    admin.execute("TRUNCATE jobs, job_runs RESTART IDENTITY")
    admin.execute("INSERT INTO jobs (kind) VALUES ('crash'), ('plain')")


def _state(admin: psycopg.Connection[Any]) -> tuple[str, int, int, bool]:
    """Of the job that crashes: its status, its attempts, runs told lost; and whether the job behind it was run."""
    row = admin.execute(
        """
        SELECT status, attempts, (SELECT count(*) FROM job_runs WHERE job_id = 1 AND outcome = 'lost'),
               (SELECT status = 'done' FROM jobs WHERE id = 2)
          FROM jobs WHERE id = 1
        """
    ).fetchone()
    assert row is not None
    return str(row[0]), int(row[1]), int(row[2]), bool(row[3])


def _single(place: Place) -> Row:
    place.say("one transaction")
    with place.admin() as admin:
        _prepare(admin)
        died = 0
        for _ in range(_WORKERS):
            died += _dies(place.worker_dsn, "single")
            admin.execute("SELECT FROM jobs FOR UPDATE")  # waits until the server has noticed
        status, attempts, _, next_ = _state(admin)
    told = f"{died} of {_WORKERS} workers die, {status}, attempts {attempts}, the next {_ran(next_)}"
    figures = {"died": died, "status": status, "attempts": attempts, "next_ran": next_}
    holds = (died, status, attempts, next_) == (_WORKERS, "queued", 0, False)
    return Row("one transaction", "every worker dies, attempts 0", told, holds, figures)


def _leased(place: Place, *, reaps: bool) -> Row:
    what = "a lease that counts at the claim" + (", and a reaper" if reaps else "")
    place.say(what)
    died = 0
    with place.admin() as admin:
        _prepare(admin)
        for _ in range(_WORKERS):
            # Instead of waiting for the lease to end; the article waited for 1.1 seconds.
            admin.execute("UPDATE jobs SET locked_until = clock_timestamp() - interval '1 ms' WHERE status = 'running'")
            if reaps:
                admin.execute(REAP)
            died += _dies(place.worker_dsn, "leased")
        status, attempts, lost, next_ = _state(admin)
    told = f"{died} of {_WORKERS} workers die, {status}, attempts {attempts}, {lost} lost, the next {_ran(next_)}"
    figures = {"died": died, "status": status, "attempts": attempts, "lost": lost, "next_ran": next_}
    expected = (3, "dead" if reaps else "running", 3, 3 if reaps else 0, True)
    article = "" if reaps else "3 claims, then left running, attempts 3, the next runs"
    return Row(what, article, told, tuple(figures.values()) == expected, figures)


def _ran(ran: bool) -> str:
    return "runs" if ran else "never runs"


def _dies(dsn: str, how: str) -> bool:
    """Whether a worker in a process of its own is ended by its job."""
    command = [sys.executable, "-m", "auditor.lab.crash", how]
    # Not among the arguments, which everybody on the machine may read.
    return subprocess.run(command, check=False, capture_output=True, input=dsn, text=True).returncode == CRASHED


def main(how: str) -> None:
    """One worker, which takes one job. Standard input says where."""
    import psycopg

    with psycopg.connect(sys.stdin.read(), autocommit=True) as conn:
        if how == "single":
            single(conn, "worker", Handling.NEW)
        else:
            leased(conn, "worker", 60)


EXPERIMENT = Experiment(
    "crash",
    "What becomes of a job that ends its process? Five workers, one after the other",
    "Count at the claim, in a transaction that is committed before the work; and let every worker reap. TA304, TA401",
    run,
)

if __name__ == "__main__":
    main(sys.argv[1])
