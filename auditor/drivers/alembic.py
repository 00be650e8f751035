"""Alembic's revisions: what the operations of `op` do to a schema.

Facts: the documentation's page on operations, `alembic/operations/ops.py` and `alembic/script/revision.py`, shown on a
real server by tests/drivers/test_alembic.py. A revision runs once, in a process that then ends, on a connection of
SQLAlchemy; `downgrade` runs only when somebody asks for it.
"""

from __future__ import annotations

import enum


class Operation(enum.Enum):
    """What a function of `op` does."""

    RUN = enum.auto()  #: runs the SQL in its first argument
    BIND = enum.auto()  #: gives the connection that the revision runs on
    CREATE_TABLE = enum.auto()  #: a table with the columns in its further arguments
    ADD_COLUMN = enum.auto()  #: a column, given second, of the table named first
    DROP_TABLE = enum.auto()
    RENAME_TABLE = enum.auto()
    SAME = enum.auto()  #: gives its first argument


_OPERATIONS = {
    "execute": Operation.RUN,
    "get_bind": Operation.BIND,
    "create_table": Operation.CREATE_TABLE,
    "add_column": Operation.ADD_COLUMN,
    "drop_table": Operation.DROP_TABLE,
    "rename_table": Operation.RENAME_TABLE,
    "f": Operation.SAME,
}

#: By the dotted name under which a revision finds them.
OPERATIONS = {
    **{f"alembic.op.{name}": operation for name, operation in _OPERATIONS.items()},
    "alembic.context.execute": Operation.RUN,
    "alembic.context.get_bind": Operation.BIND,
}
#: The driver of the connection that `get_bind` gives.
BELOW = "sqlalchemy"

#: What a revision is known by: the function that runs it, and the names that say where it stands among the others.
UPGRADE, DOWNGRADE = "upgrade", "downgrade"
PACKAGE = "alembic"
COLUMN = "Column"
#: What stands in every revision that changes tables or runs SQL.
NAMES = frozenset({"execute", "create_table", "add_column", "drop_table", "rename_table"})

#: PostgreSQL's names for SQLAlchemy's types, where lower case is not all that they differ in.
TYPES = {
    "String": "varchar",
    "Unicode": "varchar",
    "UnicodeText": "text",
    "BigInteger": "bigint",
    "SmallInteger": "smallint",
    "DateTime": "timestamp",
    "LargeBinary": "bytea",
    "Float": "double precision",
}
