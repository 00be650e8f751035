"""What becomes of the queue behind a job that always fails?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.lab.experiment import Experiment, Outcome, Row, judged
from auditor.lab.workers import Handling, single

if TYPE_CHECKING:
    from auditor.lab.place import Place

_FETCHES = 10
#: Fetches of the failing job, its status, its attempts, rows of its runs, and whether the job behind it was run.
_EXPECTED = {
    Handling.NONE: (10, "queued", 0, 0, False),
    Handling.SAME: (10, "queued", 0, 0, False),
    Handling.NEW: (3, "dead", 3, 0, True),
}
_ARTICLE = {
    Handling.NONE: "10 of 10 fetches, attempts 0, the next never runs",
    Handling.NEW: "3 fetches, then dead, the next runs",
}


def run(place: Place) -> Outcome:
    return judged(
        [_row(place, handling) for handling in Handling],
        "what a failure counts in its own transaction is rolled back with it, and the oldest job is fetched for ever",
    )


def _row(place: Place, handling: Handling) -> Row:
    import psycopg

    place.say(handling.value)
    with place.admin() as admin:
        admin.execute("TRUNCATE jobs, job_runs RESTART IDENTITY")
        admin.execute("INSERT INTO jobs (kind) VALUES ('poison'), ('plain')")
        with psycopg.connect(place.worker_dsn, autocommit=True) as conn:
            fetched = [single(conn, "worker", handling) for _ in range(_FETCHES)]
        status, attempts, runs = admin.execute(
            "SELECT status, attempts, (SELECT count(*) FROM job_runs WHERE job_id = jobs.id) FROM jobs WHERE id = 1"
        ).fetchone() or ("", 0, 0)
    poison, next_ = fetched.count(1), 2 in fetched
    behind = "the next runs" if next_ else "the next never runs"
    told = f"{poison} of {_FETCHES} fetches, {status}, attempts {attempts}, {runs} rows of runs, {behind}"
    figures = {"fetches": poison, "status": status, "attempts": attempts, "runs": runs, "next_ran": next_}
    return Row(
        handling.value, _ARTICLE.get(handling, ""), told, tuple(figures.values()) == _EXPECTED[handling], figures
    )


EXPERIMENT = Experiment(
    "poison",
    "What becomes of the queue behind a job that always fails? Ten fetches of one worker",
    "Count a failure in a transaction of its own, or better at the claim, before the work. TA301, TA302, TA303",
    run,
)
