"""Commands that their keywords decide: settings, transactions, sessions, locks, whole tables.

They are read from tokens: sqlglot has no trees for them, and most workers' files need nothing else read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.meaning import Call, Change, Kind, SettingChange, SettingRead, Span, Statement, Term, TermKind
from auditor.sql.terms import FALSE, NOTHING, TRUE, hole_term, literal, parameter, span_of, term_of
from auditor.sql.tokens import Lex, holes_in, is_bare_hole, split_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from auditor.sql.cursor import Cursor
    from auditor.sql.tokens import Token

    Reader = Callable[[Cursor, Statement], Statement]


# Settings

#: SET forms with words of their own in the place of a name.
_PHRASES = (
    (("session", "authorization"), "session_authorization"),
    (("time", "zone"), "timezone"),
    (("xml", "option"), "xmloption"),
    (("names",), "client_encoding"),
    (("schema",), "search_path"),
    (("seed",), "seed"),
    (("role",), "role"),
)
_LOCAL_ZONE = ("timezone", "local")


def setting_of(cursor: Cursor, local: Term) -> SettingChange | None:
    """name = value, name TO value, and the special forms; None where no name comes."""
    start = cursor.peek().start
    special = _special_name(cursor)
    name = special or _setting_name(cursor)
    if name is None:
        return None
    if not (special or name.holes or cursor.peek().is_operator("=", ":=") or cursor.peek().is_word("to", "from")):
        return None  # SET TABLESPACE x and its like set nothing
    if cursor.take("from", "current"):
        value, change = Term(TermKind.OTHER, "current"), Change.SET
    else:
        if not cursor.take_operator("=", ":="):
            cursor.take("to")
        tokens = cursor.rest()
        value = _setting_value(tokens)
        # DEFAULT, and SET TIME ZONE LOCAL, go back to what the session began with.
        back = value.kind is TermKind.DEFAULT or (special is not None and (name.text, value.text) == _LOCAL_ZONE)
        change = Change.RESET if back else Change.SET
    span = Span(start, max(cursor.peek(-1).end, start))
    return SettingChange(change, name, value, local, called=False, span=span)


def _special_name(cursor: Cursor) -> Term | None:
    for words, name in _PHRASES:
        following = cursor.peek(len(words))
        if cursor.sees(*words) and not following.is_mark("."):
            span = Span(cursor.peek().start, cursor.peek(len(words) - 1).end)
            cursor.take(*words)
            return literal(name, span)
    return None


def _setting_name(cursor: Cursor) -> Term | None:
    """A dotted name, a placeholder or a hole."""
    token = cursor.peek()
    if token.lex is Lex.PARAMETER and not cursor.peek(1).is_mark("."):
        return parameter(cursor.next())
    if not cursor.takes_name():
        return None
    if is_bare_hole(token) and not cursor.peek(1).is_mark("."):
        return hole_term(cursor.next().value, Span(token.start, token.end))
    parts = [cursor.name()]
    while cursor.take_mark("."):
        parts.append(cursor.name())
    return literal(".".join(parts).lower(), Span(token.start, cursor.peek(-1).end), quoted=False)


def _setting_value(tokens: Sequence[Token]) -> Term:
    """The value of a SET; a list of several is their parts."""
    values = tuple(_value(part) for part in split_at(tokens, ","))
    if len(values) == 1:
        return values[0]
    return Term(TermKind.OTHER, "", values, (), span_of(tokens))


def _value(tokens: Sequence[Token]) -> Term:
    """Words are values here, not columns: SET search_path TO tenant_1."""
    if len(tokens) == 1 and tokens[0].is_name:
        token = tokens[0]
        span = Span(token.start, token.end)
        if token.is_word("default"):
            return Term(TermKind.DEFAULT, "", (), (), span)
        if is_bare_hole(token):
            return hole_term(token.value, span)
        return Term(TermKind.LITERAL, token.value, (), holes_in(token.value), span)
    return term_of(tokens)


def set_(cursor: Cursor, statement: Statement) -> Statement:
    """SET [SESSION | LOCAL] …, SET TRANSACTION, SET CONSTRAINTS."""
    start = cursor.peek(-1).start
    if cursor.take("constraints"):
        return statement
    if cursor.take("session", "characteristics", "as", "transaction") or cursor.take("transaction"):
        return _modes(cursor, statement._replace(kind=Kind.SET_TRANSACTION))
    local = TRUE if cursor.take("local") else FALSE
    if local is FALSE and not cursor.sees("session", "authorization"):
        cursor.take("session")
    if cursor.take("transaction"):
        return _modes(cursor, statement._replace(kind=Kind.SET_TRANSACTION))
    change = setting_of(cursor, local)
    changes = (change._replace(span=Span(start, change.span.end)),) if change else ()
    return statement._replace(kind=Kind.SET, settings=changes)


def reset(cursor: Cursor, statement: Statement) -> Statement:
    change = reset_of(cursor)
    if change is None or not change.span.end:
        return statement._replace(kind=Kind.RESET)
    return statement._replace(kind=Kind.RESET, settings=(change,))


def reset_of(cursor: Cursor) -> SettingChange | None:
    """What RESET names."""
    span = Span(cursor.peek(-1).start, cursor.tokens[-1].end)
    if cursor.take("all"):
        return _back(Change.RESET_ALL, NOTHING, span)
    if cursor.take("transaction", "isolation", "level"):
        return _back(Change.RESET, literal("transaction_isolation", span), span)
    name = _special_name(cursor) or _setting_name(cursor)
    return _back(Change.RESET, name, span) if name else None


def _back(change: Change, name: Term, span: Span) -> SettingChange:
    return SettingChange(change, name, NOTHING, FALSE, called=False, span=span)


def show(cursor: Cursor, statement: Statement) -> Statement:
    span = statement.span
    if cursor.take("all"):
        return statement._replace(kind=Kind.SHOW, name="all")
    if cursor.take("transaction", "isolation", "level"):
        name: Term | None = literal("transaction_isolation", span)
    else:
        name = _special_name(cursor) or _setting_name(cursor)
    if name is None:
        return statement._replace(kind=Kind.SHOW)
    read = SettingRead(name, missing_ok=False, span=span)
    return statement._replace(kind=Kind.SHOW, name=name.text, setting_reads=(read,))


def discard(cursor: Cursor, statement: Statement) -> Statement:
    """DISCARD ALL resets every setting, role and session authorization included."""
    what = {"temporary": "temp"}.get(cursor.peek().value, cursor.peek().value)
    changes: tuple[SettingChange, ...] = ()
    if what == "all":
        span = statement.span
        names = ("session_authorization", "role")
        changes = (
            *(_back(Change.RESET, literal(name, span), span) for name in names),
            _back(Change.RESET_ALL, NOTHING, span),
        )
    return statement._replace(kind=Kind.DISCARD, name=what, settings=changes)


# Transactions


def _modes(cursor: Cursor, statement: Statement) -> Statement:
    """ISOLATION LEVEL …, READ ONLY, in any order and separated as one likes."""
    while not cursor.done:
        if cursor.take("isolation", "level"):
            level = cursor.next().value
            if level in ("read", "repeatable"):
                level = f"{level} {cursor.next().value}"
            statement = statement._replace(isolation=level)
        elif cursor.take("read", "only"):
            statement = statement._replace(read_only=True)
        else:
            cursor.next()
    return statement


def begin(cursor: Cursor, statement: Statement) -> Statement:
    cursor.take_any("work", "transaction")
    return _modes(cursor, statement._replace(kind=Kind.BEGIN))


def start(cursor: Cursor, statement: Statement) -> Statement:
    return begin(cursor, statement) if cursor.sees("transaction") else statement


def commit(cursor: Cursor, statement: Statement) -> Statement:
    if cursor.take("prepared"):
        return statement
    cursor.take_any("work", "transaction")
    return statement._replace(kind=Kind.COMMIT, chain=cursor.take("and", "chain"))


def rollback(cursor: Cursor, statement: Statement) -> Statement:
    if cursor.take("prepared"):
        return statement
    cursor.take_any("work", "transaction")
    if cursor.take("to"):
        cursor.take("savepoint")
        return statement._replace(kind=Kind.ROLLBACK_TO, name=cursor.name())
    return statement._replace(kind=Kind.ROLLBACK, chain=cursor.take("and", "chain"))


def savepoint(cursor: Cursor, statement: Statement) -> Statement:
    return statement._replace(kind=Kind.SAVEPOINT, name=cursor.name())


def release(cursor: Cursor, statement: Statement) -> Statement:
    if cursor.sees("savepoint") and not cursor.peek(1).is_mark(""):
        cursor.next()
    return statement._replace(kind=Kind.RELEASE, name=cursor.name())


def prepare(cursor: Cursor, statement: Statement) -> Statement:
    if cursor.take("transaction"):
        return statement._replace(kind=Kind.PREPARE_TRANSACTION, name=cursor.next().value)
    name = cursor.name()
    cursor.brackets()
    cursor.take("as")
    return statement._replace(kind=Kind.PREPARE, name=name, body=_body(cursor))


def _body(cursor: Cursor) -> tuple[Statement, ...]:
    return () if cursor.done else (cursor.statement(),)


# Prepared statements, cursors, notifications


def execute(cursor: Cursor, statement: Statement) -> Statement:
    return statement._replace(kind=Kind.EXECUTE, name=cursor.name())


def deallocate(cursor: Cursor, statement: Statement) -> Statement:
    if cursor.sees("prepare") and not cursor.peek(1).is_mark(""):
        cursor.next()
    return statement._replace(kind=Kind.DEALLOCATE, name=cursor.name())


def declare(cursor: Cursor, statement: Statement) -> Statement:
    name = cursor.name()
    body: tuple[Statement, ...] = ()
    if cursor.find("for") and cursor.take("for"):
        body = _body(cursor)
    return statement._replace(kind=Kind.DECLARE, name=name, body=body)


def fetch(cursor: Cursor, statement: Statement) -> Statement:
    """FETCH and MOVE: the cursor's name is the last word."""
    names = [token for token in cursor.rest() if token.is_name]
    return statement._replace(kind=Kind.FETCH, name=names[-1].value if names else "")


def close(cursor: Cursor, statement: Statement) -> Statement:
    return statement._replace(kind=Kind.CLOSE, name=cursor.name())


def listen(cursor: Cursor, statement: Statement) -> Statement:
    return statement._replace(kind=Kind.LISTEN, name=cursor.name())


def unlisten(cursor: Cursor, statement: Statement) -> Statement:
    name = "*" if cursor.take_operator("*") else cursor.name()
    return statement._replace(kind=Kind.UNLISTEN, name=name)


def notify(cursor: Cursor, statement: Statement) -> Statement:
    return statement._replace(kind=Kind.NOTIFY, name=cursor.name())


# Whole tables, and statements around statements


def lock(cursor: Cursor, statement: Statement) -> Statement:
    cursor.take("table")
    return statement._replace(kind=Kind.LOCK, reads=cursor.tables())


def truncate(cursor: Cursor, statement: Statement) -> Statement:
    cursor.take("table")
    return statement._replace(kind=Kind.TRUNCATE, writes=cursor.tables())


def copy(cursor: Cursor, statement: Statement) -> Statement:
    statement = statement._replace(kind=Kind.COPY)
    cursor.take("binary")
    if cursor.peek().is_mark("("):
        return statement._replace(body=(cursor.nested(cursor.brackets(), cursor.text),))
    table = cursor.table()
    cursor.brackets()
    if cursor.take("from"):
        return statement._replace(writes=(table,))
    return statement._replace(reads=(table,))


def refresh(cursor: Cursor, statement: Statement) -> Statement:
    if not cursor.take("materialized", "view"):
        return statement
    cursor.take("concurrently")
    return statement._replace(writes=(cursor.table(),))


def call(cursor: Cursor, statement: Statement) -> Statement:
    schema, name, span = cursor.qualified()
    end = cursor.tokens[-1].end
    arguments = tuple(term_of(part) for part in split_at(cursor.brackets(), ","))
    made = Call(name, schema, arguments, Span(span.start, end))
    return statement._replace(kind=Kind.CALL, calls=(made,) if name else ())


def explain(cursor: Cursor, statement: Statement) -> Statement:
    """What is explained is run only by ANALYZE."""
    runs = False
    if cursor.peek().is_mark("("):
        options = cursor.brackets()
        for option in split_at(options, ","):
            if option and option[0].is_word("analyze", "analyse"):
                runs = not (len(option) > 1 and option[1].value in ("false", "off", "0"))
    while word := cursor.take_any("analyze", "analyse", "verbose"):
        runs = runs or word != "verbose"
    statement = statement._replace(kind=Kind.EXPLAIN)
    return statement._replace(body=_body(cursor)) if runs else statement


def vacuum(cursor: Cursor, statement: Statement) -> Statement:
    return statement._replace(kind=Kind.VACUUM)


def ddl(cursor: Cursor, statement: Statement) -> Statement:
    return statement._replace(kind=Kind.DDL)


#: By their first word.
COMMANDS: dict[str, Reader] = {
    "abort": rollback,
    "begin": begin,
    "call": call,
    "close": close,
    "comment": ddl,
    "commit": commit,
    "copy": copy,
    "deallocate": deallocate,
    "declare": declare,
    "discard": discard,
    "end": commit,
    "execute": execute,
    "explain": explain,
    "fetch": fetch,
    "import": ddl,
    "listen": listen,
    "lock": lock,
    "move": fetch,
    "notify": notify,
    "prepare": prepare,
    "reassign": ddl,
    "refresh": refresh,
    "release": release,
    "reset": reset,
    "rollback": rollback,
    "savepoint": savepoint,
    "security": ddl,
    "set": set_,
    "show": show,
    "start": start,
    "truncate": truncate,
    "unlisten": unlisten,
    "vacuum": vacuum,
}
