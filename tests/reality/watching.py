"""What a real server says at each probe of a program that is really run, whichever driver it is run through.

A probe is a statement `SELECT probe(N)`. The client libraries below all drivers are watched as they send it: they know
the transaction's status. The tenant is what comes back: psycopg's answer can be looked at here; else the program itself
hands it to `note(N, tenant)`.
"""

from __future__ import annotations

import contextlib
import functools
import re
import runpy
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import asyncpg
import pg8000.core
import psycopg
import psycopg2
import psycopg2.extensions
from psycopg.pq import TransactionStatus
from psycopg2.errors import InFailedSqlTransaction

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PROBE = re.compile(r"SELECT probe\((\d+)\)")
_STATUSES = {
    TransactionStatus.IDLE: "idle",
    TransactionStatus.INTRANS: "open",
    TransactionStatus.INERROR: "aborted",
    # What pg8000 knows before a connection's first statement.
    None: "idle",
    b"I": "idle",
    b"T": "open",
    b"E": "aborted",
}
_ABORTED = "aborted"


class Seen(NamedTuple):
    """A probe: its number, the transaction's status as the statement runs, and the tenant, empty for none."""

    probe: int
    status: str
    tenant: str


def probe_in(text: object) -> int | None:
    """The number of the probe that a statement is."""
    mark = _PROBE.fullmatch(text.strip().removesuffix(";")) if isinstance(text, str) else None
    return None if mark is None else int(mark[1])


class Watch:
    """The probes of a run, in order."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        #: The probes that are sent and not answered, and the status that each runs in; empty where it is not known
        #: whether the transaction that is open is aborted.
        self._sent: dict[int, str] = {}

    def sent(self, probe: int, status: str) -> None:
        self._refuse(probe)
        self._sent[probe] = status

    def note(self, probe: int, tenant: str | None) -> None:
        """The answer to a probe."""
        if probe in self._sent:
            self.seen.append(Seen(probe, self._sent.pop(probe) or "open", tenant or ""))

    def end(self) -> list[Seen]:
        for probe in [*self._sent]:
            self._refuse(probe)
        return self.seen

    def _refuse(self, probe: int) -> None:
        """What is never answered was refused, because the transaction is aborted."""
        status = self._sent.pop(probe, None)
        if status is not None:
            self.seen.append(Seen(probe, status or _ABORTED, "" if status in ("", _ABORTED) else "no answer"))

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        with self._psycopg(), self._psycopg2(), self._asyncpg(), self._pg8000():
            yield

    @contextlib.contextmanager
    def _psycopg(self) -> Iterator[None]:
        plain, waiting = psycopg.Cursor.execute, psycopg.AsyncCursor.execute

        def answered(cursor: Any, probe: int) -> None:
            self.sent(probe, _STATUSES[cursor.connection.info.transaction_status])
            self.note(probe, (cursor.pgresult.get_value(0, 0) or b"").decode())

        def execute(cursor: Any, query: Any, *rest: Any, **options: Any) -> Any:
            probe = probe_in(query)
            try:
                found = plain(cursor, query, *rest, **options)
            except psycopg.errors.InFailedSqlTransaction:
                if probe is not None:
                    self.sent(probe, _ABORTED)
                raise
            if probe is not None:
                answered(cursor, probe)
            return found

        async def execute_async(cursor: Any, query: Any, *rest: Any, **options: Any) -> Any:
            probe = probe_in(query)
            try:
                found = await waiting(cursor, query, *rest, **options)
            except psycopg.errors.InFailedSqlTransaction:
                if probe is not None:
                    self.sent(probe, _ABORTED)
                raise
            if probe is not None:
                answered(cursor, probe)
            return found

        with (
            mock.patch.object(psycopg.Cursor, "execute", execute),
            mock.patch.object(psycopg.AsyncCursor, "execute", execute_async),
        ):
            yield

    @contextlib.contextmanager
    def _psycopg2(self) -> Iterator[None]:
        watch = self

        class Cursor(psycopg2.extensions.cursor):  # type: ignore[misc]
            def execute(self, query: Any, params: Any = None) -> None:
                probe = probe_in(query)
                if probe is not None and self.connection.async_:
                    # It only begins here; in this mode no transaction is begun by itself.
                    watch.sent(probe, _STATUSES[self.connection.info.transaction_status])
                try:
                    super().execute(query, params)
                except InFailedSqlTransaction:
                    if probe is not None:
                        watch.sent(probe, _ABORTED)
                    raise
                if probe is not None and not self.connection.async_:
                    watch.sent(probe, _STATUSES[self.connection.info.transaction_status])

        connect = functools.partial(psycopg2.connect, cursor_factory=Cursor)
        with mock.patch.object(psycopg2, "connect", connect):
            yield

    @contextlib.contextmanager
    def _asyncpg(self) -> Iterator[None]:
        plain = asyncpg.Connection._get_statement

        async def get_statement(conn: Any, query: Any, *rest: Any, **options: Any) -> Any:
            probe = probe_in(query)
            if probe is not None:
                self.sent(probe, "" if conn.is_in_transaction() else "idle")
            return await plain(conn, query, *rest, **options)

        with mock.patch.object(asyncpg.Connection, "_get_statement", get_statement):
            yield

    @contextlib.contextmanager
    def _pg8000(self) -> Iterator[None]:
        def watched(plain: Any) -> Any:
            def execute(conn: Any, statement: Any, *rest: Any, **options: Any) -> Any:
                probe = probe_in(statement)
                if probe is not None:
                    self.sent(probe, _STATUSES[conn._transaction_status])
                return plain(conn, statement, *rest, **options)

            return execute

        core = pg8000.core.CoreConnection
        with (
            mock.patch.object(core, "execute_simple", watched(core.execute_simple)),
            mock.patch.object(core, "execute_unnamed", watched(core.execute_unnamed)),
        ):
            yield


def run(folder: Path) -> list[Seen]:
    """The probes of a real run of the program in a folder."""
    watch = Watch()
    notes = ModuleType("notes")
    # Tortoise looks for models in it.
    notes.__dict__.update(note=watch.note, __models__=[])
    # What the program imports first stays imported: only its own modules go.
    with watch.watching(), mock.patch.object(sys, "path", [str(folder), *sys.path]):
        _forget("helpers", "place")
        sys.modules["notes"] = notes
        try:
            runpy.run_path(str(folder / "worker.py"), run_name="worker")
        finally:
            _forget("helpers", "notes", "place")
    return watch.end()


def _forget(*modules: str) -> None:
    for name in modules:
        sys.modules.pop(name, None)
