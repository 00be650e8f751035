"""Kinds of code that were once misread, each as the smallest program that shows it, with what is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from auditor.timeline.model.events import Ran
from tests.timeline.world import codes, find, walked

if TYPE_CHECKING:
    from pathlib import Path

POOL = """
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")
"""


def test_a_builtin_is_the_same_at_its_second_use(tmp_path: Path) -> None:
    source = POOL
    for name in "ab":
        source += f"""

def {name}(tenant):
    with pool.connection() as conn:
        conn.execute("SET LOCAL app.tenant = '{{}}'".format(int(tenant)))
"""
    assert codes(tmp_path, source) == []


def test_a_pool_that_a_script_made_has_a_next_user_where_it_lends_again(tmp_path: Path) -> None:
    work = """

def work(tenant):
    with pool.connection() as conn:
        conn.execute("SELECT set_config('app.tenant', %s, false)", (tenant,))
        conn.execute("SELECT count(*) FROM invoices")

"""
    once, twice = 'work("1")\n', 'work("1")\nwork("2")\n'
    loop = 'for tenant in ("1", "2"):\n    work(tenant)\n'
    found = ["TA101 at worker.py:9"]
    assert codes(tmp_path / "once", POOL + work + once) == []
    assert codes(tmp_path / "twice", POOL + work + twice) == found
    assert codes(tmp_path / "loop", POOL + work + loop) == found
    guarded = 'if __name__ == "__main__":\n' + "".join(f"    {line}\n" for line in loop.splitlines())
    assert codes(tmp_path / "guarded", POOL + work + guarded) == found


def test_a_file_of_sql_is_found_by_a_name_that_is_put_together(tmp_path: Path) -> None:
    source = """
from pathlib import Path
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


def named(name):
    return (Path(__file__).parent / f"{name}.sql").read_text()


def joined(name):
    return Path(__file__).parent.joinpath(name).read_text()


def work(tenant):
    with pool.connection() as conn:
        conn.execute({}, {{"tenant": tenant}})
        conn.execute("SELECT 1 FROM invoices")
"""
    sql = "SELECT set_config('app.tenant', %(tenant)s, false);\n"
    for number, call in enumerate(('named("set")', 'joined("set.sql")')):
        folder = tmp_path / str(number)
        files = {"worker.py": source.replace("{}", call).replace("{{", "{").replace("}}", "}"), "set.sql": sql}
        assert [(one.code, one.place.path) for one in find(folder, files)] == [("TA101", "set.sql")]


def test_what_runs_while_a_module_is_loaded_is_a_job_too(tmp_path: Path) -> None:
    source = """
import psycopg

conn = psycopg.connect("")
job = conn.execute("SELECT id FROM jobs WHERE attempts < 3 LIMIT 1 FOR UPDATE SKIP LOCKED").fetchone()
conn.execute("UPDATE jobs SET attempts = attempts + 1 WHERE id = %s", job)
conn.execute("INSERT INTO invoices VALUES (1)")
conn.commit()
"""
    assert codes(tmp_path, source) == ["TA301 at worker.py:6"]


def test_work_behind_a_transaction_that_only_set_the_tenant(tmp_path: Path) -> None:
    source = """
from plugins import run
from psycopg_pool import ConnectionPool

pool = ConnectionPool("", kwargs={"autocommit": True})


def work(tenant):
    with pool.connection() as conn:
        with conn.transaction():
            conn.execute("SELECT set_config('app.tenant', %s, true)", (tenant,))
            ...
        conn.execute("SELECT 1 FROM invoices")
"""
    assert codes(tmp_path / "nothing", source) == ["TA103 at worker.py:13"]
    for number, used in enumerate(("run(conn)", 'conn.execute("SELECT app.close_books()")', "conn.execute(query)")):
        assert codes(tmp_path / str(number), source.replace("...", used)) == []


def test_a_failure_is_handled_on_a_connection_of_its_own(tmp_path: Path) -> None:
    source = """
import contextlib
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


def work(job, tenant):
    try:
        with pool.connection() as conn:
            conn.execute("SELECT set_config('app.tenant', %s, true)", (tenant,))
            conn.execute("UPDATE invoices SET sent = true")
    except Exception:
        with pool.connection() as conn:
            conn.execute("UPDATE jobs SET last_error = 'x' WHERE id = %s", (job,))


def quiet(job, tenant):
    with contextlib.suppress(Exception), pool.connection() as conn:
        conn.execute("SELECT set_config('app.tenant', %s, true)", (tenant,))
        conn.execute("UPDATE invoices SET sent = true")
    with pool.connection() as conn:
        conn.execute("UPDATE jobs SET state = 'seen' WHERE id = %s", (job,))
"""
    assert codes(tmp_path, source) == []


GIVEN = """
from psycopg import Connection
from psycopg_pool import ConnectionPool


class Queue:
    def __init__(self, conn: Connection):
        self.conn = conn

    def run(self, work):
        job = self.conn.execute(
            "SELECT id FROM jobs WHERE attempts < 3 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
        ).fetchone()
        self.conn.execute("UPDATE jobs SET attempts = attempts + 1 WHERE id = %s", job)
        self.conn.execute("INSERT INTO invoices VALUES (1)")
        self.conn.execute("UPDATE jobs SET state = 'done' WHERE id = %s", job)
        self.conn.commit()


class Service:
    def __init__(self, pool: ConnectionPool):
        self.pool = pool

    def count(self, tenant):
        with self.pool.connection() as conn:
            conn.execute("SELECT set_config('app.tenant', %s, false)", (tenant,))
            return conn.execute("SELECT count(*) FROM invoices").fetchone()
"""


def test_a_connection_from_elsewhere_may_be_in_autocommit_where_the_program_uses_that(tmp_path: Path) -> None:
    maker = """
import psycopg
from worker import Queue


def make():
    return Queue(psycopg.connect("", autocommit=True))
"""
    # In autocommit nothing is rolled back, but what is set for the session is kept either way.
    assert codes(tmp_path / "without", GIVEN) == ["TA301 at worker.py:14", "TA101 at worker.py:26"]
    assert codes(tmp_path / "with", GIVEN, maker=maker) == ["TA101 at worker.py:26"]


def test_a_path_may_be_made_of_nothing(tmp_path: Path) -> None:
    source = (
        POOL
        + """
from pathlib import Path

here = Path()


def work(tenant):
    with pool.connection() as conn:
        conn.execute((Path(here) / "set.sql").read_text())
        conn.execute("SELECT set_config('app.tenant', %s, false)", (tenant,))
        conn.execute("SELECT count(*) FROM invoices")
"""
    )
    assert codes(tmp_path, source) == ["TA101 at worker.py:14"]


def test_what_errors_and_messages_mention_begins_no_walk(tmp_path: Path) -> None:
    source = """
import psycopg2

connection = psycopg2.connect("")


def work(tenant):
    if not tenant:
        raise ValueError("FOR UPDATE SKIP LOCKED")
    log.info("SELECT set_config('app.tenant', %s, false)", tenant)
    connection.cursor().execute("SELECT count(*) FROM invoices")
"""
    assert [root.name for root in walked(tmp_path, {"worker.py": source}).roots if "." in root.name] == []


def test_settings_that_hold_no_tenant_begin_no_walk(tmp_path: Path) -> None:
    source = """
import psycopg2

connection = psycopg2.connect("")


def work(name):
    with connection.cursor() as cursor:
        cursor.execute({})
"""
    silent = [
        '"SET application_name TO %s", (name,)',
        '"SET LOCAL statement_timeout = 5000"',
        '"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"',
        "\"SELECT set_config('timezone', %s, false)\", (name,)",
        "\"SELECT current_setting('archive_mode')\"",
    ]
    telling = [
        '"SET app.tenant TO %s", (name,)',
        "\"SET LOCAL search_path = 'a'\"",
        '"SET ROLE other"',
        '"SELECT set_config(%s, %s, false)", (name, name)',
        'f"SET {name} TO 1"',
    ]
    for number, call in enumerate([*silent, *telling]):
        timeline = walked(tmp_path / str(number), {"worker.py": source.replace("{}", call, 1)})
        assert any(root.name == "worker.work" for root in timeline.roots) == (call in telling), call


def test_where_the_server_binds_every_parameter_of_set_is_looked_at(tmp_path: Path) -> None:
    source = """
import psycopg

connection = psycopg.connect("")


def work(name):
    connection.execute("SET application_name TO %s", (name,))
"""
    assert codes(tmp_path, source) == ["TA110 at worker.py:8"]


def test_a_driver_that_is_only_spoken_of_makes_no_connections(tmp_path: Path) -> None:
    source = """
URL = "postgresql+psycopg://"


def work(conn, tenant):
    conn.execute("SELECT set_config('app.tenant', %s, false)", (tenant,))
"""
    assert walked(tmp_path, {"worker.py": source}).roots == ()


def test_what_a_driver_refuses_is_one_of_its_errors(tmp_path: Path) -> None:
    source = (
        POOL.replace("from", "import psycopg\nfrom", 1)
        + """

def work():
    tenant = "0"
    with pool.connection() as conn:
        try:
            try:
                with conn.transaction():
                    conn.commit()
            except {}:
                tenant = "1"
        except Exception:
            pass
        conn.execute("SELECT set_config('app.tenant', %s, true)", (tenant,))
        conn.execute("SELECT count(*) FROM invoices")
"""
    )
    for number, error in enumerate(("psycopg.Error", "psycopg.DatabaseError", "psycopg.errors.ProgrammingError")):
        timeline = walked(tmp_path / str(number), {"worker.py": source.replace("{}", error)})
        asked = [ran for ran in timeline.of(Ran) if "count" in ran.text]
        assert {ran.before.setting("app.tenant").current.value for ran in asked} == {"1"}


@pytest.mark.parametrize(("scope", "found"), [("SESSION", ["TA101 at worker.py:10"]), ("LOCAL", [])])
def test_a_string_is_put_together_from_each_of_a_few_texts(tmp_path: Path, scope: str, found: list[str]) -> None:
    source = (
        POOL
        + f"""

def work(tenant, short):
    scope = "LOCAL" if short else "{scope}"
    with pool.connection() as conn:
        conn.execute(f"SET {{scope}} app.tenant = '7'")
        conn.execute("SELECT count(*) FROM invoices")
"""
    )
    assert codes(tmp_path, source) == found


@pytest.mark.parametrize(
    ("loop", "role", "found"),
    [
        ("for path in paths:", "owner", []),
        ("for path in paths:", "{tenant}", ["TA105 at worker.py:13"]),
        ("while True:", "owner", ["TA105 at worker.py:13"]),
    ],
)
def test_one_role_for_all_of_a_list_is_no_tenant(tmp_path: Path, loop: str, role: str, found: list[str]) -> None:
    source = f"""
import psycopg


def load(paths, tenant):
    conn = psycopg.connect("dbname=app", autocommit=True)
    try:
        {loop}
            conn.execute("SELECT count(*) FROM jobs")


            conn.execute("ALTER TABLE jobs ADD COLUMN x int")
            conn.execute(f"SET ROLE {role}")
    finally:
        conn.close()
"""
    assert codes(tmp_path, source) == found


@pytest.mark.parametrize(("line", "found"), [("self.active.add(job[0])", False), ("self.handle(job[0])", True)])
def test_a_job_that_is_kept_for_later_is_not_worked_on(tmp_path: Path, line: str, found: bool) -> None:
    source = f"""
class Worker:
    def __init__(self, pool, handle):
        self.pool, self.handle, self.active = pool, handle, set()

    def claim(self):
        with self.pool.connection() as conn:
            jobs = conn.execute(
                "UPDATE jobs SET status = 'running', locked_until = now() + interval '1 minute' WHERE id IN"
                " (SELECT id FROM jobs WHERE status = 'queued' LIMIT 5 FOR UPDATE SKIP LOCKED) RETURNING id"
            ).fetchall()
            for job in jobs:
                {line}
            return jobs

    def done(self, job):
        with self.pool.connection() as conn:
            conn.execute("UPDATE jobs SET status = 'done' WHERE id = %s", (job,))


{POOL}
worker = Worker(pool, print_it)
worker.claim()
"""
    assert any(code.startswith(("TA302", "TA407")) for code in codes(tmp_path, source)) is found


POOL_OR_CONNECTION = """
import asyncpg

class Store:
    def __init__(self, connection: asyncpg.Connection | asyncpg.Pool) -> None:
        self.connection = connection

    async def run(self, tenant):
        async def work(conn):
            await conn.execute("SELECT set_config('app.tenant', $1, true)", tenant)
            await conn.execute("UPDATE invoices SET seen = true")

        if isinstance(self.connection, asyncpg.Pool):
            async with self.connection.acquire() as conn:
                {begin}:
                    await work(conn)
        else:
            async with self.connection.transaction():
                await work(self.connection)
"""


def test_a_pool_and_a_connection_are_told_apart_by_isinstance(tmp_path: Path) -> None:
    source = POOL_OR_CONNECTION.format(begin="async with conn.transaction()")
    assert codes(tmp_path, source) == []


def test_what_is_told_apart_is_still_judged(tmp_path: Path) -> None:
    assert codes(tmp_path, POOL_OR_CONNECTION.format(begin="if tenant")) == ["TA102 at worker.py:10"]


FACTORY = """
from contextlib import contextmanager
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session, sessionmaker

class Manager:
    def __init__(self, factory: sessionmaker[Session]) -> None:
        self.factory = factory

    @classmethod
    def of(cls, engine: Engine, autocommit: bool = False):
        return cls(sessionmaker(bind=engine, {said}))

    @staticmethod
    def act_as(session: Session, role: str) -> None:
        session.execute(text(f"SET SESSION ROLE {{role}}"))

    @contextmanager
    def session(self, role):
        with self.factory() as session:
            self.act_as(session, role)
            yield session
"""


@pytest.mark.parametrize("said", ["autocommit=False", "autocommit=autocommit", "autoflush=False"])
def test_a_program_that_says_autocommit_is_off_does_not_switch_it_on(tmp_path: Path, said: str) -> None:
    assert codes(tmp_path, FACTORY.format(said=said)) == ["TA105 at worker.py:16"]


@pytest.mark.parametrize(("value", "found"), [("true", ["TA101 at worker.py:9"]), ("false", [])])
def test_a_door_that_is_shut_is_nobodys_tenant(tmp_path: Path, value: str, found: list[str]) -> None:
    work = f"""

def work():
    with pool.connection() as conn:
        conn.execute("SELECT set_config('app.bypass_tenant', '{value}', false)")
        conn.execute("SELECT count(*) FROM invoices")
"""
    assert codes(tmp_path, POOL + work) == found
