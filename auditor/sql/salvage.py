"""What a query does, from its tokens alone: for one that no grammar takes, and for those too simple to need one.

Clauses are told by their keywords at each level of brackets. Precedence below AND is not looked at: a condition beside
an OR counts as optional.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.sql.cursor import Cursor
from auditor.sql.facts import Facts
from auditor.sql.meaning import Assignment, Comparison, Kind, Lock, Query, Span, Table, Term, TermKind
from auditor.sql.scan import calls_in
from auditor.sql.terms import TRUE, bare, column_in, ordered, span_of, term_of
from auditor.sql.tokens import Lex, close_of, is_bare_hole, split_at, word_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from auditor.sql.meaning import Statement
    from auditor.sql.tokens import Token

VERBS = {
    "select": Kind.SELECT,
    "table": Kind.SELECT,
    "values": Kind.VALUES,
    "insert": Kind.INSERT,
    "update": Kind.UPDATE,
    "delete": Kind.DELETE,
    "merge": Kind.MERGE,
}
_OPENS_QUERY = (*VERBS, "with")
_CLAUSES = word_set(
    """
    select table insert delete merge into from join using on where set values group having order limit offset fetch
    window returning union except intersect when for left right inner full cross natural
    """
)
_OPERATORS = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_STRENGTHS = (
    (("update",), "update"),
    (("no", "key", "update"), "no key update"),
    (("share",), "share"),
    (("key", "share"), "key share"),
)
#: How a subquery hangs under the word before its bracket.
_ROLES = {
    **dict.fromkeys(("in", "any", "some", "all"), "in"),
    **dict.fromkeys(("from", "join", "lateral", "using"), "from"),
    **dict.fromkeys(("as", "materialized"), "cte"),
    "exists": "exists",
    "array": "array",
}


def salvage(tokens: Sequence[Token], text: str) -> Facts:
    """The facts of one query statement."""
    reader = _Reader(text)
    reader.level(tokens, "top", -1, frozenset())
    reads = [table for query in reader.queries for table in query.tables]
    writes = [query.target for query in reader.queries if query.target and query.verb is not Kind.SELECT]
    called = calls_in(tokens)
    return Facts(tuple(reader.queries), _once(reads), _once(writes), called.settings, called.reads, called.calls)


def _once(tables: Sequence[Table]) -> tuple[Table, ...]:
    return tuple(dict.fromkeys(tables))


class _Clause(NamedTuple):
    word: str
    tokens: Sequence[Token]
    start: int


def _clauses(tokens: Sequence[Token]) -> Iterator[_Clause]:
    """The clauses of one level: each keyword with what follows it up to the next."""
    word, begin = "", 0
    for at in _outside(tokens):
        token = tokens[at]
        if token.lex is not Lex.WORD or not (token.value in _CLAUSES or _updates(tokens, at)):
            continue
        if token.value in ("left", "right") and tokens[at + 1 : at + 2] and tokens[at + 1].is_mark("("):
            continue  # the function
        if token.value == "table" and at and not tokens[at - 1].is_word("union", "except", "intersect", "all"):
            continue
        # IS DISTINCT FROM compares; DISTINCT ON and ON CONFLICT join nothing.
        if at and token.value in ("from", "on") and tokens[at - 1].is_word("distinct"):
            continue
        yield _Clause(word, tokens[begin:at], begin)
        word, begin = token.value, at + 1
    yield _Clause(word, tokens[begin:], begin)


def _updates(tokens: Sequence[Token], at: int) -> bool:
    """UPDATE as a verb, neither FOR [NO KEY] UPDATE nor DO UPDATE."""
    return tokens[at].is_word("update") and not (at and tokens[at - 1].is_word("for", "key", "do", "then"))


def _outside(tokens: Sequence[Token]) -> Iterator[int]:
    """The indexes of what stands outside brackets."""
    depth = 0
    for at, token in enumerate(tokens):
        if token.lex is Lex.MARK and token.value in ("(", "["):
            depth += 1
        elif token.lex is Lex.MARK and token.value in (")", "]"):
            depth -= 1
        elif depth == 0:
            yield at


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.queries: list[Query] = []

    def level(self, tokens: Sequence[Token], role: str, parent: int, known: frozenset[str]) -> None:
        """One query: what stands outside brackets is its own, brackets hold others."""
        index = len(self.queries)
        self.queries.append(Query(Kind.SELECT, span_of(tokens), role=role, parent=parent))
        known |= _cte_names(tokens)
        self._brackets(tokens, index, known)
        query = self.queries[index]
        columns: tuple[Token, ...] = ()
        verbs = []
        for clause in _clauses(tokens):
            if clause.word in VERBS:
                verbs.append(VERBS[clause.word])
            verb = verbs[0] if verbs else Kind.SELECT
            query, columns = self._clause(query._replace(verb=verb), columns, clause, known)
        target = query.target or (query.tables[0] if query.tables else None)
        self.queries[index] = query._replace(target=target, lock=_lock(tokens))

    def _brackets(self, tokens: Sequence[Token], index: int, known: frozenset[str]) -> None:
        """The queries in the brackets of this level, however deep."""
        at = 0
        while at < len(tokens):
            if tokens[at].is_mark("("):
                close = close_of(tokens, at)
                inside = tokens[at + 1 : close]
                if inside and inside[0].is_word(*_OPENS_QUERY):
                    self.level(inside, _ROLES.get(tokens[at - 1].value if at else "", "scalar"), index, known)
                else:
                    self._brackets(inside, index, known)
                at = close
            at += 1

    def _clause(
        self, query: Query, columns: tuple[Token, ...], clause: _Clause, known: frozenset[str]
    ) -> tuple[Query, tuple[Token, ...]]:
        """The query with what one clause adds, and the columns that an INSERT has named."""
        word, tokens, verb = clause.word, clause.tokens, query.verb
        if word == "update" or (word, verb) in (("into", Kind.INSERT), ("into", Kind.MERGE), ("from", Kind.DELETE)):
            cursor = self._cursor(tokens)
            target = self._source(cursor, target=True)
            columns = tuple(part[0] for part in split_at(cursor.brackets(), ",") if part)
            return query._replace(target=target), columns
        if word in ("from", "join", "table") or (word == "using" and verb in (Kind.DELETE, Kind.MERGE)):
            parts = split_at(tokens, ",")
            return query._replace(tables=(*query.tables, *self._sources(parts, known))), columns
        if word == "values" and verb is Kind.INSERT:
            return query._replace(assignments=(*query.assignments, *_pairs(columns, tokens))), columns
        if word == "set":
            return query._replace(assignments=(*query.assignments, *_assignments(tokens))), columns
        if word in ("where", "having") or (word == "on" and not (tokens and tokens[0].is_word("conflict"))):
            return query._replace(conditions=(*query.conditions, *_conditions(tokens))), columns
        return _small_clause(query, word, tokens), columns

    def _cursor(self, tokens: Sequence[Token]) -> Cursor:
        return Cursor(tokens, self.text, _no_statement)

    def _sources(self, parts: Sequence[Sequence[Token]], known: frozenset[str]) -> Iterator[Table]:
        for part in parts:
            if part and part[0].is_mark("("):
                inside = part[1 : close_of(part, 0)]
                if not (inside and inside[0].is_word(*_OPENS_QUERY)):
                    for clause in _clauses(inside):
                        if clause.word in ("", "join"):
                            yield from self._sources([clause.tokens], known)
                continue
            table = self._source(self._cursor(part))
            if table and (table.schema or table.name not in known):
                yield table

    def _source(self, cursor: Cursor, *, target: bool = False) -> Table | None:
        """A table and its alias; nothing for a function. Behind a target a bracket holds columns, not arguments."""
        if cursor.take("lateral") or cursor.sees("rows", "from"):
            return None
        table = cursor.table()
        if not table.name or (cursor.peek().is_mark("(") and not target):
            return None
        cursor.take("as")
        following = cursor.peek()
        named = following.is_name and following.value not in _JOIN_WORDS and not is_bare_hole(following)
        return table._replace(alias=cursor.name()) if named else table


#: Words behind a table that are not its alias.
_JOIN_WORDS = word_set("left right inner full cross natural outer tablesample with overriding default")


def _no_statement(tokens: Sequence[Token], text: str) -> Statement:
    raise AssertionError("a query holds queries, not statements")


def _small_clause(query: Query, word: str, tokens: Sequence[Token]) -> Query:
    if word == "limit":
        return query._replace(limit=term_of(tokens))
    if word == "order":
        return query._replace(ordered=True)
    if word == "returning":
        return query._replace(returning=tuple(_returned(part) for part in split_at(tokens, ",")))
    return query


def _cte_names(tokens: Sequence[Token]) -> frozenset[str]:
    """The names that WITH gives at this level."""
    if not tokens or not tokens[0].is_word("with"):
        return frozenset()
    names = set()
    for at in _outside(tokens):
        named = tokens[at - 1].is_mark(",") or tokens[at - 1].is_word("with", "recursive")
        if at and named and tokens[at].is_name and at + 1 < len(tokens):
            following = tokens[at + 1]
            if following.is_word("as") or following.is_mark("("):
                names.add(tokens[at].value)
    return frozenset(names)


def _lock(tokens: Sequence[Token]) -> Lock | None:
    """FOR UPDATE and its like, outside brackets."""
    for at in _outside(tokens):
        if not tokens[at].is_word("for"):
            continue
        words = [token.value for token in tokens[at + 1 :] if token.lex is Lex.WORD]
        for strength, name in _STRENGTHS:
            if tuple(words[: len(strength)]) == strength:
                span = Span(tokens[at].start, tokens[-1].end)
                return Lock(name, "skip" in words, "nowait" in words, span)
    return None


def _assignments(tokens: Sequence[Token]) -> Iterator[Assignment]:
    for part in split_at(tokens, ","):
        at = next((index for index, token in enumerate(part) if token.is_operator("=")), 0)
        if not at:
            continue
        span, right = span_of(part), part[at + 1 :]
        if not part[0].is_mark("("):
            column = column_in(term_of(part[:at]))
            yield Assignment(column, term_of(right), span)
            continue
        names = split_at(part[1 : close_of(part, 0)], ",")
        values = split_at(right[1:-1], ",") if right and right[0].is_mark("(") else []
        for number, name in enumerate(names):
            value = values[number] if len(values) == len(names) else right
            yield Assignment(column_in(term_of(name)), term_of(value), span)


def _pairs(columns: tuple[Token, ...], tokens: Sequence[Token]) -> Iterator[Assignment]:
    """The columns of an INSERT with the first row of its VALUES."""
    row = tokens[1 : close_of(tokens, 0)] if tokens and tokens[0].is_mark("(") else ()
    for column, value in zip(columns, split_at(row, ","), strict=False):
        yield Assignment(column.value, term_of(value), Span(column.start, column.end))


def _returned(tokens: Sequence[Token]) -> str:
    """The column that RETURNING gives back, under whatever name; of an expression its alias."""
    if tokens and tokens[-1].is_operator("*"):
        return "*"
    cut = next((at for at in _outside(tokens) if tokens[at].is_word("as")), len(tokens))
    term = bare(term_of(tokens[:cut]))
    if term.kind is TermKind.COLUMN:
        return term.text
    return tokens[-1].value if cut < len(tokens) else ""


def _conditions(tokens: Sequence[Token], *, optional: bool = False) -> Iterator[Comparison]:
    """The comparisons that AND joins; all of them optional where an OR stands beside them."""
    while len(tokens) > 2 and tokens[0].is_mark("(") and close_of(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    outside = list(_outside(tokens))
    optional |= any(tokens[at].is_word("or") for at in outside)
    begin, between = 0, False
    cuts = []
    for at in outside:
        between |= tokens[at].is_word("between")
        if tokens[at].is_word("and", "or") and not between:
            cuts.append(at)
        elif tokens[at].is_word("and"):
            between = False
    for cut in (*cuts, len(tokens)):
        yield from _condition(tokens[begin:cut], optional)
        begin = cut + 1


def _condition(tokens: Sequence[Token], optional: bool) -> Iterator[Comparison]:
    if not tokens:
        return
    if tokens[0].is_word("not"):
        yield from (
            found._replace(optional=True) for found in _conditions(tokens[1:]) if not tokens[1].is_word("exists")
        )
        return
    outside = list(_outside(tokens))
    if not outside and tokens[0].is_mark("("):
        yield from _conditions(tokens[1 : close_of(tokens, 0)], optional=optional)
        return
    for at in outside:
        token = tokens[at]
        if token.lex is Lex.OPERATOR and token.value in _OPERATORS:
            yield _compared(tokens, at, optional)
            return
        if token.is_word("is", "in", "not", "like", "ilike", "between"):
            yield from _worded(tokens, at, optional)
            return
    if not tokens[0].is_word("exists"):
        yield _alone(tokens, optional)


def _compared(tokens: Sequence[Token], at: int, optional: bool) -> Comparison:
    """What the operator at `at` compares."""
    span, operator, right = span_of(tokens), _OPERATORS[tokens[at].value], tokens[at + 1 :]
    one, other = term_of(tokens[:at]), term_of(right)
    if right and right[0].is_word("any", "some") and operator == "=":
        return Comparison(column_in(one), "in", term_of(right[1:]), span, optional)
    return ordered(one, operator, other, span)._replace(optional=optional)


def _worded(tokens: Sequence[Token], at: int, optional: bool) -> Iterator[Comparison]:
    """IS [NOT], [NOT] IN, [NOT] LIKE, BETWEEN."""
    column, span = column_in(term_of(tokens[:at])), span_of(tokens)
    words = [token.value for token in tokens[at : at + 2]]
    negated = "not" in words
    word = words[1] if words[0] == "not" and len(words) > 1 else words[0]
    right = tokens[at + 1 + negated :]
    if word == "between":
        middle = next((index for index, token in enumerate(right) if token.is_word("and")), len(right))
        yield Comparison(column, ">=", term_of(right[:middle]), span, optional or negated)
        yield Comparison(column, "<=", term_of(right[middle + 1 :]), span, optional or negated)
        return
    if word == "in":
        value = term_of(right)
        listed = value.kind not in (TermKind.QUERY, TermKind.PARAMETER, TermKind.HOLE, TermKind.OTHER)
        value = Term(TermKind.OTHER, "", (value,), (), value.span) if listed else value
        yield Comparison(column, "not in" if negated else "in", value, span, optional)
    elif word == "is":
        yield Comparison(column, "is not" if negated else "is", term_of(right), span, optional)
    else:
        yield Comparison(column, "other" if negated else "like", term_of(right), span, optional)


def _alone(tokens: Sequence[Token], optional: bool) -> Comparison:
    term = term_of(tokens)
    if term.kind is TermKind.COLUMN:
        return Comparison(term.text, "is", TRUE, span_of(tokens), optional)
    return Comparison(column_in(term), "other", term, span_of(tokens), optional)
