"""The databases package, over asyncpg.

Facts: the documentation's pages on queries, connections and transactions, `databases/core.py` and
`databases/backends/postgres.py`, each shown on a real server by tests/drivers/test_databases.py with databases 0.9.
"""

from __future__ import annotations

from auditor.drivers.model import Act, Binding, Driver, Thing

_STATEMENTS = {
    "execute": Act.EXECUTE_ONE,
    "execute_many": Act.EXECUTE_MANY,
    "fetch_all": Act.EXECUTE_ALL,
    "fetch_one": Act.EXECUTE_ONE,
    "fetch_val": Act.EXECUTE_ONE,
    "iterate": Act.EXECUTE_ALL,
    "transaction": Act.TRANSACTION,
}
_DATABASE_METHODS = {
    **_STATEMENTS,
    "connection": Act.BORROW,
    **dict.fromkeys(("connect", "disconnect", "force_rollback"), Act.NOTHING),
}
_DATABASES = ("databases.Database", "databases.core.Database")
_CONNECTIONS = ("databases.core.Connection",)

DRIVER = Driver(
    name="databases",
    packages=("databases",),
    makes=dict.fromkeys(_DATABASES, Thing.POOL),
    types={**dict.fromkeys(_DATABASES, Thing.POOL), **dict.fromkeys(_CONNECTIONS, Thing.CONNECTION)},
    methods={
        **{(Thing.POOL, name): act for name, act in _DATABASE_METHODS.items()},
        **{(Thing.CONNECTION, name): act for name, act in _STATEMENTS.items()},
    },
    kept_in_modules=True,
    errors=frozenset(
        {"asyncpg.PostgresError", "asyncpg.exceptions.PostgresError", "asyncpg.exceptions._base.PostgresError"}
    ),
    autocommit=True,
    begins_by_itself=False,
    # Parameters are named in the text, and asyncpg's server binds them.
    binding=Binding.SERVER,
    prepares_after=1,
    of_task=True,
    speaks=("postgres", "postgresql"),
    release_raises=True,
    release_recovers=False,
    borrow_commits=False,
    pool_resets=True,
    pool_discards_busy=False,
    isolation_names={
        "read_uncommitted": "read uncommitted",
        "read_committed": "read committed",
        "repeatable_read": "repeatable read",
        "serializable": "serializable",
    },
)
