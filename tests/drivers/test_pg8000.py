"""What `auditor/drivers/pg8000.py` says of pg8000, shown on a real server."""

from __future__ import annotations

import inspect
from contextlib import closing
from typing import Any

import pg8000
import pg8000.dbapi
import pg8000.exceptions
import pg8000.legacy
import pg8000.native
import pytest
from psycopg.conninfo import conninfo_to_dict

from auditor.drivers.model import AfterBlock, Binding, Thing
from auditor.drivers.pg8000 import DRIVER, NATIVE

SESSION = "SELECT set_config('app.tenant', '1', false)"
LOCAL = "SELECT set_config('app.tenant', '1', true)"
READ = "SELECT current_setting('app.tenant', true)"
IN_TRANSACTION = "SELECT now() <> statement_timestamp() OR pg_current_xact_id_if_assigned() IS NOT NULL"
CONNECTS = (pg8000.dbapi.connect, pg8000.connect)


def options(dsn: str) -> dict[str, Any]:
    told = conninfo_to_dict(dsn)
    host = str(told.get("host") or "localhost")
    port = int(told.get("port") or 5432)
    place = {"unix_sock": f"{host}/.s.PGSQL.{port}"} if host.startswith("/") else {"host": host, "port": port}
    return {**place, "user": told["user"], "database": told["dbname"]}


def value(cursor: Any, sql: str, *parameters: Any) -> Any:
    cursor.execute(sql, parameters)
    return cursor.fetchone()[0]


@pytest.mark.parametrize("connect", CONNECTS)
def test_the_first_statement_begins_a_transaction(connect: Any, database: str) -> None:
    assert DRIVER.begins_by_itself
    assert not DRIVER.autocommit
    with closing(connect(**options(database))) as conn:
        cursor = conn.cursor()
        cursor.execute(LOCAL)
        assert value(cursor, READ) == "1"
        conn.rollback()
        assert not value(cursor, READ)
        cursor.execute(SESSION)
        conn.rollback()
        assert not value(cursor, READ)
        cursor.execute(SESSION)
        conn.commit()
        assert value(cursor, READ) == "1"


@pytest.mark.parametrize("connect", CONNECTS)
def test_it_asks_the_server_whether_a_transaction_is_open(connect: Any, database: str) -> None:
    assert DRIVER.watches_status
    with closing(connect(**options(database))) as conn:
        cursor = conn.cursor()
        cursor.execute("SELECT 1")
        cursor.execute("COMMIT")
        cursor.execute(LOCAL)
        assert value(cursor, READ) == "1"
        conn.rollback()
        conn.rollback()


@pytest.mark.parametrize("connect", CONNECTS)
def test_autocommit_is_an_attribute_and_may_be_switched_in_a_transaction(connect: Any, database: str) -> None:
    assert not DRIVER.autocommit_switch_raises
    with closing(connect(**options(database))) as conn:
        cursor = conn.cursor()
        cursor.execute(LOCAL)
        conn.autocommit = True
        assert value(cursor, READ) == "1"
        conn.commit()
        cursor.execute(LOCAL)
        assert not value(cursor, READ)
        cursor.execute("BEGIN")
        cursor.execute(SESSION)
        conn.rollback()
        assert not value(cursor, READ)


@pytest.mark.parametrize("connect", CONNECTS)
def test_a_block_closes_and_commits_nothing(connect: Any, database: str) -> None:
    assert DRIVER.after_block is AfterBlock.DROP
    with connect(**options(database)) as conn:
        conn.cursor().execute("CREATE TABLE kept (n int)")
    with pytest.raises(pg8000.exceptions.InterfaceError):
        conn.cursor().execute("SELECT 1")
    with closing(connect(**options(database))) as conn:
        assert value(conn.cursor(), "SELECT count(*) FROM pg_class WHERE relname = 'kept'") == 0


@pytest.mark.parametrize("connect", CONNECTS)
def test_the_server_binds(connect: Any, database: str) -> None:
    assert DRIVER.binding is Binding.SERVER
    with closing(connect(**options(database))) as conn:
        cursor = conn.cursor()
        with pytest.raises(pg8000.exceptions.DatabaseError):
            cursor.execute("SET app.tenant = %s", ("1",))
        conn.rollback()
        assert value(cursor, "SELECT set_config('app.tenant', %s, false)", "7") == "7"


@pytest.mark.parametrize("connect", CONNECTS)
def test_an_error_aborts_the_transaction(connect: Any, database: str) -> None:
    with closing(connect(**options(database))) as conn:
        cursor = conn.cursor()
        with pytest.raises(pg8000.exceptions.DatabaseError) as caught:
            cursor.execute("SELECT 1 / 0")
        lineage = {f"{one.__module__}.{one.__name__}" for one in type(caught.value).__mro__}
        assert lineage & DRIVER.errors
        with pytest.raises(pg8000.exceptions.DatabaseError, match="25P02"):
            cursor.execute("SELECT 1")
        conn.rollback()
        assert value(cursor, "SELECT 1") == 1


@pytest.mark.parametrize("connect", CONNECTS)
def test_the_commit_of_an_aborted_transaction_raises_and_ends_it(connect: Any, database: str) -> None:
    assert DRIVER.commit_raises
    with closing(connect(**options(database))) as conn:
        cursor = conn.cursor()
        cursor.execute(SESSION)
        with pytest.raises(pg8000.exceptions.DatabaseError):
            cursor.execute("SELECT 1 / 0")
        with pytest.raises(pg8000.exceptions.InterfaceError, match="in failed transaction block") as caught:
            conn.commit()
        lineage = {f"{one.__module__}.{one.__name__}" for one in type(caught.value).__mro__}
        assert DRIVER.refuses_with in lineage
        assert not value(cursor, READ)


@pytest.mark.parametrize("connect", CONNECTS)
def test_so_does_a_commit_in_text(connect: Any, database: str) -> None:
    with closing(connect(**options(database))) as conn:
        cursor = conn.cursor()
        with pytest.raises(pg8000.exceptions.DatabaseError):
            cursor.execute("SELECT 1 / 0")
        with pytest.raises(pg8000.exceptions.InterfaceError, match="in failed transaction block"):
            cursor.execute("COMMIT")
        assert value(cursor, "SELECT 1") == 1


@pytest.mark.parametrize("connect", CONNECTS)
def test_what_is_executed_is_not_prepared_under_a_name(connect: Any, database: str) -> None:
    assert DRIVER.prepares_after is None
    with closing(connect(**options(database))) as conn:
        cursor = conn.cursor()
        conn.autocommit = True
        for number in range(12):
            assert value(cursor, "SELECT %s::int", number) == number
            cursor.execute("DISCARD ALL")


def test_the_older_module_runs_on_the_connection_in_a_transaction_too(database: str) -> None:
    with closing(pg8000.connect(**options(database))) as conn:
        conn.run("SELECT set_config('app.tenant', :tenant, true)", tenant="1")
        assert conn.run(READ)[0][0] == "1"
        conn.rollback()
        assert not conn.run(READ)[0][0]


# Native


def test_native_statements_begin_no_transaction(database: str) -> None:
    assert NATIVE.autocommit
    assert not NATIVE.begins_by_itself
    with closing(pg8000.native.Connection(**options(database))) as conn:
        conn.run(LOCAL)
        assert not conn.run(READ)[0][0]
        conn.run(SESSION)
        assert conn.run(READ) == [["1"]]
        conn.run("START TRANSACTION")
        conn.run("SELECT set_config('app.tenant', '2', false)")
        conn.run("ROLLBACK")
        assert conn.run(READ) == [["1"]]


def test_native_parameters_have_names(database: str) -> None:
    assert NATIVE.names_parameters
    with closing(pg8000.native.Connection(**options(database))) as conn:
        assert conn.run("SELECT set_config('app.tenant', :tenant, false)", tenant="7") == [["7"]]
        with pytest.raises(pg8000.exceptions.DatabaseError):
            conn.run("SET app.tenant = :tenant", tenant="7")


def test_native_statements_without_parameters_share_a_transaction(database: str) -> None:
    with closing(pg8000.native.Connection(**options(database))) as conn:
        conn.run("CREATE TABLE seen (tenant text)")
        conn.run(f"{LOCAL}; INSERT INTO seen {READ}")
        assert conn.run("SELECT tenant FROM seen") == [["1"]]


def test_native_statements_are_prepared_by_hand(database: str) -> None:
    with closing(pg8000.native.Connection(**options(database))) as conn:
        prepared = conn.prepare("SELECT set_config('app.tenant', :tenant, false)")
        assert not conn.run(READ)[0][0]
        assert prepared.run(tenant="5") == [["5"]]
        assert conn.run(READ) == [["5"]]


def test_the_native_commit_of_an_aborted_transaction_raises_and_ends_it(database: str) -> None:
    assert NATIVE.commit_raises
    with closing(pg8000.native.Connection(**options(database))) as conn:
        conn.run("BEGIN")
        with pytest.raises(pg8000.native.DatabaseError):
            conn.run("SELECT 1 / 0")
        with pytest.raises(pg8000.native.InterfaceError, match="in failed transaction block") as caught:
            conn.run("COMMIT")
        lineage = {f"{one.__module__}.{one.__name__}" for one in type(caught.value).__mro__}
        assert NATIVE.refuses_with in lineage
        assert lineage & NATIVE.refusals_are
        assert conn.run("SELECT 1") == [[1]]


def test_a_native_block_closes(database: str) -> None:
    assert NATIVE.after_block is AfterBlock.DROP
    with pg8000.native.Connection(**options(database)) as conn:
        conn.run("BEGIN")
        conn.run("CREATE TABLE kept (n int)")
    with closing(pg8000.native.Connection(**options(database))) as conn:
        assert conn.run("SELECT count(*) FROM pg_class WHERE relname = 'kept'") == [[0]]


def test_native_errors(database: str) -> None:
    with closing(pg8000.native.Connection(**options(database))) as conn:
        with pytest.raises(pg8000.native.DatabaseError) as caught:
            conn.run("SELECT 1 / 0")
        lineage = {f"{one.__module__}.{one.__name__}" for one in type(caught.value).__mro__}
        assert lineage & NATIVE.errors


# The tables


def own(cls: type) -> set[str]:
    return {name for name, kind in vars(cls).items() if inspect.isfunction(kind) and not name.startswith("_")}


@pytest.mark.parametrize("home", [pg8000.dbapi, pg8000.legacy])
def test_every_public_method_is_in_the_tables(home: Any) -> None:
    told = {name for thing, name in DRIVER.methods if thing is Thing.CONNECTION} | {"prepare"}
    assert own(home.Connection) <= told
    assert own(home.Cursor) <= {name for thing, name in DRIVER.methods if thing is Thing.CURSOR}
    assert own(pg8000.native.Connection) <= {name for thing, name in NATIVE.methods if thing is Thing.CONNECTION}


def test_the_names_of_things_are_the_librarys() -> None:
    for name in (*DRIVER.makes, *DRIVER.types, *NATIVE.makes, *DRIVER.errors, *NATIVE.errors):
        found: Any = pg8000
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        assert callable(found)
