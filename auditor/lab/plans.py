"""What a statement reads: EXPLAIN (ANALYZE, BUFFERS), as figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg


def explained(conn: psycopg.Connection[Any], statement: str, words: Sequence[object] = ()) -> dict[str, Any]:
    """The plan of a statement that is run, and whose changes are rolled back."""
    with conn.transaction(force_rollback=True):
        row = conn.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", words).fetchone()
        assert row is not None
        plan: dict[str, Any] = row[0][0]["Plan"]
    return plan


def buffers(conn: psycopg.Connection[Any], statement: str, words: Sequence[object] = ()) -> int:
    """How many pages it reads, from memory or not."""
    plan = explained(conn, statement, words)
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def nodes(plan: dict[str, Any]) -> Iterator[str]:
    """The kinds of its nodes, from the top."""
    yield str(plan["Node Type"])
    for below in plan.get("Plans", ()):
        yield from nodes(below)
