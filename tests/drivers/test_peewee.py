"""What `auditor/drivers/peewee.py` and `auditor/timeline/mappers/records.py` say of peewee, shown on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import peewee
import pytest
from playhouse.pool import PooledPostgresqlDatabase
from psycopg.conninfo import conninfo_to_dict

from auditor.drivers.model import Act, AfterBlock, Binding, Given, Thing
from auditor.drivers.peewee import DRIVER

SESSION = "SELECT set_config('app.tenant', '1', false)"
LOCAL = "SELECT set_config('app.tenant', '1', true)"
READ = "SELECT current_setting('app.tenant', true)"


def made(cls: Any, dsn: str, **more: Any) -> Any:
    told = conninfo_to_dict(dsn)
    place = {name: told[name] for name in ("host", "port", "user") if told.get(name)}
    return cls(told["dbname"], **place, **more)


@pytest.fixture
def db(database: str) -> Iterator[Any]:
    one = made(peewee.PostgresqlDatabase, database)
    yield one
    if not one.is_closed():
        one.connection().close()


def tenant(db: Any) -> str | None:
    return db.execute_sql(READ).fetchone()[0]  # type: ignore[no-any-return]


def backend(db: Any) -> int:
    return db.execute_sql("SELECT pg_backend_pid()").fetchone()[0]  # type: ignore[no-any-return]


def test_statements_begin_no_transaction_and_share_a_connection(db: Any) -> None:
    assert DRIVER.autocommit
    assert not DRIVER.begins_by_itself
    pid = backend(db)
    db.execute_sql(LOCAL)
    assert not tenant(db)
    db.execute_sql(SESSION)
    assert tenant(db) == "1"
    assert backend(db) == pid


def test_the_client_binds(db: Any) -> None:
    assert DRIVER.binding is Binding.CLIENT
    db.execute_sql("SET app.tenant = %s", ("7",))
    assert tenant(db) == "7"


def test_atomic_commits_or_rolls_back(db: Any) -> None:
    with pytest.raises(KeyError), db.atomic():
        db.execute_sql(SESSION)
        raise KeyError
    assert not tenant(db)
    with db.atomic():
        db.execute_sql(LOCAL)
        assert tenant(db) == "1"
    assert not tenant(db)
    with db.atomic():
        db.execute_sql(SESSION)
    assert tenant(db) == "1"


def test_atomic_in_atomic_is_a_savepoint_that_recovers(db: Any) -> None:
    assert DRIVER.release_raises
    assert DRIVER.release_recovers
    with db.atomic():
        with pytest.raises(KeyError), db.atomic():
            db.execute_sql(LOCAL)
            raise KeyError
        assert not tenant(db)
        with db.atomic():
            db.execute_sql(LOCAL)
        assert tenant(db) == "1"
        with pytest.raises(peewee.InternalError), db.atomic(), pytest.raises(peewee.DataError):
            db.execute_sql("SELECT 1 / 0")
        assert tenant(db) == "1"


def test_transaction_in_transaction_takes_part_and_dooms_nothing(db: Any) -> None:
    assert not DRIVER.join_dooms
    with db.transaction():
        with pytest.raises(KeyError), db.transaction():
            db.execute_sql(SESSION)
            raise KeyError
        assert tenant(db) == "1"
    assert tenant(db) == "1"


def test_a_savepoint_wants_a_transaction(db: Any) -> None:
    with pytest.raises(peewee.PeeweeException, match="can only be used in transaction blocks"), db.savepoint():
        pytest.fail("the block was entered")
    with db.atomic(), pytest.raises(KeyError), db.savepoint():
        db.execute_sql(LOCAL)
        raise KeyError


def test_what_a_block_gives_ends_it_and_begins_anew(db: Any) -> None:
    assert DRIVER.block_gives is Given.RENEWING
    with db.atomic() as txn:
        db.execute_sql(SESSION)
        txn.rollback()
        assert not tenant(db)
        db.execute_sql(LOCAL)
        assert tenant(db) == "1"
        txn.commit()
        assert not tenant(db)
        db.execute_sql(LOCAL)
        assert tenant(db) == "1"
        with db.atomic() as inner:
            db.execute_sql("SELECT set_config('app.tenant', '2', true)")
            inner.rollback()
            assert tenant(db) == "1"
            db.execute_sql("SELECT set_config('app.tenant', '3', true)")
        assert tenant(db) == "3"


def test_transactions_by_hand(db: Any) -> None:
    db.connect()
    with db.manual_commit():
        db.begin()
        db.execute_sql(SESSION)
        db.rollback()
        assert not tenant(db)
        db.begin()
        db.execute_sql(SESSION)
        db.commit()
    assert tenant(db) == "1"


def test_a_failure_that_is_caught_leaves_the_block_aborted_and_its_end_says_nothing(db: Any) -> None:
    with db.atomic():
        db.execute_sql(SESSION)
        with pytest.raises(peewee.DataError):
            db.execute_sql("SELECT 1 / 0")
        with pytest.raises(peewee.InternalError):
            db.execute_sql("SELECT 1")
    assert not tenant(db)


def test_a_connection_that_was_closed_is_opened_anew(db: Any) -> None:
    assert DRIVER.reopens
    db.execute_sql(SESSION)
    pid = backend(db)
    db.close()
    assert not tenant(db)
    assert backend(db) != pid


def test_with_database_is_a_transaction_and_the_outermost_closes(db: Any) -> None:
    assert DRIVER.after_block is AfterBlock.END
    with db:
        pid = backend(db)
        db.execute_sql("CREATE TABLE kept (n int)")
        with db:
            assert backend(db) == pid
            db.execute_sql(SESSION)
        assert tenant(db) == "1"
    assert db.is_closed()
    assert not tenant(db)
    assert db.execute_sql("SELECT count(*) FROM kept").fetchone() == (0,)


def test_a_connection_context_closes_and_begins_nothing(db: Any) -> None:
    with db.connection_context():
        db.execute_sql(LOCAL)
        assert not tenant(db)
        with db.connection_context():
            db.execute_sql(SESSION)
        assert tenant(db) == "1"
    assert db.is_closed()


def test_a_pool_keeps_what_the_session_holds(database: str) -> None:
    assert DRIVER.makes["playhouse.pool.PooledPostgresqlDatabase"] is Thing.POOLED
    pooled = made(PooledPostgresqlDatabase, database, max_connections=1)
    pooled.connect()
    pid = backend(pooled)
    pooled.execute_sql(SESSION)
    pooled.close()
    pooled.connect()
    assert backend(pooled) == pid
    assert tenant(pooled) == "1"
    pooled.manual_close()
    assert not tenant(pooled)
    pooled.manual_close()


def test_errors(db: Any) -> None:
    with pytest.raises(peewee.DatabaseError) as caught:
        db.execute_sql("SELECT 1 / 0")
    lineage = {f"{one.__module__}.{one.__name__}" for one in type(caught.value).__mro__}
    assert DRIVER.errors <= lineage


def test_a_decorator_is_a_block_for_each_call(db: Any) -> None:
    @db.atomic()
    def work() -> str | None:
        db.execute_sql(LOCAL)
        return tenant(db)

    assert work() == "1"
    assert not tenant(db)


# Models


class Job(peewee.Model):
    status = peewee.TextField()
    attempts = peewee.IntegerField(default=0)


class Note(peewee.Model):
    class Meta:
        table_name = "notes"


def sent(db: Any, call: Any) -> list[str]:
    """The statements of a call, in order."""
    seen: list[str] = []
    execute = db.execute_sql

    def spy(sql: str, params: Any = None) -> Any:
        seen.append(sql)
        return execute(sql, params)

    db.execute_sql = spy
    try:
        call()
    finally:
        db.execute_sql = execute
    return seen


def test_tables_are_named_after_their_models() -> None:
    assert Job._meta.table_name == "job"
    assert Note._meta.table_name == "notes"


def test_statements_of_models(db: Any) -> None:
    with db.bind_ctx([Job]):
        db.create_tables([Job])
        waiting = Job.select().where(Job.status == "queued")
        assert sent(db, waiting.for_update) == []
        (claim,) = sent(db, lambda: waiting.limit(1).for_update("FOR UPDATE SKIP LOCKED").first())
        assert claim.endswith("FOR UPDATE SKIP LOCKED")
        (claim,) = sent(db, lambda: list(waiting.for_update(skip_locked=True)))
        assert claim.endswith("FOR UPDATE SKIP LOCKED")
        job = Job.create(status="queued")
        count = Job.update(attempts=Job.attempts + 1, status="running").where(Job.id == job.id)
        (change,) = sent(db, count.execute)
        assert change.startswith('UPDATE "job" SET ')
        assert '"attempts" = ("job"."attempts" + %s)' in change
        job.status = "done"
        (change,) = sent(db, job.save)
        assert change.startswith('UPDATE "job" SET ')
        (gone,) = sent(db, lambda: Job.delete().where(Job.id == job.id).execute())
        assert gone.startswith('DELETE FROM "job"')
        (raw,) = sent(db, lambda: list(Job.raw("SELECT * FROM job WHERE status = %s", "queued")))
        assert raw == "SELECT * FROM job WHERE status = %s"
        with pytest.raises(Job.DoesNotExist):
            Job.get(Job.id == job.id)


# The tables


def test_the_names_of_things_are_the_librarys() -> None:
    import importlib

    older = {"playhouse.pool.PooledPostgresqlExtDatabase"}
    for name in {*DRIVER.makes, *DRIVER.types, *DRIVER.errors} - older:
        home, _, attribute = name.rpartition(".")
        assert callable(getattr(importlib.import_module(home), attribute)), name


def test_the_methods_are_the_librarys() -> None:
    known = (peewee.PostgresqlDatabase, PooledPostgresqlDatabase, peewee.DatabaseProxy)
    for (thing, name), act in DRIVER.methods.items():
        if thing is Thing.CONNECTION:
            assert any(hasattr(cls, name) for cls in known), name
            assert isinstance(act, Act)
