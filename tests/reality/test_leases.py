"""What the pages of the rules on leases and claims say of PostgreSQL, shown on a real one."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Connection = psycopg.Connection[Any]

SCHEMA = """
    CREATE TABLE jobs (
        id bigint PRIMARY KEY, status text NOT NULL DEFAULT 'queued', attempts int NOT NULL DEFAULT 0,
        run_at timestamptz NOT NULL DEFAULT now(), started_at timestamptz, heartbeat_at timestamptz,
        locked_until timestamptz, lock_token uuid);
    CREATE TABLE work (job bigint);
"""
QUEUED = "SELECT id FROM jobs WHERE status = 'queued' ORDER BY id LIMIT 1"
LEASE = """
    UPDATE jobs SET status = 'running', attempts = attempts + 1, lock_token = gen_random_uuid(),
                    started_at = clock_timestamp(), locked_until = clock_timestamp() + %s * interval '1 s'
     WHERE id = (SELECT id FROM jobs
                  WHERE status = 'queued' OR (status = 'running' AND locked_until < clock_timestamp())
                  ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, lock_token
"""
REAP = "UPDATE jobs SET status = 'queued' WHERE status = 'running' AND locked_until < clock_timestamp()"


@pytest.fixture
def workers(database: str) -> Iterator[tuple[Connection, Connection]]:
    """Two workers, each with its connection, on a queue of two jobs."""
    with psycopg.connect(database, autocommit=True) as one, psycopg.connect(database, autocommit=True) as other:
        one.execute(SCHEMA)
        enqueue(one, 2)
        yield one, other


def enqueue(conn: Connection, jobs: int) -> None:
    conn.execute("TRUNCATE jobs")
    conn.execute("INSERT INTO jobs (id) SELECT generate_series(1, %s)", (jobs,))


def ids(conn: Connection, sql: str, *parameters: object) -> list[int]:
    return [row[0] for row in conn.execute(sql, parameters).fetchall()]


def status(conn: Connection, job: int = 1) -> tuple[str, int]:
    row = conn.execute("SELECT status, attempts FROM jobs WHERE id = %s", (job,)).fetchone()
    assert row is not None
    return row[0], row[1]


@contextmanager
def waiting(conn: Connection, run: Callable[[], None]) -> Iterator[None]:
    """Inside, `run` goes on beside us and waits for a lock that we hold; afterwards it has come to its end."""
    pid = conn.info.backend_pid
    thread = threading.Thread(target=run, daemon=True)
    with psycopg.connect(conn.info.dsn, autocommit=True) as watching:
        thread.start()
        while not watching.execute("SELECT cardinality(pg_blocking_pids(%s))", (pid,)).fetchone()[0]:  # type: ignore[index]
            assert thread.is_alive()
        yield
    thread.join()


def claimed_by_the_second(workers: tuple[Connection, Connection], claim: str) -> list[int]:
    """What the second worker gets that claims while the first has claimed and not yet committed."""
    one, other = workers
    got: list[int] = []
    one.execute("BEGIN")
    assert ids(one, claim) == [1]
    with waiting(other, lambda: got.extend(ids(other, claim))):
        one.execute("COMMIT")
    return got


# TA409


@pytest.mark.parametrize(
    "picks",
    [f"= ({QUEUED})", f"IN ({QUEUED})", f"= ANY(ARRAY({QUEUED}))"],
    ids=["a subquery", "IN", "an array"],
)
def test_a_job_that_is_picked_without_a_lock_is_taken_twice(workers: tuple[Connection, Connection], picks: str) -> None:
    claim = f"UPDATE jobs SET status = 'running' WHERE id {picks}"
    assert claimed_by_the_second(workers, f"{claim} RETURNING id") == [1]
    enqueue(workers[0], 2)
    assert claimed_by_the_second(workers, f"{claim} AND status = 'queued' RETURNING id") == []


def test_serializable_refuses_the_second_of_two_claims(workers: tuple[Connection, Connection]) -> None:
    one, other = workers
    claim = f"UPDATE jobs SET status = 'running' WHERE id = ({QUEUED}) RETURNING id"
    refused: list[Exception] = []

    def second() -> None:
        try:
            other.execute(claim)
        except psycopg.errors.SerializationFailure as error:
            refused.append(error)

    for conn in workers:
        conn.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        conn.execute("SELECT count(*) FROM work")
    assert ids(one, claim) == [1]
    with waiting(other, second):
        one.execute("COMMIT")
    assert len(refused) == 1


def test_a_claim_that_waits_stands_still_while_a_job_is_free(workers: tuple[Connection, Connection]) -> None:
    one, other = workers
    got: list[int] = []
    one.execute("BEGIN")
    assert ids(one, f"{QUEUED} FOR UPDATE") == [1]
    with waiting(other, lambda: got.extend(ids(other, f"{QUEUED} FOR UPDATE"))):
        with psycopg.connect(one.info.dsn, autocommit=True) as third:
            assert ids(third, f"{QUEUED} FOR UPDATE SKIP LOCKED") == [2]
        assert got == []
        one.execute("UPDATE jobs SET status = 'done' WHERE id = 1")
        one.execute("COMMIT")
    assert got == [2]


# TA410, TA411, TA412


def test_in_autocommit_a_row_lock_keeps_nobody_away(workers: tuple[Connection, Connection]) -> None:
    assert [ids(worker, f"{QUEUED} FOR UPDATE SKIP LOCKED") for worker in workers] == [[1], [1]]


def test_a_commit_frees_what_was_locked_and_not_changed(workers: tuple[Connection, Connection]) -> None:
    one, other = workers
    enqueue(one, 10)
    batch = "SELECT id FROM jobs WHERE status = 'queued' ORDER BY id LIMIT 10 FOR UPDATE SKIP LOCKED"
    one.execute("BEGIN")
    assert len(ids(one, batch)) == 10
    assert ids(other, batch) == []
    one.execute("UPDATE jobs SET status = 'done' WHERE id = 1")
    one.execute("COMMIT")
    assert ids(other, batch) == list(range(2, 11))


@pytest.mark.parametrize(
    ("picks", "taken"),
    [("IN (SELECT {})", 200), ("= ANY(ARRAY(SELECT {}))", 10), ("IN (WITH n AS MATERIALIZED (SELECT {}) TABLE n)", 10)],
    ids=["IN", "an array", "a materialized CTE"],
)
def test_how_many_a_claim_of_ten_takes_under_a_nested_loop(
    workers: tuple[Connection, Connection], picks: str, taken: int
) -> None:
    one, _ = workers
    enqueue(one, 200)
    for off in ("hashjoin", "mergejoin", "hashagg", "sort", "material", "indexscan", "bitmapscan"):
        one.execute(f"SET enable_{off} = off")
    inner = "id FROM jobs WHERE status = 'queued' LIMIT 10 FOR UPDATE SKIP LOCKED"
    assert one.execute(f"UPDATE jobs SET status = 'running' WHERE id {picks.format(inner)}").rowcount == taken


# TA402, TA403, TA404


def test_a_late_worker_ends_the_job_of_another(workers: tuple[Connection, Connection]) -> None:
    one, other = workers
    (job, late), (again, token) = (worker.execute(LEASE, (-1,)).fetchone() for worker in workers)  # type: ignore[misc]
    assert job == again == 1
    fenced = "UPDATE jobs SET status = 'done' WHERE id = %s AND lock_token = %s"
    with one.transaction():
        one.execute("INSERT INTO work VALUES (%s)", (job,))
        assert one.execute(fenced, (job, late)).rowcount == 0
    assert status(other) == ("running", 2)
    assert len(ids(other, "SELECT job FROM work")) == 1  # nobody looked at the answer: the late work stays
    assert one.execute("UPDATE jobs SET status = 'done' WHERE id = %s", (job,)).rowcount == 1
    assert status(other) == ("done", 2)
    assert token != late


# TA405, TA406, TA407, TA408


def test_a_heartbeat_in_the_work_is_not_seen(workers: tuple[Connection, Connection]) -> None:
    one, other = workers
    assert ids(one, LEASE, 0) == [1]
    one.execute("BEGIN")
    one.execute("UPDATE jobs SET locked_until = clock_timestamp() + interval '1 h' WHERE id = 1")
    assert ids(other, "SELECT id FROM jobs WHERE locked_until < clock_timestamp()") == [1]
    one.execute("COMMIT")
    assert ids(other, "SELECT id FROM jobs WHERE locked_until < clock_timestamp()") == []


def test_a_heartbeat_that_is_held_down_ends(workers: tuple[Connection, Connection]) -> None:
    one, _ = workers
    one.execute("ALTER TABLE jobs ADD deadline timestamptz DEFAULT clock_timestamp()")
    beat = "UPDATE jobs SET locked_until = {} WHERE id = %s RETURNING locked_until <= clock_timestamp()"
    assert ids(one, beat.format("clock_timestamp() + interval '1 h'"), 1) == [False]
    assert ids(one, beat.format("least(clock_timestamp() + interval '1 h', deadline)"), 1) == [True]


def test_a_claim_that_is_not_committed_is_not_seen_and_not_counted(workers: tuple[Connection, Connection]) -> None:
    one, other = workers
    one.execute("BEGIN")
    assert ids(one, LEASE, 60) == [1]
    assert status(other) == ("queued", 0)
    one.execute("ROLLBACK")
    assert status(other) == ("queued", 0)


def test_now_stands_still_and_the_lease_is_shorter_by_the_work(workers: tuple[Connection, Connection]) -> None:
    one, _ = workers
    with one.transaction():
        one.execute("SELECT pg_sleep(0.1)")
        row = one.execute("SELECT now() + interval '0.1 s' < clock_timestamp()").fetchone()
    assert row == (True,)


# TA401, TA413, TA308, TA306


def test_a_job_that_is_out_of_attempts_stays_running(workers: tuple[Connection, Connection]) -> None:
    one, _ = workers
    one.execute("DELETE FROM jobs WHERE id = 2")
    bounded = LEASE.replace("WHERE status = 'queued' OR", "WHERE attempts < 3 AND (status = 'queued' OR").replace(
        "clock_timestamp())\n", "clock_timestamp()))\n"
    )
    assert [ids(one, bounded, -1) for _ in range(5)] == [[1], [1], [1], [], []]
    assert status(one) == ("running", 3)


def test_a_reaper_by_the_start_takes_a_job_whose_heart_beats(workers: tuple[Connection, Connection]) -> None:
    one, other = workers
    assert ids(one, LEASE, 60) == [1]
    one.execute("UPDATE jobs SET heartbeat_at = clock_timestamp(), started_at = started_at - interval '1 h'")
    reap = "UPDATE jobs SET status = 'queued' WHERE status = 'running' AND {} < clock_timestamp() - interval '5 min'"
    assert other.execute(reap.format("heartbeat_at")).rowcount == 0
    assert other.execute(reap.format("started_at")).rowcount == 1


def test_what_is_given_back_uncounted_comes_back_for_ever(workers: tuple[Connection, Connection]) -> None:
    one, other = workers
    uncounted = LEASE.replace(" attempts = attempts + 1,", "")
    runs = 0
    for _ in range(8):
        runs += ids(one, uncounted, -1) == [1]  # the worker dies with the job
        assert other.execute(REAP).rowcount == 1
    assert (runs, status(other)) == (8, ("queued", 0))


def test_a_retry_without_a_delay_is_over_at_once(workers: tuple[Connection, Connection]) -> None:
    one, _ = workers
    one.execute("DELETE FROM jobs WHERE id = 2")
    claim = LEASE.replace("WHERE status = 'queued' OR", "WHERE (status = 'queued' AND run_at <= clock_timestamp()) OR")
    back = "UPDATE jobs SET status = 'queued'{} WHERE id = 1"
    for _ in range(3):
        assert ids(one, claim, 60) == [1]
        one.execute(back.format(""))
    assert ids(one, claim, 60) == [1]
    one.execute(back.format(", run_at = clock_timestamp() + interval '1 min'"))
    assert ids(one, claim, 60) == []
