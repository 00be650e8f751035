"""piccolo's engine for PostgreSQL, over asyncpg.

Facts: the documentation's pages on engines and transactions, `piccolo/engine/postgres.py` and `piccolo/querystring.py`,
each shown on a real server by tests/drivers/test_piccolo.py with piccolo 1.38.
"""

from __future__ import annotations

from auditor.drivers.model import Act, Binding, Driver, Given, Thing

_ENGINES = ("piccolo.engine.postgres.PostgresEngine", "piccolo.engine.PostgresEngine")

_ENGINE_METHODS = {
    "transaction": Act.JOIN,
    "run_querystring": Act.EXECUTE_ALL,
    "run_ddl": Act.EXECUTE_ALL,
    **dict.fromkeys(
        (
            *("atomic", "batch", "get_new_connection", "transaction_exists", "transform_response_to_dicts"),
            *("start_connection_pool", "close_connection_pool"),
            *("get_version", "get_version_sync", "check_version", "prep_database"),
        ),
        Act.NOTHING,
    ),
}

DRIVER = Driver(
    name="piccolo",
    packages=("piccolo",),
    makes=dict.fromkeys(_ENGINES, Thing.POOL),
    types=dict.fromkeys(_ENGINES, Thing.POOL),
    methods={(Thing.POOL, name): act for name, act in _ENGINE_METHODS.items()},
    models=frozenset({"piccolo.table.Table", "piccolo.Table"}),
    kept_in_modules=True,
    errors=frozenset(
        {"asyncpg.PostgresError", "asyncpg.exceptions.PostgresError", "asyncpg.exceptions._base.PostgresError"}
    ),
    autocommit=True,
    begins_by_itself=False,
    spreads_parameters=True,
    placeholder="{}",
    binding=Binding.SERVER,
    # asyncpg's cache of statements, which the engine's pool keeps.
    prepares_after=1,
    of_task=True,
    join_dooms=False,
    block_gives=Given.ENDING,
    borrow_commits=False,
    # A connection that is taken for a statement is new, or comes out of asyncpg's pool and is set back there.
    pool_resets=True,
    pool_discards_busy=False,
)
