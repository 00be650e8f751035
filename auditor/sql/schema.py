"""Definitions: tables, views, indexes, triggers, row security. Their heads are a few keywords, read from tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.cursor import Cursor
from auditor.sql.meaning import Call, Column, Kind, RowSecurity, Statement, TableShape
from auditor.sql.scan import calls_in
from auditor.sql.tokens import split_at, word_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from auditor.sql.tokens import Token

_NO_COLUMNS = word_set("constraint primary unique check foreign exclude like table")
#: Words that end a column's type.
_AFTER_TYPE = word_set(
    """
    not null default primary unique check references constraint collate generated storage compression deferrable
    initially no using options
    """
)


def create_table(cursor: Cursor, statement: Statement) -> Statement:
    cursor.take("if", "not", "exists")
    table = cursor.table()
    columns = tuple(_columns(cursor)) if cursor.peek().is_mark("(") else ()
    called = calls_in(cursor.tokens)
    statement = statement._replace(
        kind=Kind.CREATE_TABLE, shape=TableShape(table, columns), settings=called.settings, setting_reads=called.reads
    )
    if cursor.find("as") and cursor.take("as") and not cursor.sees("execute"):
        return _with_query(cursor, statement, ("with", "no", "data"), ("with", "data"))
    return statement


def _columns(cursor: Cursor) -> Iterator[Column]:
    parts = split_at(cursor.brackets(), ",")
    keys = {key for part in parts for key in _key(part)}
    for part in parts:
        if part and part[0].is_name and not part[0].is_word(*_NO_COLUMNS):
            column = _column(part, cursor.text)
            yield column._replace(unique=column.unique or column.name in keys)


def _key(tokens: Sequence[Token]) -> Iterator[str]:
    """The column of a table's PRIMARY KEY (…) or UNIQUE (…), where it is one alone."""
    begins = 2 if tokens and tokens[0].is_word("constraint") else 0
    heads = tokens[begins:]
    if len(heads) > 3 and heads[0].is_word("primary", "unique") and heads[-3].is_mark("(") and heads[-1].is_mark(")"):
        yield heads[-2].value


def _column(tokens: Sequence[Token], text: str) -> Column:
    end = next((at for at, token in enumerate(tokens) if at and token.is_word(*_AFTER_TYPE)), len(tokens))
    typed = " ".join(text[tokens[1].start : tokens[end - 1].end].split()).lower() if end > 1 else ""
    return Column(tokens[0].value, typed, any(token.is_word("primary", "unique") for token in tokens[end:]))


def drop_table(cursor: Cursor, statement: Statement) -> Statement:
    cursor.take("if", "exists")
    return statement._replace(kind=Kind.DDL, dropped=cursor.tables())


def create_view(cursor: Cursor, statement: Statement) -> Statement:
    cursor.take("if", "not", "exists")
    table = cursor.table()
    statement = statement._replace(kind=Kind.CREATE_VIEW, shape=TableShape(table))
    if cursor.find("as") and cursor.take("as"):
        ends = (("with", "check"), ("with", "local"), ("with", "cascaded"), ("with", "no"), ("with", "data"))
        made = _with_query(cursor, statement, *ends)
        # A recursive view names itself.
        return made._replace(reads=tuple(read for read in made.reads if read[:2] != table[:2]))
    return statement


def _with_query(cursor: Cursor, statement: Statement, *ends: tuple[str, ...]) -> Statement:
    """The statement with what the query behind AS reads; options behind the query are not its own."""
    begin = cursor.at
    end = len(cursor.tokens)
    for words in ends:
        if cursor.find(*words) and cursor.at > begin:
            end = min(end, cursor.at)
        cursor.at = begin
    query = cursor.nested(cursor.tokens[begin:end], cursor.text)
    return statement._replace(
        parsed=query.parsed,
        queries=query.queries,
        reads=query.reads,
        settings=query.settings,
        setting_reads=query.setting_reads,
        calls=query.calls,
    )


def create_index(cursor: Cursor, statement: Statement) -> Statement:
    return statement._replace(kind=Kind.CREATE_INDEX, shape=_on_table(cursor))


def create_trigger(cursor: Cursor, statement: Statement) -> Statement:
    """A trigger calls its function whenever its table changes."""
    name = cursor.name()
    shape = _on_table(cursor)
    called: tuple[Call, ...] = ()
    for word in ("function", "procedure"):
        begin = cursor.at
        if cursor.find("execute", word):
            called = calls_in(cursor.tokens[cursor.at + 2 :]).calls
        cursor.at = begin
    return statement._replace(kind=Kind.CREATE_TRIGGER, name=name, shape=shape, calls=called)


def _on_table(cursor: Cursor) -> TableShape | None:
    if not (cursor.find("on") and cursor.take("on")):
        return None
    table = cursor.table()
    return TableShape(table) if table.name else None


# ALTER TABLE

_ROW_SECURITY = (
    (("enable",), "enable"),
    (("disable",), "disable"),
    (("no", "force"), "no force"),
    (("force",), "force"),
)


def alter_table(cursor: Cursor, statement: Statement) -> Statement:
    cursor.take("if", "exists")
    table = cursor.table()
    columns: list[Column] = []
    security: list[RowSecurity] = []
    owner = renamed = ""
    for action in split_at(cursor.rest(), ","):
        step = Cursor(action, cursor.text, cursor.nested)
        for words, name in _ROW_SECURITY:
            if step.take(*words, "row", "level", "security"):
                security.append(RowSecurity(table, name))
        if step.take("owner", "to"):
            owner = step.name()
        elif step.take("rename", "to"):
            renamed = step.name()
        elif step.take("add"):
            columns.extend(_added(step))
    return statement._replace(
        kind=Kind.ALTER_TABLE, row_security=tuple(security), shape=TableShape(table, tuple(columns), owner, renamed)
    )


def _added(step: Cursor) -> Iterator[Column]:
    """What ADD [COLUMN] adds, if it is a column."""
    explicit = step.take("column")
    step.take("if", "not", "exists")
    if step.peek().is_name and (explicit or not step.peek().is_word(*_NO_COLUMNS)):
        yield _column(step.rest(), step.text)


def alter_other(cursor: Cursor, statement: Statement) -> Statement:
    """ALTER INDEX, SEQUENCE, VIEW: relations, but no tables with columns of their own."""
    cursor.take("if", "exists")
    table = cursor.table()
    owner = cursor.peek(2).value if cursor.sees("owner", "to") else ""
    return statement._replace(kind=Kind.ALTER_TABLE, shape=TableShape(table, (), owner))
