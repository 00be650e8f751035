"""SQL text read into statements: the one door to this package.

Tokens decide what they can, and sqlglot is imported only for a query that needs a grammar. Nothing here raises on any
text: what no grammar takes is read from its tokens and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.commands import COMMANDS
from auditor.sql.cursor import Cursor
from auditor.sql.meaning import Kind, Span, Statement
from auditor.sql.plain import is_plain
from auditor.sql.salvage import VERBS, salvage
from auditor.sql.scan import calls_in
from auditor.sql.script import split_script
from auditor.sql.terms import parameters_in
from auditor.sql.tokens import Lex, is_bare_hole, tokenize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from auditor.sql.commands import Reader
    from auditor.sql.facts import Facts
    from auditor.sql.tokens import Token

#: Of a longer statement only the beginning is read: it is data.
_LONGEST = 100_000
#: A longer text is a dump, where what repeats is read once.
_DUMP = 1_000_000
#: Beyond these a grammar takes too long, or too much of the stack.
_MOST_TOKENS = 20_000
_DEEPEST = 50
_DEEPER = {"(": 1, "[": 1, "case": 1, ")": -1, "]": -1, "end": -1}

#: The first words of definitions, whose readers are imported when one comes.
_DEFINES = frozenset(("alter", "create", "do", "drop", "grant", "revoke"))
_OPENS_QUERY = (*VERBS, "with")


def read_sql(text: str) -> tuple[Statement, ...]:
    """Every statement of a text, in order: a string that reaches a driver, or a whole file."""
    statements: list[Statement] = []
    placeholders = 0
    rows = _Rows(text) if len(text) > _DUMP else None
    for start, end in split_script(text).statements:
        repeated = rows.again(start, end) if rows is not None else None
        if repeated is not None:
            statements.append(repeated)
            continue
        cut = min(end, start + _LONGEST)
        tokens = tokenize(text, start, cut, placeholders)
        placeholders += sum(token.lex is Lex.PARAMETER and token.value.isdigit() for token in tokens)
        if tokens:
            read = statement_of(tokens, text)
            statement = read._replace(span=Span(start, end), text=text[start:end], parsed=read.parsed and cut == end)
            statements.append(statement)
            if rows is not None:
                rows.remember(statement, tokens)
    return tuple(statements)


class _Rows:
    """The rows of a dump: an INSERT that begins as the one before is the same but for its values, which are data."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.head = ""
        self.last: Statement | None = None

    def remember(self, statement: Statement, tokens: Sequence[Token]) -> None:
        values = next((token for token in tokens if token.is_word("values")), None)
        self.last = None
        if statement.kind is Kind.INSERT and values is not None and not statement.parameters and is_plain(tokens):
            query = statement.queries[0]._replace(assignments=())
            self.last = statement._replace(queries=(query,))
            self.head = self.text[statement.span.start : values.end]

    def again(self, start: int, end: int) -> Statement | None:
        """The statement that begins here, if it is such a repetition."""
        last = self.last
        if last is None or not self.text.startswith(self.head, start):
            return None
        span, move = Span(start, end), start - last.span.start
        tables = tuple(
            table._replace(span=Span(table.span.start + move, table.span.end + move)) for table in last.writes
        )
        queries = (last.queries[0]._replace(span=span, target=tables[0]),)
        return last._replace(span=span, queries=queries, writes=tables, text=self.text[start:end])


def statement_of(tokens: Sequence[Token], text: str) -> Statement:
    """The statement that these tokens of the text make."""
    span = Span(tokens[0].start, tokens[-1].end) if tokens else Span(0, 0)
    base = Statement(Kind.OTHER, span, parameters=parameters_in(tokens), text=text[span.start : span.end])
    try:
        return _statement(tokens, text, base)
    except RecursionError:
        return base._replace(parsed=False)


def _statement(tokens: Sequence[Token], text: str, base: Statement) -> Statement:
    tokens = _without_lead(tokens)
    first = tokens[0] if tokens else None
    if first is None:
        return base
    if first.is_mark("(") or first.is_word(*_OPENS_QUERY):
        return _query(tokens, text, base)
    read = _reader_for(first)
    if read is None:
        return base._replace(parsed=first.lex is Lex.WORD)
    cursor = Cursor(tokens, text, statement_of)
    cursor.next()
    statement = read(cursor, base)
    if not statement.settings and not statement.setting_reads and statement.kind in _CALLING:
        called = calls_in(tokens)
        statement = statement._replace(settings=called.settings, setting_reads=called.reads)
    return statement


def _reader_for(first: Token) -> Reader | None:
    """What reads a command or a definition, by its first word."""
    if first.lex is not Lex.WORD:
        return None
    if first.value in _DEFINES:
        from auditor.sql.definitions import DEFINITIONS

        return DEFINITIONS[first.value]
    return COMMANDS.get(first.value)


#: Commands whose arguments are expressions.
_CALLING = (Kind.CALL, Kind.EXECUTE)


def _without_lead(tokens: Sequence[Token]) -> Sequence[Token]:
    """The statement without holes before its first word: `{explain} SELECT …`."""
    at = 0
    while at < len(tokens) and is_bare_hole(tokens[at]):
        at += 1
    if 0 < at < len(tokens) and (tokens[at].is_word(*_OPENS_QUERY) or _reader_for(tokens[at])):
        return tokens[at:]
    return tokens


# Queries


def _query(tokens: Sequence[Token], text: str, base: Statement) -> Statement:
    facts = salvage(tokens, text) if is_plain(tokens) else _by_tree(tokens, text)
    parsed = facts is not None
    facts = salvage(tokens, text) if facts is None else facts
    kind = facts.queries[0].verb if facts.queries else Kind.SELECT
    return base._replace(kind=kind, parsed=parsed, **facts._asdict())


def _by_tree(tokens: Sequence[Token], text: str) -> Facts | None:
    if len(tokens) > _MOST_TOKENS or _depth(tokens) > _DEEPEST:
        return None
    from auditor.sql.dialect import parse_query
    from auditor.sql.tree import facts_of

    tree = parse_query(tokens, text)
    if tree is None:
        return None
    try:
        return facts_of(tree, tokens, text)
    except RecursionError:
        return None


def _depth(tokens: Sequence[Token]) -> int:
    """How deep brackets, CASE and NOT lie in each other."""
    depth = deepest = run = 0
    for token in tokens:
        if token.lex in (Lex.MARK, Lex.WORD):
            depth += _DEEPER.get(token.value, 0)
        run = run + 1 if token.is_word("not") or token.is_operator("-", "+") else 0
        deepest = max(deepest, depth + run)
    return deepest
