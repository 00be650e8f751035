"""aiopg's connections, cursors and pools: psycopg2 in its asynchronous mode, which knows nothing but autocommit.

Facts: the documentation's reference, `aiopg/connection.py`, `aiopg/pool.py` and `aiopg/utils.py`, each shown on a real
server by tests/drivers/test_aiopg.py with aiopg 1.4. Of `aiopg.sa` nothing is said.
"""

from __future__ import annotations

from auditor.drivers.model import Act, AfterBlock, Binding, Callback, Driver, Thing

_CONNECTION_METHODS = {
    "cursor": Act.CURSOR,
    "close": Act.CLOSE,
    **dict.fromkeys(("cancel", "get_backend_pid", "get_transaction_status"), Act.NOTHING),
}
_CURSOR_METHODS = {
    "execute": Act.EXECUTE,
    "callproc": Act.CALL,
    "begin": Act.OUTERMOST,
    "begin_nested": Act.TRANSACTION,
    "fetchone": Act.FETCH_ONE,
    "fetchmany": Act.FETCH_MANY,
    "fetchall": Act.FETCH_MANY,
    **dict.fromkeys(("close", "mogrify", "scroll", "setinputsizes", "setoutputsize"), Act.NOTHING),
}
_POOL_METHODS = {
    "acquire": Act.BORROW,
    "release": Act.RELEASE,
    "cursor": Act.BORROW_CURSOR,
    "close": Act.CLOSE_POOL,
    "terminate": Act.CLOSE_POOL,
    **dict.fromkeys(("clear", "wait_closed"), Act.NOTHING),
}

DRIVER = Driver(
    name="aiopg",
    packages=("aiopg",),
    makes={
        "aiopg.connect": Thing.CONNECTION,
        "aiopg.connection.connect": Thing.CONNECTION,
        "aiopg.create_pool": Thing.POOL,
        "aiopg.pool.create_pool": Thing.POOL,
    },
    types={
        "aiopg.Connection": Thing.CONNECTION,
        "aiopg.connection.Connection": Thing.CONNECTION,
        "aiopg.Cursor": Thing.CLIENT_CURSOR,
        "aiopg.connection.Cursor": Thing.CLIENT_CURSOR,
        "aiopg.Pool": Thing.POOL,
        "aiopg.pool.Pool": Thing.POOL,
    },
    methods={
        **{(Thing.CONNECTION, name): act for name, act in _CONNECTION_METHODS.items()},
        **{(Thing.CLIENT_CURSOR, name): act for name, act in _CURSOR_METHODS.items()},
        **{(Thing.POOL, name): act for name, act in _POOL_METHODS.items()},
    },
    kept_in_modules=True,
    errors=frozenset({"psycopg2.Error", "psycopg2.DatabaseError"}),
    autocommit=True,
    begins_by_itself=False,
    binding=Binding.CLIENT,
    prepares_after=None,
    after_block=AfterBlock.DROP,
    borrow_commits=False,
    release_raises=True,
    release_recovers=False,
    refuses_with="psycopg2.ProgrammingError",
    refusals_are=frozenset({"psycopg2.Error", "psycopg2.DatabaseError"}),
    pool_discards_busy=True,
    pool_closes_busy=True,
    pool_limits=("maxsize",),
    callbacks={"on_connect": Callback.CONFIGURE},
)
