"""What the tests of psycopg 3 share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.pq import TransactionStatus

if TYPE_CHECKING:
    import psycopg

SESSION = "SELECT set_config('app.tenant', '1', false)"
LOCAL = "SELECT set_config('app.tenant', '1', true)"
READ = "SELECT current_setting('app.tenant', true)"
IDLE, OPEN, ABORTED = TransactionStatus.IDLE, TransactionStatus.INTRANS, TransactionStatus.INERROR


def tenant(conn: psycopg.Connection[Any]) -> str | None:
    row = conn.execute(READ).fetchone()
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


def backend(conn: psycopg.Connection[Any]) -> int:
    return conn.info.backend_pid
