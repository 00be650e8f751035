"""psycopg 3 and psycopg_pool.

Facts: the documentation's pages on transactions, pools and prepared statements, each shown on a real server by
tests/drivers/test_psycopg.py and test_psycopg_pool.py with psycopg 3.3 and psycopg_pool 3.3.
"""

from __future__ import annotations

from auditor.drivers.model import Act, AfterBlock, Binding, Callback, Driver, Filling, Thing

_CONNECTIONS = (
    "psycopg.Connection",
    "psycopg.AsyncConnection",
    "psycopg.connection.Connection",
    "psycopg.connection_async.AsyncConnection",
)
_POOLS = (
    "psycopg_pool.ConnectionPool",
    "psycopg_pool.AsyncConnectionPool",
    "psycopg_pool.pool.ConnectionPool",
    "psycopg_pool.pool_async.AsyncConnectionPool",
)
_NULL_POOLS = (
    "psycopg_pool.NullConnectionPool",
    "psycopg_pool.AsyncNullConnectionPool",
    "psycopg_pool.null_pool.NullConnectionPool",
    "psycopg_pool.null_pool_async.AsyncNullConnectionPool",
)
_CURSORS = ("psycopg.Cursor", "psycopg.AsyncCursor", "psycopg.ServerCursor", "psycopg.AsyncServerCursor")
_RAW_CURSORS = (
    "psycopg.RawCursor",
    "psycopg.AsyncRawCursor",
    "psycopg.RawServerCursor",
    "psycopg.AsyncRawServerCursor",
)
_CLIENT_CURSORS = ("psycopg.ClientCursor", "psycopg.AsyncClientCursor")

_POOL_METHODS = {
    "connection": Act.BORROW,
    "getconn": Act.ACQUIRE,
    "putconn": Act.RELEASE,
    "close": Act.CLOSE_POOL,
    "open": Act.NOTHING,
    "wait": Act.NOTHING,
    "check": Act.NOTHING,
    "resize": Act.NOTHING,
    "drain": Act.NOTHING,
    "get_stats": Act.NOTHING,
    "pop_stats": Act.NOTHING,
    "check_connection": Act.CHECK,
}
_CURSOR_METHODS = {
    "execute": Act.EXECUTE,
    "executemany": Act.EXECUTE_MANY,
    "stream": Act.EXECUTE,
    "copy": Act.COPY,
    "fetchone": Act.FETCH_ONE,
    "fetchall": Act.FETCH_MANY,
    "fetchmany": Act.FETCH_MANY,
    "close": Act.NOTHING,
    "scroll": Act.NOTHING,
    "nextset": Act.NOTHING,
    "results": Act.NOTHING,
    "set_result": Act.NOTHING,
    "mogrify": Act.NOTHING,
}
_CONNECTION_METHODS = {
    "execute": Act.EXECUTE,
    "cursor": Act.CURSOR,
    "commit": Act.COMMIT,
    "rollback": Act.ROLLBACK,
    "close": Act.CLOSE,
    "transaction": Act.TRANSACTION,
    "pipeline": Act.PIPELINE,
    "set_autocommit": Act.SET_AUTOCOMMIT,
    "set_isolation_level": Act.SET_ISOLATION,
    "set_read_only": Act.NOTHING,
    "set_deferrable": Act.NOTHING,
    "add_notice_handler": Act.NOTHING,
    "remove_notice_handler": Act.NOTHING,
    "add_notify_handler": Act.NOTHING,
    "remove_notify_handler": Act.NOTHING,
    "notifies": Act.NOTHING,
    "cancel": Act.NOTHING,
    "cancel_safe": Act.NOTHING,
    "fileno": Act.NOTHING,
    "wait": Act.NOTHING,
}

_ERRORS = frozenset({"psycopg.Error", "psycopg.DatabaseError", "psycopg.errors.Error", "psycopg.errors.DatabaseError"})

DRIVER = Driver(
    name="psycopg",
    packages=("psycopg", "psycopg_pool"),
    makes={
        "psycopg.connect": Thing.CONNECTION,
        **{f"{name}.connect": Thing.CONNECTION for name in _CONNECTIONS},
        **dict.fromkeys(_POOLS, Thing.POOL),
        **dict.fromkeys(_NULL_POOLS, Thing.NULL_POOL),
        **dict.fromkeys(_CURSORS, Thing.CURSOR),
        **dict.fromkeys(_RAW_CURSORS, Thing.CURSOR),
        **dict.fromkeys(_CLIENT_CURSORS, Thing.CLIENT_CURSOR),
    },
    types={
        **dict.fromkeys(_CONNECTIONS, Thing.CONNECTION),
        **dict.fromkeys(_POOLS, Thing.POOL),
        **dict.fromkeys(_NULL_POOLS, Thing.NULL_POOL),
        **dict.fromkeys((*_CURSORS, *_RAW_CURSORS), Thing.CURSOR),
        **dict.fromkeys(_CLIENT_CURSORS, Thing.CLIENT_CURSOR),
    },
    methods={
        **{(Thing.CONNECTION, name): act for name, act in _CONNECTION_METHODS.items()},
        **{
            (thing, name): act for thing in (Thing.CURSOR, Thing.CLIENT_CURSOR) for name, act in _CURSOR_METHODS.items()
        },
        **{(thing, name): act for thing in (Thing.POOL, Thing.NULL_POOL) for name, act in _POOL_METHODS.items()},
    },
    errors=_ERRORS,
    begins_by_itself=True,
    binding=Binding.SERVER,
    prepares_after=5,
    # Only where its text is first seen while statements are cached (3.3.9; the rule's page has the figures).
    notices_discard=(3, 3, 5),
    after_block=AfterBlock.CLOSE,
    block_forbids_commit=True,
    release_raises=True,
    release_recovers=False,
    block_rollbacks=frozenset({"psycopg.Rollback", "psycopg.transaction.Rollback"}),
    autocommit_switch_raises=True,
    refuses_with="psycopg.ProgrammingError",
    refusals_are=_ERRORS | {"psycopg.errors.ProgrammingError"},
    pool_discards_busy=True,
    pool_kwargs="kwargs",
    pool_limits=("max_size", "min_size"),
    callbacks={"configure": Callback.CONFIGURE, "check": Callback.CHECK, "reset": Callback.RESET},
    isolation_names={
        "psycopg.IsolationLevel.READ_UNCOMMITTED": "read uncommitted",
        "psycopg.IsolationLevel.READ_COMMITTED": "read committed",
        "psycopg.IsolationLevel.REPEATABLE_READ": "repeatable read",
        "psycopg.IsolationLevel.SERIALIZABLE": "serializable",
    },
    template_formats={
        **dict.fromkeys(("", "s", "t", "b"), Filling.PARAMETER),
        "i": Filling.IDENTIFIER,
        "l": Filling.LITERAL,
        "q": Filling.SQL,
    },
)
