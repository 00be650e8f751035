"""The drivers with fewer users on the timeline: which transaction is open where, and who comes next."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from auditor.timeline.model.events import Ran
from tests.timeline.world import codes, walked

if TYPE_CHECKING:
    from pathlib import Path

LASTING, LOCAL = "SELECT set_config('app.tenant', %s, false)", "SELECT set_config('app.tenant', %s, true)"
HEADS = {
    "pg8000": """
import pg8000.dbapi
import pg8000.native
conn = pg8000.dbapi.connect("app")
native = pg8000.native.Connection("app")
""",
    "peewee": """
from peewee import IntegerField, Model, PostgresqlDatabase, TextField
from playhouse.pool import PooledPostgresqlDatabase
db, pooled = PostgresqlDatabase("app"), PooledPostgresqlDatabase("app")
class Job(Model):
    status = TextField()
    attempts = IntegerField()
    class Meta:
        database = db
""",
    "piccolo": """
from piccolo.columns import Integer, Text
from piccolo.engine.postgres import PostgresEngine
from piccolo.table import Table
DB = PostgresEngine(config={})
class Job(Table):
    status = Text()
    attempts = Integer()
""",
    "aiopg": """
import aiopg
async def main():
    async with aiopg.create_pool("app") as pool:
        while True:
            await run(pool, 1)
""",
    "databases": """
from databases import Database
database = Database("postgresql://app")
elsewhere = Database("sqlite:///app.db")
""",
    "tortoise": """
from tortoise import Tortoise, connections, fields
from tortoise.expressions import F
from tortoise.models import Model
from tortoise.transactions import atomic, in_transaction
class Job(Model):
    status = fields.TextField()
    attempts = fields.IntField()
""",
}


def kind(driver: str, source: str) -> str:
    return HEADS[driver] + textwrap.dedent(source)


KINDS = {
    # pg8000
    "what is committed stays on a connection of the module": (
        "pg8000",
        f"""
        def run(t):
            conn.cursor().execute("{LASTING}", (t,))  # TA101
            conn.commit()
        """,
    ),
    "what is local ends with the commit": (
        "pg8000",
        f"""
        def run(t):
            cursor = conn.cursor()
            cursor.execute("{LOCAL}", (t,))
            cursor.execute("SELECT * FROM invoices")
            conn.commit()
        """,
    ),
    "in autocommit nothing is local": (
        "pg8000",
        f"""
        def run(t):
            conn.autocommit = True
            conn.cursor().execute("{LOCAL}", (t,))  # TA102
        """,
    ),
    "the server binds": (
        "pg8000",
        """
        def run(t):
            conn.cursor().execute("SET LOCAL app.tenant = %s", (t,))  # TA110
            conn.rollback()
        """,
    ),
    "native statements are in autocommit": (
        "pg8000",
        """
        def run(t):
            native.run("SELECT set_config('app.tenant', :t, true)", t=t)  # TA102
        """,
    ),
    "a native transaction by hand": (
        "pg8000",
        """
        def run(t):
            native.run("BEGIN")
            native.run("SELECT set_config('app.tenant', :t, true)", t=t)
            native.run("SELECT * FROM invoices")
            native.run("COMMIT")
        """,
    ),
    # peewee
    "a database keeps its connection": (
        "peewee",
        f"""
        def run(t):
            db.execute_sql("{LASTING}", (t,))  # TA101
        """,
    ),
    "outside of a block nothing is local": (
        "peewee",
        f"""
        def run(t):
            db.execute_sql("{LOCAL}", (t,))  # TA102
        """,
    ),
    "atomic begins": (
        "peewee",
        f"""
        def run(t):
            with db.atomic():
                db.execute_sql("{LOCAL}", (t,))
                db.execute_sql("SELECT * FROM invoices")
        """,
    ),
    "atomic as a decorator begins": (
        "peewee",
        f"""
        @db.atomic()
        def run(t):
            db.execute_sql("{LOCAL}", (t,))
            db.execute_sql("SELECT * FROM invoices")
        """,
    ),
    "what is closed is opened anew": (
        "peewee",
        f"""
        def run(t):
            with db:
                db.execute_sql("{LASTING}", (t,))
        """,
    ),
    "what is closed goes back to the pool": (
        "peewee",
        f"""
        def run(t):
            with pooled.connection_context():
                pooled.execute_sql("{LASTING}", (t,))  # TA101
        """,
    ),
    "rollback() of a block ends what is local, and begins anew": (
        "peewee",
        f"""
        def run(t):
            with db.atomic() as txn:
                db.execute_sql("{LOCAL}", (t,))
                db.execute_sql("SELECT * FROM invoices")
                txn.commit()
                db.execute_sql("UPDATE invoices SET sent = true")  # TA103
        """,
    ),
    "a model's lock in autocommit": (
        "peewee",
        """
        def run(work):
            waiting = Job.select().where(Job.status == "queued")
            job = waiting.limit(1).for_update("FOR UPDATE SKIP LOCKED").first()  # TA410
            work(job)
            Job.update(status="done").where(Job.id == job.id).execute()
        """,
    ),
    "a model counts in the transaction of the work": (
        "peewee",
        """
        def run(work):
            with db.atomic():
                job = Job.select().where(Job.status == "queued").limit(1).for_update(skip_locked=True).get()  # TA305
                Job.update(attempts=Job.attempts + 1).where(Job.id == job.id).execute()  # TA301
                work(job)
                job.status = "done"
                job.save()
        """,
    ),
    # piccolo
    "each statement has a connection of its own": (
        "piccolo",
        """
        async def run(t):
            await Job.raw("SELECT set_config('app.tenant', {}, false)", t)  # TA112
            await Job.raw("SELECT * FROM invoices")
        """,
    ),
    "a block has one connection, and begins": (
        "piccolo",
        """
        async def run(t):
            async with DB.transaction():
                await Job.raw("SELECT set_config('app.tenant', {}, true)", t)
                await Job.raw("SELECT * FROM invoices")
        """,
    ),
    "a statement that is put together and run": (
        "piccolo",
        """
        async def run(work):
            jobs = await Job.objects().where(Job.status == "queued").limit(1).lock_rows(skip_locked=True)  # TA410
            for job in jobs:
                work(job)
                await Job.update({Job.status: "done"}).where(Job.id == job.id).run()
        """,
    ),
    # aiopg
    "a pool keeps what the session holds": (
        "aiopg",
        f"""
        async def run(pool, t):
            async with pool.acquire() as conn, conn.cursor() as cur:
                await cur.execute("{LASTING}", (t,))  # TA101
        """,
    ),
    "so does one that gives a cursor": (
        "aiopg",
        f"""
        async def run(pool, t):
            with (await pool.cursor()) as cur:
                await cur.execute("{LOCAL}", (t,))  # TA102
                await cur.execute("SELECT * FROM invoices")
        """,
    ),
    "begin() begins": (
        "aiopg",
        f"""
        async def run(pool, t):
            async with pool.acquire() as conn, conn.cursor() as cur:
                async with cur.begin():
                    await cur.execute("{LOCAL}", (t,))
                    await cur.execute("SELECT * FROM invoices")
                await cur.execute("{LOCAL}", (t,))  # TA102
        """,
    ),
    "what comes back in a transaction is closed": (
        "aiopg",
        f"""
        async def run(pool, t):
            async with pool.acquire() as conn, conn.cursor() as cur:
                await cur.execute("{LASTING}", (t,))
                await cur.execute("BEGIN")
                await cur.execute("SELECT * FROM invoices")
        """,
    ),
    # databases
    "a statement outside of any block": (
        "databases",
        """
        async def run(t):
            await database.execute("SELECT set_config('app.tenant', :t, true)", {"t": t})  # TA102
        """,
    ),
    "a transaction of the task": (
        "databases",
        """
        async def run(t):
            async with database.transaction():
                await database.execute("SELECT set_config('app.tenant', :t, true)", {"t": t})
                await database.fetch_all("SELECT * FROM invoices")
        """,
    ),
    "a transaction of the task that is ended by hand": (
        "databases",
        """
        async def run(t):
            transaction = await database.transaction()
            try:
                await database.execute("SELECT set_config('app.tenant', :t, true)", {"t": t})
                await database.fetch_all("SELECT * FROM invoices")
            except Exception:
                await transaction.rollback()
                raise
            else:
                await transaction.commit()
            await database.execute("SELECT set_config('app.tenant', :t, true)", {"t": t})  # TA102
        """,
    ),
    "a transaction of the task as a decorator": (
        "databases",
        """
        @database.transaction()
        async def run(t):
            await database.execute("SELECT set_config('app.tenant', :t, true)", {"t": t})
            await database.fetch_all("SELECT * FROM invoices")
        """,
    ),
    "another database": (
        "databases",
        """
        async def run(t):
            await elsewhere.execute("SELECT set_config('app.tenant', :t, true)", {"t": t})
        """,
    ),
    "the pool sets back what a connection holds": (
        "databases",
        """
        async def run(t):
            async with database.connection() as conn:
                await conn.execute("SELECT set_config('app.tenant', :t, false)", {"t": t})
                await database.fetch_all("SELECT * FROM invoices")
        """,
    ),
    # Tortoise
    "a statement of the default connection": (
        "tortoise",
        """
        async def run(t):
            conn = connections.get("default")
            await conn.execute_query("SELECT set_config('app.tenant', $1, true)", [t])  # TA102
        """,
    ),
    "in_transaction() holds for whoever runs in it": (
        "tortoise",
        """
        async def run(t):
            async with in_transaction() as conn:
                await conn.execute_query("SELECT set_config('app.tenant', $1, true)", [t])
                await Tortoise.get_connection("default").execute_query("SELECT * FROM invoices")
        """,
    ),
    "atomic() holds for each call": (
        "tortoise",
        """
        @atomic()
        async def run(t):
            await connections.get("default").execute_query("SELECT set_config('app.tenant', $1, true)", [t])
            await connections.get("default").execute_query("SELECT * FROM invoices")
        """,
    ),
    "a model that is locked outside of a transaction": (
        "tortoise",
        """
        async def run(work):
            job = await Job.filter(status="queued").select_for_update(skip_locked=True).first()  # TA410
            await work(job)
            await Job.filter(id=job.id).update(status="done")
        """,
    ),
    "a model that is counted in the transaction of the work": (
        "tortoise",
        """
        async def run(work):
            async with in_transaction():
                job = await Job.filter(status="queued").select_for_update(skip_locked=True).first()  # TA305
                await Job.filter(id=job.id).update(attempts=F("attempts") + 1)  # TA301
                await work(job)
                await job.delete()
        """,
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds(name: str, tmp_path: Path) -> None:
    driver, body = KINDS[name]
    source = kind(driver, body)
    wanted = [
        f"{line.rpartition('# ')[2]} at worker.py:{number}"
        for number, line in enumerate(source.splitlines(), 1)
        if "# TA" in line
    ]
    assert sorted(codes(tmp_path, source)) == sorted(wanted)


def test_what_is_opened_again_is_opened_with_the_same_options(tmp_path: Path) -> None:
    source = """
    from peewee import PostgresqlDatabase
    db = PostgresqlDatabase("app", user="owner", options="-c app.tenant=acme")

    def run():
        db.execute_sql("SET app.user = 1")
        db.close()
        db.execute_sql("UPDATE jobs SET state = 'done'")
    """
    ran = [event for event in walked(tmp_path, {"worker.py": source}).events if isinstance(event, Ran)]
    last = ran[-1].before
    assert last.user == "owner"
    assert [(setting.name, setting.current.value) for setting in last.settings] == [("app.tenant", "acme")]
