"""SQL as tokens: everything PostgreSQL's lexer knows, the placeholders of every driver, and holes.

Space, comments and psql's meta-commands leave no token. A hole mark is made of characters that PostgreSQL allows in
names, so a hole in the place of a name, or glued to one, reads as a word by itself. A template's `{x}`, `{{ x }}` or
`${x}` outside quotes reads as a word too: no SQL has braces there.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, NamedTuple

from auditor.sql.meaning import HOLE_CLOSE, HOLE_OPEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class Lex(enum.Enum):
    """What a token is."""

    WORD = "word"  #: a keyword or a name without quotes; its value is in lower case
    NAME = "name"  #: a name in double quotes; its value without them
    STRING = "string"  #: its value without quotes, escapes resolved
    NUMBER = "number"
    PARAMETER = "parameter"  #: its value is the placeholder's name or number, see `meaning.TermKind.PARAMETER`
    OPERATOR = "operator"
    MARK = "mark"  #: one of ( ) [ ] , ; . : or a character SQL has no use for


class Token(NamedTuple):
    lex: Lex
    value: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        return self.lex is Lex.WORD and self.value in words

    def is_mark(self, mark: str) -> bool:
        return self.lex is Lex.MARK and self.value == mark

    def is_operator(self, *operators: str) -> bool:
        return self.lex is Lex.OPERATOR and self.value in operators

    @property
    def is_name(self) -> bool:
        return self.lex is Lex.WORD or self.lex is Lex.NAME


#: A template's stand-in: {x}, {}, {x!r:>8}, ${x}, {{ x }}.
TEMPLATE = r"\{\{[^{}\n]*\}\}|\$?\{[\w.]*(?:\[\w+\])?(?:![rsa])?(?::[^{}\n]*)?\}"
SPACE = r"[ \t\n\r\f\v\x00\ufeff]"
#: A format placeholder that is glued to a name, %(prefix)s_jobs or jobs_%s: part of the name.
_FORMAT = r"%(?:\(\w+\)s|s(?![a-zA-Z0-9]))"
#: What begins a name: all but ASCII's other characters. Said in the negative, for Python compiles the positive slowly.
LETTER = r"[^\x00-@\[-\^`{-\x7f]"
#: What goes on with a tag of a dollar quote, and with a name.
LETTER_OR_DIGIT = r"[^\x00-/:-@\[-\^`{-\x7f]"
_CONTINUES = r"[^\x00-#%-/:-@\[-\^`{-\x7f]"
DOLLAR_QUOTE = rf"\$(?:{LETTER}{LETTER_OR_DIGIT}*)?\$"

_TOKEN = re.compile(
    rf"""
      (?P<space> {SPACE}+ | --[^\n]* | \{{%[^\n]*?%\}} | \{{\#[^\n]*?\#\}} )
    | (?P<string> [eE]'[^'\\]*(?:(?:\\[\s\S]|'')[^'\\]*)*' | [bBxXnN]?'[^']*(?:''[^']*)*' | [uU]&'[^']*(?:''[^']*)*' )
    | (?P<name> (?:[uU]&)?"[^"]*(?:""[^"]*)*" )
    | (?P<word> (?:(?!\ufeff){LETTER}|{TEMPLATE}|{_FORMAT}(?=_)) (?:{_CONTINUES}+|{TEMPLATE}|(?<=_){_FORMAT})* )
    | (?P<mark> [()\[\],;] | \.\.? (?!\d) )
    | (?P<number> 0[xXoObB][0-9a-fA-F_]+ | (?:\d[\d_]*(?:\.(?!\.)[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)? )
    | (?P<parameter> %\((?P<key>[^()\n]*)\)[sbtd] | (?P<plain>%[sbt])(?!{_CONTINUES}) | (?P<number_of>\$\d+) )
    | (?P<colon> ::|\\:\\:|:=
        | :'(?P<quoted>\w+)' | :"(?P<named>\w+)" | :\{{\?(?P<tested>\w+)\}} | :(?P<bound>[A-Za-z_]\w*) | : )
    | (?P<dollar> {DOLLAR_QUOTE} )
    | (?P<comment> /\* )
    | (?P<operator> %% | [-+*/<>=~!@\#%^&|`?]+ )
    | (?P<meta> \\(?:[A-Za-z.!?][^\n]*)? )
    | (?P<open> ['"] )
    | (?P<rest> [\s\S] )
    """,
    re.VERBOSE,
)

_COMMENT_EDGE = re.compile(r"/\*|\*/")
_HOLE = re.compile(rf"{HOLE_OPEN}(?:(\d+)|_*){HOLE_CLOSE}|{TEMPLATE}")
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\s\S]))|''")
_UNICODE_ESCAPE = re.compile(r"\\(?:\+([0-9a-fA-F]{6})|([0-9a-fA-F]{4})|(\\))")
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

#: Operators made of colons. SQLAlchemy's text() wants a colon that is no placeholder escaped.
_COLONS = {"::": "::", ":=": ":=", "\\:\\:": "::"}

#: Operators that may stand before a `?` placeholder without a space: `x=?`, `a||?`.
_BEFORE_PLACEHOLDER = {"=", "<", ">", "<=", ">=", "<>", "!=", "+", "-", "*", "/", "||"}


def word_set(text: str) -> frozenset[str]:
    """The words of a text, for tables of words that people read."""
    return frozenset(text.split())


#: Words after which an operand follows, so that a `?` is a placeholder and not jsonb's operator.
_EXPECT_OPERAND = word_set(
    "all and any as between by case default distinct else elsif escape first from having if ilike in interval into is"
    " join like limit next not offset on or perform return returning select set similar some then to union update using"
    " values when where while with zone"
)


def holes_in(text: str) -> tuple[int, ...]:
    """The numbers of the holes in a name or a literal; -1 for one without: a template's, or a dynamic statement's."""
    if HOLE_OPEN not in text and "{" not in text:
        return ()
    return tuple(int(found[1] or -1) for found in _HOLE.finditer(text))


def hole_marks_in(text: str) -> tuple[int, ...]:
    """The numbers of the hole marks alone: inside quotes braces are more often JSON than a template."""
    if HOLE_OPEN not in text:
        return ()
    return tuple(int(found[1] or -1) for found in _HOLE.finditer(text) if found[0][0] == HOLE_OPEN)


def is_bare_hole(token: Token) -> bool:
    """Whether the token is nothing but holes: it may stand for a value, a name or a whole clause."""
    return token.lex is Lex.WORD and token.value[0] in "\ue000{$" and not _HOLE.sub("", token.value)


def end_of_comment(text: str, start: int, end: int) -> int:
    """Where the block comment that begins at `start` ends; they nest."""
    depth, at = 1, start + 2
    while depth:
        edge = _COMMENT_EDGE.search(text, at, end)
        if edge is None:
            return end
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return at


def tokenize(text: str, start: int = 0, end: int | None = None, placeholders: int = 0) -> list[Token]:
    """The tokens of a stretch of the text. `placeholders` is how many nameless ones came before it."""
    end = len(text) if end is None else end
    return list(_Scan(text, start, end, placeholders).tokens())


class _Scan:
    """One pass over a stretch of text."""

    def __init__(self, text: str, start: int, end: int, placeholders: int) -> None:
        self.text = text
        self.at = start
        self.end = end
        self.placeholders = placeholders
        self.brackets = 0
        self.last: Token | None = None

    def tokens(self) -> Iterator[Token]:
        match, text, end = _TOKEN.match, self.text, self.end
        while self.at < end:
            found = match(text, self.at, end)
            assert found is not None  # the last alternative takes any character
            group = found.lastgroup or ""
            start, self.at = self.at, found.end()
            if group == "space" or group == "meta":
                continue
            if group == "word":
                raw = found[0]
                token = Token(Lex.WORD, raw if "{" in raw else raw.lower(), start, self.at)
            else:
                made = _MAKERS[group](self, found, start)
                if made is None:
                    continue
                token = made
            self.last = token
            yield token

    @property
    def expects_operand(self) -> bool:
        """Whether what comes next is a value rather than an operator."""
        last = self.last
        if last is None:
            return True
        if last.lex is Lex.WORD:
            return last.value in _EXPECT_OPERAND
        return last.lex is Lex.OPERATOR or (last.lex is Lex.MARK and last.value in "([,;")

    def nameless(self, start: int) -> Token:
        self.placeholders += 1
        return Token(Lex.PARAMETER, str(self.placeholders - 1), start, self.at)


def _string(scan: _Scan, found: re.Match[str], start: int) -> Token:
    return Token(Lex.STRING, _unquote(found[0]), start, scan.at)


def _unquote(raw: str) -> str:
    head, _, body = raw[:-1].partition("'")
    if head in ("e", "E"):
        return _ESCAPE.sub(_unescape, body)
    body = body.replace("''", "'")
    return _UNICODE_ESCAPE.sub(_unescape_unicode, body) if head in ("u&", "U&") else body


def _unescape(found: re.Match[str]) -> str:
    octal, byte, short, long, letter = found.groups()
    if octal:
        return chr(int(octal, 8))
    if byte or short or long:
        return _character(byte or short or long)
    return _LETTERS.get(letter, letter) if letter else "'"


def _unescape_unicode(found: re.Match[str]) -> str:
    return "\\" if found[3] else _character(found[1] or found[2])


def _character(hexadecimal: str) -> str:
    code = int(hexadecimal, 16)
    return chr(code) if code < 0x110000 else "\ufffd"


def _name(scan: _Scan, found: re.Match[str], start: int) -> Token:
    raw = found[0]
    value = raw[raw.index('"') + 1 : -1].replace('""', '"')
    if raw[0] != '"':
        value = _UNICODE_ESCAPE.sub(_unescape_unicode, value)
    return Token(Lex.NAME, value, start, scan.at)


def _mark(scan: _Scan, found: re.Match[str], start: int) -> Token:
    mark = found[0]
    if mark == "[":
        scan.brackets += 1
    elif mark == "]":
        scan.brackets -= 1
    return Token(Lex.MARK, mark, start, scan.at)


def _number(scan: _Scan, found: re.Match[str], start: int) -> Token:
    return Token(Lex.NUMBER, found[0], start, scan.at)


def _parameter(scan: _Scan, found: re.Match[str], start: int) -> Token:
    if found["plain"]:
        return scan.nameless(start)
    return Token(Lex.PARAMETER, found["number_of"] or found["key"] or "", start, scan.at)


def _colon(scan: _Scan, found: re.Match[str], start: int) -> Token:
    raw = found[0]
    if raw in _COLONS:
        return Token(Lex.OPERATOR, _COLONS[raw], start, scan.at)
    name = found["quoted"] or found["named"] or found["tested"] or found["bound"]
    # In an array slice, a[lower:upper], the colon stands between two values; elsewhere it begins a placeholder.
    if name is None or (scan.brackets > 0 and not scan.expects_operand):
        scan.at = start + 1
        return Token(Lex.MARK, ":", start, scan.at)
    return Token(Lex.PARAMETER, name, start, scan.at)


def _dollar(scan: _Scan, found: re.Match[str], start: int) -> Token:
    body = scan.at
    close = scan.text.find(found[0], body, scan.end)
    scan.at = scan.end if close < 0 else close + len(found[0])
    return Token(Lex.STRING, scan.text[body : scan.end if close < 0 else close], start, scan.at)


def _comment(scan: _Scan, found: re.Match[str], start: int) -> None:
    scan.at = end_of_comment(scan.text, start, scan.end)


def _operator(scan: _Scan, found: re.Match[str], start: int) -> Token:
    raw = found[0]
    if raw == "%%":
        return Token(Lex.OPERATOR, "%", start, scan.at)
    if raw[0] == "?" and scan.expects_operand:
        scan.at = start + 1
        return scan.nameless(start)
    scan.at = start + _operator_length(raw, scan.text, start)
    return Token(Lex.OPERATOR, raw[: scan.at - start], start, scan.at)


def _operator_length(raw: str, text: str, start: int) -> int:
    """How much of a run of operator characters is one operator."""
    if len(raw) == 1:
        return 1
    length = min((at for at in (raw.find("--"), raw.find("/*")) if at > 0), default=len(raw))
    percent = raw.find("%", 1, length)
    # `=%s`, `=%(x)s`: the sign begins a placeholder.
    if percent > 0 and text[start + percent + 1 : start + percent + 2] in ("s", "b", "t", "("):
        length = percent
    mark = raw.find("?", 1, length)
    if mark > 0 and raw[:mark] in _BEFORE_PLACEHOLDER:
        length = mark
    # PostgreSQL's rule: an operator ends in + or - only if it has one of these other characters.
    while length > 1 and raw[length - 1] in "+-" and not set("~!@#%^&|`?") & set(raw[:length]):
        length -= 1
    return length


def _open(scan: _Scan, found: re.Match[str], start: int) -> Token:
    """A quote that is never closed takes the rest."""
    scan.at = scan.end
    lex = Lex.STRING if found[0] == "'" else Lex.NAME
    return Token(lex, scan.text[start + 1 : scan.end], start, scan.at)


def _rest(scan: _Scan, found: re.Match[str], start: int) -> Token:
    return Token(Lex.MARK, found[0], start, scan.at)


_MAKERS: dict[str, Callable[[_Scan, re.Match[str], int], Token | None]] = {
    "string": _string,
    "name": _name,
    "mark": _mark,
    "number": _number,
    "parameter": _parameter,
    "colon": _colon,
    "dollar": _dollar,
    "comment": _comment,
    "operator": _operator,
    "open": _open,
    "rest": _rest,
}


def close_of(tokens: Sequence[Token], at: int) -> int:
    """The index of the bracket that closes the one at `at`, or of the end where none does."""
    depth = 0
    for index in range(at, len(tokens)):
        token = tokens[index]
        if token.lex is Lex.MARK:
            if token.value in ("(", "["):
                depth += 1
            elif token.value in (")", "]"):
                depth -= 1
                if depth <= 0:
                    return index
    return len(tokens)


def split_at(tokens: Sequence[Token], mark: str) -> list[Sequence[Token]]:
    """The stretches between the marks that stand outside brackets; no stretch at all for no tokens."""
    parts: list[Sequence[Token]] = []
    depth = begin = 0
    for index, token in enumerate(tokens):
        if token.lex is not Lex.MARK:
            continue
        if token.value in ("(", "["):
            depth += 1
        elif token.value in (")", "]"):
            depth -= 1
        elif token.value == mark and depth == 0:
            parts.append(tokens[begin:index])
            begin = index + 1
    if begin < len(tokens) or parts:
        parts.append(tokens[begin:])
    return parts
