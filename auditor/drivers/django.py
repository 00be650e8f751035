"""Django's connections: `connection`, `connections[alias]`, `transaction`.

Facts: the documentation's pages on transactions, databases and settings, `django/db/transaction.py` and
`django/db/backends/base/base.py`, each shown on a real server by tests/drivers/test_django.py with Django 5.2 over
psycopg 3.3. What a project's settings change of it is told by `auditor.program.settings_files`.
"""

from __future__ import annotations

from auditor.drivers import django_tenants
from auditor.drivers.model import Act, Binding, Driver, Thing

#: Methods of a connection that `transaction` has as functions too, for the connection that `using` names.
_OF_BOTH = {
    "commit": Act.COMMIT,
    "rollback": Act.ROLLBACK,
    "set_autocommit": Act.SET_AUTOCOMMIT,
    "set_rollback": Act.MARK_ROLLBACK,
    "on_commit": Act.DEFER,
    "savepoint": Act.SAVEPOINT,
    "savepoint_commit": Act.RELEASE_SAVEPOINT,
    "savepoint_rollback": Act.ROLLBACK_SAVEPOINT,
    "get_autocommit": Act.NOTHING,
    "get_rollback": Act.NOTHING,
}
_CONNECTION_METHODS = {
    **_OF_BOTH,
    "cursor": Act.CURSOR,
    "chunked_cursor": Act.CURSOR,
    "close": Act.CLOSE,
    "connect": Act.NOTHING,
    "ensure_connection": Act.NOTHING,
    "is_usable": Act.NOTHING,
    "close_if_unusable_or_obsolete": Act.NOTHING,
    "execute_wrapper": Act.NOTHING,
    "schema_editor": Act.NOTHING,
    "clean_savepoints": Act.NOTHING,
    "validate_no_broken_transaction": Act.NOTHING,
    "get_connection_params": Act.NOTHING,
}
_CURSOR_METHODS = {
    "execute": Act.EXECUTE,
    "executemany": Act.EXECUTE_MANY,
    "callproc": Act.CALL,
    "copy": Act.COPY,
    "copy_expert": Act.COPY,
    "fetchone": Act.FETCH_ONE,
    "fetchall": Act.FETCH_MANY,
    "fetchmany": Act.FETCH_MANY,
    "close": Act.NOTHING,
    "mogrify": Act.NOTHING,
}
#: Functions of django.db.transaction; all but the first take `using`.
_FUNCTIONS = {
    "atomic": Act.TRANSACTION,
    "Atomic": Act.TRANSACTION,
    **_OF_BOTH,
    "get_connection": Act.HELD,
}

_ERRORS = frozenset(
    {"django.db.Error", "django.db.DatabaseError", "django.db.utils.Error", "django.db.utils.DatabaseError"}
)

DRIVER = Driver(
    name="django",
    packages=("django.db",),
    makes={},
    types={
        "django.db.backends.base.base.BaseDatabaseWrapper": Thing.CONNECTION,
        "django.db.backends.postgresql.base.DatabaseWrapper": Thing.CONNECTION,
        "django.db.backends.utils.CursorWrapper": Thing.CURSOR,
    },
    methods={
        **{(Thing.CONNECTION, name): act for name, act in _CONNECTION_METHODS.items()},
        **{(Thing.CONNECTION, name): act for name, act in django_tenants.METHODS.items()},
        **{(Thing.CURSOR, name): act for name, act in _CURSOR_METHODS.items()},
    },
    held={"django.db.connection": Thing.CONNECTION, "django.db.connections": Thing.CONNECTIONS},
    functions={
        **{f"django.db.transaction.{name}": act for name, act in _FUNCTIONS.items()},
        "django.db.connections.all": Act.ALL,
        "django.db.connections.close_all": Act.CLOSE,
        "django.db.close_old_connections": Act.NOTHING,
        "django.db.reset_queries": Act.NOTHING,
    },
    imports=frozenset(
        {
            "django.db",
            "django.db.connection",
            "django.db.connections",
            "django.db.transaction",
            "django.db.backends.signals.connection_created",
            *(f"django.db.transaction.{name}" for name in _FUNCTIONS),
        }
    ),
    tell_schema=django_tenants.ATTRIBUTES,
    errors=_ERRORS,
    autocommit=True,
    begins_by_itself=True,
    # Its cursors put parameters into the text, unless the option server_side_binding says otherwise.
    binding=Binding.SERVER,
    prepares_after=None,
    block_forbids_commit=True,
    autocommit_switch_raises=True,
    reopens=True,
    release_raises=True,
    refuses_with="django.db.transaction.TransactionManagementError",
    refusals_are=_ERRORS | {"django.db.ProgrammingError", "django.db.utils.ProgrammingError"},
    pool_discards_busy=True,
)
