"""peewee's databases for PostgreSQL, with those of its playhouse: one connection a thread, in autocommit.

Facts: the documentation's pages on databases and transactions, `peewee.py` and `playhouse/pool.py`, each shown on a
real server by tests/drivers/test_peewee.py with peewee 4.5 over psycopg2.
"""

from __future__ import annotations

from auditor.drivers.model import Act, AfterBlock, Binding, Driver, Given, Thing

_KEPT = (
    "peewee.PostgresqlDatabase",
    "peewee.DatabaseProxy",
    "peewee.Proxy",
    "playhouse.postgres_ext.PostgresqlExtDatabase",
)
_POOLED = (
    "playhouse.pool.PooledPostgresqlDatabase",
    "playhouse.pool.PooledPostgresqlExtDatabase",
    "playhouse.postgres_ext.PooledPostgresqlExtDatabase",
)

_DATABASE_METHODS = {
    "execute_sql": Act.EXECUTE,
    "execute": Act.EXECUTE,
    "cursor": Act.CURSOR,
    "connection": Act.SAME,
    "atomic": Act.TRANSACTION,
    "transaction": Act.JOIN,
    "savepoint": Act.NEST,
    "connection_context": Act.HOLD,
    "begin": Act.START,
    "commit": Act.COMMIT,
    "rollback": Act.ROLLBACK,
    "close": Act.CLOSE,
    "manual_close": Act.DISCARD,
    **dict.fromkeys(
        (
            *("connect", "init", "initialize", "bind", "bind_ctx", "manual_commit", "is_closed", "in_transaction"),
            *("is_connection_usable", "create_tables", "drop_tables", "table_exists", "transaction_depth"),
            *("close_idle", "close_stale", "close_all", "after_commit"),
        ),
        Act.NOTHING,
    ),
}
_CURSOR_METHODS = {
    "execute": Act.EXECUTE,
    "executemany": Act.EXECUTE_MANY,
    "fetchone": Act.FETCH_ONE,
    "fetchmany": Act.FETCH_MANY,
    "fetchall": Act.FETCH_MANY,
    "close": Act.NOTHING,
}

DRIVER = Driver(
    name="peewee",
    packages=("peewee", "playhouse"),
    makes={**dict.fromkeys(_KEPT, Thing.CONNECTION), **dict.fromkeys(_POOLED, Thing.POOLED)},
    types={**dict.fromkeys((*_KEPT, *_POOLED, "peewee.Database"), Thing.CONNECTION)},
    methods={
        **{(Thing.CONNECTION, name): act for name, act in _DATABASE_METHODS.items()},
        **{(Thing.CURSOR, name): act for name, act in _CURSOR_METHODS.items()},
    },
    models=frozenset({"peewee.Model", "playhouse.signals.Model"}),
    kept_in_modules=True,
    errors=frozenset({"peewee.DatabaseError", "peewee.PeeweeException"}),
    autocommit=True,
    begins_by_itself=False,
    # psycopg2 where it is there, and nothing else was asked for.
    binding=Binding.CLIENT,
    prepares_after=None,
    after_block=AfterBlock.END,
    join_dooms=False,
    block_gives=Given.RENEWING,
    release_raises=True,
    reopens=True,
)
