"""What becomes of a job that fails: which failure a handler counts, and what sends the job back."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.timeline.world import codes

if TYPE_CHECKING:
    from pathlib import Path

CLAIM = '''
    CLAIM = """SELECT id, body FROM jobs WHERE status = 'queued' AND attempts < 5
                ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"""
    FAIL = "UPDATE jobs SET attempts = attempts + 1, status = 'queued', run_at = now() + '1m' WHERE id = $1"
'''

#: The handler of LateError finds the transaction aborted only where the question before it was refused, and let pass.
TWO_FAILURES = """
    import asyncio
    import asyncpg
    from handlers import run

    class LateError(Exception):
        pass

    async def limit_of(job, conn: asyncpg.Connection):
        try:
            return await conn.fetchval("SELECT seconds FROM limits WHERE job_id = $1", job["id"])
        except asyncpg.UndefinedTableError:
            return None

    async def work(conn: asyncpg.Connection):
        async with conn.transaction():
            job = await conn.fetchrow(CLAIM)
            if job is None:
                return
            limit = await limit_of(job, conn)
            try:
                await run(job, limit)
            except LateError:
                await conn.execute(FAIL, job["id"])
"""


def worker(source: str) -> str:
    return textwrap.dedent(CLAIM) + textwrap.dedent(source)


def found(folder: Path, source: str, code: str) -> list[str]:
    return [one for one in codes(folder, worker(source)) if one.startswith(code)]


def test_a_handler_counts_in_what_its_own_failure_aborted(tmp_path: Path) -> None:
    assert not found(tmp_path, TWO_FAILURES, "TA303")


@pytest.mark.parametrize(
    "body",
    [
        # The statement that fails is what the handler is for.
        """
            try:
                await conn.execute("UPDATE invoices SET paid = true WHERE id = $1", job["id"])
            except Exception:
                await conn.execute(FAIL, job["id"])
        """,
        # What it let pass is raised again, as an error of our own.
        """
            errors = []
            try:
                try:
                    await conn.execute("UPDATE invoices SET paid = true WHERE id = $1", job["id"])
                except asyncpg.PostgresError as error:
                    errors.append(error)
                if errors:
                    raise LateError
                await run(job, None)
            except LateError:
                await conn.execute(FAIL, job["id"])
        """,
        # A call in the handler may fail as well, and is let pass: what aborted the transaction is as it was.
        """
            try:
                await conn.execute("UPDATE invoices SET paid = true WHERE id = $1", job["id"])
            except Exception as error:
                try:
                    run(job, error)
                except Exception:
                    pass
                await conn.execute(FAIL, job["id"])
        """,
    ],
    ids=["of its own", "raised again", "a failure in the handler"],
)
def test_a_failure_is_not_counted_in_the_transaction_that_it_aborted(tmp_path: Path, body: str) -> None:
    head = TWO_FAILURES.rpartition("            limit = await limit_of")[0]
    source = worker(head) + textwrap.indent(textwrap.dedent(body), " " * 8)
    assert [one for one in codes(tmp_path, source) if one.startswith("TA303")], source


SENT_BACK = """
    import psycopg

    def send_back(conn: psycopg.Connection, job, error):
        conn.execute("UPDATE jobs SET status = 'queued', last_error = {error} WHERE id = %s", {parameters})

    def {name}(conn: psycopg.Connection, job):
        {claim}
        conn.commit()
"""
TAKES_WHAT_WAITS = """conn.execute(
            "UPDATE jobs SET status = 'running', attempts = attempts + 1, locked_until = now() + '1m' WHERE id ="
            " (SELECT id FROM jobs WHERE status = 'queued' LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
        )"""
TAKES_WHAT_IT_IS_TOLD = """conn.execute(
            "UPDATE jobs SET status = 'running', attempts = attempts + 1, locked_until = now() + '1m'"
            " WHERE id = %s", (job,)
        )"""


@pytest.mark.parametrize(
    ("error", "parameters", "claim", "at_once"),
    [
        ("%s", "(str(error), job)", TAKES_WHAT_WAITS, True),
        ("'the content has changed'", "(job,)", TAKES_WHAT_WAITS, False),
        ("%s", "('the content has changed', job)", TAKES_WHAT_WAITS, False),
        ("%s", "(str(error), job)", TAKES_WHAT_IT_IS_TOLD, False),
    ],
    ids=["a failure", "sent back for another reason", "the same by a parameter", "a message brings its id"],
)
def test_only_what_failed_and_is_asked_for_is_tried_at_once(
    tmp_path: Path, error: str, parameters: str, claim: str, at_once: bool
) -> None:
    source = SENT_BACK.format(error=error, parameters=parameters, claim=claim, name="take")
    assert bool(found(tmp_path, source, "TA306")) is at_once


TAKING = """
    from psycopg_pool import ConnectionPool
    from handlers import run

    pool = ConnectionPool("")
    LEASE = (
        "UPDATE jobs SET status = 'running', locked_until = now() + interval '1 minute' WHERE id ="
        " (SELECT id FROM jobs WHERE status = 'queued' LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, body"
    )
    STALLED = (
        "SELECT id FROM jobs WHERE status = 'running' AND locked_until < now() AND attempts < 5"
        " ORDER BY id LIMIT 10 FOR UPDATE SKIP LOCKED"
    )
    WAITING = "SELECT id FROM jobs WHERE status = 'queued' AND attempts < 5 ORDER BY id LIMIT 10 FOR UPDATE SKIP LOCKED"

    def step():
        with pool.connection() as conn:
"""
NOTES = """
    job = conn.execute(LEASE).fetchone()
    if job is None:
        return None
    conn.execute("INSERT INTO attempts (job_id) VALUES (%s)", (job[0],))
    return conn.execute("SELECT name FROM customers WHERE id = %s", (job[1],)).fetchone(), job
"""
NOTES_OF_SOME = """
    taken = []
    for job in conn.execute(LEASE).fetchall():
        conn.execute("INSERT INTO attempts (job_id) VALUES (%s)", (job[0],))
        taken.append(job)
    return taken
"""
HANDED_ON = NOTES_OF_SOME.replace("taken.append", "waiting.put_nowait").replace(
    "taken = []", "from workers import waiting"
)
SWEEPS = """
    for job in conn.execute(STALLED).fetchall():
        conn.execute("UPDATE runs SET outcome = 'lost' WHERE job = %s", (job[0],))
        conn.execute("UPDATE jobs SET status = 'queued', run_at = now() + '1m' WHERE id = %s", (job[0],))
"""
WORKS = """
    job = conn.execute(LEASE).fetchone()
    if job is None:
        return None
    conn.execute("UPDATE invoices SET sent = true WHERE id = %s", (job[1],))
    conn.execute("UPDATE jobs SET status = 'done' WHERE id = %s", (job[0],))
"""
CALLS = """
    job = conn.execute(LEASE).fetchone()
    if job is None:
        return None
    run(conn, job)
    return job
"""
WORKS_ON_SOME = SWEEPS.replace("STALLED", "WAITING").replace("'queued'", "'done'")


def taking(body: str) -> str:
    return textwrap.dedent(TAKING) + textwrap.indent(textwrap.dedent(body), " " * 8)


@pytest.mark.parametrize(
    "body",
    [NOTES, NOTES_OF_SOME, HANDED_ON, SWEEPS],
    ids=["notes", "notes of some", "handed on", "sweeps"],
)
def test_what_takes_a_job_is_not_its_work(tmp_path: Path, body: str) -> None:
    assert {"TA302", "TA407"}.isdisjoint(one.partition(" ")[0] for one in codes(tmp_path, taking(body)))


@pytest.mark.parametrize(
    ("body", "code"),
    [(WORKS, "TA302"), (CALLS, "TA407"), (WORKS_ON_SOME, "TA302")],
    ids=["works", "calls", "works on some"],
)
def test_work_in_the_transaction_of_the_claim(tmp_path: Path, body: str, code: str) -> None:
    assert code in [one.partition(" ")[0] for one in codes(tmp_path, taking(body))]


QUEUE = """
    from psycopg_pool import ConnectionPool

    LEASE = (
        "UPDATE jobs SET status = 'running', locked_until = now() + interval '1 minute' WHERE id ="
        " (SELECT id FROM jobs WHERE status = 'queued' LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, body"
    )

    class Queue:
        def __init__(self, pool: ConnectionPool, load, dump, run) -> None:
            self.pool, self._load, self._dump, self._run = pool, load, dump, run

        def take(self):
            with self.pool.connection() as conn:
                job = conn.execute(LEASE).fetchone()
                return {call}
"""


@pytest.mark.parametrize(
    ("call", "works"),
    [
        ("self._load(job[1])", False),
        ("self._dump({'body': self._load(job[1])})", False),
        ("self._run(job[1])", True),
        ("job, self._load(job[1]) and self._run(job)", True),
    ],
    ids=["reads it", "writes it down", "works on it", "reads it first"],
)
def test_reading_what_a_job_asks_for_is_not_its_work(tmp_path: Path, call: str, works: bool) -> None:
    assert bool(found(tmp_path, QUEUE.replace("{call}", call), "TA407")) is works


BATCH = """
    from sqlalchemy import create_engine, func, select
    from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
    from bus import publish

    class Base(DeclarativeBase):
        pass

    class Message(Base):
        __tablename__ = "outbox"
        id: Mapped[int] = mapped_column(primary_key=True)
        status: Mapped[str]
        attempts: Mapped[int]

    engine = create_engine("postgresql+psycopg://")

    def relay():
        with Session(engine) as session, session.begin():
            waiting = select(Message).where(Message.status == "pending").limit(10).with_for_update(skip_locked=True)
            for message in session.scalars(waiting).all():
                send(message)
            print(session.scalar(select(func.count()).where(Message.status == "pending")))
"""
CAUGHT = """
    def send(message):
        try:
            publish(message)
            message.status = "sent"
        except Exception:
            message.attempts += 1
"""
NOT_CAUGHT = """
    def send(message):
        message.attempts += 1
        publish(message)
        message.status = "sent"
"""


def test_a_failure_of_a_batch_is_counted_when_its_objects_are_written_back(tmp_path: Path) -> None:
    assert not [one for one in codes(tmp_path / "caught", textwrap.dedent(BATCH + CAUGHT)) if one.startswith("TA301")]
    assert "TA301 at worker.py:25" in codes(tmp_path / "not", textwrap.dedent(BATCH + NOT_CAUGHT))


DECIDED = """
    import psycopg

    TAKE = (
        "UPDATE jobs SET status = 'running', attempts = attempts + 1, locked_until = now() + interval '1 minute'"
        " WHERE id = (SELECT id FROM jobs WHERE status {takes} AND run_at <= now() LIMIT 1 FOR UPDATE SKIP LOCKED)"
        " RETURNING id"
    )

    class Store:
        def take(self, conn: psycopg.Connection):
            return conn.execute(TAKE).fetchone()
"""
RETRY = "UPDATE jobs SET status = 'queued', run_at = now() + interval '1 minute', last_error = %s WHERE id = %s"
END = "UPDATE jobs SET status = 'failed', last_error = %s WHERE id = %s"
APART = f"""
    def retry(self, conn: psycopg.Connection, job, error):
        conn.execute("{RETRY}", (str(error), job))

    def fail(self, conn: psycopg.Connection, job, error):
        conn.execute("{END}", (str(error), job))
"""
TOGETHER = f"""
    def failed(self, conn: psycopg.Connection, job, error):
        if isinstance(error, TypeError):
            conn.execute("{END}", (str(error), job))
        else:
            conn.execute("{RETRY}", (str(error), job))
"""


@pytest.mark.parametrize(
    ("failing", "takes", "endless"),
    [(APART, "= 'queued'", False), (APART, "IN ('queued', 'failed')", True), (TOGETHER, "= 'queued'", True)],
    ids=["whoever calls it decides", "what failed is taken again", "no maximum where it is decided"],
)
def test_attempts_end_where_whoever_calls_it_lets_the_job_fail(
    tmp_path: Path, failing: str, takes: str, endless: bool
) -> None:
    source = textwrap.dedent(DECIDED.format(takes=takes)) + textwrap.indent(textwrap.dedent(failing), " " * 4)
    assert any(one.startswith("TA305") for one in codes(tmp_path, source)) is endless


CRASHES = """
    from psycopg_pool import ConnectionPool
    from handlers import run

    pool = ConnectionPool("", kwargs={"autocommit": True})

    def step():
        with pool.connection() as conn:
            job = conn.execute(
                "UPDATE jobs SET status = 'running', locked_until = now() + interval '1 minute' WHERE id ="
                " (SELECT id FROM jobs WHERE status = 'queued' AND attempts < 5 LIMIT 1 FOR UPDATE SKIP LOCKED)"
                " RETURNING id"
            ).fetchone()
            if job is None:
                return
            try:
                run(job)
                conn.execute("UPDATE jobs SET status = 'done' WHERE id = %s", job)
            except Exception:
                conn.execute(
                    "UPDATE jobs SET status = 'queued', attempts = attempts + 1, run_at = now() + interval '1 minute'"
                    " WHERE id = %s", job
                )
"""
REAPS = """
    def reap():
        with pool.connection() as conn:
            conn.execute("UPDATE jobs SET status = 'queued' WHERE status = 'running' AND locked_until < now()")
"""


@pytest.mark.parametrize(("reaps", "again"), [("", False), (REAPS, True)], ids=["lost", "brought back"])
def test_a_crash_kills_the_next_worker_only_where_the_job_comes_back(tmp_path: Path, reaps: str, again: bool) -> None:
    told = {one.partition(" ")[0] for one in codes(tmp_path, textwrap.dedent(CRASHES + reaps))}
    assert bool(told & {"TA304", "TA308"}) is again
    assert ("TA401" in told) is not again


IN_SAVEPOINT = """
    from django.db import models, transaction

    class Invoice(models.Model):
        paid = models.BooleanField()

    class Job(models.Model):
        status = models.CharField()
        attempts = models.IntegerField()

    @transaction.atomic
    def run():
        job = Job.objects.select_for_update(skip_locked=True).filter(status="queued", attempts__lt=5).first()
        if job is None:
            return
        try:
            WORK
            job.status = "done"
            job.save()
        except Exception:
            job.attempts += 1
            job.status = "queued"
            job.save()
"""


@pytest.mark.parametrize(
    ("work", "refused"),
    [
        ("with transaction.atomic(): Invoice.objects.filter(pk=1).update(paid=True)", False),
        ("Invoice.objects.filter(pk=1).update(paid=True)", True),
        ("with transaction.atomic(): pass\n            Invoice.objects.filter(pk=1).update(paid=True)", True),
    ],
)
def test_work_in_a_savepoint_leaves_the_transaction_as_it_was(tmp_path: Path, work: str, refused: bool) -> None:
    told = codes(tmp_path, textwrap.dedent(IN_SAVEPOINT.replace("WORK", work)))
    assert any(one.startswith("TA303") for one in told) is refused


@pytest.mark.parametrize("column", ["after_time", "ready_after", "snoozed_until", "next_run"])
def test_a_time_that_a_job_is_not_run_before_is_waited_for(tmp_path: Path, column: str) -> None:
    """Whatever the column is called, what puts a failed job off leaves it something to wait for (TA306)."""
    source = """
        import psycopg

        TAKE = \"\"\"SELECT id FROM jobs WHERE status = 'queued' AND attempts < 5 LIMIT 1 FOR UPDATE SKIP LOCKED\"\"\"
        BACK = "UPDATE jobs SET status = 'queued', attempts = attempts + 1, last_error = %s{} WHERE id = %s"

        def work(conn: psycopg.Connection):
            job = conn.execute(TAKE).fetchone()
            try:
                with conn.transaction():
                    run_handler(job)
            except Exception as error:
                conn.execute(BACK, (str(error), job[0]))
            conn.commit()
    """
    assert [one for one in codes(tmp_path, textwrap.dedent(source.format(""))) if one.startswith("TA306")]
    put_off = textwrap.dedent(source.format(f", {column} = now() + interval '1 minute'"))
    assert not [one for one in codes(tmp_path, put_off) if one.startswith("TA306")]


REFUSED = """
    import psycopg

    TAKE = "SELECT id, query FROM jobs WHERE status = 'queued' LIMIT 1 FOR UPDATE SKIP LOCKED"
    COUNT = "UPDATE jobs SET attempts = attempts + 1 WHERE id = %s"
    BURY = "UPDATE jobs SET status = %s WHERE id = %s AND attempts >= 5"

    def work(conn: psycopg.Connection):
        job = conn.execute(TAKE).fetchone()
        try:
            conn.execute(job[1])
        except Exception:
            conn.execute(COUNT, (job[0],))
            conn.execute(BURY, ("dead", job[0]))
        conn.commit()
"""


def test_what_is_refused_hides_what_would_have_run_after_it(tmp_path: Path) -> None:
    """The count is refused, which is told; that what follows it would give the job up is never reached."""
    assert {one.split()[0] for one in codes(tmp_path, textwrap.dedent(REFUSED))} >= {"TA303"}
    assert "TA305" not in {one.split()[0] for one in codes(tmp_path, textwrap.dedent(REFUSED))}
