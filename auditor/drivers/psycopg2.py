"""psycopg2 and its pools.

Facts: the documentation's pages on connections and pools and `psycopg2/pool.py`, each shown on a real server by
tests/drivers/test_psycopg2.py with psycopg2 2.9. What 2.8 did differently was seen with 2.8.6.
"""

from __future__ import annotations

from auditor.drivers.model import Act, AfterBlock, Binding, Driver, Thing

_POOLS = (
    "psycopg2.pool.SimpleConnectionPool",
    "psycopg2.pool.ThreadedConnectionPool",
    "psycopg2.pool.AbstractConnectionPool",
)
_CONNECTIONS = (
    "psycopg2.extensions.connection",
    "psycopg2._psycopg.connection",
    "psycopg2.extras.LoggingConnection",
    "psycopg2.extras.MinTimeLoggingConnection",
)
_CURSORS = (
    "psycopg2.extensions.cursor",
    "psycopg2._psycopg.cursor",
    "psycopg2.extras.DictCursor",
    "psycopg2.extras.RealDictCursor",
    "psycopg2.extras.NamedTupleCursor",
    "psycopg2.extras.LoggingCursor",
)

_CONNECTION_METHODS = {
    "cursor": Act.CURSOR,
    "commit": Act.COMMIT,
    "rollback": Act.ROLLBACK,
    "close": Act.CLOSE,
    "reset": Act.RESET,
    "set_session": Act.SET_SESSION,
    "set_isolation_level": Act.SET_ISOLATION,
    "set_client_encoding": Act.NOTHING,
    "poll": Act.NOTHING,
    "fileno": Act.NOTHING,
    "cancel": Act.NOTHING,
    "lobject": Act.NOTHING,
    "get_transaction_status": Act.NOTHING,
    "get_backend_pid": Act.NOTHING,
}
_CURSOR_METHODS = {
    "execute": Act.EXECUTE,
    "executemany": Act.EXECUTE_MANY,
    "callproc": Act.CALL,
    "copy_expert": Act.COPY,
    "copy_from": Act.NOTHING,
    "copy_to": Act.NOTHING,
    "fetchone": Act.FETCH_ONE,
    "fetchall": Act.FETCH_MANY,
    "fetchmany": Act.FETCH_MANY,
    "close": Act.NOTHING,
    "scroll": Act.NOTHING,
    "nextset": Act.NOTHING,
    "mogrify": Act.NOTHING,
}
_POOL_METHODS = {
    "getconn": Act.ACQUIRE,
    "putconn": Act.RELEASE,
    "closeall": Act.CLOSE_POOL,
}

_ERRORS = frozenset({"psycopg2.Error", "psycopg2.DatabaseError", "psycopg2.errors.Error"})

DRIVER = Driver(
    name="psycopg2",
    packages=("psycopg2",),
    makes={
        "psycopg2.connect": Thing.CONNECTION,
        **dict.fromkeys(_POOLS, Thing.POOL),
    },
    types={
        **dict.fromkeys(_CONNECTIONS, Thing.CONNECTION),
        **dict.fromkeys(_POOLS, Thing.POOL),
        **dict.fromkeys(_CURSORS, Thing.CLIENT_CURSOR),
    },
    methods={
        **{(Thing.CONNECTION, name): act for name, act in _CONNECTION_METHODS.items()},
        **{(Thing.CLIENT_CURSOR, name): act for name, act in _CURSOR_METHODS.items()},
        **{(Thing.POOL, name): act for name, act in _POOL_METHODS.items()},
    },
    errors=_ERRORS,
    helpers={
        "psycopg2.extras.execute_values": Act.EXECUTE_MANY,
        "psycopg2.extras.execute_batch": Act.EXECUTE_MANY,
    },
    begins_by_itself=True,
    watches_status=False,
    binding=Binding.CLIENT,
    prepares_after=None,
    after_block=AfterBlock.KEEP,
    # The block begins a transaction of its own when the connection is in autocommit, 2.8 did not.
    block_begins=True,
    block_begins_since=(2, 9),
    distributions=("psycopg2", "psycopg2-binary"),
    autocommit_switch_raises=True,
    refuses_with="psycopg2.ProgrammingError",
    refusals_are=_ERRORS,
    isolation_switch_rolls_back=True,
    pool_discards_busy=False,
    pool_limits=("maxconn",),
    autocommit_levels=frozenset({"psycopg2.extensions.ISOLATION_LEVEL_AUTOCOMMIT", "0"}),
    isolation_names={
        "psycopg2.extensions.ISOLATION_LEVEL_READ_COMMITTED": "read committed",
        "psycopg2.extensions.ISOLATION_LEVEL_REPEATABLE_READ": "repeatable read",
        "psycopg2.extensions.ISOLATION_LEVEL_SERIALIZABLE": "serializable",
        "1": "read committed",
        "2": "repeatable read",
        "3": "serializable",
    },
)
