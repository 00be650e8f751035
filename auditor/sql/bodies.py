"""Functions, procedures and DO: their heads, and the statements of SQL and PL/pgSQL bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.commands import reset_of, setting_of
from auditor.sql.cursor import Cursor
from auditor.sql.meaning import Function, Kind, SettingChange, Span, Statement
from auditor.sql.plpgsql import statements_of
from auditor.sql.quoted import hole_of, open_body
from auditor.sql.script import split_script
from auditor.sql.terms import TRUE
from auditor.sql.tokens import Lex, close_of, split_at, tokenize
from auditor.sql.words import is_attempts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from auditor.sql.tokens import Token

_NOWHERE = Span(0, 0)
_MODES = ("in", "out", "inout", "variadic")
#: Types of several words, so that their second word does not make the first one a name.
_LONG_TYPES = frozenset(
    (
        ("double", "precision"),
        ("character", "varying"),
        ("char", "varying"),
        ("national", "character"),
        ("national", "char"),
        ("bit", "varying"),
        ("time", "with"),
        ("time", "without"),
        ("timestamp", "with"),
        ("timestamp", "without"),
    )
)


#: Words whose condition reaches to the word named here.
_CONDITIONS = {"if": "then", "elsif": "then", "elseif": "then", "when": "then", "while": "loop"}


def create_function(cursor: Cursor, statement: Statement) -> Statement:
    """CREATE FUNCTION or PROCEDURE."""
    schema, name, _ = cursor.qualified()
    parameters = tuple(_parameters(cursor.brackets()))
    language, definer, fires = "", False, False
    settings: list[SettingChange] = []
    body: Sequence[Token] | None = None
    source: Token | None = None
    while not cursor.done:
        if cursor.take("language"):
            language = cursor.next().value.lower()
        elif cursor.take("returns"):
            fires = cursor.peek().is_word("trigger", "event_trigger")
        elif cursor.take("security", "definer"):
            definer = True
        elif cursor.take("set"):
            settings.extend(_setting(cursor))
        elif cursor.take("as"):
            source = cursor.next()
        elif cursor.take("begin", "atomic"):
            body = _atomic(cursor)
        elif cursor.sees("return"):
            body = cursor.rest()
        else:
            cursor.skip()
    function = Function(name, schema, language, parameters, definer, tuple(settings), (), None, fires=fires)
    if source is not None:
        function = _with_source(function, source, cursor)
    elif body is not None:
        function = _with_tokens(function._replace(language=language or "sql"), body, cursor)
    return statement._replace(kind=Kind.CREATE_FUNCTION, name=name, function=function)


def alter_function(cursor: Cursor, statement: Statement) -> Statement:
    """ALTER FUNCTION: what it says of the function's rights, settings and owner."""
    schema, name, _ = cursor.qualified()
    parameters = tuple(_parameters(cursor.brackets()))
    definer, owner = False, ""
    settings: list[SettingChange] = []
    while not cursor.done:
        if cursor.take("security", "definer"):
            definer = True
        elif cursor.take("set", "schema"):
            cursor.next()
        elif cursor.take("set"):
            settings.extend(_setting(cursor))
        elif cursor.take("reset"):
            change = reset_of(cursor)
            settings += [change] if change is not None else []
        elif cursor.take("owner", "to"):
            owner = cursor.name()
        else:
            cursor.skip()
    function = Function(name, schema, "", parameters, definer, tuple(settings), (), None, owner=owner)
    return statement._replace(kind=Kind.DDL, name=name, function=function)


def drop_functions(cursor: Cursor, statement: Statement) -> Statement:
    """DROP FUNCTION, PROCEDURE or ROUTINE: whatever parameters the one that goes has."""
    cursor.take("if", "exists")
    names: list[str] = []
    while not cursor.done:
        _, name, _ = cursor.qualified()
        names += [name] if name else []
        cursor.brackets()
        if not cursor.take_mark(","):
            break
    return statement._replace(kind=Kind.DDL, dropped_functions=tuple(names))


def do(cursor: Cursor, statement: Statement) -> Statement:
    """DO: a body without a name, in PL/pgSQL unless it says otherwise."""
    language = "plpgsql"
    source: Token | None = None
    while not cursor.done:
        if cursor.take("language"):
            language = cursor.next().value.lower()
        else:
            token = cursor.next()
            source = token if token.lex is Lex.STRING else source
    function = Function("", "", language, (), security_definer=False, settings=(), body=(), returns=None)
    if source is not None:
        function = _with_source(function, source, cursor)._replace(returns=None)
    return statement._replace(kind=Kind.DO, function=function)


# Heads


def _parameters(tokens: Sequence[Token]) -> Iterator[str]:
    """The names of what a caller passes, empty where a parameter has none."""
    for part in split_at(tokens, ","):
        mode = part[0].value if part and part[0].is_word(*_MODES) else ""
        rest = part[1:] if mode else part
        if mode == "out" or (len(rest) > 1 and rest[1].is_word("out")):
            continue
        named = len(rest) > 1 and rest[0].is_name and (rest[1].is_name and not rest[1].is_word("default"))
        if named and (rest[0].value, rest[1].value) in _LONG_TYPES:
            named = False
        yield rest[0].value if named else ""


def _setting(cursor: Cursor) -> Iterator[SettingChange]:
    """SET name = value, value …: up to where the values end, for other attributes may follow."""
    begin = cursor.at
    while not cursor.done and not cursor.peek().is_operator("=") and not cursor.sees("to") and not cursor.sees("from"):
        cursor.next()
    cursor.next()
    cursor.take_operator("-", "+")
    cursor.next()
    while cursor.take_mark(","):
        cursor.next()
    change = setting_of(Cursor(cursor.tokens[begin : cursor.at], cursor.text, cursor.nested), TRUE)
    if change is not None:
        yield change


def _atomic(cursor: Cursor) -> Sequence[Token]:
    """What stands between BEGIN ATOMIC and its END."""
    rest = cursor.rest()
    end = next((at for at in reversed(range(len(rest))) if rest[at].is_word("end")), len(rest))
    return rest[:end]


# Bodies


def _with_source(function: Function, source: Token, cursor: Cursor) -> Function:
    """The function with the body that a string holds."""
    if source.lex is not Lex.STRING or function.language not in ("sql", "plpgsql", ""):
        return function
    text, span = open_body(source, cursor.text)
    function = function._replace(body_span=span)
    inner = Cursor((), text, cursor.nested)
    if function.language == "sql":
        parts = [tokenize(text, *piece) for piece in split_script(text, *span).statements]
        return _with_parts(function, [part for part in parts if part], inner)
    return _with_block(function, tokenize(text, *span), inner)


def _with_tokens(function: Function, tokens: Sequence[Token], cursor: Cursor) -> Function:
    """The function with a body in SQL's own syntax: BEGIN ATOMIC … END, or RETURN."""
    parts = [part for part in split_at(tokens, ";") if part]
    return _with_parts(function._replace(body_span=_span(tokens)), parts, cursor)


def _with_parts(function: Function, parts: Sequence[Sequence[Token]], cursor: Cursor) -> Function:
    body = tuple(cursor.nested(_as_select(part), cursor.text) for part in parts)
    returns = _expression(parts[0], cursor.text) if len(parts) == 1 else None
    return function._replace(body=body, returns=returns)


def _with_block(function: Function, tokens: Sequence[Token], cursor: Cursor) -> Function:
    """The function with a body in PL/pgSQL."""
    variables = tuple(_declared(tokens))
    names = frozenset((*variables, *function.parameters)) - {""}
    text = _without_fields(tokens, names, cursor.text)
    read = tokens if text is cursor.text else tokenize(text, tokens[0].start, tokens[-1].end)
    body = tuple(statements_of(read, Cursor((), text, cursor.nested)))
    returned = _returned(tokens, cursor.text)
    language = function.language or "plpgsql"
    conditions = list(_conditions(tokens))
    asks = dict.fromkeys(part.value for condition in conditions for part in condition if part.is_name)
    return function._replace(
        language=language,
        variables=variables,
        body=body,
        returns=returned,
        asks=tuple(asks),
        looks_at_attempts=any(map(_bounds_attempts, conditions)),
    )


def _declared(tokens: Sequence[Token]) -> Iterator[str]:
    """The variables that a block declares."""
    inside = False
    for before, token in zip((None, *tokens), tokens, strict=False):
        if token.is_word("declare", "begin"):
            inside = token.is_word("declare")
        elif inside and token.is_name and before is not None and (before.is_mark(";") or before.is_word("declare")):
            yield token.value


def _conditions(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """What a block's own IF, WHEN and WHILE ask, and those in its statements."""
    for begin, token in enumerate(tokens):
        ends = _CONDITIONS.get(token.value) if token.is_word(*_CONDITIONS) else None
        if ends is not None:
            end = next((at for at in range(begin, len(tokens)) if tokens[at].is_word(ends)), len(tokens))
            yield tokens[begin + 1 : end]


def _bounds_attempts(condition: Sequence[Token]) -> bool:
    """Whether a condition holds a number of attempts against another one by its size."""
    counts = any(part.is_name and is_attempts(part.value) for part in condition)
    return counts and any(part.is_operator("<", "<=", ">", ">=") for part in condition)


def _without_fields(tokens: Sequence[Token], names: frozenset[str], text: str) -> str:
    """The text of a block in which the fields of its variables are values, as they are, and no columns.

    But for attempts: by what is made of their number a count is known.
    """
    for variable, dot, field in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_field = variable.value in names and dot.is_mark(".") and field.is_name
        if is_field and variable.is_name and not is_attempts(field.value):
            text = f"{text[: variable.start]}{hole_of(field.end - variable.start)}{text[field.end :]}"
    return text


def _as_select(tokens: Sequence[Token]) -> Sequence[Token]:
    """RETURN expression, as the SELECT that it is."""
    if tokens[0].is_word("return"):
        return [tokens[0]._replace(value="select"), *tokens[1:]]
    return tokens


def _expression(tokens: Sequence[Token], text: str) -> str | None:
    """The expression of SELECT expression or RETURN expression, as written."""
    if not tokens[0].is_word("select", "return") or len(tokens) < 2:
        return None
    at = 1
    while at < len(tokens) and not tokens[at].is_word("as"):
        token = tokens[at]
        if token.is_mark(",") or token.is_word("from", "where", "union", "limit", "into"):
            return None
        at = close_of(tokens, at) + 1 if token.is_mark("(") else at + 1
    return text[tokens[1].start : tokens[min(at, len(tokens)) - 1].end] if at > 1 else None


def _returned(tokens: Sequence[Token], text: str) -> str | None:
    """The expression of a block that does nothing but RETURN it, or one of several by what is asked before."""
    words = [token for token in tokens if not token.is_mark(";")]
    if len(words) < 4 or not (words[0].is_word("begin") and words[1].is_word("return", "if")):
        return None
    end = max((at for at, token in enumerate(tokens) if token.is_word("end")), default=0)
    parts = [part for part in split_at(tokens[1:end], ";") if part]
    return _chosen(parts, text)


def _chosen(parts: Sequence[Sequence[Token]], text: str) -> str | None:
    """What `IF … THEN RETURN …; END IF; RETURN …` comes to, as the CASE that says the same."""
    if not parts:
        return None
    first = parts[0]
    if not first[0].is_word("if", "elsif", "elseif"):
        returned = _expression(first, text) if first[0].is_word("return") else None
        ended = len(parts) == 1 or _values(parts[1]) == ["end", "if"] == _values(parts[-1])
        return returned if ended else None
    then = next((at for at, token in enumerate(first) if token.is_word("then")), 0)
    asked, given = first[1:then], first[then + 1 :]
    if not asked or not given or any(token.is_word("case") for token in asked) or not given[0].is_word("return"):
        return None
    rest = parts[1:]
    if rest and _values(rest[0]) == ["end", "if"]:
        rest = rest[1:]
    elif rest and rest[0][0].is_word("else"):
        rest = [rest[0][1:], *rest[1:]]
    shown, hidden = _expression(given, text), _chosen([part for part in rest if part], text)
    condition = text[asked[0].start : asked[-1].end]
    return f"CASE WHEN {condition} THEN ({shown}) ELSE ({hidden}) END" if shown and hidden else None


def _values(part: Sequence[Token]) -> list[str]:
    return [token.value for token in part]


def _span(tokens: Sequence[Token]) -> Span:
    return Span(tokens[0].start, tokens[-1].end) if tokens else _NOWHERE
