"""The tokens of Python source as its newest version reads them, whatever Python runs this.

It serves where `ast` can't: comments, places inside string literals, and syntax newer than the running Python. Only
`\\n` ends a line here: callers turn other line ends into it first. Offsets count characters, ends are exclusive.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Union

if TYPE_CHECKING:
    from collections.abc import Iterator


class ScanError(Exception):
    """The source breaks off, or says what no version of Python reads."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


class Chunk(NamedTuple):
    """Text between the holes of a literal, as it is written."""

    start: int
    end: int


class Hole(NamedTuple):
    """`{expression = !conversion : spec}`."""

    start: int  #: of the expression, spaces left out
    end: int
    close: int  #: of its closing brace
    tokens: tuple[Token, ...]  #: of the expression
    debug: Chunk | None  #: in `{x = }` what is printed before the value
    conversion: str
    spec: tuple[Part, ...] | None  #: None without a colon


Part = Union[Chunk, Hole]


class Literal(NamedTuple):
    """One string, bytes, f-string or t-string literal; what has no holes is one chunk."""

    start: int
    end: int
    prefix: str  #: lower case
    quote: str
    parts: tuple[Part, ...]

    @property
    def raw(self) -> bool:
        return "r" in self.prefix

    @property
    def is_bytes(self) -> bool:
        return "b" in self.prefix

    @property
    def formatted(self) -> bool:
        """It is an f-string or a t-string: it has holes and doubled braces."""
        return "f" in self.prefix or "t" in self.prefix

    @property
    def template(self) -> bool:
        return "t" in self.prefix


class Token(NamedTuple):
    """`kind` is name, number, string, operator, comment or newline (every one, inside brackets too)."""

    kind: str
    text: str
    start: int
    end: int
    literal: Literal | None = None


_TOKEN = re.compile(
    r"""
    (?P<space> (?: [ \t\f] | \\\n )+ )
  | (?P<newline> \n )
  | (?P<comment> \#[^\n]* )
  | (?P<string> (?i: r[bft]? | [bft]r? | u )? (?: '{3} | "{3} | ' | " ) )
  | (?P<name> [^\W\d]\w* )
  | (?P<number> \.?\d (?: (?<=[eE])[+-] | [\w.] )* )
  | (?P<operator> [=!<>]= | -> | \*\* | . )
    """,
    re.VERBOSE,
)

#: What follows the opening quote of a plain literal, up to its closing quote.
_REST = {
    "'": re.compile(r"[^'\\\n]*(?:\\.[^'\\\n]*)*'", re.DOTALL),
    '"': re.compile(r'[^"\\\n]*(?:\\.[^"\\\n]*)*"', re.DOTALL),
    "'''": re.compile(r"[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''", re.DOTALL),
    '"""': re.compile(r'[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""', re.DOTALL),
}

_NAMED = re.compile(r"\\N\{[^{}\n]*\}")
_FORMATTED_STOP = re.compile(r"[\\{}'\"\n]")
_CONVERSION = re.compile(r"([rsa])\s*")
_DEBUG_END = re.compile(r"(?:\s|#[^\n]*)*[!:}]")
_HOLE_ENDS = ("!", ":", "}", "=")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_UNENDED = "unterminated string literal"


def tokens(source: str, start: int = 0) -> Iterator[Token]:
    """The tokens from `start` to the end of the source; spaces and joined lines leave none."""
    while start < len(source):
        token = _token(source, start)
        if token.kind != "space":
            yield token
        start = token.end


def literal_at(source: str, start: int) -> Literal | None:
    """The literal that begins at `start`, if one does."""
    return _token(source, start).literal if start < len(source) else None


def _token(source: str, start: int) -> Token:
    match = _TOKEN.match(source, start)
    if match is None:
        raise AssertionError("every character begins a token")
    kind, text, end = str(match.lastgroup), match[0], match.end()
    if kind != "string":
        return Token(kind, text, start, end)
    literal = _literal(source, start, end)
    return Token(kind, source[start : literal.end], start, literal.end, literal)


def _literal(source: str, start: int, body: int) -> Literal:
    opening = source[start:body]
    prefix = opening.rstrip("'\"").lower()
    quote = opening[len(prefix) :]
    if "f" in prefix or "t" in prefix:
        parts, end = _Formatted(source, quote, "r" in prefix, start).text(body)
        return Literal(start, end, prefix, quote, parts)
    rest = _REST[quote].match(source, body)
    if rest is None:
        raise ScanError(_UNENDED, start)
    return Literal(start, rest.end(), prefix, quote, (Chunk(body, rest.end() - len(quote)),))


class _Formatted(NamedTuple):
    """Reads one f-string or t-string. Inside its holes quotes mean nothing to it."""

    source: str
    quote: str
    raw: bool
    start: int

    def text(self, at: int) -> tuple[tuple[Part, ...], int]:
        """The parts from behind the opening quote, and the offset behind the closing one."""
        parts: list[Part] = []
        begin = at
        while True:
            at = self._stop(at)
            sign = self.source[at]
            if sign == "{" and not self.source.startswith("{{", at):
                hole = self._hole(at + 1)
                parts += [Chunk(begin, at), hole]
                begin = at = hole.close + 1
            elif sign in "{}":
                if self.source[at + 1 : at + 2] != sign:
                    raise ScanError("f-string: single '}' is not allowed", at)
                at += 2
            else:
                parts.append(Chunk(begin, at))
                return tuple(parts), at + len(self.quote)

    def _stop(self, at: int) -> int:
        """The next brace or closing quote."""
        while match := _FORMATTED_STOP.search(self.source, at):
            at, sign = match.start(), match[0]
            if sign in "{}" or (sign in "'\"" and self.source.startswith(self.quote, at)):
                return at
            if sign == "\n" and len(self.quote) == 1:
                break
            at = self._behind_escape(at) if sign == "\\" else at + 1
        raise ScanError(_UNENDED, self.start)

    def _behind_escape(self, at: int) -> int:
        named = None if self.raw else _NAMED.match(self.source, at)
        if named:
            return named.end()
        # A backslash keeps a quote from closing, but no brace from opening.
        return at + (1 if self.source[at + 1 : at + 2] in ("{", "}") else 2)

    def _hole(self, start: int) -> Hole:
        """The hole whose opening brace stands before `start`."""
        found: list[Token] = []
        brackets: list[str] = []
        for token in tokens(self.source, start):
            if not brackets and token.text in _HOLE_ENDS:
                break
            self._balance(brackets, token)
            found.append(token)
        else:
            raise ScanError("f-string: expecting '}'", self.start)
        written = [token for token in found if token.kind not in ("newline", "comment")]
        if not written:
            raise ScanError(f"f-string: valid expression required before {token.text!r}", token.start)
        at, debug = token.start, None
        if token.text == "=":
            at = self._behind_debug(token)
            debug = Chunk(start, at)
        conversion, at = self._conversion(at)
        spec, close = self._spec(at + 1) if self.source.startswith(":", at) else (None, at)
        if not self.source.startswith("}", close):
            raise ScanError("f-string: expecting '}'", close)
        return Hole(written[0].start, written[-1].end, close, tuple(found), debug, conversion, spec)

    def _balance(self, brackets: list[str], token: Token) -> None:
        """Keep the brackets that wait to be closed."""
        if token.text in _CLOSING:
            brackets.append(_CLOSING[token.text])
        elif token.text in _CLOSING.values() and (not brackets or brackets.pop() != token.text):
            raise ScanError(f"f-string: unmatched {token.text!r}", token.start)

    def _behind_debug(self, token: Token) -> int:
        after = _DEBUG_END.match(self.source, token.end)
        if not after:
            raise ScanError("f-string: expecting '!', or ':', or '}'", token.start)
        return after.end() - 1

    def _conversion(self, at: int) -> tuple[str, int]:
        """The letter behind `!`, and where it ends."""
        if not self.source.startswith("!", at):
            return "", at
        letter = _CONVERSION.match(self.source, at + 1)
        if not letter:
            raise ScanError("f-string: invalid conversion character", at)
        return letter[1], letter.end()

    def _spec(self, at: int) -> tuple[tuple[Part, ...], int]:
        """The parts of a format spec from behind its colon, and the offset of the brace that ends it."""
        parts: list[Part] = []
        begin = at
        while True:
            at = self._stop(at)
            if self.source[at] not in "{}":
                raise ScanError("f-string: expecting '}'", at)
            parts.append(Chunk(begin, at))
            if self.source[at] == "}":
                return tuple(part for part in parts if not isinstance(part, Chunk) or part.end > part.start), at
            hole = self._hole(at + 1)
            parts.append(hole)
            begin = at = hole.close + 1
