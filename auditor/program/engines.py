"""What is written for another database than PostgreSQL, where the program speaks to several."""

from __future__ import annotations

#: Other databases, as files, folders, classes and functions name what is written for them.
_OTHERS = ("mysql", "mariadb", "sqlite", "mssql", "sqlserver", "duckdb", "clickhouse")
_OURS = ("postgres", "psycopg", "asyncpg")


def is_for_another(path: str, symbol: str) -> bool:
    """Whether the innermost name around a place that tells a database tells another one."""
    around = (*reversed(symbol.split(".")), *reversed(path.split("/")))
    for name in (one.lower().replace("_", "") for one in around):
        if any(ours in name for ours in _OURS):
            return False
        if any(other in name for other in _OTHERS):
            return True
    return False
