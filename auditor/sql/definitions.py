"""CREATE, ALTER, DROP, GRANT and REVOKE: by the words that say what they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql import bodies, schema, security
from auditor.sql.meaning import Kind, Statement
from auditor.sql.tokens import Lex

if TYPE_CHECKING:
    from auditor.sql.commands import Reader
    from auditor.sql.cursor import Cursor

#: Words that say how an object is made, before the word that says what it is.
_MANNERS = ("or", "replace", "global", "local", "temp", "temporary", "unlogged", "unique", "recursive", "constraint")

_CREATED: dict[str, Reader] = {
    "function": bodies.create_function,
    "group": security.create_role,
    "index": schema.create_index,
    "policy": security.create_policy,
    "procedure": bodies.create_function,
    "role": security.create_role,
    "table": schema.create_table,
    "trigger": schema.create_trigger,
    "user": security.create_user,
    "view": schema.create_view,
}
_ALTERED: dict[str, Reader] = {
    "database": security.alter_database,
    "function": bodies.alter_function,
    "group": security.alter_role,
    "index": schema.alter_other,
    "policy": security.alter_policy,
    "procedure": bodies.alter_function,
    "role": security.alter_role,
    "routine": bodies.alter_function,
    "sequence": schema.alter_other,
    "system": security.alter_system,
    "table": schema.alter_table,
    "user": security.alter_role,
    "view": schema.alter_other,
}
_DROPPED: dict[str, Reader] = {
    "function": bodies.drop_functions,
    "policy": security.drop_policy,
    "procedure": bodies.drop_functions,
    "routine": bodies.drop_functions,
    "table": schema.drop_table,
}


def create(cursor: Cursor, statement: Statement) -> Statement:
    while cursor.take_any(*_MANNERS):
        pass
    cursor.take("foreign")
    cursor.take("materialized")
    return _by_word(cursor, statement, _CREATED)


def alter(cursor: Cursor, statement: Statement) -> Statement:
    cursor.take("foreign")
    cursor.take("materialized")
    return _by_word(cursor, statement, _ALTERED)


def drop(cursor: Cursor, statement: Statement) -> Statement:
    return _by_word(cursor, statement, _DROPPED)


def _by_word(cursor: Cursor, statement: Statement, readers: dict[str, Reader]) -> Statement:
    read = readers.get(cursor.peek().value) if cursor.peek().lex is Lex.WORD else None
    if read is None:
        return statement._replace(kind=Kind.DDL)
    cursor.next()
    return read(cursor, statement)


#: By their first word.
DEFINITIONS: dict[str, Reader] = {
    "alter": alter,
    "create": create,
    "do": bodies.do,
    "drop": drop,
    "grant": security.grant,
    "revoke": security.revoke,
}
