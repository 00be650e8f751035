"""SQL inside quotes: bodies of functions and dynamic statements, opened without moving a single character.

What is opened is written back into the text at the same length, so that every offset counts in the text as given.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from auditor.sql.meaning import HOLE_CLOSE, HOLE_OPEN, Span
from auditor.sql.tokens import Lex, close_of, split_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from auditor.sql.tokens import Token

_QUOTES = re.compile(r"''''|''|\\'")
#: What format() puts a value into: %s, %I, %L, %1$s, %-10s; and %% for a percent sign.
_FORMATTED = re.compile(r"%(?:\d+\$)?-?(?:\d+|\*)?[sIL]|%%")


class Opened(NamedTuple):
    """A text in which a stretch reads as the SQL that it runs."""

    text: str
    span: Span


def open_body(source: Token, text: str) -> Opened:
    """The body of a function, without the quotes around it."""
    span = _inside(source, text)
    body = text[span.start : span.end]
    if text[source.start] == "$" or ("''" not in body and "\\'" not in body):
        return Opened(text, span)
    return _replaced(text, span, _single_quotes(body))


def open_dynamic(tokens: Sequence[Token], text: str) -> Opened | None:
    """The statement that EXECUTE runs, as far as it is written out: a literal, format() of one, or pieces joined by ||.

    What is put in at run time becomes a hole; nothing is known where no literal is seen.
    """
    if len(tokens) > 3 and tokens[0].is_word("format") and tokens[1].is_mark("("):
        arguments = split_at(tokens[2 : close_of(tokens, 1)], ",")
        if not arguments or len(arguments[0]) != 1 or arguments[0][0].lex is not Lex.STRING:
            return None
        opened = open_body(arguments[0][0], text)
        stretch = opened.text[opened.span.start : opened.span.end]
        return _replaced(opened.text, opened.span, _FORMATTED.sub(_formatted, stretch))
    pieces = [token for token in _outside(tokens) if token.lex is Lex.STRING]
    joined = all(token.is_operator("||") for token in _operators(tokens))
    if not pieces or not joined:
        return None
    return _join(tokens, pieces, text)


def _join(tokens: Sequence[Token], pieces: Sequence[Token], text: str) -> Opened:
    """Literals and what stands between them, which is a hole."""
    whole = Span(tokens[0].start, tokens[-1].end)
    opened, at = "", whole.start
    for piece in pieces:
        inside = _inside(piece, text)
        before = inside.start - at
        # Before the first literal there is only its quote; anything longer was a value.
        opened += hole_of(before) if piece.start > at else " " * before
        opened += text[inside.start : inside.end]
        at = inside.end
    opened += hole_of(whole.end - at) if pieces[-1].end < whole.end else " " * (whole.end - at)
    quoted = all(text[piece.start] != "$" for piece in pieces)
    return _replaced(text, whole, _single_quotes(opened) if quoted else opened)


def hole_of(length: int) -> str:
    """A hole without a number, as long as what it stands for."""
    return HOLE_OPEN + "_" * (length - 2) + HOLE_CLOSE if length >= 2 else " " * length


def _formatted(found: re.Match[str]) -> str:
    return "% " if found[0] == "%%" else hole_of(len(found[0]))


def _inside(source: Token, text: str) -> Span:
    """Where the content of a literal stands."""
    raw = text[source.start : source.end]
    if raw.startswith("$"):
        tag = raw.find("$", 1) + 1
        return Span(source.start + tag, max(source.start + tag, source.end - tag))
    quote = raw.find("'") + 1
    return Span(source.start + quote, max(source.start + quote, source.end - 1))


def _single_quotes(body: str) -> str:
    """A doubled quote becomes one, with a space outside the literal; a quote inside a literal stays doubled."""
    turn = itertools.cycle((" '", "' "))
    return _QUOTES.sub(lambda found: "''  " if len(found[0]) == 4 else next(turn), body)


def _replaced(text: str, span: Span, stretch: str) -> Opened:
    return Opened(text[: span.start] + stretch + text[span.end :], span)


def _outside(tokens: Sequence[Token]) -> list[Token]:
    """The tokens outside brackets."""
    outside, at = [], 0
    while at < len(tokens):
        if tokens[at].is_mark("("):
            at = close_of(tokens, at)
        else:
            outside.append(tokens[at])
        at += 1
    return outside


def _operators(tokens: Sequence[Token]) -> list[Token]:
    return [token for token in _outside(tokens) if token.lex is Lex.OPERATOR and token.value != "::"]
