"""What counts as a job's work, which can fail because of the job, and what is only done beside it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from auditor.findings import Confidence
from tests.timeline.world import codes, find

if TYPE_CHECKING:
    from pathlib import Path

CLAIM = """
import logging
from dataclasses import dataclass
from psycopg import sql
from psycopg_pool import ConnectionPool
from pydantic import BaseModel

pool = ConnectionPool("")


@dataclass
class Job:
    id: int
    payload: str


class Model(BaseModel):
    id: int


class Worker:
    def __init__(self, prefix, log, name):
        self.prefix = prefix
        self.log = log
        self.name = name

    def table(self, name):
        return sql.Identifier(f"{self.prefix}{name}")

    def run_one(self):
        with pool.connection() as conn:
            query = sql.SQL("SELECT * FROM {jobs} WHERE status = 'queued' LIMIT 1 FOR UPDATE SKIP LOCKED")
            row = conn.execute(query.format(jobs=self.table("jobs"))).fetchone()
            if row is None:
                return
"""


def run_one(work: str) -> str:
    return CLAIM + textwrap.indent(textwrap.dedent(work), " " * 12)


@pytest.mark.parametrize(
    "work",
    [
        """
        conn.execute("UPDATE limits SET used = used + 1 WHERE worker = %s", (self.name,))
        """,
        """
        update = sql.SQL("UPDATE {jobs} SET next_run = %s WHERE key = %s")
        conn.execute(update.format(jobs=self.table("jobs")), (row["next"], row["key"]))
        """,
        """
        conn.execute("SELECT pg_notify('jobs', %s)", (row["id"],))
        """,
        """
        self.log.debug("taken: %s", row)
        """,
        """
        kept = Model.model_validate(dict(row))
        """,
    ],
    ids=[
        "what knows nothing of the job",
        "a note in the queue's own table",
        "a notification",
        "a message to a log",
        "an object of a library's class",
    ],
)
def test_no_work(tmp_path: Path, work: str) -> None:
    assert codes(tmp_path, run_one(work)) == []


@pytest.mark.parametrize(
    "work",
    [
        """
        conn.execute("UPDATE orders SET done = true WHERE id = %s", (row["order_id"],))
        """,
        """
        update = sql.SQL("UPDATE {orders} SET done = true WHERE id = %s")
        conn.execute(update.format(orders=self.table("orders")), (row["order_id"],))
        """,
        """
        job = Job(**row)
        conn.execute("INSERT INTO results (text) VALUES (%s)", (job.payload,))
        """,
        """
        conn.execute("REFRESH MATERIALIZED VIEW report")
        """,
        """
        handle(row)
        """,
        """
        jobs = [Job(id=row["id"], payload="")]
        handle(jobs)
        """,
    ],
    ids=[
        "a statement about the job",
        "one on a table of like name",
        "about an object made of it",
        "no parameters",
        "a call",
        "a call with objects made of it",
    ],
)
def test_work(tmp_path: Path, work: str) -> None:
    assert [code.partition(" ")[0] for code in codes(tmp_path, run_one(work))] == ["TA302"]


def test_a_context_manager_is_offered_to_others_though_the_program_has_a_shortcut(tmp_path: Path) -> None:
    source = """
from contextlib import contextmanager
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


@contextmanager
def taken():
    with pool.connection() as conn:
        query = "DELETE FROM jobs WHERE id = (SELECT id FROM jobs LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING data"
        row = conn.execute(query).fetchone()
        if row:
            yield row[0]


def take():
    with taken() as data:
        return data
"""
    assert codes(tmp_path / "offered", source) == ["TA302 at worker.py:11"]
    assert codes(tmp_path / "kept", source.replace("taken", "_taken")) == []


CURRENT = """
from contextlib import contextmanager
from contextvars import ContextVar

import requests
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session, sessionmaker

make = sessionmaker(create_engine("postgresql+psycopg://"))
_current: ContextVar[Session] = ContextVar("current")


def session() -> Session:
    return _current.get()


@contextmanager
def at_work():
    with make() as opened, opened.begin():
        token = _current.set(opened)
        try:
            yield
        finally:
            _current.reset(token)


def claim():
    with at_work():
        return session().execute(text("SELECT id FROM jobs LIMIT 1 FOR UPDATE SKIP LOCKED")).first()


def store(name):
    with at_work():
        session().execute(text("SELECT name FROM letters WHERE name = :name FOR UPDATE"), {"name": name})
        INSIDE


def store_all(names):
    for name in names:
        requests.get("https://example.org", params={"name": name})
        store(name)
"""


def test_what_a_context_variable_holds_is_over_with_its_block(tmp_path: Path) -> None:
    assert codes(tmp_path, CURRENT.replace("INSIDE", "pass")) == []
    inside = codes(tmp_path, CURRENT.replace("INSIDE", 'requests.get("https://example.org")'))
    assert [code.partition(" ")[0] for code in inside] == ["TA501"]


STATES = """
from enum import Enum

from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


class State(Enum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"


def move(job, to: State):
    with pool.connection() as conn:
        conn.execute("SELECT id FROM jobs WHERE id = %s FOR UPDATE", (job,))
        conn.execute("UPDATE jobs SET state = %s WHERE id = %s RETURNING id", (to.value, job)).fetchone()
        conn.execute("INSERT INTO events (job_id, state) VALUES (%s, %s)", (job, to.value))
        tell(job)


def claim():
    with pool.connection() as conn:
        return conn.execute(
            "UPDATE jobs SET state = 'running' WHERE id = (SELECT id FROM jobs WHERE state = 'queued' LIMIT 1 "
            "FOR UPDATE SKIP LOCKED) RETURNING id"
        ).fetchone()


def work():
    job = claim()
    move(job, State.RUNNING)
    move(job, State.DONE)
"""


def test_what_moves_a_job_to_any_state_claims_none(tmp_path: Path) -> None:
    found = find(tmp_path, {"worker.py": STATES})
    assert not [one for one in found if one.code in ("TA302", "TA407") and one.confidence is not Confidence.LOW]
