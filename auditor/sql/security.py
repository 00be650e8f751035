"""Who may see what: policies, roles, grants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.commands import reset_of, setting_of
from auditor.sql.meaning import Kind, Policy, RoleFacts, SettingChange, Span, Statement
from auditor.sql.scan import calls_in
from auditor.sql.terms import FALSE, span_of
from auditor.sql.tokens import Lex, word_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from auditor.sql.cursor import Cursor
    from auditor.sql.tokens import Token

_NOWHERE = Span(0, 0)


# Policies


def create_policy(cursor: Cursor, statement: Statement) -> Statement:
    return _policy(cursor, statement._replace(kind=Kind.CREATE_POLICY))


def alter_policy(cursor: Cursor, statement: Statement) -> Statement:
    return _policy(cursor, statement._replace(kind=Kind.ALTER_POLICY))


def drop_policy(cursor: Cursor, statement: Statement) -> Statement:
    cursor.take("if", "exists")
    return _policy(cursor, statement._replace(kind=Kind.DROP_POLICY))


def _policy(cursor: Cursor, statement: Statement) -> Statement:
    name = cursor.name()
    cursor.take("on")
    table = cursor.table()
    permissive, command = True, "all"
    roles: tuple[str, ...] = ()
    using: Sequence[Token] | None = None
    check: Sequence[Token] | None = None
    using_span = check_span = _NOWHERE
    while not cursor.done:
        if cursor.take("as"):
            permissive = cursor.next().value != "restrictive"
        elif cursor.take("for"):
            command = cursor.next().value
        elif cursor.take("to"):
            roles = _roles(cursor)
        elif cursor.take("using"):
            using, using_span = _expression(cursor)
        elif cursor.take("with", "check"):
            check, check_span = _expression(cursor)
        else:
            cursor.next()
    called = calls_in([*(using or ()), *(check or ())])
    return statement._replace(
        name=name,
        policy=Policy(
            name,
            table,
            command,
            roles,
            permissive,
            None if using is None else cursor.text[using_span.start : using_span.end],
            None if check is None else cursor.text[check_span.start : check_span.end],
            called.reads,
            called.calls,
            using_span,
            check_span,
        ),
    )


def _expression(cursor: Cursor) -> tuple[Sequence[Token], Span]:
    """What stands in the brackets that follow; a hole may stand for them."""
    inside = cursor.brackets() if cursor.peek().is_mark("(") else (cursor.next(),)
    return inside, span_of(inside)


def _roles(cursor: Cursor) -> tuple[str, ...]:
    """The roles of a TO list; PUBLIC, which is everybody, leaves none."""
    roles = _names(cursor)
    return () if "public" in roles else roles


def _names(cursor: Cursor) -> tuple[str, ...]:
    names = []
    while True:
        cursor.take("group")
        names.append(cursor.name())
        if not cursor.take_mark(","):
            return tuple(name for name in names if name)


# Roles

_ATTRIBUTES = word_set(
    """
    superuser nosuperuser createdb nocreatedb createrole nocreaterole inherit noinherit login nologin replication
    noreplication bypassrls nobypassrls
    """
)


def create_role(cursor: Cursor, statement: Statement) -> Statement:
    return _role(cursor, statement._replace(kind=Kind.CREATE_ROLE))


def create_user(cursor: Cursor, statement: Statement) -> Statement:
    """A user is a role that may log in."""
    if cursor.take("mapping"):
        return statement._replace(kind=Kind.DDL)
    made = create_role(cursor, statement)
    if made.role is None or {"login", "nologin"} & set(made.role.attributes):
        return made
    return made._replace(role=made.role._replace(attributes=("login", *made.role.attributes)))


def alter_role(cursor: Cursor, statement: Statement) -> Statement:
    if cursor.take("mapping"):
        return statement._replace(kind=Kind.DDL)
    return _role(cursor, statement._replace(kind=Kind.ALTER_ROLE))


def alter_database(cursor: Cursor, statement: Statement) -> Statement:
    return _role(cursor, statement._replace(kind=Kind.ALTER_DATABASE))


def alter_system(cursor: Cursor, statement: Statement) -> Statement:
    role = RoleFacts("", settings=_settings(cursor))
    return statement._replace(kind=Kind.OTHER, role=role)


def _role(cursor: Cursor, statement: Statement) -> Statement:
    cursor.take("if", "exists")
    name = cursor.name()
    cursor.take("in", "database") and cursor.name()
    settings = _settings(cursor)
    attributes: list[str] = []
    member_of: tuple[str, ...] = ()
    while not cursor.done:
        if cursor.take("in", "role") or cursor.take("in", "group"):
            member_of += _names(cursor)
        elif cursor.peek().lex is Lex.WORD and cursor.peek().value in _ATTRIBUTES:
            attributes.append(cursor.next().value)
        else:
            cursor.next()
    return statement._replace(name=name, role=RoleFacts(name, tuple(attributes), settings, member_of))


def _settings(cursor: Cursor) -> tuple[SettingChange, ...]:
    """SET … or RESET …, where one follows."""
    if cursor.take("set"):
        change = setting_of(cursor, FALSE)
    elif cursor.take("reset"):
        change = reset_of(cursor)
    else:
        return ()
    return (change,) if change else ()


# Grants


def grant(cursor: Cursor, statement: Statement) -> Statement:
    return _granted(cursor, statement._replace(kind=Kind.GRANT), "to")


def revoke(cursor: Cursor, statement: Statement) -> Statement:
    return _granted(cursor, statement._replace(kind=Kind.REVOKE), "from")


def _granted(cursor: Cursor, statement: Statement, word: str) -> Statement:
    """GRANT role TO role makes members; what names an object with ON is a privilege and tells nothing of roles."""
    begin = cursor.at
    if cursor.find("on"):
        return statement
    cursor.at = begin
    cursor.take_any("admin", "inherit") and cursor.take("option", "for")
    granted = _names(cursor)
    if not cursor.take(word):
        return statement
    members = _names(cursor)
    if not members or word == "from":
        return statement
    return statement._replace(role=RoleFacts(members[0], member_of=granted, others=members[1:]))
