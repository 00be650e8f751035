"""asyncpg and its pool.

Facts: the documentation's API reference, `asyncpg/connection.py`, `transaction.py` and `pool.py`, each shown on a real
server by tests/drivers/test_asyncpg.py with asyncpg 0.32.
"""

from __future__ import annotations

from auditor.drivers.model import Act, Binding, Callback, Driver, Thing

_POOLS = ("asyncpg.Pool", "asyncpg.pool.Pool")
_CONNECTIONS = ("asyncpg.Connection", "asyncpg.connection.Connection", "asyncpg.pool.PoolConnectionProxy")

#: What a pool does on a connection that it takes out for the call alone.
_STATEMENTS = {
    "execute": Act.EXECUTE,
    "executemany": Act.EXECUTE_MANY,
    "fetch": Act.EXECUTE_ALL,
    "fetchrow": Act.EXECUTE_ONE,
    "fetchval": Act.EXECUTE_ONE,
    "fetchmany": Act.EXECUTE_MANY,
    "copy_from_query": Act.EXECUTE,
    "copy_from_table": Act.NOTHING,
    "copy_to_table": Act.NOTHING,
    "copy_records_to_table": Act.NOTHING,
}
_CONNECTION_METHODS = {
    **_STATEMENTS,
    "cursor": Act.EXECUTE_ALL,
    "prepare": Act.PREPARE,
    "transaction": Act.TRANSACTION,
    "close": Act.CLOSE,
    "terminate": Act.CLOSE,
    "reset": Act.RESET,
    **dict.fromkeys(
        (
            *("is_closed", "is_in_transaction", "get_server_pid", "get_server_version", "get_settings"),
            *("get_reset_query", "reload_schema_state", "query_logger"),
            *("set_type_codec", "reset_type_codec", "set_builtin_type_codec"),
            *("add_listener", "remove_listener", "add_log_listener", "remove_log_listener"),
            *("add_termination_listener", "remove_termination_listener", "add_query_logger", "remove_query_logger"),
        ),
        Act.NOTHING,
    ),
}
_STATEMENT_METHODS = {
    "fetch": Act.EXECUTE_ALL,
    "fetchrow": Act.EXECUTE_ONE,
    "fetchval": Act.EXECUTE_ONE,
    "fetchmany": Act.EXECUTE_MANY,
    "executemany": Act.EXECUTE_MANY,
    "cursor": Act.EXECUTE_ALL,
    **dict.fromkeys(
        ("explain", "get_name", "get_query", "get_statusmsg", "get_parameters", "get_attributes", "is_closed"),
        Act.NOTHING,
    ),
}
_POOL_METHODS = {
    **_STATEMENTS,
    "acquire": Act.BORROW,
    "release": Act.RELEASE,
    "close": Act.CLOSE_POOL,
    "terminate": Act.CLOSE_POOL,
    **dict.fromkeys(
        (
            *("expire_connections", "is_closing", "set_connect_args"),
            *("get_size", "get_init_size", "get_min_size", "get_max_size", "get_idle_size"),
        ),
        Act.NOTHING,
    ),
}

DRIVER = Driver(
    name="asyncpg",
    packages=("asyncpg",),
    makes={
        "asyncpg.connect": Thing.CONNECTION,
        "asyncpg.connection.connect": Thing.CONNECTION,
        "asyncpg.create_pool": Thing.POOL,
        "asyncpg.pool.create_pool": Thing.POOL,
        **dict.fromkeys(_POOLS, Thing.POOL),
    },
    types={
        **dict.fromkeys(_CONNECTIONS, Thing.CONNECTION),
        **dict.fromkeys(_POOLS, Thing.POOL),
    },
    methods={
        **{(Thing.CONNECTION, name): act for name, act in _CONNECTION_METHODS.items()},
        **{(Thing.STATEMENT, name): act for name, act in _STATEMENT_METHODS.items()},
        **{(Thing.POOL, name): act for name, act in _POOL_METHODS.items()},
    },
    errors=frozenset(
        {"asyncpg.PostgresError", "asyncpg.exceptions.PostgresError", "asyncpg.exceptions._base.PostgresError"}
    ),
    spoken=(
        frozenset({"fetchrow", "execute"}),
        frozenset({"fetchval", "execute"}),
        frozenset({"fetchrow", "acquire"}),
        frozenset({"fetchval", "acquire"}),
        frozenset({"fetch", "execute", "transaction"}),
        frozenset({"fetch", "execute", "acquire"}),
    ),
    autocommit=True,
    begins_by_itself=False,
    spreads_parameters=True,
    binding=Binding.SERVER,
    # Each statement that is not sent as plain text is prepared, and kept in a cache.
    prepares_after=1,
    cache_option="statement_cache_size",
    block_counts=True,
    reset_keeps=frozenset({"role", "session_authorization"}),
    borrow_commits=False,
    release_raises=True,
    release_recovers=False,
    rollback_raises=True,
    refuses_with="asyncpg.InterfaceError",
    refusals_are=frozenset({"asyncpg.exceptions.InterfaceError", "asyncpg.exceptions._base.InterfaceError"}),
    pool_discards_busy=False,
    pool_resets=True,
    pool_limits=("max_size",),
    callbacks={"init": Callback.CONFIGURE, "setup": Callback.CHECKOUT, "reset": Callback.RESET},
    isolation_names={
        "read_uncommitted": "read uncommitted",
        "read_committed": "read committed",
        "repeatable_read": "repeatable read",
        "serializable": "serializable",
    },
)
