"""What `auditor/drivers/sqlalchemy.py` and the timeline say of SQLAlchemy, shown on a real server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine, event, exc, text
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from auditor.drivers.model import Act, Thing
from auditor.drivers.sqlalchemy import DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Engine

SESSION = text("SELECT set_config('app.tenant', '1', false)")
LOCAL = text("SELECT set_config('app.tenant', '1', true)")
READ = text("SELECT current_setting('app.tenant', true)")
FAILS = text("SELECT 1 / 0")
BOUND = text("SET LOCAL app.tenant = :tenant")


def url(dsn: str, dbapi: str) -> URL:
    told = conninfo_to_dict(dsn)
    place = {name: str(told[name]) for name in ("host", "port") if told.get(name)}
    return URL.create(f"postgresql+{dbapi}", str(told["user"]), None, database=str(told["dbname"]), query=place)


@pytest.fixture(params=["psycopg", "psycopg2"])
def engine(request: pytest.FixtureRequest, database: str) -> Iterator[Engine]:
    made = create_engine(url(database, request.param), pool_size=1, max_overflow=0)
    yield made
    made.dispose()


def tenant(engine: Engine) -> str | None:
    with engine.connect() as conn:
        return conn.scalar(READ)  # type: ignore[no-any-return]


def test_a_block_of_connect_commits_nothing(engine: Engine) -> None:
    with engine.connect() as conn:
        assert not conn.in_transaction()
        conn.execute(SESSION)
        assert conn.in_transaction()
    assert not tenant(engine)


def test_what_was_committed_stays_for_the_next_borrower(engine: Engine) -> None:
    with engine.connect() as conn:
        conn.execute(SESSION)
        conn.commit()
    assert tenant(engine) == "1"


def test_a_block_of_begin_commits(engine: Engine) -> None:
    with engine.begin() as conn:
        conn.execute(SESSION)
    assert tenant(engine) == "1"


def test_a_block_of_begin_rolls_back(engine: Engine) -> None:
    with pytest.raises(KeyError), engine.begin() as conn:
        conn.execute(SESSION)
        raise KeyError
    assert not tenant(engine)


def test_a_local_setting_ends_with_the_commit(engine: Engine) -> None:
    with engine.connect() as conn:
        conn.execute(LOCAL)
        assert conn.scalar(READ) == "1"
        conn.commit()
        assert not conn.scalar(READ)


def test_null_pool_keeps_nothing(database: str) -> None:
    made = create_engine(url(database, "psycopg"), poolclass=NullPool)
    with made.begin() as conn:
        conn.execute(SESSION)
    assert not tenant(made)


@pytest.mark.parametrize("how", ["engine", "connection", "view"])
def test_autocommit_is_an_isolation_level(database: str, how: str) -> None:
    told: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"} if how == "engine" else {}
    made = create_engine(url(database, "psycopg"), pool_size=1, max_overflow=0, **told)
    view = made.execution_options(isolation_level="AUTOCOMMIT") if how == "view" else made
    with view.connect() as conn:
        if how == "connection":
            conn.execution_options(isolation_level="AUTOCOMMIT")
        conn.execute(LOCAL)
        assert not conn.scalar(READ)
        conn.execute(SESSION)
    # Of a connection the level is set back when it is returned; what was set for the session stays.
    assert tenant(made) == "1"
    made.dispose()


def test_a_level_cannot_be_set_inside_a_transaction(engine: Engine) -> None:
    with engine.connect() as conn:
        conn.execute(READ)
        with pytest.raises(exc.InvalidRequestError):
            conn.execution_options(isolation_level="AUTOCOMMIT")


def test_begin_inside_a_transaction_is_refused(engine: Engine) -> None:
    with engine.connect() as conn:
        conn.execute(READ)
        with pytest.raises(exc.InvalidRequestError):
            conn.begin()
    with Session(engine) as session:
        session.execute(READ)
        with pytest.raises(exc.InvalidRequestError):
            session.begin()


@pytest.mark.parametrize("how", ["commit", "rollback"])
def test_after_the_end_of_its_transaction_a_block_refuses_everything(engine: Engine, how: str) -> None:
    with Session(engine) as session:
        with session.begin():
            session.execute(SESSION)
            getattr(session, how)()
            with pytest.raises(exc.InvalidRequestError):
                session.execute(READ)
            with pytest.raises(exc.InvalidRequestError):
                session.commit()
        assert (session.scalar(READ) or "") == ("1" if how == "commit" else "")


def test_a_transaction_ended_by_hand_is_followed_by_another(engine: Engine) -> None:
    with engine.connect() as conn:
        transaction = conn.begin()
        conn.execute(LOCAL)
        transaction.commit()
        assert not conn.scalar(READ)
        conn.rollback()
        transaction = conn.begin()
        conn.execute(SESSION)
        transaction.rollback()
    assert not tenant(engine)


def test_begin_nested_is_a_savepoint_in_a_transaction_that_it_begins(engine: Engine) -> None:
    with Session(engine) as session:
        with session.begin_nested():
            session.execute(LOCAL)
        assert session.in_transaction()
        assert session.scalar(READ) == "1"
        with pytest.raises(KeyError), session.begin_nested():
            session.execute(text("SELECT set_config('app.tenant', '2', true)"))
            raise KeyError
        assert session.scalar(READ) == "1"
        session.commit()
        assert not session.scalar(READ)


def test_a_commit_ends_all_savepoints(engine: Engine) -> None:
    with Session(engine) as session:
        session.begin_nested()
        session.execute(LOCAL)
        session.commit()
        assert not session.in_transaction()


def test_begin_nested_in_autocommit_is_refused_by_the_server(database: str) -> None:
    made = create_engine(url(database, "psycopg"), isolation_level="AUTOCOMMIT")
    with made.connect() as conn, pytest.raises(exc.DBAPIError):
        conn.begin_nested()
    made.dispose()


def test_a_failure_aborts_and_its_savepoint_cannot_be_released(engine: Engine) -> None:
    with Session(engine) as session:
        session.execute(READ)
        with pytest.raises(exc.DBAPIError):
            session.execute(FAILS)
        with pytest.raises(exc.DBAPIError):
            session.execute(READ)
        session.rollback()

        def swallows() -> None:
            with session.begin_nested(), suppress(exc.DBAPIError):
                session.execute(FAILS)

        with pytest.raises(exc.DBAPIError):
            swallows()
        with pytest.raises(exc.DBAPIError):  # the savepoint was not rolled back to
            session.execute(READ)


def _removed(factory: Any) -> None:
    scoped: Any = scoped_session(factory)
    scoped.execute(SESSION)
    scoped.commit()
    scoped.execute(text("SELECT set_config('app.tenant', '2', false)"))
    scoped.remove()


def test_a_session_closed_rolls_back_and_can_be_used_again(engine: Engine) -> None:
    session = Session(engine)
    session.execute(SESSION)
    session.close()
    assert not session.scalar(READ)
    session.execute(SESSION)
    session.commit()
    session.close()
    assert tenant(engine) == "1"


def test_a_scoped_session_is_removed_with_a_rollback(engine: Engine) -> None:
    _removed(sessionmaker(engine))
    assert tenant(engine) == "1"


def test_between_two_transactions_of_a_session_its_connection_is_in_the_pool(engine: Engine) -> None:
    with Session(engine) as session:
        session.execute(SESSION)
        session.commit()
        assert tenant(engine) == "1"  # the pool has but one


def test_factories_begin_sessions_that_commit_and_close(engine: Engine) -> None:
    with sessionmaker(engine).begin() as session:
        session.execute(SESSION)
    assert tenant(engine) == "1"


@pytest.mark.parametrize("dbapi", ["psycopg", "psycopg2", "asyncpg"])
def test_the_dbapi_tells_who_binds(database: str, dbapi: str) -> None:
    if dbapi == "asyncpg":

        async def run() -> None:
            made = create_async_engine(url(database, dbapi))
            try:
                async with AsyncSession(made) as session:
                    await session.execute(BOUND, {"tenant": "1"})
            finally:
                await made.dispose()

        with pytest.raises(exc.DBAPIError, match="syntax error"):
            asyncio.run(run())
        return
    made = create_engine(url(database, dbapi))
    with made.connect() as conn:
        if dbapi in DRIVER.client_dbapis:
            conn.execute(BOUND, {"tenant": "1"})
            assert conn.scalar(READ) == "1"
        else:
            with pytest.raises(exc.DBAPIError, match="syntax error"):
                conn.execute(BOUND, {"tenant": "1"})
    made.dispose()


def test_without_a_dbapi_the_url_means_psycopg2_before_21() -> None:
    """2.1 has made psycopg 3 the default: what a URL without one means is only known with the version."""
    assert create_engine("postgresql://localhost/x").dialect.driver in ("psycopg2", "psycopg")


def test_coroutines_do_the_same(database: str) -> None:
    async def run() -> None:
        made = create_async_engine(url(database, "asyncpg"), pool_size=1, max_overflow=0)
        try:
            async with made.connect() as conn:
                await conn.execute(SESSION)
            async with AsyncSession(made) as session:
                assert not await session.scalar(READ)
                await session.execute(SESSION)
                await session.commit()
            async with made.begin() as conn:
                assert await conn.scalar(READ) == "1"
        finally:
            await made.dispose()

    asyncio.run(run())


def test_who_listens_to_a_sessions_begin_is_inside_its_transaction(engine: Engine) -> None:
    factory = sessionmaker(engine)

    @event.listens_for(factory, "after_begin")
    def set_tenant(session: Session, transaction: Any, connection: Any) -> None:
        connection.execute(LOCAL)

    with factory() as session:
        assert session.scalar(READ) == "1"
        session.commit()
        assert session.scalar(READ) == "1"
    assert not tenant(engine)


def test_of_a_savepoint_only_who_listens_to_the_session_is_told(engine: Engine) -> None:
    factory = sessionmaker(engine)
    told: list[str] = []
    event.listen(engine, "begin", lambda *_: told.append("begin"))
    event.listen(factory, "after_begin", lambda *_: told.append("after_begin"))
    with engine.connect() as conn:
        conn.execute(LOCAL)
        with conn.begin_nested():
            conn.execute(LOCAL)
    assert told == ["begin"]
    with factory() as session:
        session.execute(LOCAL)
        with session.begin_nested():
            session.execute(LOCAL)
    assert told == ["begin", "begin", "after_begin", "after_begin"]


def test_who_listens_to_the_checkout_is_inside_the_first_transaction(engine: Engine) -> None:
    @event.listens_for(engine, "checkout")
    def set_tenant(connection: Any, record: Any, proxy: Any) -> None:
        connection.cursor().execute(str(LOCAL))

    with engine.connect() as conn:
        assert conn.scalar(READ) == "1"
        conn.commit()
        assert not conn.scalar(READ)


def clear(connection: Any, record: Any) -> None:
    """Takes the tenant away, and ends no transaction."""
    connection.cursor().execute("SELECT set_config('app.tenant', '', false)")


def test_what_is_done_at_a_checkin_stays_open_for_the_next_borrower(engine: Engine) -> None:
    event.listen(engine, "checkin", clear)
    with engine.begin() as conn:
        conn.execute(SESSION)
    with engine.connect() as conn:
        assert conn.scalar(READ) == ""
        conn.rollback()
        assert conn.scalar(READ) == "1"
    with engine.begin() as conn:
        conn.execute(text("SELECT 1"))
    assert tenant(engine) == ""


def test_what_is_done_at_a_reset_is_rolled_back_by_the_pool(engine: Engine) -> None:
    @event.listens_for(engine, "reset")
    def clear_before(connection: Any, record: Any, state: Any) -> None:
        clear(connection, record)

    with engine.begin() as conn:
        conn.execute(SESSION)
    assert tenant(engine) == "1"


def test_a_cleanup_at_a_checkin_that_is_committed_holds(engine: Engine) -> None:
    event.listen(engine, "checkin", clear)
    event.listen(engine, "checkin", lambda connection, record: connection.commit())
    with engine.begin() as conn:
        conn.execute(SESSION)
    with engine.connect() as conn:
        conn.rollback()
        assert conn.scalar(READ) == ""


@pytest.mark.parametrize("what", ["after_insert", "after_update", "after_delete"])
def test_who_is_told_of_a_row_is_told_before_that_is_committed(engine: Engine, what: str) -> None:
    class Base(DeclarativeBase):
        pass

    class Order(Base):
        __tablename__ = "orders"

        id: Mapped[int] = mapped_column(primary_key=True)
        number: Mapped[str]

    Base.metadata.create_all(engine)
    other = create_engine(engine.url)
    told: list[tuple[bool, list[str]]] = []

    @event.listens_for(Order, what)
    def note(mapper: Any, connection: Any, order: Order) -> None:
        with other.connect() as conn:
            told.append((connection.in_transaction(), list(conn.scalars(text("SELECT number FROM orders")))))

    with Session(engine) as session:
        order = Order(number="first")
        session.add(order)
        session.commit()
        order.number = "second"
        session.commit()
        session.delete(order)
        session.commit()
    other.dispose()
    assert told == [(True, {"after_insert": [], "after_update": ["first"], "after_delete": ["second"]}[what])]


def test_an_object_that_is_read_anew_is_asked_for_in_the_transaction_of_then(engine: Engine) -> None:
    class Base(DeclarativeBase):
        pass

    class Note(Base):
        __tablename__ = "notes"
        id: Mapped[int] = mapped_column(primary_key=True)

    Base.metadata.create_all(engine)
    asked: list[str] = []
    with Session(engine) as session:
        session.execute(LOCAL)
        note = Note(id=1)
        session.add(note)
        session.commit()
        event.listen(engine, "before_cursor_execute", lambda *told: asked.append(told[2]))
        session.refresh(note)
        assert [one.partition(" ")[0] for one in asked] == ["SELECT"]
        assert not session.scalar(READ)


def test_what_the_tables_name_is_there() -> None:
    for thing, cls in ((Thing.CONNECTION, Session), (Thing.POOL, create_engine("postgresql+psycopg://").__class__)):
        names = {name for kind, name in DRIVER.methods if kind is thing}
        assert len([name for name in names if hasattr(cls, name)]) >= 5
    assert DRIVER.methods[Thing.CONNECTION, "exec_driver_sql"] is Act.EXECUTE
