"""Tortoise's connections for PostgreSQL, over asyncpg.

Facts: the documentation's pages on connections and transactions, `tortoise/transactions.py`,
`tortoise/backends/base/client.py` and `tortoise/backends/asyncpg/client.py`, each shown on a real server by
tests/drivers/test_tortoise.py with Tortoise 1.1 over asyncpg. Its models are read by `auditor.timeline.mappers.models`.
"""

from __future__ import annotations

from auditor.drivers.model import Act, Binding, Driver, Given, Thing

_CLIENT_METHODS = {
    "execute_query": Act.EXECUTE_ALL,
    "execute_query_dict": Act.EXECUTE_ALL,
    "execute_insert": Act.EXECUTE_ONE,
    "execute_many": Act.EXECUTE_MANY,
    "execute_script": Act.EXECUTE,
    **dict.fromkeys(("acquire_connection", "close", "db_create", "db_delete"), Act.NOTHING),
}
_CLIENTS = (
    "tortoise.BaseDBAsyncClient",
    "tortoise.backends.base.client.BaseDBAsyncClient",
    "tortoise.backends.asyncpg.client.AsyncpgDBClient",
    "tortoise.backends.asyncpg.AsyncpgDBClient",
)

DRIVER = Driver(
    name="tortoise",
    packages=("tortoise",),
    makes={},
    types=dict.fromkeys(_CLIENTS, Thing.POOL),
    methods={
        **{(Thing.POOL, name): act for name, act in _CLIENT_METHODS.items()},
        **{(Thing.CONNECTION, name): act for name, act in _CLIENT_METHODS.items()},
        (Thing.CONNECTION, "commit"): Act.COMMIT,
        (Thing.CONNECTION, "rollback"): Act.ROLLBACK,
    },
    functions={
        "tortoise.transactions.in_transaction": Act.TRANSACTION,
        "tortoise.transactions.atomic": Act.TRANSACTION,
        "tortoise.connections.get": Act.HELD,
        "tortoise.connection.connections.get": Act.HELD,
        "tortoise.Tortoise.get_connection": Act.HELD,
    },
    models=frozenset({"tortoise.models.Model", "tortoise.Model"}),
    kept_in_modules=True,
    errors=frozenset({"tortoise.exceptions.BaseORMException", "tortoise.exceptions.OperationalError"}),
    autocommit=True,
    begins_by_itself=False,
    # The text goes to asyncpg as it is, which prepares each statement and keeps it in a cache.
    binding=Binding.SERVER,
    prepares_after=1,
    of_task=True,
    block_gives=Given.CONNECTION,
    release_raises=True,
    release_recovers=False,
    borrow_commits=False,
    pool_resets=True,
    pool_discards_busy=False,
)
