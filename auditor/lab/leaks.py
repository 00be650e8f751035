"""Three jobs on a pool of one connection, through each driver; what its next user sees after each of them."""

from __future__ import annotations

import asyncio
import enum
import shutil
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from auditor.lab.place import COUNT, number
from auditor.lab.pooler import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Callable

TENANTS = (1, 2, 3)


class Variant(enum.Enum):
    """How a job sets its tenant."""

    SESSION = "for the session, all succeed"
    SESSION_FAILS = "for the session, the second fails"
    AUTOCOMMIT = "in autocommit, the second fails"
    LOCAL = "locally, the second fails"

    @property
    def is_local(self) -> str:
        return "true" if self is Variant.LOCAL else "false"

    def fails(self, tenant: int) -> bool:
        return tenant == 2 and self is not Variant.SESSION


class Driver(NamedTuple):
    """A driver, what has to be installed for it, and how it runs the jobs: the rows that were seen after each."""

    name: str
    needs: tuple[str, ...]
    run: Callable[[str, Variant], tuple[int, ...]]
    variants: tuple[Variant, ...] = tuple(Variant)
    clears: bool = False  #: the next user finds nothing, whatever was set
    program: str = ""  #: that has to be installed

    @property
    def missing(self) -> str:
        """What of that is not here, or nothing."""
        gone = [name for name in self.needs if find_spec(name) is None]
        if self.program and shutil.which(self.program) is None:
            gone.append(self.program)
        return " and ".join(gone)


class FailedError(Exception):
    """What a job fails with that fails."""


def _config(variant: Variant, mark: str = "%s") -> str:
    return f"SELECT set_config('app.tenant', {mark}, {variant.is_local})"


def _psycopg(dsn: str, variant: Variant) -> tuple[int, ...]:
    from contextlib import suppress

    from psycopg_pool import ConnectionPool

    seen = []
    autocommit = {"autocommit": variant is Variant.AUTOCOMMIT}
    with ConnectionPool(dsn, min_size=1, max_size=1, kwargs=autocommit) as pool:
        for tenant in TENANTS:
            with suppress(FailedError), pool.connection() as conn:
                conn.execute(_config(variant), (str(tenant),))
                conn.execute(COUNT)
                if variant.fails(tenant):
                    raise FailedError
            with pool.connection() as conn:
                seen.append(number(conn.execute(COUNT).fetchone()))
    return tuple(seen)


def _psycopg_async(dsn: str, variant: Variant) -> tuple[int, ...]:
    async def jobs() -> tuple[int, ...]:
        from contextlib import suppress

        from psycopg_pool import AsyncConnectionPool

        seen = []
        autocommit = {"autocommit": variant is Variant.AUTOCOMMIT}
        async with AsyncConnectionPool(dsn, min_size=1, max_size=1, kwargs=autocommit, open=False) as pool:
            for tenant in TENANTS:
                with suppress(FailedError):
                    async with pool.connection() as conn:
                        await conn.execute(_config(variant), (str(tenant),))
                        await conn.execute(COUNT)
                        if variant.fails(tenant):
                            raise FailedError
                async with pool.connection() as conn:
                    seen.append(number(await (await conn.execute(COUNT)).fetchone()))
        return tuple(seen)

    return asyncio.run(jobs())


def _psycopg2(dsn: str, variant: Variant) -> tuple[int, ...]:
    from psycopg2.pool import SimpleConnectionPool

    pool, seen = SimpleConnectionPool(1, 1, dsn), []
    for tenant in TENANTS:
        conn = pool.getconn()
        conn.autocommit = variant is Variant.AUTOCOMMIT
        with conn.cursor() as cursor:
            cursor.execute(_config(variant), (str(tenant),))
            cursor.execute(COUNT)
        if not variant.fails(tenant):
            conn.commit()
        pool.putconn(conn)  # which rolls back what is open
        conn = pool.getconn()
        with conn.cursor() as cursor:
            cursor.execute(COUNT)
            seen.append(number(cursor.fetchone()))
        pool.putconn(conn)
    pool.closeall()
    return tuple(seen)


def _asyncpg(dsn: str, variant: Variant) -> tuple[int, ...]:
    async def jobs() -> tuple[int, ...]:
        from contextlib import suppress

        import asyncpg
        from psycopg.conninfo import conninfo_to_dict

        words: dict[str, Any] = dict(conninfo_to_dict(dsn))
        settings = dict(word.split("=", 1) for word in str(words.pop("options")).split() if "=" in word)
        words["database"] = words.pop("dbname", None)
        seen = []
        async with asyncpg.create_pool(**words, min_size=1, max_size=1, server_settings=settings) as pool:
            for tenant in TENANTS:
                with suppress(FailedError):
                    async with pool.acquire() as conn:
                        await _asyncpg_job(conn, variant, tenant)
                async with pool.acquire() as conn:
                    seen.append(int(await conn.fetchval(COUNT)))
        return tuple(seen)

    return asyncio.run(jobs())


async def _asyncpg_job(conn: Any, variant: Variant, tenant: int) -> None:
    if variant is Variant.AUTOCOMMIT:
        await conn.execute(_config(variant, "$1"), str(tenant))
        await conn.fetchval(COUNT)
    else:
        async with conn.transaction():
            await conn.execute(_config(variant, "$1"), str(tenant))
            await conn.fetchval(COUNT)
            if variant.fails(tenant):
                raise FailedError
    if variant.fails(tenant):
        raise FailedError


def _sqlalchemy(dsn: str, variant: Variant, *, begins: bool = True, commits: bool = True) -> tuple[int, ...]:
    from contextlib import suppress

    import psycopg
    import sqlalchemy

    autocommit: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"} if variant is Variant.AUTOCOMMIT else {}
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), pool_size=1, max_overflow=0, **autocommit
    )
    seen = []
    for tenant in TENANTS:
        with suppress(FailedError), engine.begin() if begins else engine.connect() as conn:
            conn.execute(sqlalchemy.text(_config(variant, ":tenant")), {"tenant": str(tenant)})
            conn.execute(sqlalchemy.text(COUNT))
            if variant.fails(tenant):
                raise FailedError
            if commits and not begins:
                conn.commit()
        with engine.connect() as conn:
            seen.append(int(conn.execute(sqlalchemy.text(COUNT)).scalar_one()))
    engine.dispose()
    return tuple(seen)


def _django(dsn: str, variant: Variant) -> tuple[int, ...]:
    """Without a pool: the connection is the thread's, and stays when a job has ended."""
    from contextlib import nullcontext, suppress

    import django
    from django.conf import settings
    from django.db import connections, transaction
    from django.db.utils import ConnectionHandler
    from psycopg.conninfo import conninfo_to_dict

    if not settings.configured:
        settings.configure(LOGGING_CONFIG=None)
        django.setup()
    words: dict[str, Any] = {"dbname": "", **conninfo_to_dict(dsn)}
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": words.pop("dbname"), "OPTIONS": words}
    name = "tenant_audit_lab"
    connections[name] = conn = ConnectionHandler({"default": {}, name: database})[name]
    seen = []
    for tenant in TENANTS:
        block = nullcontext() if variant is Variant.AUTOCOMMIT else transaction.atomic(name)
        with suppress(FailedError), block, conn.cursor() as cursor:
            cursor.execute(_config(variant), (str(tenant),))
            cursor.execute(COUNT)
            if variant.fails(tenant):
                raise FailedError
        with conn.cursor() as cursor:
            cursor.execute(COUNT)
            seen.append(number(cursor.fetchone()))
    conn.close()
    del connections[name]
    return tuple(seen)


def _pgbouncer(dsn: str, variant: Variant) -> tuple[int, ...]:
    """Each job on a connection of its own, which is closed at its end: it is the pooler's session that stays."""
    from contextlib import suppress

    import psycopg

    from auditor.lab.pooler import pooler

    seen = []
    with pooler(dsn) as pooled:
        words: dict[str, Any] = {"autocommit": variant is Variant.AUTOCOMMIT, "prepare_threshold": None}
        for tenant in TENANTS:
            with suppress(FailedError), psycopg.connect(pooled, **words) as conn:
                conn.execute(_config(variant), (str(tenant),))
                conn.execute(COUNT)
                if variant.fails(tenant):
                    raise FailedError
            with psycopg.connect(pooled, **words) as conn:
                seen.append(number(conn.execute(COUNT).fetchone()))
    return tuple(seen)


DRIVERS = (
    Driver("psycopg", ("psycopg_pool",), _psycopg),
    Driver("psycopg, async", ("psycopg_pool",), _psycopg_async),
    Driver("psycopg2", ("psycopg2",), _psycopg2),
    Driver("asyncpg", ("asyncpg",), _asyncpg, clears=True),
    Driver("SQLAlchemy, engine.begin()", ("sqlalchemy",), _sqlalchemy),
    Driver("SQLAlchemy, engine.connect() and commit()", ("sqlalchemy",), partial(_sqlalchemy, begins=False)),
    Driver(
        "SQLAlchemy, engine.connect() alone",
        ("sqlalchemy",),
        partial(_sqlalchemy, begins=False, commits=False),
        variants=(Variant.SESSION,),
        clears=True,
    ),
    Driver("Django", ("django",), _django),
    Driver("psycopg behind PgBouncer, by transaction", (), _pgbouncer, program=PROGRAM),
)
