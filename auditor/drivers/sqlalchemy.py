"""SQLAlchemy's engines, connections and sessions, with SQLModel's and Flask-SQLAlchemy's.

Facts: the documentation's pages on connections, sessions' transactions and pools, `sqlalchemy/engine/base.py`,
`sqlalchemy/orm/session.py` and `sqlalchemy/pool/base.py`, each shown on a real server by
tests/drivers/test_sqlalchemy.py with SQLAlchemy 2.1 over psycopg 3, psycopg2 and asyncpg. What connections of 1.4
commit by themselves is shown by tests/drivers/test_sqlalchemy_old.py.
"""

from __future__ import annotations

from auditor.drivers.model import Act, AfterBlock, Binding, Driver, Thing

_ENGINES = ("create_engine", "create_async_engine", "engine_from_config", "async_engine_from_config")
_HOMES = ("sqlalchemy", "sqlalchemy.orm", "sqlalchemy.orm.session", "sqlalchemy.orm.scoping", "sqlalchemy.engine")
_ASYNC_HOMES = (
    "sqlalchemy.ext.asyncio",
    "sqlalchemy.ext.asyncio.session",
    "sqlalchemy.ext.asyncio.engine",
    "sqlalchemy.ext.asyncio.scoping",
)
_ALL_HOMES = (
    *_HOMES,
    "sqlalchemy.engine.base",
    "sqlalchemy.engine.create",
    *_ASYNC_HOMES,
    "sqlmodel",
    "sqlmodel.orm.session",
    "sqlmodel.ext.asyncio.session",
    "sqlmodel.ext.asyncio",
)


def _everywhere(*names: str) -> tuple[str, ...]:
    return tuple(f"{home}.{name}" for home in _ALL_HOMES for name in names)


_CONNECTION_METHODS = {
    "execute": Act.EXECUTE,
    "exec": Act.EXECUTE,
    "exec_driver_sql": Act.EXECUTE,
    "stream": Act.EXECUTE,
    "stream_scalars": Act.EXECUTE,
    "scalars": Act.EXECUTE,
    "scalar": Act.EXECUTE_ONE,
    "query": Act.QUERY,
    "get": Act.GET,
    "get_one": Act.GET,
    "add": Act.ADD,
    "add_all": Act.ADD,
    "delete": Act.DELETE,
    "merge": Act.MERGE,
    "bulk_save_objects": Act.ADD,
    "bulk_update_mappings": Act.BULK,
    "flush": Act.FLUSH,
    "refresh": Act.REFRESH,
    "begin": Act.BEGIN,
    "begin_nested": Act.BEGIN_NESTED,
    "begin_twophase": Act.BEGIN,
    "commit": Act.COMMIT,
    "rollback": Act.ROLLBACK,
    "close": Act.CLOSE,
    "aclose": Act.CLOSE,
    "remove": Act.CLOSE,
    "reset": Act.CLOSE,
    "invalidate": Act.DISCARD,
    "detach": Act.NOTHING,
    "connection": Act.SAME,
    "get_raw_connection": Act.SAME,
    "execution_options": Act.OPTIONS,
    "run_sync": Act.RUN,
    "cursor": Act.CURSOR,
    "in_transaction": Act.NOTHING,
    "in_nested_transaction": Act.NOTHING,
    "get_transaction": Act.NOTHING,
    "get_nested_transaction": Act.NOTHING,
    "get_bind": Act.NOTHING,
    "expire": Act.NOTHING,
    "expire_all": Act.NOTHING,
    "expunge": Act.NOTHING,
    "expunge_all": Act.NOTHING,
    "is_modified": Act.NOTHING,
    "configure": Act.NOTHING,
}
_RESULT_METHODS = {
    **dict.fromkeys(
        ("fetchone", "first", "one", "one_or_none", "scalar", "scalar_one", "scalar_one_or_none"), Act.FETCH_ONE
    ),
    **dict.fromkeys(("fetchall", "all", "fetchmany", "partitions"), Act.FETCH_MANY),
    **dict.fromkeys(("scalars", "mappings", "unique", "tuples", "columns", "yield_per", "freeze"), Act.SAME),
    "execute": Act.EXECUTE,
    "executemany": Act.EXECUTE_MANY,
    "close": Act.NOTHING,
}
_ENGINE_METHODS = {
    "connect": Act.ACQUIRE,
    "raw_connection": Act.ACQUIRE,
    "begin": Act.BORROW,
    "configure": Act.OPTIONS,
    "execution_options": Act.OPTIONS,
    "dispose": Act.CLOSE_POOL,
}

DRIVER = Driver(
    name="sqlalchemy",
    packages=("sqlalchemy", "sqlmodel", "flask_sqlalchemy"),
    makes={
        **{name: Thing.ASYNC_POOL if "async" in name else Thing.POOL for name in _everywhere(*_ENGINES)},
        **dict.fromkeys(_everywhere("sessionmaker"), Thing.SESSIONS),
        **dict.fromkeys(_everywhere("async_sessionmaker"), Thing.ASYNC_SESSIONS),
        **dict.fromkeys(_everywhere("scoped_session", "async_scoped_session"), Thing.SCOPED),
        **dict.fromkeys(_everywhere("Session"), Thing.SESSION),
        **dict.fromkeys(_everywhere("AsyncSession"), Thing.ASYNC_SESSION),
    },
    types={
        **dict.fromkeys(_everywhere("Engine"), Thing.POOL),
        **dict.fromkeys(_everywhere("AsyncEngine"), Thing.ASYNC_POOL),
        **dict.fromkeys(_everywhere("sessionmaker"), Thing.SESSIONS),
        **dict.fromkeys(_everywhere("async_sessionmaker"), Thing.ASYNC_SESSIONS),
        **dict.fromkeys(_everywhere("Session", "scoped_session"), Thing.SESSION),
        **dict.fromkeys(_everywhere("AsyncSession", "async_scoped_session"), Thing.ASYNC_SESSION),
        **dict.fromkeys(_everywhere("Connection"), Thing.CONNECTION),
        **dict.fromkeys(_everywhere("AsyncConnection"), Thing.ASYNC_CONNECTION),
    },
    methods={
        **{(Thing.CONNECTION, name): act for name, act in _CONNECTION_METHODS.items()},
        **{(Thing.CURSOR, name): act for name, act in _RESULT_METHODS.items()},
        **{(Thing.POOL, name): act for name, act in _ENGINE_METHODS.items()},
    },
    imports=frozenset(
        {
            "sqlalchemy",
            *_everywhere(*_ENGINES, "sessionmaker", "async_sessionmaker", "scoped_session", "async_scoped_session"),
            *_everywhere("Session", "AsyncSession", "Engine", "AsyncEngine", "Connection", "AsyncConnection"),
            *(
                f"sqlalchemy.{name}"
                for name in ("text", "event", "orm", "select", "update", "delete", "insert", "func")
            ),
            *_HOMES,
            *_ASYNC_HOMES,
            *(f"sqlalchemy.sql.{name}" for name in ("text", "select", "update", "delete", "insert", "func")),
            "sqlalchemy.sql.expression.text",
            "sqlalchemy.event.listens_for",
            "sqlalchemy.event.listen",
            *(f"sqlmodel.{name}" for name in ("select", "text", "func", "update", "delete")),
            "flask_sqlalchemy.SQLAlchemy",
            "flask_sqlalchemy",
            "sqlmodel",
        }
    ),
    errors=frozenset(
        f"sqlalchemy.exc.{name}" for name in ("SQLAlchemyError", "StatementError", "DBAPIError", "DatabaseError")
    ),
    begins_by_itself=True,
    # Who binds is told by the DBAPI in the URL: psycopg2 does it in the client, psycopg 3 and asyncpg on the server.
    binding=Binding.SERVER,
    prepares_after=None,
    after_block=AfterBlock.RELEASE,
    own_transactions=True,
    block_bars=True,
    release_raises=True,
    release_recovers=False,
    refuses_with="sqlalchemy.exc.InvalidRequestError",
    refusals_are=frozenset({"sqlalchemy.exc.SQLAlchemyError"}),
    autocommit_levels=frozenset({"AUTOCOMMIT"}),
    # Of engines that are not made with future=True; sessions have begun a transaction, always.
    commits_writes_before=(2, 0),
    # By the look of the text: what stands behind a comment or a WITH is not committed.
    commits_after=(
        *("UPDATE", "INSERT", "CREATE", "DELETE", "DROP", "ALTER", "GRANT", "REVOKE", "TRUNCATE"),
        *("IMPORT FOREIGN SCHEMA", "REFRESH MATERIALIZED VIEW"),
    ),
    pool_discards_busy=False,
    client_dbapis=frozenset({"psycopg2", "psycopg2cffi", "pygresql", ""}),
    blind_dbapis=frozenset({"psycopg2", "psycopg2cffi", "asyncpg", ""}),
    # asyncpg's transaction() refuses to start in a transaction that was begun by the text of a statement.
    refusing_dbapis=frozenset({"asyncpg"}),
)
