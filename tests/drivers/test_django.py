"""What `auditor/drivers/django.py` and the timeline say of Django's connections, shown on a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import django
import pytest
from django.conf import settings
from django.core.signals import request_finished
from django.db import (
    DatabaseError,
    InternalError,
    close_old_connections,
    connection,
    connections,
    transaction,
)
from django.db.utils import ConnectionHandler
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from auditor.drivers import django_tenants
from auditor.drivers.django import DRIVER
from auditor.drivers.model import Act, Thing
from auditor.timeline.computing import dialects
from auditor.timeline.model.values import TRUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SESSION = "SELECT set_config('app.tenant', '1', false)"
LOCAL = "SELECT set_config('app.tenant', '1', true)"
READ = "SELECT current_setting('app.tenant', true)"


def database_settings(dsn: str, **more: object) -> dict[str, Any]:
    told = conninfo_to_dict(dsn)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": told["dbname"],
        "USER": told["user"],
        "PASSWORD": told.get("password", ""),
        "HOST": told["host"],
        "PORT": told.get("port", ""),
        **more,
    }


@pytest.fixture
def use(database: str) -> Iterator[Callable[..., Any]]:
    """Makes the default connection one to the server, with these settings."""
    if not settings.configured:
        settings.configure(DATABASES={"default": {}})
        django.setup()
    made: list[Any] = []

    def use(**more: object) -> Any:
        connections["default"] = ConnectionHandler({"default": database_settings(database, **more)})["default"]
        made.append(connections["default"])
        return made[-1]

    yield use
    for one in made:
        while one.in_atomic_block:
            one.in_atomic_block = False
        one.close()
        if getattr(one, "pool", None) is not None:
            one.close_pool()


@pytest.fixture
def conn(use: Callable[..., Any]) -> Any:
    return use()


def run(text: str, *parameters: object) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(text, parameters or None)
        row = cursor.fetchone() if cursor.description else None
    return row[0] if row else None


def tenant() -> str:
    return run(READ) or ""


def status() -> TransactionStatus:
    found: TransactionStatus = connection.connection.info.transaction_status
    return found


def fail() -> None:
    with pytest.raises(DatabaseError):
        run("SELECT 1 / 0")


def test_the_row_locks_that_its_features_tell_of_are_all_there(conn: Any) -> None:
    told = [name for name in dir(conn.features) if name.startswith("has_select_for_")]
    assert len(told) >= 4
    for name in told:
        assert getattr(conn.features, name) is True
        assert dialects.feature(name) == TRUE


def test_a_statement_outside_a_block_is_its_own_transaction(conn: Any) -> None:
    assert DRIVER.autocommit
    run("SELECT 1")
    assert status() == TransactionStatus.IDLE
    run(LOCAL)
    assert tenant() == ""
    run(SESSION)
    assert tenant() == "1"


def test_a_block_is_a_transaction(conn: Any) -> None:
    with transaction.atomic():
        run(LOCAL)
        assert tenant() == "1"
        assert status() == TransactionStatus.INTRANS
    assert (tenant(), status()) == ("", TransactionStatus.IDLE)
    with pytest.raises(KeyError), transaction.atomic():
        run(SESSION)
        raise KeyError
    assert tenant() == ""
    with transaction.atomic():
        run(SESSION)
    assert tenant() == "1"


def test_so_is_a_function_under_the_decorator(conn: Any) -> None:
    @transaction.atomic  # type: ignore[untyped-decorator]
    def plain() -> str:
        run(LOCAL)
        return tenant()

    @transaction.atomic(using="default")  # type: ignore[untyped-decorator]
    def called() -> str:
        run(LOCAL)
        return tenant()

    assert (plain(), called(), tenant()) == ("1", "1", "")


def test_a_block_in_a_block_is_a_savepoint_which_keeps_a_local_tenant(conn: Any) -> None:
    with transaction.atomic():
        with pytest.raises(KeyError), transaction.atomic():
            run(LOCAL)
            raise KeyError
        assert tenant() == ""
        with transaction.atomic():
            run(LOCAL)
        assert tenant() == "1"


def test_a_savepoint_block_in_which_a_failure_was_caught_raises_at_its_end(conn: Any) -> None:
    assert DRIVER.release_raises
    with transaction.atomic():
        with pytest.raises(InternalError), transaction.atomic():
            fail()
        assert status() == TransactionStatus.INTRANS
        run("SELECT 1")


def test_the_outermost_block_in_which_a_failure_was_caught_is_rolled_back_in_silence(conn: Any) -> None:
    with transaction.atomic():
        run(SESSION)
        fail()
        fail()
    assert (tenant(), status()) == ("", TransactionStatus.IDLE)


def test_without_a_savepoint_an_inner_block_dooms_the_outer_one(conn: Any) -> None:
    with transaction.atomic():
        run(SESSION)
        with pytest.raises(KeyError), transaction.atomic(savepoint=False):
            raise KeyError
        assert status() == TransactionStatus.INTRANS
        with pytest.raises(transaction.TransactionManagementError):
            run("SELECT 1")
        with transaction.atomic():
            assert connection.needs_rollback
    assert tenant() == ""


def test_set_rollback_dooms_it_too_and_takes_it_back(conn: Any) -> None:
    with transaction.atomic():
        run(SESSION)
        transaction.set_rollback(True)
        with pytest.raises(transaction.TransactionManagementError):
            run("SELECT 1")
        transaction.set_rollback(False)
        assert tenant() == "1"
    assert tenant() == "1"
    with transaction.atomic():
        run("RESET app.tenant")
        transaction.set_rollback(True)
    assert tenant() == "1"


def test_a_durable_block_stands_in_no_other(conn: Any) -> None:
    with transaction.atomic(durable=True):
        with pytest.raises(RuntimeError), transaction.atomic(durable=True):
            raise KeyError
        run("SELECT 1")


def test_inside_a_block_commit_rollback_and_autocommit_are_refused(conn: Any) -> None:
    assert DRIVER.block_forbids_commit
    with transaction.atomic():
        for refused in (transaction.commit, transaction.rollback, lambda: transaction.set_autocommit(True)):
            with pytest.raises(transaction.TransactionManagementError):
                refused()
        run("SELECT 1")


def test_with_autocommit_off_a_block_is_a_savepoint_and_commits_nothing(conn: Any) -> None:
    transaction.set_autocommit(False)
    with transaction.atomic():
        run(SESSION)
    assert status() == TransactionStatus.INTRANS
    transaction.rollback()
    assert tenant() == ""
    run(SESSION)
    transaction.commit()
    assert tenant() == "1"
    with pytest.raises(DatabaseError):
        transaction.set_autocommit(True)
    transaction.rollback()
    transaction.set_autocommit(True)


def test_on_commit_runs_after_the_commit_or_at_once(conn: Any) -> None:
    seen: list[tuple[str, TransactionStatus]] = []
    with transaction.atomic():
        run(LOCAL)
        transaction.on_commit(lambda: seen.append((tenant(), status())))
        assert not seen
    transaction.on_commit(lambda: seen.append((tenant(), status())))
    assert seen == [("", TransactionStatus.IDLE)] * 2


def test_a_savepoint_made_by_hand(conn: Any) -> None:
    assert transaction.savepoint() is None
    with transaction.atomic():
        sid = transaction.savepoint()
        run(LOCAL)
        fail()
        transaction.savepoint_rollback(sid)
        assert (tenant(), status()) == ("", TransactionStatus.INTRANS)
        transaction.savepoint_commit(sid)


def test_a_connection_that_was_closed_is_opened_anew(conn: Any) -> None:
    assert DRIVER.reopens
    run(SESSION)
    conn.close()
    assert tenant() == ""


def test_parameters_are_bound_in_the_client_unless_an_option_says_otherwise(use: Callable[..., Any]) -> None:
    use()
    run("SET app.tenant = %s", "7")
    assert tenant() == "7"
    use(OPTIONS={"server_side_binding": True})
    with pytest.raises(DatabaseError):
        run("SET app.tenant = %s", "7")


def test_by_default_the_request_ends_the_connection_and_conn_max_age_keeps_it(use: Callable[..., Any]) -> None:
    for age, left in ((0, ""), (60, "1"), (None, "1")):
        use(CONN_MAX_AGE=age)
        run(SESSION)
        request_finished.send(sender=None)
        assert tenant() == left
        close_old_connections()
        assert tenant() == left


def test_so_does_a_pool_with_what_was_set_for_the_session(use: Callable[..., Any]) -> None:
    use(OPTIONS={"pool": {"min_size": 1, "max_size": 1}})
    run(SESSION)
    backend = run("SELECT pg_backend_pid()")
    request_finished.send(sender=None)
    assert (run("SELECT pg_backend_pid()"), tenant()) == (backend, "1")


def test_no_statement_is_prepared_by_itself(conn: Any) -> None:
    assert DRIVER.prepares_after is None
    for _ in range(8):
        run("SELECT 1")
    assert conn.connection.prepare_threshold is None
    assert run("SELECT count(*) FROM pg_prepared_statements") == 0


def test_what_is_called_exists(conn: Any) -> None:
    for name, act in DRIVER.functions.items():
        module, _, attribute = name.removeprefix("django.db.").rpartition(".")
        owner = {"": __import__("django.db").db, "transaction": transaction, "connections": connections}[module]
        assert callable(getattr(owner, attribute)), (name, act)
    # What django-tenants adds is looked for in its own test.
    for name in {name for thing, name in DRIVER.methods if thing is Thing.CONNECTION} - set(django_tenants.METHODS):
        assert callable(getattr(conn, name)), name
    assert DRIVER.methods[Thing.CONNECTION, "cursor"] is Act.CURSOR
