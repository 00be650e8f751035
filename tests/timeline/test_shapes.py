"""Shapes in which code comes by its connection: each leaks, and is silent when the tenant is set locally."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.timeline.world import codes

if TYPE_CHECKING:
    from pathlib import Path

SET = "conn.execute(\"SELECT set_config('app.tenant', %s, false)\", (tenant,))"
WORK = 'conn.execute("SELECT count(*) FROM invoices")'

A_PROPERTY = f"""
from psycopg_pool import ConnectionPool

class Invoices:
    def __init__(self, pool: ConnectionPool):
        self._pool = pool

    @property
    def pool(self):
        if self._pool is None:
            raise RuntimeError("not open")
        return self._pool

    def count(self, tenant):
        with self.pool.connection() as conn:
            {SET}
            {WORK}
"""
A_BASE_CLASS = f"""
from psycopg_pool import ConnectionPool

class Base:
    def __init__(self, pool: ConnectionPool):
        self._pool = pool

class Invoices(Base):
    def count(self, tenant):
        with self._pool.connection() as conn:
            {SET}
            {WORK}
"""
A_DECORATOR = f"""
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")

def for_tenant(function):
    def run(tenant, *args):
        with pool.connection() as conn:
            {SET}
            return function(conn, *args)
    return run

@for_tenant
def count(conn, year):
    {WORK}
"""
A_DECORATOR_OF_A_METHOD = f"""
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")

def for_tenant(method):
    def run(self, *args):
        with pool.connection() as conn:
            tenant = self.tenant
            {SET}
            return method(self, conn, *args)
    return run

class Invoices:
    def __init__(self, tenant):
        self.tenant = tenant

    @for_tenant
    def count(self, conn, year):
        {WORK}
"""
CALLED_WITH_A_DECORATOR = f"""{A_DECORATOR_OF_A_METHOD}
def report(tenant):
    return Invoices(tenant).count(2026)
"""
A_CACHED_FUNCTION = f"""
from functools import lru_cache
from psycopg_pool import ConnectionPool

@lru_cache(maxsize=1)
def pool():
    return ConnectionPool("")

def count(tenant):
    with pool().connection() as conn:
        {SET}
        {WORK}
"""
A_CACHED_PROPERTY = f"""
from functools import cached_property
from psycopg_pool import ConnectionPool

class Database:
    @cached_property
    def pool(self):
        return ConnectionPool("")

    def count(self, tenant):
        with self.pool.connection() as conn:
            {SET}
            {WORK}
"""
A_CACHED_CONNECTION = f"""
from functools import cache
import psycopg

@cache
def connection():
    return psycopg.connect("", autocommit=True)

def count(tenant):
    conn = connection()
    {SET}
    {WORK}
"""
ENTERED_BY_HAND = f"""
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")

class ForTenant:
    def __init__(self, tenant):
        self.tenant = tenant

    def __enter__(self):
        tenant = self.tenant
        self.borrowed = pool.connection()
        conn = self.borrowed.__enter__()
        {SET}
        return conn

    def __exit__(self, *exc):
        return self.borrowed.__exit__(*exc)

def count(tenant):
    with ForTenant(tenant) as conn:
        {WORK}
"""
A_FACTORY = f"""
from psycopg_pool import ConnectionPool

def repository(dsn):
    pool = ConnectionPool(dsn)

    def count(tenant):
        with pool.connection() as conn:
            {SET}
            {WORK}

    return count

count = repository("")

def report():
    return [count(tenant) for tenant in ("1", "2")]
"""
FIELDS = f"""
from typing import NamedTuple, TypeAlias
from psycopg_pool import ConnectionPool

Pool: TypeAlias = ConnectionPool

class Resources(NamedTuple):
    pool: Pool

def count(given: Resources, tenant):
    with given.pool.connection() as conn:
        {SET}
        {WORK}
"""
SHAPES = {
    "a property": A_PROPERTY,
    "a base class": A_BASE_CLASS,
    "a decorator": A_DECORATOR,
    "a decorator of a method": A_DECORATOR_OF_A_METHOD,
    "a decorated method that is called": CALLED_WITH_A_DECORATOR,
    "a cached function": A_CACHED_FUNCTION,
    "a cached property": A_CACHED_PROPERTY,
    "a cached connection": A_CACHED_CONNECTION,
    "entered by hand": ENTERED_BY_HAND,
    "a factory": A_FACTORY,
    "fields and an alias": FIELDS,
}


@pytest.mark.parametrize("source", SHAPES.values(), ids=SHAPES)
def test_a_leak_is_seen_in_every_shape(source: str, tmp_path: Path) -> None:
    line = source[: source.index("set_config")].count("\n") + 1
    assert codes(tmp_path, source) == [f"TA101 at worker.py:{line}"]


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "a cached connection"])
def test_a_tenant_that_is_set_locally_is_fine_in_every_shape(shape: str, tmp_path: Path) -> None:
    assert codes(tmp_path, SHAPES[shape].replace("%s, false)", "%s, true)")) == []


MODULES = {
    "a pool": 'from psycopg_pool import ConnectionPool\n\npool = ConnectionPool("")\n',
    "what a function makes": (
        'from psycopg_pool import ConnectionPool\n\ndef create():\n    return ConnectionPool("")\n\npool = create()\n'
    ),
    "a part of an object": (
        "from psycopg_pool import ConnectionPool\n\n"
        "class Database:\n    def __init__(self, dsn):\n        self.pool = ConnectionPool(dsn)\n\n"
        'database = Database("")\n'
    ),
}


@pytest.mark.parametrize("module", MODULES)
def test_a_pool_of_another_module_is_known_there(module: str, tmp_path: Path) -> None:
    name = "database" if "object" in module else "pool"
    pool = "database.pool" if "object" in module else "pool"
    source = f"""
from db import {name}

def count(tenant):
    with {pool}.connection() as conn:
        {SET}
        {WORK}
"""
    assert codes(tmp_path, source, db=MODULES[module]) == ["TA101 at worker.py:6"]


def test_a_callback_may_be_a_lambda(tmp_path: Path) -> None:
    source = """
from psycopg_pool import ConnectionPool

leaves = ConnectionPool("", check=lambda conn: conn.execute("SELECT 1"))
ends = ConnectionPool("", kwargs={"autocommit": True}, check=lambda conn: conn.execute("SELECT 1"))
"""
    assert codes(tmp_path, source) == ["TA204 at worker.py:4"]


def test_a_cached_function_that_calls_itself_ends(tmp_path: Path) -> None:
    source = """
from functools import cache
import psycopg

@cache
def depth(conn, n):
    conn.execute("SELECT 1")
    return depth(conn, n - 1) + 1
"""
    assert codes(tmp_path, source) == []


CLAIM = (
    "\"SELECT id, attempts FROM jobs WHERE status = 'queued' AND attempts < 3"
    ' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"'
)


def test_an_attribute_of_a_row_is_of_the_job(tmp_path: Path) -> None:
    source = f"""
from psycopg.rows import class_row
from psycopg_pool import ConnectionPool
from jobs import Job

pool = ConnectionPool("")

def run_one():
    with pool.connection() as conn, conn.cursor(row_factory=class_row(Job)) as cur:
        job = cur.execute({CLAIM}).fetchone()
        if job is None:
            return
        cur.execute("UPDATE jobs SET attempts = %s WHERE id = %s", (job.attempts + 1, job.id))
        cur.execute("UPDATE invoices SET sent = true WHERE id = %s", (job.id,))
        cur.execute("UPDATE jobs SET status = 'done' WHERE id = %s", (job.id,))
"""
    assert codes(tmp_path, source) == ["TA301 at worker.py:13"]


def test_an_object_keeps_the_connection_that_it_is_made_with(tmp_path: Path) -> None:
    source = f"""
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")

class Runs:
    def __init__(self, conn):
        self.conn = conn

    def started(self, job):
        self.conn.execute("INSERT INTO job_runs (job_id) VALUES (%s)", (job[0],))

def run_one():
    with pool.connection() as conn:
        job = conn.execute({CLAIM}).fetchone()
        if job is None:
            return
        Runs(conn).started(job)
        conn.execute("UPDATE invoices SET sent = true WHERE id = %s", (job[0],))
        conn.execute("UPDATE jobs SET status = 'done' WHERE id = %s", (job[0],))
"""
    assert sorted(codes(tmp_path, source)) == ["TA302 at worker.py:15", "TA307 at worker.py:11"]


def test_a_value_whose_quotes_are_doubled_stays_between_its_quotes(tmp_path: Path) -> None:
    source = """
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")

def count(tenant):
    escaped = {escape}
    with pool.connection() as conn:
        conn.execute(f"SET LOCAL app.tenant = '{{escaped}}'")
        conn.execute("SELECT count(*) FROM invoices")
"""
    for escape in ("""tenant.replace("'", "''")""", """str(tenant).replace("'", "''")"""):
        assert codes(tmp_path, source.format(escape=escape)) == []
    assert codes(tmp_path, source.format(escape="tenant.strip()")) == ["TA109 at worker.py:9"]
