"""Values: the terms that both ways of reading SQL, by tree and by tokens, make of what they find."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.meaning import Change, Comparison, SettingChange, SettingRead, Span, Term, TermKind
from auditor.sql.tokens import Lex, Token, close_of, hole_marks_in, holes_in, is_bare_hole, split_at

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What tells the time; the words among them are written without parentheses.
CLOCK_WORDS = frozenset(("current_timestamp", "current_date", "current_time", "localtimestamp", "localtime"))
CLOCKS = CLOCK_WORDS | {"now", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday"}

_CONSTANTS = {
    "true": TermKind.TRUE,
    "false": TermKind.FALSE,
    "null": TermKind.NULL,
    "default": TermKind.DEFAULT,
}

NOTHING = Term(TermKind.OTHER)
TRUE = Term(TermKind.TRUE)
FALSE = Term(TermKind.FALSE)
NULL = Term(TermKind.NULL)


def literal(text: str, span: Span, *, quoted: bool = True) -> Term:
    """A value written out. Inside quotes only hole marks count as holes; outside, a template's braces too."""
    return Term(TermKind.LITERAL, text, (), hole_marks_in(text) if quoted else holes_in(text), span)


def hole_term(text: str, span: Span) -> Term:
    return Term(TermKind.HOLE, text, (), holes_in(text), span)


def column_in(term: Term) -> str:
    """The column a term is about: itself, or the one that a cast or a call such as coalesce is made around."""
    if term.kind in (TermKind.COLUMN, TermKind.ADD, TermKind.SUBTRACT):
        return term.text
    if term.kind in (TermKind.CAST, TermKind.CALL, TermKind.OTHER):
        return next((column for part in term.parts if (column := column_in(part))), "")
    return ""


_EXTRACTS = ("extract", "date_part")


#: What an age is held against.
_LIMITS = (TermKind.LITERAL, TermKind.PARAMETER, TermKind.HOLE, TermKind.CAST)
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def ordered(left: Term, operator: str, right: Term, span: Span) -> Comparison:
    """The comparison with its column on the left."""
    left, right = _moved_off(_aged(left), right)
    right, left = _moved_off(_aged(right), left)
    if _since(right) and left.kind in _LIMITS:
        left, operator, right = right, _MIRRORED.get(operator, operator), left
    column = column_in(left)
    if not column or (left.kind is TermKind.OTHER and right.kind is TermKind.COLUMN):
        # now() - started_at > limit is started_at < now() - limit.
        since = _since(left)
        if since and right.kind is not TermKind.COLUMN:
            ago = left._replace(parts=(Term(TermKind.SUBTRACT, "", (right,), (), right.span),))
            return Comparison(since, _MIRRORED.get(operator, operator), ago, span)
        other = column_in(right)
        if other:
            return Comparison(other, _MIRRORED.get(operator, operator), left, span)
    if left.kind is TermKind.HOLE:
        column = left.text
    return Comparison(column, operator, right, span)


def _since(term: Term) -> str:
    """The column that holds the time since which a term tells what has passed."""
    less = (part for part in term.parts if part.kind is TermKind.SUBTRACT)
    since = next((column for part in less for one in part.parts if (column := column_in(one))), "")
    return since if term.kind is TermKind.NOW else ""


def _aged(term: Term) -> Term:
    """How long ago a time is, however that is asked for: extract(epoch from now() - started_at), age(started_at)."""
    if term.kind is not TermKind.CALL:
        return term
    if term.text in _EXTRACTS:
        return next((part for part in map(_aged, term.parts) if _since(part)), term)
    if term.text == "age" and term.parts:
        *clock, since = term.parts
        now = clock[0] if clock else Term(TermKind.NOW, "current_date", (), (), term.span)
        if now.kind is TermKind.NOW:
            return now._replace(parts=(Term(TermKind.SUBTRACT, column_in(since), (since,), (), since.span),))
    return term


def _moved_off(one: Term, other: Term) -> tuple[Term, Term]:
    """The two sides of a comparison: started_at + limit < now() is started_at < now() - limit."""
    if one.kind is TermKind.ADD and one.text and other.kind is TermKind.NOW and not other.parts:
        ago = other._replace(parts=(Term(TermKind.SUBTRACT, "", one.parts, (), one.span),))
        return Term(TermKind.COLUMN, one.text, (), one.holes, one.span), ago
    return one, other


def called(name: str, arguments: tuple[Term, ...], span: Span) -> Term:
    """A call: of a clock, or of anything else."""
    if name in CLOCKS:
        return Term(TermKind.NOW, name, (), (), span)
    return Term(TermKind.CALL, name, arguments, (), span)


def sum_of(left: Term, right: Term, span: Span, *, minus: bool = False) -> Term:
    """What `left + right` or `left - right` tells: a moved clock, a counted column, or just its parts."""
    if left.kind is TermKind.NOW:
        moved = Term(TermKind.SUBTRACT, "", (right,), (), right.span) if minus else right
        return Term(TermKind.NOW, left.text, (*left.parts, moved), (), span)
    if right.kind is TermKind.NOW and not minus:
        return Term(TermKind.NOW, right.text, (*right.parts, left), (), span)
    kind = TermKind.SUBTRACT if minus else TermKind.ADD
    column = column_in(left) or (left.text if left.kind is TermKind.HOLE else "")
    if column:
        return Term(kind, column, (right,), (), span)
    column = "" if minus else column_in(right)
    if column:
        return Term(kind, column, (left,), (), span)
    return Term(TermKind.OTHER, "", (left, right), (), span)


def parameter(token: Token) -> Term:
    return Term(TermKind.PARAMETER, token.value, (), (), Span(token.start, token.end))


def parameters_in(tokens: Sequence[Token]) -> tuple[Term, ...]:
    return tuple(parameter(token) for token in tokens if token.lex is Lex.PARAMETER)


def span_of(tokens: Sequence[Token]) -> Span:
    return Span(tokens[0].start, tokens[-1].end) if tokens else Span(0, 0)


def word_term(token: Token) -> Term:
    """A word on its own, as a value: a constant, a clock, a hole or a column."""
    span = Span(token.start, token.end)
    if token.lex is Lex.WORD:
        if token.value in _CONSTANTS:
            return Term(_CONSTANTS[token.value], "", (), (), span)
        if token.value in CLOCK_WORDS:
            return Term(TermKind.NOW, token.value, (), (), span)
        if is_bare_hole(token):
            return hole_term(token.value, span)
    return Term(TermKind.COLUMN, token.value, (), holes_in(token.value), span)


def term_of(tokens: Sequence[Token]) -> Term:
    """The term that a stretch of tokens makes, as far as tokens tell: precedence beyond + and - is not looked at."""
    tokens = _without_brackets(tokens)
    if not tokens:
        return NOTHING
    if len(tokens) == 1:
        return _single(tokens[0])
    return _cast(tokens) or _sum(tokens) or _call(tokens) or _opened_by_word(tokens) or _parts(tokens)


def _without_brackets(tokens: Sequence[Token]) -> Sequence[Token]:
    while len(tokens) > 2 and tokens[0].is_mark("(") and close_of(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tokens


def _single(token: Token) -> Term:
    span = Span(token.start, token.end)
    if token.lex is Lex.PARAMETER:
        return parameter(token)
    if token.lex in (Lex.STRING, Lex.NUMBER):
        return literal(token.value, span)
    if token.is_name:
        return word_term(token)
    return Term(TermKind.OTHER, token.value, (), (), span)


def _top_level(tokens: Sequence[Token], *operators: str) -> int:
    """The index of the last of these operators outside brackets and behind an operand, or -1."""
    depth, found = 0, -1
    for index, token in enumerate(tokens):
        if token.is_mark("(") or token.is_mark("[") or token.is_word("case"):
            depth += 1
        elif token.is_mark(")") or token.is_mark("]") or token.is_word("end"):
            depth -= 1
        elif depth == 0 and index and token.is_operator(*operators) and tokens[index - 1].lex is not Lex.OPERATOR:
            found = index
    return found


def _cast(tokens: Sequence[Token]) -> Term | None:
    at = _top_level(tokens, "::")
    if at < 0 or any(token.lex is Lex.OPERATOR for token in tokens[at + 1 :]) or _top_level(tokens[:at], "+", "-") > 0:
        return None
    type_name = " ".join(token.value for token in tokens[at + 1 :] if token.is_name)
    return Term(TermKind.CAST, type_name, (term_of(tokens[:at]),), (), span_of(tokens))


def _sum(tokens: Sequence[Token]) -> Term | None:
    at = _top_level(tokens, "+", "-")
    if at < 0:
        sign = tokens[0].is_operator("-", "+") and len(tokens) == 2 and tokens[1].lex is Lex.NUMBER
        return literal(tokens[0].value.strip("+") + tokens[1].value, span_of(tokens)) if sign else None
    minus = tokens[at].value == "-"
    return sum_of(term_of(tokens[:at]), term_of(tokens[at + 1 :]), span_of(tokens), minus=minus)


def _call(tokens: Sequence[Token]) -> Term | None:
    """name(…), schema.name(…) or a qualified column."""
    at = 0
    while at + 2 < len(tokens) and tokens[at].is_name and tokens[at + 1].is_mark("."):
        at += 2
    if not tokens[at].is_name:
        return None
    if at == len(tokens) - 1:
        return word_term(tokens[at])._replace(span=span_of(tokens)) if at else None
    if not tokens[at + 1].is_mark("(") or close_of(tokens, at + 1) != len(tokens) - 1:
        return None
    inside = tokens[at + 2 : -1]
    if tokens[at].is_word("cast"):
        halves = next((index for index, token in enumerate(inside) if token.is_word("as")), len(inside))
        type_name = " ".join(token.value for token in inside[halves + 1 :] if token.is_name)
        return Term(TermKind.CAST, type_name, (term_of(inside[:halves]),), (), span_of(tokens))
    if inside and inside[0].is_word("select", "with", "values"):
        return Term(TermKind.QUERY, "", (), (), span_of(tokens))
    return called(tokens[at].value, tuple(term_of(part) for part in split_at(inside, ",")), span_of(tokens))


def _opened_by_word(tokens: Sequence[Token]) -> Term | None:
    first = tokens[0]
    if first.is_word("select", "with", "values"):
        return Term(TermKind.QUERY, "", (), (), span_of(tokens))
    if first.is_word("case"):
        return Term(TermKind.CASE, "", tuple(_results(tokens)), (), span_of(tokens))
    if first.is_word("interval") and tokens[1].lex is Lex.STRING:
        return literal(tokens[1].value, span_of(tokens))
    return None


def _results(tokens: Sequence[Token]) -> list[Term]:
    """What the branches of CASE … END come to."""
    results, begin = [], -1
    for index, token in enumerate(tokens):
        if token.is_word("when", "else", "end") and begin >= 0:
            results.append(term_of(tokens[begin:index]))
            begin = -1
        if token.is_word("then", "else"):
            begin = index + 1
    return results


def _parts(tokens: Sequence[Token]) -> Term:
    """Nothing known as a whole: the values among the tokens."""
    parts: list[Term] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.is_mark("(") or token.is_mark("["):
            close = close_of(tokens, at)
            parts.extend(term_of(part) for part in split_at(tokens[at + 1 : close], ",") if len(part) < len(tokens))
            at = close
        elif token.lex in (Lex.STRING, Lex.NUMBER, Lex.PARAMETER) or token.is_name:
            parts.append(_single(token))
        at += 1
    return Term(TermKind.OTHER, "", tuple(parts), (), span_of(tokens))


def bare(term: Term) -> Term:
    """A term without the casts around it."""
    while term.kind is TermKind.CAST and term.parts:
        term = term.parts[0]
    return term


_TRUTHS = dict.fromkeys(("t", "true", "on", "1", "y", "yes"), TermKind.TRUE) | dict.fromkeys(
    ("f", "false", "off", "0", "n", "no"), TermKind.FALSE
)


def _truth(term: Term) -> Term:
    """A boolean as PostgreSQL takes it: 't' is true."""
    term = bare(term)
    kind = _TRUTHS.get(term.text.lower()) if term.kind is TermKind.LITERAL else None
    return Term(kind, "", (), (), term.span) if kind else term


def setting_name(term: Term) -> Term:
    """Names of settings are the same in any case."""
    term = bare(term)
    return term._replace(text=term.text.lower()) if term.kind is TermKind.LITERAL else term


#: So many arguments PostgreSQL's set_config takes; a function of that name with others is the program's own.
_OF_SET_CONFIG = 3


def sets_one(arguments: Sequence[Term]) -> bool:
    """Whether set_config with these arguments is PostgreSQL's, as far as they can be counted."""
    return len(arguments) == _OF_SET_CONFIG or any(one.kind is TermKind.HOLE for one in arguments)


def setting_change(arguments: Sequence[Term], span: Span) -> SettingChange:
    """What set_config(name, value, is_local) changes."""
    name, value, local = (*arguments, NOTHING, NOTHING, NOTHING)[:3]
    return SettingChange(Change.SET, setting_name(name), bare(value), _truth(local), called=True, span=span)


def setting_read(arguments: Sequence[Term], span: Span) -> SettingRead:
    """What current_setting(name, missing_ok) reads."""
    name = arguments[0] if arguments else NOTHING
    missing_ok = arguments[1] if len(arguments) > 1 else FALSE
    return SettingRead(setting_name(name), _truth(missing_ok).kind is not TermKind.FALSE, span)
