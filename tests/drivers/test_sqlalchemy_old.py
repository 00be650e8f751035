"""What `auditor/drivers/sqlalchemy.py` says of SQLAlchemy before 2.0, shown with 1.4 on a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from auditor.drivers.sqlalchemy import DRIVER
from auditor.timeline.model.events import Ran
from tests.timeline.world import walked

if TYPE_CHECKING:
    from pathlib import Path

#: Prints, for each statement, whether a transaction is still open on the server behind it.
SCRIPT = """
import json, sys
from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import URL
from sqlalchemy.orm import Session

url, statements, how = json.loads(sys.stdin.read())
engine = create_engine(URL.create("postgresql+psycopg2", **url), future=how == "future")
found = []

def run(conn, raw):
    for statement in statements:
        conn.execute(text(statement))
        found.append(raw.get_transaction_status() != 0)

if how == "listeners":
    event.listen(engine, "begin", lambda conn: found.append("begin"))
    event.listen(Session, "after_begin", lambda *told: found.append("after_begin"))
    with engine.begin() as conn, conn.begin_nested():
        conn.execute(text("SELECT 1"))
    with Session(engine) as session, session.begin_nested():
        session.execute(text("SELECT 1"))
elif how == "session":
    with Session(engine) as session:
        run(session, session.connection().connection)
elif how == "begin":
    with engine.connect() as conn:
        conn.execute(text("SELECT 1"))
        with conn.begin():
            run(conn, conn.connection)
else:
    with engine.connect() as conn:
        run(conn, conn.connection)
print(json.dumps(found))
"""
STATEMENTS = (
    "CREATE TABLE old (a int)",
    "SELECT set_config('app.tenant', '1', true)",
    "INSERT INTO old VALUES (1)",
    "SET app.tenant = 'x'",
    "WITH one AS (SELECT 1) UPDATE old SET a = 2",
    "/* a note */ UPDATE old SET a = 2",
    "  update old SET a = 2",
    "LOCK old",
    "DELETE FROM old",
    "GRANT SELECT ON old TO public",
    "REVOKE SELECT ON old FROM public",
    "SELECT * FROM old FOR UPDATE",
    "ALTER TABLE old ADD b int",
    "CREATE MATERIALIZED VIEW view AS SELECT 1",
    "REFRESH MATERIALIZED VIEW view",
    "TRUNCATE old",
    "DROP TABLE old",
)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("old"))
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, "SQLAlchemy==1.4.54"]
    subprocess.run(install, check=True)
    return folder


def open_after(old: str, dsn: str, how: str) -> list[bool]:
    return [bool(found) for found in run_with(old, dsn, how)]


def run_with(old: str, dsn: str, how: str) -> list[Any]:
    told = conninfo_to_dict(dsn)
    query = {name: str(told[name]) for name in ("host", "port") if told.get(name)}
    url = {"username": str(told["user"]), "database": str(told["dbname"]), "query": query}
    environment = {**os.environ, "PYTHONPATH": old, "SQLALCHEMY_SILENCE_UBER_WARNING": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps([url, STATEMENTS, how]),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return list(json.loads(ran.stdout))


def looks_like_a_write(statement: str) -> bool:
    return statement.lstrip().upper().startswith(DRIVER.commits_after)


def test_a_connection_commits_what_begins_like_a_write(old: str, database: str) -> None:
    assert open_after(old, database, "connection") == [not looks_like_a_write(one) for one in STATEMENTS]


@pytest.mark.parametrize("how", ["begin", "session", "future"])
def test_what_has_begun_a_transaction_commits_nothing_by_itself(old: str, database: str, how: str) -> None:
    assert all(open_after(old, database, how))


def test_of_a_savepoint_only_who_listens_to_the_session_is_told(old: str, database: str) -> None:
    told = run_with(old, database, "listeners")
    assert told == ["begin", "begin", "after_begin", "after_begin"]


SOURCE = """
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session
engine = create_engine("postgresql+psycopg2://app"FUTURE)

def run():
    BLOCK
        conn.execute(text("SELECT set_config('app.tenant', '1', true)"))
        conn.execute(text("UPDATE jobs SET state = 'done'"))
        conn.execute(text("DELETE FROM notes"))
"""
BLOCKS = {
    "connection": "with engine.connect() as conn:",
    "begin": "with engine.begin() as conn:",
    "session": "with Session(engine) as conn:",
    "future": "with engine.connect() as conn:",
}


@pytest.mark.parametrize("how", BLOCKS)
@pytest.mark.parametrize("required", ["sqlalchemy<2", "SQLAlchemy==1.4.54", "sqlalchemy>=1.4", "sqlalchemy==2.0.1"])
def test_the_timeline_commits_as_the_required_version_does(tmp_path: Path, how: str, required: str) -> None:
    source = SOURCE.replace("FUTURE", ", future=True" if how == "future" else "").replace("BLOCK", BLOCKS[how])
    timeline = walked(tmp_path, {"worker.py": source, "requirements.txt": required})
    ran = (event for event in timeline.events if isinstance(event, Ran))
    last = next(one for one in ran if one.text.startswith("DELETE"))
    held = last.before.setting("app.tenant").current.is_value
    assert held is not (how == "connection" and required in ("sqlalchemy<2", "SQLAlchemy==1.4.54"))
