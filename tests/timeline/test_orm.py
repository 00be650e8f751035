"""SQLAlchemy's own words for SQL on the timeline: statements, models, and objects that a session writes back."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from auditor.timeline.model.events import Ran
from tests.timeline.world import codes, walked

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
from sqlalchemy import *
from sqlalchemy import create_engine, select, update, insert, delete, func, and_, or_, true, false, text, Column, Table
from sqlalchemy.orm import Session, sessionmaker, declarative_base, mapped_column
engine = create_engine("postgresql+psycopg://x")
factory = sessionmaker(bind=engine)
Base = declarative_base()


class Job(Base):
    __tablename__ = "jobs"
    id = Column(Integer, primary_key=True)
    status = mapped_column("state", String)
    attempts = Column(Integer)
    tenant = Column(Integer)


class Invoice(Base):
    __tablename__ = "invoices"
    id = Column(Integer)


tasks = Table("tasks", MetaData(), Column("id", Integer), Column("status", String))


"""

STATEMENTS = {
    "select(Job)": "SELECT * FROM jobs",
    "select(Job.id)": "SELECT id FROM jobs",
    "select(Job).where(Job.status == 'queued', Job.attempts < 5)": (
        "SELECT * FROM jobs WHERE state = 'queued' AND attempts < 5"
    ),
    "select(Job).where(and_(Job.id == 1, or_(Job.tenant.is_(None), Job.tenant != 2)))": (
        "SELECT * FROM jobs WHERE (id = 1 AND (tenant IS NULL OR tenant <> 2))"
    ),
    "select(Job).filter_by(status='queued').order_by(Job.id.desc()).limit(1).with_for_update(skip_locked=True)": (
        "SELECT * FROM jobs WHERE state = 'queued' ORDER BY id DESC LIMIT 1 FOR UPDATE SKIP LOCKED"
    ),
    "select(Job).with_for_update(nowait=True)": "SELECT * FROM jobs FOR UPDATE NOWAIT",
    "select(Job).with_for_update(key_share=True)": "SELECT * FROM jobs FOR NO KEY UPDATE",
    "select(Job).with_for_update(read=True)": "SELECT * FROM jobs FOR SHARE",
    "select(Job).where(Job.status.in_(['queued', 'failed']))": (
        "SELECT * FROM jobs WHERE state IN ('queued', 'failed')"
    ),
    "select(func.set_config('app.tenant', '1', True))": "SELECT set_config('app.tenant', '1', true)",
    "func.set_config('app.tenant', '1', false())": "SELECT set_config('app.tenant', '1', false)",
    "update(Job).where(Job.id == 1).values(status='done', attempts=Job.attempts + 1).returning(Job.id)": (
        "UPDATE jobs SET state = 'done', attempts = attempts + 1 WHERE id = 1 RETURNING *"
    ),
    "update(Job).values({Job.status: 'done'})": "UPDATE jobs SET state = 'done'",
    "update(Job).where(Job.id == select(Job.id).limit(1).scalar_subquery()).values(status='done')": (
        "UPDATE jobs SET state = 'done' WHERE id = (SELECT id FROM jobs LIMIT 1)"
    ),
    "insert(Job).values(status='queued')": "INSERT INTO jobs (state) VALUES ('queued')",
    "delete(Job).where(Job.id == 1)": "DELETE FROM jobs WHERE id = 1",
    "select(Job).where(text('attempts < 5')).order_by(text('id'))": (
        "SELECT * FROM jobs WHERE attempts < 5 ORDER BY id"
    ),
    "update(Job).values(status='queued', tenant=func.now() + text(\"interval '5 min'\"))": (
        "UPDATE jobs SET state = 'queued', tenant = now() + interval '5 min'"
    ),
    "select(tasks.c.id).where(tasks.c.status == 'queued')": "SELECT id FROM tasks WHERE status = 'queued'",
    "tasks.update().where(tasks.c.id == 1).values(status='done')": "UPDATE tasks SET status = 'done' WHERE id = 1",
    "Job.__table__.delete().where(Job.__table__.c.id == 1)": "DELETE FROM jobs WHERE id = 1",
    "text('SELECT set_config(:n, :v, true)').bindparams(n='a.b', v='1')": "SELECT set_config(:n, :v, true)",
}


@pytest.mark.parametrize(("built", "sql"), STATEMENTS.items(), ids=STATEMENTS)
def test_what_is_built_is_this_statement(tmp_path: Path, built: str, sql: str) -> None:
    assert texts(tmp_path, f"def run(session: Session):\n    session.execute({built})\n") == [sql]


def texts(folder: Path, body: str) -> list[str]:
    timeline = walked(folder, {"worker.py": f"MARK = 'FOR UPDATE SKIP LOCKED set_config'\n{HEAD}{body}    MARK\n"})
    return [ran.text for ran in timeline.of(Ran)]


CHANGES = {
    "an assignment is written at the commit": (
        """
        job = session.query(Job).filter(Job.id == 1).first()
        job.status = "done"
        session.commit()
        """,
        ["SELECT * FROM jobs WHERE id = 1", "UPDATE jobs SET state = 'done' WHERE id = …"],
    ),
    "several are written together, before the next statement": (
        """
        job = session.get(Job, 1)
        job.status = "done"
        job.attempts += 1
        session.execute(select(Invoice))
        """,
        [
            "SELECT * FROM jobs WHERE id = 1",
            "UPDATE jobs SET state = 'done', attempts = attempts + 1 WHERE id = …",
            "SELECT * FROM invoices",
        ],
    ),
    "of nothing the count is one": (
        """
        job = session.scalars(select(Job)).one()
        job.attempts = (job.attempts or 0) + 1
        session.flush()
        """,
        ["SELECT * FROM jobs", "UPDATE jobs SET attempts = attempts + 1 WHERE id = …"],
    ),
    "a rollback forgets": (
        """
        job = session.get(Job, 1)
        job.status = "done"
        session.rollback()
        session.commit()
        """,
        ["SELECT * FROM jobs WHERE id = 1"],
    ),
    "a query writes at once": (
        """
        session.query(Job).filter(Job.id == 1).update({"status": "done"})
        session.query(Job).filter(Job.id == 1).delete()
        """,
        ["UPDATE jobs SET state = 'done' WHERE id = 1", "DELETE FROM jobs WHERE id = 1"],
    ),
    "what one path has changed is written where the paths meet": (
        """
        jobs = session.scalars(select(Job)).all()
        for job in jobs:
            job.status = "done"
        session.commit()
        """,
        ["SELECT * FROM jobs", "UPDATE jobs SET state = 'done' WHERE id = …"],
    ),
    "rows that are written back in bulk": (
        """
        session.bulk_update_mappings(Job, [{"id": 1, "status": "done", "attempts": Job.attempts + 1}])
        """,
        ["UPDATE jobs SET state = 'done', attempts = attempts + 1 WHERE id = 1"],
    ),
    "what is added is inserted": (
        """
        session.add(Job())
        session.commit()
        """,
        ["INSERT INTO jobs DEFAULT VALUES"],
    ),
}


@pytest.mark.parametrize(("body", "expected"), CHANGES.values(), ids=CHANGES)
def test_changes(tmp_path: Path, body: str, expected: list[str]) -> None:
    lines = textwrap.indent(textwrap.dedent(body).lstrip(), "    ")
    found = [text.replace("\ue0000\ue001", "…") for text in texts(tmp_path, f"def run(session: Session):\n{lines}")]
    assert found == expected


def test_a_count_in_the_transaction_of_the_work_is_found(tmp_path: Path) -> None:
    source = """
        def run():
            with factory() as session, session.begin():
                claim = select(Job).where(Job.status == "queued").limit(1).with_for_update(skip_locked=True)
                job = session.execute(claim).scalars().first()
                if job is None:
                    return
                job.attempts += 1
                session.flush()
                work(session, job)
                job.status = "done"
    """
    assert codes(tmp_path, HEAD + textwrap.dedent(source)) == ["TA305 at worker.py:29", "TA301 at worker.py:32"]


def test_a_count_that_is_committed_first_is_right(tmp_path: Path) -> None:
    source = """
        def run():
            with factory() as session:
                claim = select(Job).where(Job.status == "queued", Job.attempts < 5).with_for_update(skip_locked=True)
                job = session.scalars(claim.limit(1)).first()
                if job is None:
                    return
                job.attempts += 1
                job.status = "running"
                session.commit()
                work(session, job)
                job.status = "done"
                session.commit()
    """
    assert not [code for code in codes(tmp_path, HEAD + textwrap.dedent(source)) if code.startswith("TA301")]


WORKER = """\
from datetime import datetime
from broker import handle
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Column, DateTime, Integer, String, create_engine, select
from sqlalchemy.orm import Session, declarative_base
engine = create_engine("postgresql+psycopg://x")
Base = declarative_base()
db = SQLAlchemy()


class Job(Base):
    __tablename__ = "jobs"
    id = Column(Integer, primary_key=True)
    status = Column(String)
    attempts = Column(Integer)

    def start(self):
        self.status = "running"

    def finish(self):
        self.status = "done"


class Email(db.Model):
    id = db.Column(db.Integer, primary_key=True)
    sent_at = db.Column(db.DateTime)


class Holder:
    def __init__(self, job):
        self.job = job

    def move(self, state):
        self.job.status = state


PENDING = select(Job).where(Job.status == "queued", Job.attempts < 5)


"""

WORKERS = {
    "jobs that are read without a lock": (
        """
        def run():
            with Session(engine) as session:
                for job in session.scalars(PENDING.where(Job.status == "queued").limit(10)).all():
                    handle(job)
                    job.status = "done"
                session.commit()
        """,
        ["TA409 at worker.py:42"],
    ),
    "the rows of an application's model": (
        """
        def run():
            for email in Email.query.filter(Email.sent_at.is_(None)).limit(10).all():
                handle(email)
                email.sent_at = datetime.now()
                db.session.commit()
        """,
        ["TA409 at worker.py:41"],
    ),
    "a batch that methods of the model change one by one": (
        """
        def run():
            with Session(engine) as session:
                for job in session.scalars(PENDING.limit(10).with_for_update(skip_locked=True)).all():
                    job.finish()
                    session.commit()
        """,
        ["TA411 at worker.py:42"],
    ),
    "a batch whose states are only known at run time, through an object that keeps the row": (
        """
        def run(states):
            with Session(engine) as session:
                for job in session.scalars(PENDING.limit(10).with_for_update(skip_locked=True)).all():
                    Holder(job).move(states.pop())
                    session.commit()
        """,
        ["TA411 at worker.py:42"],
    ),
    "a count that waits to be written when the work fails": (
        """
        def run():
            with Session(engine) as session:
                job = session.scalars(PENDING.limit(1).with_for_update(skip_locked=True)).first()
                if job is not None:
                    job.attempts += 1
                    handle(job)
                    job.status = "done"
                    session.commit()
        """,
        ["TA301 at worker.py:44"],
    ),
}


@pytest.mark.parametrize(("body", "expected"), WORKERS.values(), ids=WORKERS)
def test_workers(tmp_path: Path, body: str, expected: list[str]) -> None:
    assert codes(tmp_path, WORKER + textwrap.dedent(body).lstrip()) == expected


def test_a_model_that_speaks_of_another_is_asked_for_what_it_has(tmp_path: Path) -> None:
    body = """
        class Order(Base):
            __tablename__ = "orders"
            id = Column(Integer)
            lines = column_property(select(func.count(Line.id)))


        class Line(Base):
            __tablename__ = "lines"
            id = Column(Integer)


        def run(session: Session):
            order = session.get(Order, 1)
            order.id = order.lines
            session.commit()
    """
    found = texts(tmp_path, textwrap.dedent(body))
    assert [text.partition(" SET")[0] for text in found] == ["SELECT * FROM orders WHERE id = 1", "UPDATE orders"]


SYNONYMS = """
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import declared_attr, synonym


class Task(Base):
    __tablename__ = "tasks"
    _status = mapped_column("status", String)
    status = synonym("_status")

    @declared_attr
    def state(cls):
        return synonym("_status", descriptor=property(lambda self: self._status))

    @hybrid_property
    def phase(self):
        return self._status

    @property
    def shown(self):
        return self._status


def run(session: Session):
    session.execute(select(Task).where(Task.ASKED == "queued"))
"""


@pytest.mark.parametrize(("asked", "known"), [("status", True), ("state", True), ("phase", True), ("shown", False)])
def test_another_name_of_a_column_stands_for_it(tmp_path: Path, asked: str, known: bool) -> None:
    told = texts(tmp_path, SYNONYMS.replace("ASKED", asked))
    assert (told == ["SELECT * FROM tasks WHERE status = 'queued'"]) is known, told
