"""Our tokens as sqlglot's, so that its parser binds as PostgreSQL does and takes placeholders and holes for names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import tokens as sqlglot_tokens
from sqlglot.dialects.postgres import Postgres

from auditor.sql.tokens import Lex, Token, close_of, is_bare_hole, word_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    #: What a hole or a placeholder is to the parser: a type of token, or None to leave it out.
    HoleReader = Callable[["Place"], Any]
    #: What a turn of phrase becomes, and how many tokens it takes; None where it is none.
    Turn = tuple[list[Any], int] | None

# sqlglot does not say that these are its own to give away, and moves them between versions.
_SQLGLOT: Any = sqlglot_tokens
TokenType = _SQLGLOT.TokenType

#: The words that are more than names in a query.
_KEYWORDS = word_set(
    """
    all and any array as asc between case collate cross cube delete desc distinct else end escape except exists false
    fetch filter first for from full having ilike in inner insert intersect interval into is isnull join lateral left
    like limit merge natural next not notnull null offset on only or ordinality outer over overlaps range recursive
    returning right rollup rows select set some tablesample then true union update using values variadic when where
    window with
    """
)
#: The types whose names may be followed by a literal or take part in names of several words.
_TYPES = word_set(
    """
    bigint bit boolean bool bytea char character date decimal double float float4 float8 inet int int2 int4 int8 integer
    json jsonb numeric real smallint text time timestamp timestamptz timetz uuid varchar xml
    """
)
_PHRASES = {
    ("group", "by"): "GROUP BY",
    ("order", "by"): "ORDER BY",
    ("partition", "by"): "PARTITION BY",
    ("grouping", "sets"): "GROUPING SETS",
    ("similar", "to"): "SIMILAR TO",
    ("double", "precision"): "DOUBLE PRECISION",
    ("character", "varying"): "CHARACTER VARYING",
    ("char", "varying"): "CHAR VARYING",
}
_KNOWN = Postgres.Tokenizer.KEYWORDS
_WORD_TYPES = {word: _KNOWN[word.upper()] for word in _KEYWORDS | _TYPES if word.upper() in _KNOWN}
_PHRASE_TYPES = {phrase: _KNOWN[name] for phrase, name in _PHRASES.items()}

#: What no operand ends or begins with, but for those words that end one.
_RESERVED = (frozenset(_WORD_TYPES) | {first for first, _ in _PHRASES} | {"by"}) - _TYPES
_ENDS_OPERAND = word_set("null true false end asc desc ordinality isnull notnull")
_BEGINS_QUERY = ("select", "insert", "update", "delete", "merge", "with", "values")
_JOINS_QUERIES = ("union", "except", "intersect")
#: What the star of SELECT * follows; any other star multiplies.
_BEFORE_STAR = frozenset(("select", "returning", "all", "distinct", ",", ".", "("))
#: Words that may stand before a literal without being its type.
_BEFORE_STRING = frozenset(_WORD_TYPES) | word_set("zone uescape name at to by")

_OPERATOR_TYPES = {
    "+": TokenType.PLUS,
    "-": TokenType.DASH,
    "*": TokenType.STAR,
    "/": TokenType.SLASH,
    "%": TokenType.SLASH,
    "^": TokenType.SLASH,
    "=": TokenType.EQ,
    "<>": TokenType.NEQ,
    "!=": TokenType.NEQ,
    "<": TokenType.LT,
    ">": TokenType.GT,
    "<=": TokenType.LTE,
    ">=": TokenType.GTE,
    ":=": TokenType.COLON_EQ,
    "=>": TokenType.FARROW,
    "||": TokenType.DPIPE,
    "->": TokenType.PIPE,
    "->>": TokenType.PIPE,
    "#>": TokenType.PIPE,
    "#>>": TokenType.PIPE,
}
#: All other operators, whatever they do, bind alike.
_OTHER_OPERATOR = TokenType.AMP

_MARK_TYPES = {
    "(": TokenType.L_PAREN,
    ")": TokenType.R_PAREN,
    "[": TokenType.L_BRACKET,
    "]": TokenType.R_BRACKET,
    ",": TokenType.COMMA,
    ".": TokenType.DOT,
    ":": TokenType.COLON,
}
_LEX_TYPES = {
    Lex.NAME: TokenType.IDENTIFIER,
    Lex.STRING: TokenType.STRING,
    Lex.NUMBER: TokenType.NUMBER,
    Lex.PARAMETER: TokenType.VAR,
}


def translate(tokens: Sequence[Token], text: str, read_hole: HoleReader) -> Iterator[Any]:
    """sqlglot's tokens, at our offsets. `read_hole` decides what holes and placeholders stand for."""
    at, kind = 0, None
    while at < len(tokens):
        place = Place(tokens, at, follows_operator=kind is _OTHER_OPERATOR)
        turn = _TURNS.get(place.token.value) if place.token.lex in (Lex.WORD, Lex.OPERATOR) else None
        turned = turn(place) if turn is not None else None
        if turned is not None:
            yield from turned[0]
            at, kind = at + turned[1], None
            continue
        at += 1
        kind = _type_of(place, read_hole)
        if kind is not None:
            yield _made(kind, place.token, _shown(place.token, text))


def _made(kind: Any, token: Token, text: str, end: int = 0) -> Any:
    return _SQLGLOT.Token(kind, text, 1, 1, token.start, (end or token.end) - 1)


def _shown(token: Token, text: str) -> str:
    """A placeholder that stands for a name should look like one to people."""
    return text[token.start : token.end] if token.lex is Lex.PARAMETER else token.value


def _type_of(place: Place, read_hole: HoleReader) -> Any:
    token = place.token
    if token.lex is Lex.PARAMETER or is_bare_hole(token):
        return read_hole(place)
    if token.lex is Lex.OPERATOR:
        if token.value in _OPERATOR_TYPES:
            return _OPERATOR_TYPES[token.value]
        # Before an operand an operator of PostgreSQL's own, such as @ or ~, only changes the value: left out.
        return _OTHER_OPERATOR if place.follows_operand else None
    if token.lex is Lex.MARK:
        return _MARK_TYPES.get(token.value, TokenType.UNKNOWN)
    if place.names_type:
        return None
    if token.lex is Lex.WORD:
        return _WORD_TYPES.get(token.value, TokenType.VAR)
    return _LEX_TYPES[token.lex]


class Place:
    """A token among its neighbours."""

    def __init__(self, tokens: Sequence[Token], at: int, *, follows_operator: bool) -> None:
        self.follows_operator = follows_operator  #: a hole that was read as one, too
        self.tokens = tokens
        self.at = at
        self.token = tokens[at]
        self.before = tokens[at - 1] if at else None
        self.after = tokens[at + 1] if at + 1 < len(tokens) else None

    def words(self, length: int) -> list[str]:
        """The values of the tokens from here on."""
        return [token.value for token in self.tokens[self.at : self.at + length]]

    @property
    def follows_operand(self) -> bool:
        """Whether a value or a name has just ended, so that none can stand here."""
        before = self.before
        if before is None or self.follows_operator:
            return False
        earlier = self.tokens[self.at - 2].value if self.at > 1 else ""
        if before.lex is Lex.WORD:
            if (earlier, before.value) in (("for", "update"), ("time", "zone")):
                return before.value == "update"
            return before.value not in _RESERVED or before.value in _ENDS_OPERAND
        if before.lex is Lex.MARK:
            return before.value in (")", "]")
        return before.lex is not Lex.OPERATOR or (before.value == "*" and earlier in _BEFORE_STAR)

    @property
    def precedes_operand(self) -> bool:
        after = self.after
        if after is None:
            return False
        if after.lex is Lex.WORD:
            return after.value not in _RESERVED
        return after.lex in (Lex.STRING, Lex.NUMBER, Lex.PARAMETER, Lex.NAME) or after.is_mark("(")

    @property
    def names_type(self) -> bool:
        """Whether this is the type before a literal: box '…'. sqlglot knows that form for its own types only."""
        return (
            self.after is not None
            and self.after.lex is Lex.STRING
            and self.token.is_name
            and self.token.value not in _BEFORE_STRING
            and not self.follows_operand
            and not (self.before is not None and self.before.is_mark("."))
        )

    @property
    def begins_query(self) -> bool:
        before = self.before
        return before is None or before.is_mark("(") or before.is_word(*_JOINS_QUERIES, "all", "distinct", "as")


# What a hole may be


def as_it_stands(place: Place) -> Any:
    """A name or a value where one can stand, an operator between two operands, and else a clause, which is left out."""
    if place.follows_operand:
        return _OTHER_OPERATOR if place.precedes_operand else None
    opens = place.after is not None and place.after.is_word(*_BEGINS_QUERY)
    joined = place.before is None or place.before.is_word(*_JOINS_QUERIES)
    return None if opens and joined else TokenType.VAR


def as_clause(place: Place) -> Any:
    """The second try: a clause wherever something else could stand beside it."""
    before, after = place.before, place.after
    glued = any(token is not None and token.is_mark(".") for token in (before, after))
    listed = before is not None and (before.lex is Lex.OPERATOR or before.is_mark("(") or before.is_mark(","))
    return TokenType.VAR if glued or (listed and not place.follows_operand) else None


# Turns of phrase that sqlglot reads otherwise, or not at all


def _phrase(place: Place) -> Turn:
    """Two words that are one keyword to sqlglot."""
    kind = _PHRASE_TYPES.get((place.token.value, place.after.value)) if place.after is not None else None
    if kind is None or place.after is None:
        return None
    return [_made(kind, place.token, " ".join(place.words(2)), place.after.end)], 2


def _table(place: Place) -> Turn:
    """TABLE name is short for SELECT * FROM name; SELECT INTO TABLE name says it for nothing."""
    if place.before is not None and place.before.is_word("into", *_LASTING):
        return [], 1
    if not place.begins_query:
        return None
    kinds = (TokenType.SELECT, TokenType.STAR, TokenType.FROM)
    return [_made(kind, place.token, "") for kind in kinds], 1


#: How long a table that SELECT INTO makes will last.
_LASTING = ("temp", "temporary", "unlogged")


def _lasting(place: Place) -> Turn:
    """SELECT INTO TEMP name."""
    named = place.after is not None and place.after.is_name and not place.after.is_word("from")
    return ([], 1) if named and place.before is not None and place.before.is_word("into") else None


def _current_of(place: Place) -> Turn:
    """WHERE CURRENT OF cursor."""
    return ([_made(TokenType.TRUE, place.token, "true")], 3) if place.words(2) == ["current", "of"] else None


def _overriding(place: Place) -> Turn:
    """INSERT … OVERRIDING SYSTEM VALUE."""
    return ([], 3) if place.words(3)[2:] == ["value"] else None


def _using(place: Place) -> Turn:
    """ORDER BY … USING <."""
    return ([], 2) if place.after is not None and place.after.lex is Lex.OPERATOR else None


def _behind_cte(place: Place) -> Turn:
    """SEARCH … SET column and CYCLE … USING column, behind a recursive CTE."""
    before = place.before
    if before is None or not (before.is_mark(")") or place.tokens[place.at - 2].is_word("set")):
        return None
    last = "set" if place.token.value == "search" else "using"
    length = next((at for at, token in enumerate(place.tokens[place.at :]) if token.is_word(last)), 0)
    return ([], length + 2) if length else None


def _cast(place: Place) -> Turn:
    """`::type` with one token for the type, whatever it is called: what it means is in the text."""
    begin = place.at + 1
    end = _end_of_type(place.tokens, begin)
    made = [_made(TokenType.DCOLON, place.token, "::")]
    if end > begin:
        made.append(_made(TokenType.TEXT, place.tokens[begin], "text", place.tokens[end - 1].end))
    return made, 1 + end - begin


def _end_of_type(tokens: Sequence[Token], at: int) -> int:
    """The index behind the type that begins here: schema.name, its size, its words, its brackets."""

    def mark(index: int, value: str) -> bool:
        return index < len(tokens) and tokens[index].is_mark(value)

    if at >= len(tokens) or not (tokens[at].is_name or tokens[at].lex is Lex.PARAMETER):
        return at
    at += 1
    while mark(at, ".") and at + 1 < len(tokens):
        at += 2
    if at < len(tokens) and (tokens[at - 1].value, tokens[at].value) in _PHRASES:
        at += 1
    if mark(at, "("):
        at = close_of(tokens, at) + 1
    if [token.value for token in tokens[at : at + 3]] in (["with", "time", "zone"], ["without", "time", "zone"]):
        at += 3
    while mark(at, "["):
        at = close_of(tokens, at) + 1
    return min(at, len(tokens))


_TURNS: dict[str, Callable[[Place], Turn]] = {
    **{first: _phrase for first, _ in _PHRASES},
    **dict.fromkeys(_LASTING, _lasting),
    "table": _table,
    "current": _current_of,
    "overriding": _overriding,
    "using": _using,
    "search": _behind_cte,
    "cycle": _behind_cte,
    "::": _cast,
}
