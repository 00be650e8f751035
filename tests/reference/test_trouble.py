"""What goes wrong while a worker works: each is counted rightly, nothing is lost, and the worker goes on."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import IsolationLevel

from auditor.reference.jobs import GiveUpError, NewJob, Options
from auditor.reference.worker import Handlers, Job, Worker
from tests.reference.harness import PATIENCE, Gate, Queue, eventually, note, working

if TYPE_CHECKING:
    from auditor.lab.server import OwnServer

INSERT = "INSERT INTO app.invoices (number) VALUES (%s)"
NUMBERS = "SELECT number FROM app.invoices ORDER BY number"


def test_a_job_that_always_fails_is_dead_after_three_and_the_next_runs(queue: Queue) -> None:
    handlers = Handlers()
    note(handlers)

    @handlers.on("poison", dict[str, Any])
    def fail(job: Job[dict[str, Any]]) -> None:
        with job.finish() as conn:
            conn.execute(INSERT, (str(job.attempt),))
            conn.execute("SELECT 1 / 0")

    poison, behind = queue.enqueue(NewJob("poison"), NewJob("note"))
    with working(queue, handlers, concurrency=1) as (_, seen):
        queue.until_ended(poison, behind)
        seen.until("dead", poison)
    assert queue.state(poison) == ("dead", 3)
    assert queue.outcomes(poison) == ["failed", "failed", "failed"]
    assert queue.job(poison)["last_error"] == "DivisionByZero: division by zero"
    assert queue.all("SELECT DISTINCT error FROM app.job_runs WHERE job_id = %s", poison) == [
        "DivisionByZero: division by zero"
    ]
    assert seen.names(poison) == ["claimed", "failed"] * 2 + ["claimed", "dead"]
    assert queue.state(behind) == ("done", 1)
    assert queue.all(NUMBERS) == []


@pytest.mark.parametrize("name", ["SystemExit", "KeyboardInterrupt", "ValueError"])
def test_whatever_a_handler_raises_is_a_failure_of_its_job(
    queue: Queue, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "app.worker")  # pytest cannot pass on such text
    error: BaseException = {
        "SystemExit": SystemExit(1),
        "KeyboardInterrupt": KeyboardInterrupt(),
        "ValueError": ValueError("NUL \0 and half a character \ud800"),
    }[name]
    handlers = Handlers()

    @handlers.on("raise", dict[str, Any])
    def fail(job: Job[dict[str, Any]]) -> None:
        raise error

    (job,) = queue.enqueue(NewJob("raise", max_attempts=1))
    with working(queue, handlers) as (_, seen):
        seen.until("dead", job)
    assert queue.outcomes(job) == ["failed"]
    assert queue.job(job)["last_error"].startswith(name)


def test_a_handler_that_gives_up_is_tried_no_more(queue: Queue) -> None:
    handlers = Handlers()

    @handlers.on("hopeless", dict[str, Any])
    def fail(job: Job[dict[str, Any]]) -> None:
        raise GiveUpError("no such invoice")

    (job,) = queue.enqueue(NewJob("hopeless"))
    with working(queue, handlers) as (_, seen):
        seen.until("dead", job)
    assert queue.state(job) == ("dead", 1)
    assert queue.job(job)["last_error"] == "GiveUpError: no such invoice"


def test_a_failure_waits_at_random_and_longer_each_time(queue: Queue) -> None:
    """Full jitter: between nothing and twice as long each time, never beyond the cap.

    The waits are so long that none of them ends while the test looks: a job that draws a short one is tried twice.
    """
    handlers, most, cap = Handlers(), 1_000_000, 3_000_000

    @handlers.on("fail", dict[str, Any])
    def fail(job: Job[dict[str, Any]]) -> None:
        raise ValueError

    jobs = queue.enqueue(*[NewJob("fail", max_attempts=40) for _ in range(40)])
    with working(queue, handlers, concurrency=8, backoff=most, backoff_cap=cap):
        queue.until("SELECT count(*) = %s FROM app.job_runs WHERE outcome = 'failed'", len(jobs))
    waits = (
        "SELECT min(w) >= 0, max(w) <= {most}, count(DISTINCT w) > 30, max(w) > {most} / 2.0 FROM (SELECT"
        " extract(epoch FROM run_at - r.ended_at) AS w FROM app.jobs JOIN app.job_runs r ON job_id = id"
        " WHERE r.attempt = attempts) AS waits"
    )
    assert queue.all(waits.format(most=most)) == [(True, True, True, True)]
    queue.admin.execute("UPDATE app.jobs SET run_at = clock_timestamp(), attempts = 30")
    with working(queue, handlers, concurrency=8, backoff=most, backoff_cap=cap):
        queue.until("SELECT count(*) = %s FROM app.job_runs WHERE attempt = 31 AND outcome = 'failed'", len(jobs))
    assert queue.all(waits.format(most=cap)) == [(True, True, True, True)]


def test_the_loser_of_a_deadlock_is_counted_and_tried_again(queue: Queue) -> None:
    handlers, both = Handlers(), threading.Barrier(2)
    queue.admin.execute("CREATE TABLE app.pair (id int PRIMARY KEY, n int); INSERT INTO app.pair VALUES (1, 0), (2, 0)")
    queue.admin.execute("GRANT SELECT, UPDATE ON app.pair TO app_tenant")

    @handlers.on("lock", dict[str, Any])
    def lock(job: Job[dict[str, Any]]) -> None:
        # The second try begins with the row that the winner had first: it waits for him, and keeps him from nothing.
        first = job.payload["first"] if job.attempt == 1 else 3 - job.payload["first"]
        with job.finish() as conn:
            conn.execute("UPDATE app.pair SET n = n + 1 WHERE id = %s", (first,))
            if job.attempt == 1:
                both.wait(PATIENCE)
            conn.execute("UPDATE app.pair SET n = n + 1 WHERE id = %s", (3 - first,))

    jobs = queue.enqueue(NewJob("lock", {"first": 1}), NewJob("lock", {"first": 2}))
    with working(queue, handlers):
        queue.until_ended(*jobs)
    assert queue.all("SELECT status, attempts FROM app.jobs ORDER BY attempts") == [("done", 1), ("done", 2)]
    assert queue.all("SELECT outcome FROM app.job_runs ORDER BY outcome") == ["done", "done", "failed"]
    assert queue.one("SELECT error FROM app.job_runs WHERE outcome = 'failed'").startswith("DeadlockDetected")
    assert queue.all("SELECT n FROM app.pair") == [2, 2]


def test_a_serialization_failure_is_counted_and_tried_again(queue: Queue) -> None:
    handlers, both = Handlers(), threading.Barrier(2)

    @handlers.on("sum", dict[str, Any])
    def total(job: Job[dict[str, Any]]) -> None:
        with job.finish(IsolationLevel.SERIALIZABLE) as conn:
            count = conn.execute("SELECT count(*) FROM app.invoices").fetchone()
            if job.attempt == 1:
                both.wait(PATIENCE)
            assert count is not None
            conn.execute(INSERT, (f"after {count[0]}",))

    jobs = queue.enqueue(NewJob("sum"), NewJob("sum"))
    with working(queue, handlers):
        queue.until_ended(*jobs)
    assert queue.all("SELECT status, attempts FROM app.jobs ORDER BY attempts") == [("done", 1), ("done", 2)]
    assert queue.one("SELECT error FROM app.job_runs WHERE outcome = 'failed'").startswith("SerializationFailure")
    assert queue.all(NUMBERS) == ["after 0", "after 1"]


def test_a_statement_timeout_is_counted_and_tried_again(queue: Queue) -> None:
    handlers = Handlers()

    @handlers.on("slow", dict[str, Any])
    def sleep(job: Job[dict[str, Any]]) -> None:
        with job.finish() as conn:
            conn.execute(INSERT, (str(job.attempt),))
            if job.attempt == 1:
                conn.execute("SET LOCAL statement_timeout = 1")
                conn.execute("SELECT pg_sleep(600)")

    (job,) = queue.enqueue(NewJob("slow"))
    with working(queue, handlers):
        queue.until_ended(job)
    assert queue.state(job) == ("done", 2)
    assert queue.outcomes(job) == ["failed", "done"]
    assert queue.job(job)["last_error"].startswith("QueryCanceled")
    assert queue.all(NUMBERS) == ["2"]


def test_a_connection_that_is_killed_in_the_claim(queue: Queue) -> None:
    handlers = Handlers()
    ran = note(handlers)
    with working(queue, handlers, tenant_limit=1):
        with queue.holding("SELECT pg_advisory_xact_lock(hashtextextended('app.jobs', 0))"):
            (job,) = queue.enqueue(NewJob("note"))
            first = queue.backend("work", waiting="Lock")
            queue.terminate(first)
            eventually(lambda: queue.backend("work", waiting="Lock") != first)
            assert queue.state(job) == ("queued", 0)
        queue.until_ended(job)
    assert queue.outcomes(job) == ["done"]
    assert ran == [job]


def test_a_connection_that_is_killed_in_the_work(queue: Queue) -> None:
    handlers = Handlers()

    @handlers.on("work", dict[str, Any])
    def work(job: Job[dict[str, Any]]) -> None:
        with job.finish() as conn:
            conn.execute(INSERT, (str(job.attempt),))
            if job.attempt == 1:
                queue.terminate(conn.info.backend_pid)
            conn.execute(INSERT, (f"{job.attempt}, again",))

    (job,) = queue.enqueue(NewJob("work"))
    with working(queue, handlers):
        queue.until_ended(job)
    assert queue.state(job) == ("done", 2)
    assert queue.outcomes(job) == ["failed", "done"]
    assert queue.all(NUMBERS) == ["2", "2, again"]


def test_a_connection_that_is_killed_in_the_finish(queue: Queue) -> None:
    handlers, gate = Handlers(), Gate()

    @handlers.on("work", dict[str, Any])
    def work(job: Job[dict[str, Any]]) -> None:
        with job.finish() as conn:
            conn.execute(INSERT, (str(job.attempt),))
            if job.attempt == 1:
                gate.wait()

    (job,) = queue.enqueue(NewJob("work"))
    with working(queue, handlers):
        gate.reached()
        with queue.holding("SELECT FROM app.jobs FOR SHARE"):
            gate.open()
            queue.terminate(queue.backend("work", waiting="Lock"))
        queue.until_ended(job)
    assert queue.state(job) == ("done", 2)
    assert queue.outcomes(job) == ["failed", "done"]
    assert queue.all(NUMBERS) == ["2"]


def test_a_connection_that_is_killed_in_the_commit(queue: Queue) -> None:
    """The worker cannot know what became of it, and asks nobody: the fence and the status decide."""
    handlers = Handlers()
    queue.admin.execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';"
        "CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON app.invoices DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION wait()"
    )

    @handlers.on("work", dict[str, Any])
    def work(job: Job[dict[str, Any]]) -> None:
        with job.finish() as conn:
            conn.execute(INSERT, (str(job.attempt),))

    (job,) = queue.enqueue(NewJob("work"))
    with working(queue, handlers):
        with queue.holding("SELECT pg_advisory_xact_lock(1)"):
            waiting = queue.backend("work", waiting="Lock")
            assert queue.one("SELECT query FROM pg_stat_activity WHERE pid = %s", waiting) == "COMMIT"
            queue.terminate(waiting)
            queue.until("SELECT count(*) = 2 FROM app.job_runs")
        queue.until_ended(job)
    assert queue.state(job) == ("done", 2)
    assert queue.outcomes(job) == ["failed", "done"]
    assert queue.all(NUMBERS) == ["2"]


def test_a_connection_that_is_killed_in_the_heartbeat(queue: Queue) -> None:
    """The next one is sent on a new connection, and the job knows nothing of it."""
    handlers, gate = Handlers(), Gate()

    @handlers.on("long", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        gate.wait()

    (job,) = queue.enqueue(NewJob("long"))
    with working(queue, handlers, lease=3):
        gate.reached()
        with queue.holding("SELECT FROM app.jobs FOR SHARE"):
            queue.terminate(queue.backend("heartbeat", waiting="Lock"))
        queue.until("SELECT locked_until > started_at + interval '3.5 seconds' FROM app.jobs, app.job_runs")
        gate.open()
        queue.until_ended(job)
    assert queue.state(job) == ("done", 1)
    assert queue.outcomes(job) == ["done"]


def test_a_server_that_is_restarted_while_the_worker_is_busy(queue: Queue, postgres: OwnServer) -> None:
    """Work outside of a transaction goes on and finishes; work in one has failed, and is tried again."""
    handlers, outside, inside = Handlers(), Gate(), Gate()
    note(handlers)

    @handlers.on("outside", dict[str, Any])
    def call(job: Job[dict[str, Any]]) -> None:
        outside.wait()
        with job.finish() as conn:
            conn.execute(INSERT, (f"outside {job.attempt}",))

    @handlers.on("inside", dict[str, Any])
    def write(job: Job[dict[str, Any]]) -> None:
        with job.finish() as conn:
            conn.execute(INSERT, (f"inside {job.attempt}",))
            if job.attempt == 1:
                inside.wait()

    calls, writes = queue.enqueue(NewJob("outside"), NewJob("inside"))
    with working(queue, handlers, concurrency=2):
        outside.reached()
        inside.reached()
        postgres.restart()
        queue.reconnect()
        later = queue.enqueue(*[NewJob("note") for _ in range(20)])
        outside.open()
        inside.open()
        queue.until_ended(calls, writes, *later)
    assert queue.state(calls) == ("done", 1)
    assert queue.state(writes) == ("done", 2)
    assert queue.outcomes(writes) == ["failed", "done"]
    assert queue.all(NUMBERS) == ["inside 2", "outside 1"]
    assert queue.one("SELECT count(*) FROM app.job_runs WHERE outcome IS NULL") == 0


def test_a_failure_that_cannot_be_written_is_lost_and_found(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease ends, and a reaper counts it; the worker that could not write it goes on meanwhile."""
    from auditor.reference import worker as module

    handlers = Handlers()
    ran = note(handlers)
    monkeypatch.setattr(module, "FAIL", "SELECT pg_terminate_backend(pg_backend_pid()), %(id)s, %(fence)s")

    @handlers.on("fail", dict[str, Any])
    def fail(job: Job[dict[str, Any]]) -> None:
        raise ValueError

    (job,) = queue.enqueue(NewJob("fail", max_attempts=1))
    with working(queue, handlers, concurrency=1) as (_, seen):
        seen.until("lost", job)
        assert queue.state(job) == ("running", 1)
        (behind,) = queue.enqueue(NewJob("note"))
        queue.until_ended(behind)
        queue.expire()
        assert queue.reap() == 1
    assert ran == [behind]
    assert queue.state(job) == ("dead", 1)
    assert queue.outcomes(job) == ["lost"]


def test_a_handler_that_never_ends_ends_its_worker(queue: Queue) -> None:
    """No thread can be ended from outside, and its place is taken: the supervisor is to start another worker."""
    handlers, stuck = Handlers(), Gate()

    @handlers.on("stuck", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        stuck.wait()

    (job,) = queue.enqueue(NewJob("stuck", max_attempts=1, time_limit=0.5))
    worker = Worker(queue.worker_dsn, handlers, Options(poll=0.05, lease=600, grace=0.2))
    try:
        assert worker.run() == 1
    finally:
        stuck.open()
    queue.reap()
    assert queue.state(job)[0] in ("queued", "dead")


def test_a_queue_that_is_not_there_is_no_passing_trouble(queue: Queue) -> None:
    handlers = Handlers()
    note(handlers)

    class Late(Worker):
        def _reap(self) -> None:
            queue.admin.execute("DROP TABLE app.jobs CASCADE")
            super()._reap()

    with pytest.raises(psycopg.errors.UndefinedTable):
        Late(queue.worker_dsn, handlers).run()
