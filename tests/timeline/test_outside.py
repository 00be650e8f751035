"""Calls that leave the process: which libraries' calls those are, how each value is come by, and from how deep."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from auditor.findings import Confidence
from tests.timeline.world import find

if TYPE_CHECKING:
    from pathlib import Path

WORKER = """
from psycopg_pool import ConnectionPool

{imports}

pool = ConnectionPool("")


def tell({given}):
    {call}


def ship(order, tenant):
    with pool.connection() as conn:
        conn.execute("SELECT set_config('app.tenant', %s, true)", (tenant,))
        conn.execute("UPDATE orders SET shipped = now() WHERE id = %s", (order,))
        {made}
        tell({passed})
"""


def found(folder: Path, **parts: str) -> list[str]:
    given = {"imports": "", "given": "", "call": "pass", "made": "pass", "passed": "", **parts}
    return [one.code for one in find(folder, {"worker.py": WORKER.format(**given)})]


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("import requests", "requests.post('https://example.com')"),
        ("import requests as web", "web.get('https://example.com')"),
        ("from requests import Session", "Session().send(None)"),
        ("import urllib.request", "urllib.request.urlopen('https://example.com')"),
        ("import httpx", "httpx.Client(timeout=3).post('https://example.com')"),
        ("from smtplib import SMTP", "with SMTP('localhost') as server: server.send_message(None)"),
        ("from django.core.mail import send_mail", "send_mail('', '', '', [])"),
        ("import subprocess", "subprocess.run(['true'])"),
        ("import os", "os.system('true')"),
        ("from time import sleep", "sleep(5)"),
        ("import redis", "redis.Redis().publish('orders', '1')"),
        ("import redis", "redis.Redis.from_url('redis://').xadd('orders', {})"),
        ("import pika", "pika.BlockingConnection().channel().basic_publish('', '', b'')"),
        ("from kafka import KafkaProducer", "KafkaProducer().send('orders', b'')"),
        ("import boto3", "boto3.client('sqs').send_message()"),
        ("import boto3", "boto3.Session().resource('dynamodb').Table('orders').put_item()"),
        ("import stripe", "stripe.PaymentIntent.create(amount=1)"),
        ("import openai", "openai.OpenAI().chat.completions.create(messages=[])"),
        ("from anthropic import Anthropic as Client", "Client().messages.create()"),
        ("from celery import Celery; app = Celery()", "app.send_task('ship')"),
        ("from rq import Queue; queue = Queue()", "queue.enqueue(print)"),
        ("import zmq", "zmq.Context().socket(zmq.PULL).recv()"),
        ("import stomp", "stomp.Connection12().send('/queue/orders', '1')"),
        ("import faktory", "with faktory.connection('tcp://x') as client: client.queue('ship'); client.push_bulk([])"),
        ("import resend", "resend.Emails.send({})"),
        ("from pywebpush import webpush", "webpush({}, '')"),
        ("import paramiko", "paramiko.SSHClient().exec_command('true')"),
        ("from elasticsearch import Elasticsearch", "Elasticsearch().index(index='orders', document={})"),
        ("from google.cloud import storage", "storage.Client().bucket('b').blob('o').upload_from_string('')"),
        ("from google.cloud import tasks_v2", "tasks_v2.CloudTasksClient().create_task(parent='')"),
        ("from minio import Minio", "Minio('x').put_object('b', 'o', None, 0)"),
    ],
)
def test_what_leaves_the_process(tmp_path: Path, imports: str, call: str) -> None:
    assert found(tmp_path, imports=imports, call=call) == ["TA501"]


@pytest.mark.parametrize(
    ("given", "made", "passed"),
    [
        ("http", "http = requests.Session()", "http"),
        ("*clients", "clients = [requests.Session()]", "*clients"),
        ("http: requests.Session", "pass", ""),
    ],
    ids=["an argument", "one of several arguments", "an annotation"],
)
def test_how_a_client_is_come_by(tmp_path: Path, given: str, made: str, passed: str) -> None:
    call = "clients[0].post('')" if "*" in given else "http.post('')"
    assert found(tmp_path, imports="import requests", given=given, made=made, passed=passed, call=call) == ["TA501"]


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("import requests", "requests.Request('GET', '').prepare()"),
        ("import requests", "requests.utils.quote('')"),
        ("import httpx", "httpx.Client(timeout=3).build_request('GET', '')"),
        ("from minio import Minio", "Minio('x').presigned_get_object('b', 'o')"),
        ("from google.cloud import storage", "storage.Client().bucket('b').blob('o').generate_signed_url()"),
        ("import asyncio", "asyncio.sleep(0)"),
        ("import boto3", "boto3.client('s3').generate_presigned_url('get_object')"),
        ("import redis", "redis.Redis().get('rate')"),
        ("import threading, requests", "threading.Thread(target=requests.get, args=('',)).start()"),
        ("import blinker", "blinker.signal('shipped').send(None)"),
        ("from events import bus", "bus.publish('shipped')"),
        ("from django.dispatch import Signal; shipped = Signal()", "shipped.send(None)"),
        ("from django.db import transaction; import requests", "transaction.on_commit(lambda: requests.get(''))"),
        ("", "print.publish('shipped')"),
    ],
)
def test_what_stays_inside_or_comes_later(tmp_path: Path, imports: str, call: str) -> None:
    assert found(tmp_path, imports=imports, call=call) == []


def test_what_a_request_answers_is_asked_inside_of_the_process(tmp_path: Path) -> None:
    call = "answer = requests.Session().post('https://example.com')"
    more = "answer.json().get('id')"
    source = WORKER.format(imports="import requests", given="", made="pass", passed="", call=f"{call}; {more}")
    told = [one.message.partition(" ")[0] for one in find(tmp_path, {"worker.py": source})]
    assert told == ["requests.Session.post()"]
    assert found(tmp_path, imports="import requests", call="requests.Session().prepare_request(None).get('id')") == []


def test_a_task_that_is_sent_to_its_workers(tmp_path: Path) -> None:
    imports = "from celery import shared_task\n\n@shared_task\ndef bill(order):\n    return order\n"
    assert found(tmp_path, imports=imports, call="bill.delay(1)") == ["TA501"]
    assert found(tmp_path, imports=imports, call="bill(1)") == []


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 8])
def test_the_way_is_told_however_deep_it_goes(tmp_path: Path, depth: int) -> None:
    """Functions that have nothing to do with a database are not followed otherwise."""
    files = {"worker.py": WORKER.format(imports="import m0", given="", call="pass", made="m0.f()", passed="")}
    for number in range(depth):
        below = "requests.get('')" if number == depth - 1 else f"m{number + 1}.f()"
        module = "requests" if number == depth - 1 else f"m{number + 1}"
        files[f"m{number}.py"] = f"import {module}\n\ndef f():\n    {below}\n"
    (finding,) = find(tmp_path, files)
    assert (finding.code, finding.place.path, finding.place.line) == ("TA501", "worker.py", 17)
    ways = [related.place.path for related in finding.related]
    assert ways == ["worker.py", *(f"m{number}.py" for number in range(depth))]


def test_looking_through_helpers_leaves_what_they_load_as_it_is(tmp_path: Path) -> None:
    """A module that is loaded while a helper is looked through is loaded for all: its pool is tried, and is known."""
    files = {
        "worker.py": WORKER.format(imports="import helper", given="", call="pass", made="helper.tell()", passed=""),
        "helper.py": "import requests\nimport other\n\ndef tell():\n    other.ready()\n    requests.get('')\n",
        "other.py": """
from psycopg_pool import ConnectionPool

def forget(conn):
    conn.execute("RESET app.tenant")

pool = ConnectionPool("", reset=forget)

def ready():
    return pool is not None
""",
    }
    assert sorted(one.code for one in find(tmp_path, files)) == ["TA202", "TA501"]


@pytest.mark.parametrize(
    ("statement", "holds"),
    [
        ("SELECT 1 FROM orders", False),
        ("SELECT 1 FROM orders FOR UPDATE", True),
        ("WITH gone AS (DELETE FROM orders RETURNING id) SELECT id FROM gone", True),
        ("INSERT INTO orders VALUES (1)", True),
        ("SELECT ship(1)", True),
        ("SELECT state_of(1)", False),
    ],
)
def test_what_makes_a_transaction_hold_rows(tmp_path: Path, statement: str, holds: bool) -> None:
    files = {
        "functions.sql": """
CREATE FUNCTION ship(n int) RETURNS void LANGUAGE sql AS $$ UPDATE orders SET shipped = now() WHERE id = n $$;
CREATE FUNCTION state_of(n int) RETURNS text LANGUAGE sql AS $$ SELECT state FROM orders WHERE id = n $$;
CREATE POLICY own_orders ON orders USING (tenant = current_setting('app.tenant', true));
""",
        "worker.py": f"""
import requests
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")

def run(tenant):
    with pool.connection() as conn:
        conn.execute("SELECT set_config('app.tenant', %s, true)", (tenant,))
        conn.execute("{statement}")
        requests.get("")
""",
    }
    assert [one.code for one in find(tmp_path, files)] == ["TA501"] * holds


@pytest.mark.parametrize("end", ["conn.commit()", "conn.rollback()"])
def test_what_has_ended_holds_nothing(tmp_path: Path, end: str) -> None:
    assert found(tmp_path, imports="import requests", call="requests.get('')", made=end) == []


def test_a_connection_that_is_only_known_in_a_helper_is_not_held_after_it(tmp_path: Path) -> None:
    """Whoever passed it may have ended its transaction by the name that is not followed."""
    files = {
        "worker.py": """
import time
import psycopg

class Queue:
    def __init__(self, connect=None):
        self.connect = connect

    def mark(self, conn: psycopg.Connection, job, tenant):
        conn.execute("SELECT set_config('app.tenant', %s, true)", (tenant,))
        conn.execute("UPDATE jobs SET status = 'done' WHERE id = %s", (job,))
        WAIT

    def run(self, job, tenant):
        conn = self.connect()
        self.mark(conn, job, tenant)
        conn.commit()
        time.sleep(1)
"""
    }
    for inside, expected in (("pass", []), ("time.sleep(1)", ["TA501 at 12"])):
        changed = {"worker.py": files["worker.py"].replace("WAIT", inside)}
        assert [f"{one.code} at {one.place.line}" for one in find(tmp_path, changed)] == expected


@pytest.mark.parametrize(
    ("imports", "made", "call"),
    [
        ("from carrier import CarrierClient", "carrier = CarrierClient()", "carrier.send(order)"),
        (
            "from carrier import AsyncCarrierClient as Carrier",
            "carrier = Carrier('key')",
            "carrier.upload_label(order)",
        ),
        ("from carrier.v2 import CarrierAPI", "carrier = CarrierAPI()", "carrier.get_label(order)"),
    ],
)
def test_a_client_that_no_table_names_is_known_by_what_it_is_called(
    tmp_path: Path, imports: str, made: str, call: str
) -> None:
    told = found(tmp_path, imports=imports, given="carrier, order", call=call, made=made, passed="carrier, order")
    assert told == ["TA501"]


@pytest.mark.parametrize(
    ("imports", "made", "call"),
    [
        ("from carrier import CarrierClient", "carrier = CarrierClient()", "carrier.close()"),
        ("from carrier import CarrierClient", "carrier = CarrierClient()", "carrier.get(order)"),
        ("from carrier import MemoryClient", "carrier = MemoryClient()", "carrier.send(order)"),
        ("from carrier import Carrier", "carrier = Carrier()", "carrier.send(order)"),
        ("from rest_framework.test import APITestClient", "carrier = APITestClient()", "carrier.post('/')"),
    ],
)
def test_what_is_not_called_like_a_client_that_sends_is_none(
    tmp_path: Path, imports: str, made: str, call: str
) -> None:
    told = found(tmp_path, imports=imports, given="carrier, order", call=call, made=made, passed="carrier, order")
    assert told == []


PAUSE = """
import time

from django.db import DatabaseError, connection, transaction


def tries(often):
    if connection.get_autocommit() and TEST:
        return often
    return 1


def insist(body):
    left = tries(3)
    for turn in (1, 2, 3):
        try:
            return body()
        except DatabaseError:
            if left == 1:
                raise
        time.sleep(turn)


@transaction.atomic
def write():
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM jobs WHERE status = 'queued' ORDER BY id LIMIT 5 FOR UPDATE SKIP LOCKED")
        cursor.execute("UPDATE jobs SET status = 'failed' WHERE status = 'queued'")


@transaction.atomic
def call_off():
    write()
    insist(write)
"""


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("not connection.in_atomic_block", False),
        ("(not connection.in_atomic_block or often < 9) and often", True),
        ("often", True),
    ],
)
def test_a_pause_that_a_question_for_the_transaction_rules_out(tmp_path: Path, test: str, found: bool) -> None:
    told = {one.code for one in find(tmp_path, {"worker.py": PAUSE.replace("TEST", test)})}
    assert ("TA501" in told) is found


def sure_of(folder: Path, source: str) -> list[Confidence]:
    """How sure each call that is waited for is said to be."""
    return [one.confidence for one in find(folder, {"worker.py": source}) if one.code == "TA501"]


TASKS = """
from celery import Task, shared_task
from django.db import connection, transaction


class AfterCommit(Task):
    def apply_async(self, *args, **kwargs):
        transaction.on_commit(lambda: super(AfterCommit, self).apply_async(*args, **kwargs))


class Timed(Task):
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)


@shared_task(bind=True, base=BASE)
def bill(self, order):
    return order


DECORATOR
def ship(request, order):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('app.tenant', '1', true)")
        cursor.execute("UPDATE orders SET shipped = now() WHERE id = %s", [order])
        bill.delay(order)
"""


@pytest.mark.parametrize(
    ("base", "decorator", "sure"),
    [
        ("AfterCommit", "@shared_task", []),
        ("Timed", "@shared_task", [Confidence.HIGH]),
        ("Timed", "", [Confidence.LOW]),
    ],
)
def test_a_task_is_handed_over_in_a_moment_or_after_the_commit(
    tmp_path: Path, base: str, decorator: str, sure: list[Confidence]
) -> None:
    told = sure_of(tmp_path, TASKS.replace("BASE", base).replace("DECORATOR", decorator))
    assert [min(one, Confidence.MEDIUM) for one in told] == [min(one, Confidence.MEDIUM) for one in sure]


AGAIN = """
import time

import psycopg


def steady(function, *given):
    for turn in range(3):
        try:
            return function(*given)
        except ConnectionError:
            if turn == 2:
                raise
        BEHIND


def names(conn):
    INSTEAD
    return conn.execute("SELECT name FROM places").fetchall()


def ship(dsn, order):
    with psycopg.connect(dsn) as conn:
        conn.execute("SELECT set_config('app.tenant', '1', true)")
        conn.execute("UPDATE orders SET shipped = now() WHERE id = %s", (order,))
        steady(names, conn)
"""


@pytest.mark.parametrize(("behind", "instead", "sure"), [("time.sleep(1)", "pass", 0), ("pass", "time.sleep(1)", 1)])
def test_a_pause_before_another_try_comes_after_a_failure(tmp_path: Path, behind: str, instead: str, sure: int) -> None:
    told = sure_of(tmp_path, AGAIN.replace("BEHIND", behind).replace("INSTEAD", instead))
    assert [one > Confidence.LOW for one in told] in ([bool(sure)], [] if not sure else None)


BRANCHES = """
import requests
from django.db import connection, transaction


def locked(method):
    def wrapper(request, order):
        BRANCH
        with transaction.atomic():
            return method(request, order)

    return wrapper


@locked
def ship(request, order):
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('app.tenant', '1', true)")
        cursor.execute("UPDATE orders SET shipped = now() WHERE id = %s", [order])
    if not request.data["locks"]:
        requests.post("https://example.com")
"""


@pytest.mark.parametrize(
    ("branch", "sure"),
    [
        ("if not request.data['locks']: return method(request, order)", False),
        ("if not request.data['locks']: return None", True),
    ],
)
def test_a_transaction_that_only_one_branch_opens_around_a_call(tmp_path: Path, branch: str, sure: bool) -> None:
    told = sure_of(tmp_path, BRANCHES.replace("BRANCH", branch))
    assert [one > Confidence.LOW for one in told] == [sure]


SAID_OF_AUTOCOMMIT = """
from sqlalchemy import text

NOTE = '''Migrations run in autocommit, one by one.'''


def drain(session, publish):
    waiting = text("SELECT id, payload FROM outbox WHERE state = 'waiting' LIMIT 10 FOR UPDATE SKIP LOCKED")
    for row in session.execute(waiting).fetchall():
        publish(row.payload)
        session.execute(text("UPDATE outbox SET state = 'sent' WHERE id = :id"), {"id": row.id})


MORE
"""


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("# Autocommit, so that no transaction is left.", True),
        ('SETTINGS = {"autocommit": False}', True),
        ('SETTINGS = {"isolation_level": "AUTOCOMMIT"}', False),
        ("def switch(conn):\n    conn.set_autocommit(True)", False),
    ],
)
def test_what_sentences_say_of_autocommit_puts_no_session_in_it(tmp_path: Path, more: str, found: bool) -> None:
    told = find(tmp_path, {"worker.py": SAID_OF_AUTOCOMMIT.replace("MORE", more)})
    assert ("TA501" in {one.code for one in told}) is found


#: Autocommit that a function keeps to itself, so that no session of others can be in it.
OWN = {
    "connected in a block": """
        def vacuum(engine):
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
                conn.execute(text("VACUUM outbox"))
    """,
    "an engine under other options in a block": """
        class Databases:
            def drop(self, name):
                with self.admin.execution_options(isolation_level="AUTOCOMMIT").connect() as conn:
                    conn.execute(text(f'DROP DATABASE "{name}"'))
    """,
    "switched on what it connected": """
        def create(dsn, name):
            conn = psycopg2.connect(dsn)
            conn.autocommit = True
            conn.cursor().execute(f'CREATE DATABASE "{name}"')
            conn.close()
    """,
    "switched by a call, and what was fetched returned": """
        def exists(dsn):
            conn = psycopg2.connect(dsn)
            conn.set_isolation_level(psycopg2.extensions.ISOLATION_LEVEL_AUTOCOMMIT)
            return conn.execute("SELECT 1 FROM pg_database").fetchone()
    """,
    "an engine of its own": """
        async def provision(url):
            admin = create_async_engine(url, isolation_level="AUTOCOMMIT")
            async with admin.connect() as conn:
                await conn.execute(text("CREATE DATABASE shop"))
            await admin.dispose()
    """,
    "only asked for": """
        def told(conn):
            return conn.autocommit
    """,
}
#: Autocommit that others may be given.
HANDED_ON = {
    "returned": """
        def admin(url):
            engine = create_engine(url, isolation_level="AUTOCOMMIT")
            return engine
    """,
    "returned as what works on it": """
        def admin(url):
            engine = create_engine(url, isolation_level="AUTOCOMMIT")
            return engine.connect()
    """,
    "yielded": """
        def admin(dsn):
            with psycopg.connect(dsn, autocommit=True) as conn:
                yield conn
    """,
    "kept by an object": """
        class Database:
            def __init__(self, url):
                self.engine = create_engine(url, isolation_level="AUTOCOMMIT")
    """,
    "given to an object": """
        def repository(dsn):
            conn = psycopg.connect(dsn, autocommit=True)
            return Repository(conn)
    """,
    "given to an object of whatever class": """
        class Database:
            def __init__(self, conn):
                self.conn = conn

            @classmethod
            async def open(cls, dsn):
                conn = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
                return cls(conn)
    """,
    "given to what an object has": """
        class Database:
            def open(self, dsn):
                conn = psycopg.connect(dsn, autocommit=True)
                self.connections.append(conn)
    """,
    "kept by the module": """
        engine = create_engine("postgresql://", isolation_level="AUTOCOMMIT")
    """,
    "kept in a global name": """
        def start(dsn):
            global conn
            conn = psycopg.connect(dsn, autocommit=True)
    """,
    "what it was handed": """
        def switch(conn):
            conn.autocommit = True
    """,
    "what the caller says": """
        def connect(dsn, autocommit=True):
            return psycopg.connect(dsn, autocommit=autocommit)
    """,
}


@pytest.mark.parametrize("more", OWN.values(), ids=OWN)
def test_autocommit_that_a_function_keeps_to_itself_says_nothing_of_other_sessions(tmp_path: Path, more: str) -> None:
    files = {"worker.py": SAID_OF_AUTOCOMMIT.replace("MORE", ""), "databases.py": dedent(more)}
    assert "TA501" in {one.code for one in find(tmp_path, files)}


@pytest.mark.parametrize("more", HANDED_ON.values(), ids=HANDED_ON)
def test_autocommit_that_is_handed_on_may_be_that_of_any_session(tmp_path: Path, more: str) -> None:
    files = {"worker.py": SAID_OF_AUTOCOMMIT.replace("MORE", ""), "databases.py": dedent(more)}
    assert "TA501" not in {one.code for one in find(tmp_path, files)}


ACCOUNTS = """
import requests
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


def account_of(conn, name):
    found = conn.execute("SELECT id FROM accounts WHERE name = %s", (name,)).fetchone()
    {early}
    conn.execute("INSERT INTO accounts (name) VALUES (%s) ON CONFLICT DO NOTHING", (name,))
    return conn.execute("SELECT id FROM accounts WHERE name = %s", (name,)).fetchone()


def greet(name):
    with pool.connection() as conn:
        account = account_of(conn, name)
        requests.post("https://example.com", json=account)
"""


@pytest.mark.parametrize(
    ("early", "sure"),
    [
        ("if found:\n        return found", Confidence.LOW),
        ("if found is not None:\n        return found", Confidence.LOW),
        ("if not found:\n        print(name)", Confidence.HIGH),
    ],
    ids=["there", "is there", "anyway"],
)
def test_what_is_made_the_first_time_is_held_the_first_time(tmp_path: Path, early: str, sure: Confidence) -> None:
    told = [
        one.confidence for one in find(tmp_path, {"worker.py": ACCOUNTS.format(early=early)}) if one.code == "TA501"
    ]
    assert told == [sure]


POLLED = """
import time
from contextlib import contextmanager
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")
TAKE = "SELECT id FROM jobs WHERE status = 'queued' LIMIT 1 FOR UPDATE SKIP LOCKED"


@contextmanager
def taken():
    with pool.connection() as conn:
        yield conn.execute(TAKE).fetchone()


def work(handle):
    while True:
        with taken() as job:
            {asked}
"""


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("if job:\n                handle(job)\n            else:\n                time.sleep(5)", False),
        ("if not job:\n                time.sleep(5)", False),
        ("if job is None:\n                time.sleep(5)", False),
        ("if job is not None:\n                time.sleep(5)", True),
        ("if job:\n                time.sleep(5)", True),
    ],
    ids=["else", "not", "is None", "is not None", "there"],
)
def test_a_pause_for_want_of_jobs_keeps_none(tmp_path: Path, asked: str, told: bool) -> None:
    found = [one for one in find(tmp_path, {"worker.py": POLLED.format(asked=asked)}) if one.code == "TA501"]
    assert any("sleep" in one.message and one.confidence > Confidence.LOW for one in found) is told
