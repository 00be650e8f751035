"""What a real server says at each probe of a program that is really run, with one statement or another failing."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import re
import sys
import threading
import weakref
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest import mock
from urllib.parse import quote

import asyncpg
import django
import psycopg
import psycopg2
import psycopg2.errors
import psycopg2.extensions
from django.conf import settings
from django.db import connections
from django.db.utils import ConnectionHandler
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from tests.drivers.test_django import database_settings
from tests.reality.faults.prediction import Seen

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATUSES = {
    TransactionStatus.IDLE: "idle",
    TransactionStatus.INTRANS: "open",
    TransactionStatus.INERROR: "aborted",
}
#: What the audit takes to fail only with the connection itself: the end of a transaction, a cleanup.
_NEVER_FAILS = re.compile(
    r"\s*(commit|rollback|end|abort|release|reset|savepoint \Ss\d+_x\d+|savepoint __asyncpg\w+)\b|.*(''|\bto default\b)"
    # What asyncpg sends by itself ends with a semicolon.
    r"|begin[^;]*;$|select pg_advisory_unlock_all\(\);",
    re.IGNORECASE,
)

logging.getLogger("psycopg").setLevel(logging.CRITICAL)


class Fault(Exception):  # noqa: N818
    """What code that the audit does not see may raise."""


@dataclass
class Run:
    """One run of a program. `fault` is the number of the step that fails, `flags` what outside code answers."""

    fault: int | None = None
    flags: int = 0
    seen: list[tuple[int, Seen]] = field(default_factory=list)
    #: How many steps could have failed, and how often outside code was asked.
    steps: int = 0
    asked: int = 0
    ended_by: BaseException | None = None
    #: asyncpg's pool runs its callbacks in the task that acquires or releases.
    callbacks: int = 0
    #: The connections of psycopg and psycopg2 that the program has run statements on.
    used: list[weakref.ref[Any]] = field(default_factory=list)

    def flag(self) -> bool:
        """An answer of outside code."""
        self.asked += 1
        return bool(self.flags >> (self.asked - 1) & 1)

    def touch(self, conn: object) -> None:
        """Outside code that is given a connection: it does nothing with it, and may fail."""
        if self._fails():
            raise Fault

    def _fails(self) -> bool:
        self.steps += 1
        return self.steps - 1 == self.fault

    # Statements

    def meant(self, text: str) -> tuple[str, int | None]:
        """What is sent in place of a statement, and the probe that it is."""
        if self._in_callback() or _NEVER_FAILS.match(text):
            return text, None
        if self._fails():
            return "SELECT 1 / 0", None
        found = re.match(r"SELECT probe\((\d+)\)", text)
        return (text, None) if found is None else ("SELECT current_setting('app.tenant', true)", int(found[1]))

    def _in_callback(self) -> bool:
        """A pool runs its callbacks in threads and tasks of its own."""
        if threading.current_thread() is not self._thread or self.callbacks:
            return True
        try:
            return asyncio.current_task() is not self._task
        except RuntimeError:
            return False

    def note(self, probe: int, cursor: Any, row: Any) -> None:
        status = _STATUSES.get(cursor.connection.info.transaction_status, "closed")
        self.seen.append((probe, Seen(status, None if status == "aborted" else (row[0] or "") if row else None)))

    # The program

    def of(self, files: dict[str, str], dsn: str) -> Run:
        """Run the program against a server."""
        self._thread = threading.current_thread()
        self._task: asyncio.Task[Any] | None = None
        if "django" in files["worker.py"]:
            connect_django(dsn)
        if "asyncpg" in files["worker.py"]:
            dsn = as_url(dsn)
        outside = ModuleType("outside")
        outside.__dict__.update(flag=self.flag, touch=self.touch)
        helpers, worker = ModuleType("helpers"), ModuleType("__main__")
        with (
            mock.patch.dict(sys.modules, {"outside": outside, "helpers": helpers}),
            mock.patch.dict("os.environ", {"DATABASE_URL": dsn}),
            self._watched(),
        ):
            try:
                exec(compile(files["helpers.py"], "helpers.py", "exec"), helpers.__dict__)
                exec(compile(files["worker.py"], "worker.py", "exec"), worker.__dict__)
            except Exception as error:
                self.ended_by = error
        self._clear_up()
        return self

    def _clear_up(self) -> None:
        """Close what the program has left open: a server has only so many connections to give."""
        for conn in {id(conn): conn for ref in self.used if (conn := ref()) is not None}.values():
            if isinstance(conn, psycopg2.extensions.connection):
                conn.close()
            else:
                conn.pgconn.finish()
        self.used.clear()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """The drivers' cursors send what is meant, and note what they see."""
        plain, waiting, begin, connect = (
            psycopg.Cursor.execute,
            psycopg.AsyncCursor.execute,
            asyncio.run,
            psycopg2.connect,
        )

        def execute(cursor: Any, query: str, params: Any = None, **options: Any) -> Any:
            self.used.append(weakref.ref(cursor.connection))
            text, probe = self.meant(query)
            with self._noted(cursor, probe):
                result = plain(cursor, text, params if text == query else None, **options)
            if probe is not None:
                self.note(probe, cursor, cursor.fetchone())
            return result

        async def execute_async(cursor: Any, query: str, params: Any = None, **options: Any) -> Any:
            self.used.append(weakref.ref(cursor.connection))
            text, probe = self.meant(query)
            with self._noted(cursor, probe):
                result = await waiting(cursor, text, params if text == query else None, **options)
            if probe is not None:
                self.note(probe, cursor, await cursor.fetchone())
            return result

        def run(main: Any) -> Any:
            async def started() -> Any:
                self._task = asyncio.current_task()
                return await main

            return begin(started())

        watched = self

        class Cursor(psycopg2.extensions.cursor):  # type: ignore[misc]
            def execute(self, query: str, params: Any = None) -> None:
                watched.used.append(weakref.ref(self.connection))
                text, probe = watched.meant(query)
                with watched._noted(self, probe):
                    super().execute(text, params if text == query else None)
                if probe is not None:
                    watched.note(probe, self, self.fetchone())

        with (
            mock.patch.object(psycopg.Cursor, "execute", execute),
            mock.patch.object(psycopg.AsyncCursor, "execute", execute_async),
            mock.patch.object(psycopg2, "connect", functools.partial(connect, cursor_factory=Cursor)),
            mock.patch.object(asyncio, "run", run),
            self._watched_asyncpg(),
        ):
            yield

    @contextlib.contextmanager
    def _watched_asyncpg(self) -> Iterator[None]:
        ask, make = asyncpg.Connection.fetchval, asyncpg.create_pool

        def watched(plain: Any) -> Any:
            async def run(conn: Any, query: str, *args: Any, **options: Any) -> Any:
                text, probe = self.meant(query)
                if probe is None:
                    return await plain(conn, text, *(args if text == query else ()), **options)
                try:
                    held = await ask(conn, text)
                except asyncpg.InFailedSQLTransactionError:
                    self.seen.append((probe, Seen("aborted", None)))
                    raise
                self.seen.append((probe, Seen("open" if conn.is_in_transaction() else "idle", held or "")))
                return held

            return run

        def told(callback: Any) -> Any:
            async def called(conn: Any) -> None:
                self.callbacks += 1
                try:
                    await callback(conn)
                finally:
                    self.callbacks -= 1

            return called

        def create_pool(*args: Any, **options: Any) -> Any:
            callbacks = {name: told(options[name]) for name in ("init", "setup", "reset") if name in options}
            return make(*args, **(options | callbacks))

        with contextlib.ExitStack() as patched:
            for name in ("execute", "fetch", "fetchrow", "fetchval"):
                run = watched(getattr(asyncpg.Connection, name))
                patched.enter_context(mock.patch.object(asyncpg.Connection, name, run))
            patched.enter_context(mock.patch.object(asyncpg, "create_pool", create_pool))
            yield

    @contextlib.contextmanager
    def _noted(self, cursor: Any, probe: int | None) -> Iterator[None]:
        """A probe that is refused has been seen all the same."""
        try:
            yield
        except (psycopg.errors.InFailedSqlTransaction, psycopg2.errors.InFailedSqlTransaction):
            if probe is not None:
                self.note(probe, cursor, None)
            raise


def as_url(dsn: str) -> str:
    """The connection string as asyncpg takes it."""
    told = conninfo_to_dict(dsn)
    more = "&".join(f"{name}={quote(str(told[name]), safe='')}" for name in ("host", "port") if told.get(name))
    return f"postgresql://{told['user']}@/{told['dbname']}?{more}"


def connect_django(dsn: str) -> None:
    """Give Django new connections to the server, which it opens when they are first used."""
    if not settings.configured:
        settings.configure(DATABASES={"default": {}})
        django.setup()
    # In the time zone that Django asks for, it has nothing to set up.
    told = database_settings(dsn, OPTIONS={"options": "-c TimeZone=UTC"}, TIME_ZONE="UTC")
    made = ConnectionHandler({"default": told, "other": told})
    for alias in ("default", "other"):
        with contextlib.suppress(Exception):
            connections[alias].connection.close()
        connections[alias] = made[alias]


def runs(files: dict[str, str], dsn: str, most: int) -> Iterator[Run]:
    """The program as it goes well, then with one failure or another answer each time, `most` of them at most."""
    first = Run().of(files, dsn)
    yield first
    others = itertools.chain(
        (Run(flags=2**first.asked - 1) for _ in range(1 if first.asked else 0)),
        (Run(fault=step) for step in range(first.steps)),
        (Run(fault=step, flags=2**first.asked - 1) for step in range(first.steps if first.asked else 0)),
    )
    for other in itertools.islice(others, most):
        yield other.of(files, dsn)
