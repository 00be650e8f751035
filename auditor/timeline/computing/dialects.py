"""Which database a program asks whether it talks to: what is judged here talks to PostgreSQL."""

from __future__ import annotations

from functools import cache

from auditor.sql.meaning import hole
from auditor.timeline.model.values import TRUE, Bound, Items, Pool, Text, Unknown, Value

_POSTGRES = ("postgres", "cockroach")
_OTHERS = ("sqlite", "mysql", "mariadb", "oracle", "mssql", "duckdb")
#: What objects of SQLAlchemy and Django tell the database by.
_TELLING = frozenset({"dialect", "dialect_name", "drivername", "vendor"})
#: What is asked of that: its name, and how that is spelled.
_OF_IT = frozenset({"name", "lower", "value"})
#: What functions that answer it are called: is_postgresql(), uses_sqlite(), _is_postgres_session(session).
_ASKS = frozenset({"is", "uses"})
_OWN_NAMES = frozenset({"postgres", "postgresql", "pg"})
_OF_WHAT = frozenset({"db", "database", "dialect", "backend", "engine", "session", "connection", "conn", "bind"})


def compared(operator: str, left: Value, right: Value) -> bool | None:
    """The outcome of `engine.dialect.name == "sqlite"` and its like; None for all other comparisons."""
    if operator in ("==", "!="):
        answer = _named(right) if tells_database(left) else _named(left) if tells_database(right) else None
        return None if answer is None else answer is (operator == "==")
    if operator not in ("in", "not in"):
        return None
    if tells_database(right):
        inside = _named(left)  # "postgresql" in str(engine.url)
    elif tells_database(left) and isinstance(right, Items) and not right.open:
        answers = [_named(item) for item in right.items]
        inside = True if True in answers else None if None in answers else False
    else:
        return None
    return None if inside is None else inside is (operator == "in")


@cache
def answered(called: str) -> bool | None:
    """What a function answers whose name asks for the database in use; None for all others."""
    asks, _, rest = called.lower().lstrip("_").partition("_")
    database, _, of_what = rest.partition("_")
    if asks not in _ASKS or (of_what and of_what not in _OF_WHAT):
        return None
    return True if database in _OWN_NAMES else False if database in _OTHERS else None


def feature(name: str) -> Value | None:
    """What Django's `connection.features` tells of the row locks of PostgreSQL, which has them all; None of others."""
    return TRUE if name.startswith("has_select_for_") else None


def tells_database(value: Value) -> bool:
    """Whether a value is the name of the database in use, or the URL of an engine."""
    if isinstance(value, Bound):
        if value.name == "url":
            return _is_engine(value.receiver)
        return value.name in _TELLING or (value.name in _OF_IT and tells_database(value.receiver))
    if isinstance(value, Text):
        return value.value == hole(0) and tells_database(value.holes[0])
    return isinstance(value, Unknown) and value.called in _TELLING


def _is_engine(value: Value) -> bool:
    if isinstance(value, Pool):
        return True
    name = value.name if isinstance(value, Bound) else value.called if isinstance(value, Unknown) else ""
    return name.endswith(("engine", "bind"))


def _named(name: Value) -> bool | None:
    """Whether a name is PostgreSQL's; None where it is neither that nor another's."""
    if not isinstance(name, Text) or name.holes:
        return None
    lowered = name.value.lower()
    return True if lowered.startswith(_POSTGRES) else False if lowered.startswith(_OTHERS) else None
