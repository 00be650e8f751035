"""pg8000: its DBAPI, the older module that is imported as `pg8000`, and its native connections.

Facts: the documentation's README, `pg8000/dbapi.py`, `pg8000/legacy.py`, `pg8000/native.py` and `pg8000/core.py`, each
shown on a real server by tests/drivers/test_pg8000.py with pg8000 1.31.
"""

from __future__ import annotations

from auditor.drivers.model import Act, AfterBlock, Binding, Driver, Thing

_HOMES = ("pg8000", "pg8000.dbapi", "pg8000.legacy")
_TWO_PHASE = ("xid", "tpc_begin", "tpc_prepare", "tpc_commit", "tpc_rollback", "tpc_recover")

_CONNECTION_METHODS = {
    "cursor": Act.CURSOR,
    "commit": Act.COMMIT,
    "rollback": Act.ROLLBACK,
    "close": Act.CLOSE,
    # Of the older module alone.
    "run": Act.EXECUTE_ALL,
    **dict.fromkeys(_TWO_PHASE, Act.NOTHING),
}
_CURSOR_METHODS = {
    "execute": Act.EXECUTE,
    "executemany": Act.EXECUTE_MANY,
    "callproc": Act.CALL,
    "fetchone": Act.FETCH_ONE,
    "fetchmany": Act.FETCH_MANY,
    "fetchall": Act.FETCH_MANY,
    **dict.fromkeys(("close", "setinputsizes", "setoutputsize"), Act.NOTHING),
}

_EVERYWHERE = (*_HOMES, "pg8000.exceptions")
_ERRORS = frozenset(f"{home}.{name}" for home in _EVERYWHERE for name in ("Error", "DatabaseError"))
_REFUSALS = frozenset(f"{home}.{name}" for home in _EVERYWHERE for name in ("Error", "InterfaceError"))

DRIVER = Driver(
    name="pg8000",
    packages=("pg8000",),
    makes={
        **{f"{home}.{name}": Thing.CONNECTION for home in _HOMES for name in ("connect", "Connection")},
    },
    types={
        **{f"{home}.Connection": Thing.CONNECTION for home in _HOMES},
        **{f"{home}.Cursor": Thing.CURSOR for home in _HOMES},
    },
    methods={
        **{(Thing.CONNECTION, name): act for name, act in _CONNECTION_METHODS.items()},
        **{(Thing.CURSOR, name): act for name, act in _CURSOR_METHODS.items()},
    },
    kept_in_modules=True,
    errors=_ERRORS,
    begins_by_itself=True,
    watches_status=True,
    binding=Binding.SERVER,
    # What is executed is never prepared under a name.
    prepares_after=None,
    after_block=AfterBlock.DROP,
    commit_raises=True,
    refuses_with="pg8000.exceptions.InterfaceError",
    refusals_are=_REFUSALS,
    autocommit_switch_raises=False,
)

NATIVE = Driver(
    name="pg8000.native",
    packages=("pg8000.native",),
    makes={"pg8000.native.Connection": Thing.CONNECTION},
    types={"pg8000.native.Connection": Thing.CONNECTION},
    methods={
        (Thing.CONNECTION, "run"): Act.EXECUTE_ALL,
        (Thing.CONNECTION, "prepare"): Act.PREPARE,
        (Thing.CONNECTION, "close"): Act.CLOSE,
        (Thing.STATEMENT, "run"): Act.EXECUTE_ALL,
        (Thing.STATEMENT, "close"): Act.NOTHING,
    },
    kept_in_modules=True,
    errors=_ERRORS | {"pg8000.native.Error", "pg8000.native.DatabaseError"},
    autocommit=True,
    begins_by_itself=False,
    names_parameters=True,
    binding=Binding.SERVER,
    prepares_after=None,
    after_block=AfterBlock.DROP,
    commit_raises=True,
    refuses_with="pg8000.exceptions.InterfaceError",
    refusals_are=_REFUSALS | {"pg8000.native.Error", "pg8000.native.InterfaceError"},
)
