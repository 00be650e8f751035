"""Who may end a job, and who prolongs one: what is said of it is said of one table, and not of one just taken."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.timeline.world import codes, find

if TYPE_CHECKING:
    from pathlib import Path

TABLES_AT_RUN_TIME = """
from psycopg import sql
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


class Repository:
    def __init__(self, tables):
        self._tables = tables

    def claim(self, worker):
        with pool.connection() as conn:
            return conn.execute(
                sql.SQL(
                    "UPDATE {jobs} SET status = 'running', worker_id = %s, started_at = now(), attempts = attempts + 1"
                    " WHERE id = (SELECT id FROM {jobs} WHERE status = 'queued' AND attempts < 5"
                    " LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
                ).format(jobs=self._tables["jobs"]),
                (worker,),
            ).fetchone()

    def done(self, job, worker):
        with pool.connection() as conn:
            conn.execute(
                sql.SQL("UPDATE {jobs} SET status = 'done' WHERE id = %s AND worker_id = %s").format(
                    jobs=self._tables["jobs"]
                ),
                (job, worker),
            )
"""
SWEEP = """
def sweep(self):
    with pool.connection() as conn:
        rows = conn.execute(
            sql.SQL(
                "UPDATE {jobs} SET status = CASE WHEN attempts >= 5 THEN 'failed' ELSE 'queued' END"
                " WHERE status = 'running' AND started_at < now() - interval '1 hour' RETURNING id"
            ).format(jobs=self._tables["jobs"])
        ).fetchall()
"""
BEAT = """
def beat(self, id):
    with pool.connection() as conn:
        conn.execute(
            sql.SQL("UPDATE {table} SET heartbeat_at = now() WHERE id = %s").format(table=self._tables["TABLE"]),
            (id,),
        )
"""
END = """
def end(self, job):
    with pool.connection() as conn:
        conn.execute(
            sql.SQL("UPDATE {table} SET status = 'failed' WHERE id = %s").format(table=self._tables["TABLE"]), (job,)
        )
"""
END_IN_SWEEP = """
        for row in rows:
            conn.execute(
                sql.SQL("UPDATE {jobs} SET status = 'failed', error = 'swept' WHERE id = %s").format(
                    jobs=self._tables["jobs"]
                ),
                (row[0],),
            )
"""


def of_tables(*methods: str, table: str = "jobs") -> str:
    """The repository with these methods, the last ones about a table of this name."""
    return TABLES_AT_RUN_TIME + textwrap.indent("".join(methods).replace("TABLE", table), "    ")


@pytest.mark.parametrize(("method", "code"), [(BEAT, "TA405"), (BEAT, "TA413"), (END, "TA402")])
def test_tables_that_the_program_calls_differently_are_different(tmp_path: Path, method: str, code: str) -> None:
    one = [found.partition(" ")[0] for found in codes(tmp_path / "one", of_tables(SWEEP, method))]
    two = [found.partition(" ")[0] for found in codes(tmp_path / "two", of_tables(SWEEP, method, table="workers"))]
    assert code in one
    assert code not in two


def test_a_table_that_the_program_calls_nothing_is_no_queue(tmp_path: Path) -> None:
    unnamed = of_tables(SWEEP, END).replace('self._tables["jobs"]', "self._tables[0]")
    assert codes(tmp_path, unnamed) == []


def test_what_a_sweep_has_just_taken_back_is_no_workers(tmp_path: Path) -> None:
    assert "TA402" not in " ".join(codes(tmp_path / "held", of_tables(SWEEP, END_IN_SWEEP)))
    apart = END_IN_SWEEP.replace("for row in rows:", "for row in rows:\n            conn.commit()")
    assert "TA402" in " ".join(codes(tmp_path / "apart", of_tables(SWEEP, apart)))


TOLD_BY_ID = """
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


def take(job, worker):
    with pool.connection() as conn:
        return conn.execute(
            "UPDATE jobs SET status = 'running', worker_id = %s, lease_token = gen_random_uuid()"
            " WHERE id = %s AND status = 'queued' RETURNING id",
            (worker, job),
        ).fetchone()


def done(job, token):
    with pool.connection() as conn:
        conn.execute("UPDATE jobs SET status = 'done' WHERE id = %s AND lease_token = %s", (job, token))
"""
POLLED = """

def waiting():
    with pool.connection() as conn:
        return conn.execute("SELECT id FROM jobs WHERE status = 'queued' ORDER BY id LIMIT 1").fetchone()
"""


def test_who_tells_a_job_by_its_id_delivers_it_again(tmp_path: Path) -> None:
    assert "TA401" not in " ".join(codes(tmp_path / "told", TOLD_BY_ID))
    assert "TA401" in " ".join(codes(tmp_path / "polled", TOLD_BY_ID + POLLED))


TWO_TIMES = """
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


def take(worker):
    with pool.connection() as conn:
        return conn.execute(
            "UPDATE jobs SET status = 'running', started_at = now(), heartbeat_at = now() WHERE id ="
            " (SELECT id FROM jobs WHERE status = 'queued' LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
        ).fetchone()


def beat(job):
    with pool.connection() as conn:
        conn.execute("UPDATE jobs SET heartbeat_at = now() WHERE id = %s AND status = 'running'", (job,))


def done(job):
    with pool.connection() as conn:
        conn.execute("UPDATE jobs SET status = 'done' WHERE id = %s AND status = 'running'", (job,))


def sweep():
    with pool.connection() as conn:
        conn.execute(
            "UPDATE jobs SET status = 'queued' WHERE status = 'running' AND started_at < now() - interval '1 hour'"
        )
"""


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("status = 'running' AND started_at", True),
        ("status = 'queued' AND started_at", False),
        ("status = 'running' AND handed_out_at", False),
    ],
)
def test_a_sweep_of_what_no_worker_has_needs_no_heartbeat(tmp_path: Path, asked: str, found: bool) -> None:
    source = TWO_TIMES.replace("status = 'running' AND started_at", asked)
    assert ("TA413" in " ".join(codes(tmp_path, source))) is found


PICKED_WITH_CONDITIONS = """
from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker

Session = sessionmaker(create_engine("postgresql+psycopg://"))


class Base(DeclarativeBase):
    pass


class Job(Base):
    __tablename__ = "jobs"
    id: Mapped[int] = mapped_column(primary_key=True)
    status: Mapped[str]
    queue: Mapped[str]


def waiting(queue):
    return select(Job).where(Job.status == "queued", Job.queue == queue) if queue else select(Job).where(
        Job.status == "queued"
    )


def run_one(handler, queue=None):
    with Session() as session:
        job = session.execute(waiting(queue).limit(1).with_for_update(skip_locked=True)).scalar_one_or_none()
        if job is None:
            return
        MARK
        number = job.id
        session.commit()
    handler(number)
    with Session.begin() as session:
        session.get(Job, number).status = "done"
"""


def test_objects_of_queries_that_differ_in_their_conditions_are_written_back(tmp_path: Path) -> None:
    marked = PICKED_WITH_CONDITIONS.replace("MARK", 'job.status = "running"')
    assert "TA411" not in " ".join(codes(tmp_path / "marked", marked))
    assert "TA411" in " ".join(codes(tmp_path / "left", PICKED_WITH_CONDITIONS.replace("MARK", "pass")))


CLAIM_THAT_FAILS = """
import logging
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


def claim():
    try:
        with pool.connection() as conn:
            row = conn.execute(
                "SELECT id FROM jobs WHERE status = 'queued' LIMIT 1 FOR UPDATE SKIP LOCKED"
            ).fetchone()
            WORK
            conn.execute("UPDATE jobs SET status = 'running' WHERE id = %s", (row[0],))
            return row
    except Exception:
        logging.exception("claim")


def loop():
    while True:
        claim()
        with pool.connection() as conn:
            conn.execute("DELETE FROM notes WHERE age > 30")
"""


def test_what_is_done_once_a_claim_was_rolled_back_is_no_work_of_it(tmp_path: Path) -> None:
    assert "TA302" not in " ".join(codes(tmp_path / "tidied", CLAIM_THAT_FAILS.replace("WORK", "pass")))
    worked = CLAIM_THAT_FAILS.replace("WORK", 'conn.execute("INSERT INTO notes VALUES (%s)", (row[0],))')
    assert "TA302" in " ".join(codes(tmp_path / "worked", worked))


IN_TURN = """
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


def run_one(parent, handler):
    with pool.connection() as conn:
        row = conn.execute(
            "SELECT id FROM inputs_queue WHERE COLUMN = %s AND status = 'queued' LIMIT 1 FOR UPDATE",
            (parent,),
        ).fetchone()
        conn.execute("UPDATE inputs_queue SET status = 'done' WHERE id = %s", (row[0],))
"""


@pytest.mark.parametrize(("column", "found"), [("session_id", False), ("queue_id", True), ("tenant_id", True)])
def test_jobs_of_one_parent_are_waited_for_on_purpose(tmp_path: Path, column: str, found: bool) -> None:
    assert ("TA409" in " ".join(codes(tmp_path, IN_TURN.replace("COLUMN", column)))) is found


BEAT_AND_WRITE = """
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


def claim(worker):
    with pool.connection() as conn:
        return conn.execute(
            "UPDATE jobs SET status = 'running', lease_token = gen_random_uuid(), lease_until = now()"
            " WHERE id = (SELECT id FROM jobs WHERE status = 'queued' LIMIT 1 FOR UPDATE SKIP LOCKED)"
            " RETURNING id, lease_token"
        ).fetchone()


def work(parts, send):
    job, token = claim("me")
    with pool.connection() as conn:
        for part in parts:
            send(conn, part)
            conn.execute("UPDATE jobs SET lease_until = now() WHERE id = %s AND lease_token = %s", (job, token))
            AFTER
    with pool.connection() as conn:
        conn.execute("UPDATE jobs SET status = 'done' WHERE id = %s AND lease_token = %s", (job, token))
"""


@pytest.mark.parametrize(("after", "found"), [("conn.commit()", False), ("pass", True)])
def test_a_lease_that_is_prolonged_with_the_last_write_is_seen_at_once(tmp_path: Path, after: str, found: bool) -> None:
    assert ("TA405" in " ".join(codes(tmp_path, BEAT_AND_WRITE.replace("AFTER", after)))) is found


@pytest.mark.parametrize(
    ("asked", "found"), [("IN ('QUEUED', 'PROCESSING')", []), ("= 'QUEUED'", ["TA401 at worker.py:10"])]
)
def test_what_asks_for_running_jobs_too_counts_them_and_polls_for_none(
    tmp_path: Path, asked: str, found: list[str]
) -> None:
    source = f"""
    import psycopg

    conn = psycopg.connect("", autocommit=True)

    def there():
        return conn.execute("SELECT id FROM jobs WHERE state {asked} LIMIT 1").fetchone()

    def take(job, node):
        lease = "UPDATE jobs SET state = 'PROCESSING', locked_by = %s, locked_until = now() + interval '1 min'"
        return conn.execute(lease + " WHERE id = %s AND state = 'QUEUED' RETURNING payload", (node, job)).fetchone()

    def done(job, node):
        conn.execute("UPDATE jobs SET state = 'DONE' WHERE id = %s AND locked_by = %s", (job, node))
    """
    assert [code for code in codes(tmp_path, source) if code.startswith("TA401")] == found


LOOKS_AND = """
import psycopg

conn = psycopg.connect("", autocommit=True)

def look(handle, node):
    waiting = "SELECT id, payload FROM jobs WHERE status = 'queued' AND repeats LIMIT 10"
    for job, payload in conn.execute(waiting).fetchall():
        THEN
"""
MARKS = """
def take(job):
    return conn.execute(
        "UPDATE jobs SET status = 'running', started_at = now() WHERE id = %s AND status = 'queued' RETURNING payload",
        (job,)
    ).fetchone()

def done(job, taken):
    conn.execute("UPDATE jobs SET status = 'done' WHERE id = %s AND started_at = %s", (job, taken))
"""


@pytest.mark.parametrize(
    ("then", "marks", "found"),
    [
        ("conn.execute('DELETE FROM jobs WHERE id = %s', (job,))", True, set()),
        ("conn.execute(\"UPDATE jobs SET status = 'failed' WHERE id = %s\", (job,))", True, set()),
        ("handle(payload); conn.execute('DELETE FROM jobs WHERE id = %s', (job,))", False, {"TA409"}),
        ("handle(take(job))", True, {"TA401"}),
        ("handle(payload); conn.execute(\"UPDATE jobs SET status = 'done' WHERE id = %s\", (job,))", True, {"TA409"}),
    ],
)
def test_a_job_that_waits_is_called_off(tmp_path: Path, then: str, marks: bool, found: set[str]) -> None:
    """Where jobs are marked as taken, one that goes while it waits was worked on by nobody, and polled by nobody."""
    told = codes(tmp_path, LOOKS_AND.replace("THEN", then) + (MARKS if marks else ""))
    assert {code[:5] for code in told} & {"TA401", "TA409"} - ({"TA401"} if "'done'" in then else set()) == found


FOUND_THEN_LOCKED = """
import psycopg

conn = psycopg.connect("", autocommit=True)

def work(handle):
    for job, payload in conn.execute("SELECT id, payload FROM jobs WHERE status = 'queued' LIMIT 10").fetchall():
        try:
            with conn.transaction():
                TAKES
            handle(payload)
            conn.execute("UPDATE jobs SET status = 'done' WHERE id = %s", (job,))
        except Exception:
            conn.execute("UPDATE jobs SET status = 'failed' WHERE id = %s", (job,))
"""
TAKES = """if conn.execute("SELECT status FROM jobs WHERE id = %s FOR UPDATE", (job,)).fetchone()[0] != "queued":
                    continue
                conn.execute("UPDATE jobs SET status = 'running' WHERE id = %s", (job,))"""


@pytest.mark.parametrize(("takes", "found"), [(TAKES, True), ("pass", False)])
def test_a_job_that_is_found_then_locked_and_marked_is_polled_for(tmp_path: Path, takes: str, found: bool) -> None:
    """What gives one up before it is marked, after a failure, does not make a list of jobs to call off of it."""
    told = codes(tmp_path, FOUND_THEN_LOCKED.replace("TAKES", takes))
    assert ("TA401" in {code[:5] for code in told}) is found


IN_TWO_TABLES = """
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


def claim(worker):
    with pool.connection() as conn:
        row = conn.execute(
            "SELECT id FROM jobs WHERE status = 'queued' AND attempts < 5 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
        ).fetchone()
        if row is None:
            return None
        conn.execute("UPDATE jobs SET status = 'running', attempts = attempts + 1 WHERE id = %s", (row[0],))
        conn.execute(
            "INSERT INTO tries (job_id, worker_id, lease_until) VALUES (%s, %s, now() + interval '1 minute')",
            (row[0], worker),
        )
        return row[0]


def done(job):
    with pool.connection() as conn:
        conn.execute("UPDATE jobs SET status = 'done' WHERE id = %s", (job,))
"""
ASKED_BESIDE = """

def stalled(conn):
    return conn.execute(
        "SELECT t.id, j.id FROM tries t JOIN jobs j ON j.id = t.job_id"
        " WHERE j.status = 'running' AND t.lease_until < now() FOR UPDATE OF t, j SKIP LOCKED LIMIT 10"
    ).fetchall()


def sweep():
    with pool.connection() as conn:
        for number, job in stalled(conn):
            give_back(conn, job, "queued")


def give_back(conn, job, state):
    conn.execute("UPDATE jobs SET status = %s WHERE id = %s", (state, job))
"""


def test_time_limits_in_a_table_beside_the_queue(tmp_path: Path) -> None:
    assert any(one.startswith("TA401") for one in codes(tmp_path, IN_TWO_TABLES))
    assert not any(one.startswith("TA401") for one in codes(tmp_path, IN_TWO_TABLES + ASKED_BESIDE))


ANY_NAME = """
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


def claim(mark):
    with pool.connection() as conn:
        return conn.execute(
            "UPDATE jobs SET status = 'running', started_at = now(), TAKEN WHERE id = (SELECT id FROM jobs"
            " WHERE status = 'queued' OR (status = 'running' AND started_at < now() - interval '1 hour')"
            " LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, ticket",
            {"mark": mark},
        ).fetchone()


def done(job, ticket):
    with pool.connection() as conn:
        conn.execute(
            "UPDATE jobs SET status = 'done' WHERE id = %(job)s AND ASKED", {"job": job, "ticket": ticket}
        )
"""


@pytest.mark.parametrize(
    ("taken", "asked", "found"),
    [
        ("ticket = gen_random_uuid()", "ticket = %(ticket)s::uuid", False),
        ("ticket = %(mark)s", "ticket = %(ticket)s", False),
        ("ticket = ticket + 1", "ticket = %(ticket)s", False),
        ("ticket = 'taken'", "ticket = %(ticket)s", True),
        ("ticket = gen_random_uuid()", "shard = %(ticket)s", True),
        ("ticket = gen_random_uuid()", "ticket IS NOT NULL", True),
    ],
)
def test_what_a_claim_renews_and_an_end_compares_is_a_fence(
    tmp_path: Path, taken: str, asked: str, found: bool
) -> None:
    told = codes(tmp_path, ANY_NAME.replace("TAKEN", taken).replace("ASKED", asked))
    assert any(one.startswith("TA402") for one in told) is found


LOCKED_WHILE_RUNNING = """

def look_after():
    with pool.connection() as conn:
        return conn.execute(
            "SELECT id FROM jobs WHERE status = STATE ORDER BY checked LIMIT 20 FOR UPDATE SKIP LOCKED"
        ).fetchall()
"""


@pytest.mark.parametrize(("state", "found"), [("'running'", False), ("'done'", True)])
def test_who_locks_running_jobs_looks_after_them(tmp_path: Path, state: str, found: bool) -> None:
    told = codes(tmp_path, TOLD_BY_ID + POLLED + LOCKED_WHILE_RUNNING.replace("STATE", state))
    assert any(one.startswith("TA401") for one in told) is found


DUE = """
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


def claim():
    with pool.connection() as conn:
        return conn.execute(
            "UPDATE jobs SET started_at = now() WHERE id = (SELECT id FROM jobs WHERE finished_at IS NULL AND FREE "
            "ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
        ).fetchone()


def work():
    job = claim()
    handle(job)
    with pool.connection() as conn:
        conn.execute("UPDATE jobs SET finished_at = now() WHERE id = %s", job)
"""


def test_a_time_that_no_claim_sets_brings_no_job_back(tmp_path: Path) -> None:
    due = DUE.replace("FREE", "started_at IS NULL AND can_start_at <= now()")
    assert "TA308" not in [one.code for one in find(tmp_path / "due", {"jobs.py": due})]
    aged = DUE.replace("FREE", "(started_at IS NULL OR started_at < now() - interval '5 minutes')")
    assert "TA308" in [one.code for one in find(tmp_path / "aged", {"jobs.py": aged})]


SET_BY_NAME = """
from datetime import datetime, timedelta
from sqlalchemy import create_engine, or_, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

engine = create_engine("postgresql+psycopg://x")

class Base(DeclarativeBase):
    pass

class Job(Base):
    __tablename__ = "jobs"
    id: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str]
    attempts: Mapped[int]
    lease_until: Mapped[datetime | None]

def taken(job, now):
    until = now + timedelta(minutes=5)
    return {"state": "running", "lease_until": until, COUNTS}

def claim(now):
    free = or_(Job.state == "queued", Job.lease_until < now)
    with Session(engine) as session:
        for job in session.scalars(select(Job).where(free).limit(5).with_for_update(skip_locked=True)).all():
            for name, value in taken(job, now).items():
                setattr(job, name, value)
        session.commit()

def done(job):
    with Session(engine) as session:
        held = session.get(Job, job)
        held.state = "done"
        session.commit()
"""


@pytest.mark.parametrize(("counts", "found"), [('"attempts": job.attempts + 1', False), ('"worker": 1', True)])
def test_what_a_helper_says_in_a_dict_is_written(tmp_path: Path, counts: str, found: bool) -> None:
    told = codes(tmp_path, SET_BY_NAME.replace("COUNTS", counts))
    assert ("TA308" in {code[:5] for code in told}) is found


CALLED_OFF_IN_PYTHON = """
from datetime import datetime, timedelta
from sqlalchemy import create_engine, or_, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

engine = create_engine("postgresql+psycopg://x")

class Base(DeclarativeBase):
    pass

class Job(Base):
    __tablename__ = "jobs"
    id: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str]
    lease_until: Mapped[datetime | None]
    tries: Mapped[int]

def claim(now):
    free = or_(Job.state == "queued", Job.lease_until < now)
    with Session(engine) as session:
        for job in session.scalars(select(Job).where(free).limit(5).with_for_update(skip_locked=True)).all():
            job.state = "running"
            job.tries += 1
            job.lease_until = now + timedelta(minutes=5)
        session.commit()

def cancel(job):
    with Session(engine) as session:
        known = session.get(Job, job)
        if known.state == ASKED:
            known.state = "failed"
        session.commit()
"""


@pytest.mark.parametrize(("asked", "found"), [('"queued"', False), ('"running"', True)])
def test_a_job_that_is_found_waiting_is_called_off(tmp_path: Path, asked: str, found: bool) -> None:
    told = codes(tmp_path, CALLED_OFF_IN_PYTHON.replace("ASKED", asked))
    assert ("TA402" in {code[:5] for code in told}) is found
