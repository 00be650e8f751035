"""What an open transaction that has written keeps from being cleared: any table's dead rows, not only its own."""

from __future__ import annotations

import psycopg
import pytest


@pytest.mark.parametrize(
    ("isolation", "statement", "holds"),
    [
        ("read committed", "UPDATE orders SET shipped = true", True),
        ("read committed", "SELECT 1 FROM orders FOR UPDATE", True),
        ("read committed", "SELECT 1 FROM orders", False),
        ("repeatable read", "SELECT 1 FROM orders", True),
        ("serializable", "SELECT 1 FROM orders", True),
    ],
)
def test_what_dies_beside_it_is_cleared_only_after_it(
    database: str, isolation: str, statement: str, holds: bool
) -> None:
    with psycopg.connect(database, autocommit=True) as other, psycopg.connect(database) as conn:
        other.execute("CREATE TABLE orders AS SELECT 1 AS id, false AS shipped")
        other.execute("CREATE TABLE jobs AS SELECT generate_series(1, 2000) AS id")
        conn.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
        conn.execute(statement)
        other.execute("DELETE FROM jobs")
        other.execute("VACUUM jobs")
        assert (_pages(other) > 0) is holds
        conn.commit()
        other.execute("VACUUM jobs")
        assert _pages(other) == 0


def _pages(conn: psycopg.Connection[tuple[int]]) -> int:
    row = conn.execute("SELECT pg_relation_size('jobs') / 8192").fetchone()
    assert row is not None
    return row[0]
