"""What string literals come to, and which stretch of source each part of their value is written as."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Union

from auditor.python.scan import Chunk, Hole, Literal, ScanError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from auditor.python.scan import Token


class Run(NamedTuple):
    """A stretch of source and what it comes to: character by character where both are as long, else as one."""

    start: int
    end: int
    value: str


#: What a reader of the value meets: text, or the hole between two texts.
Piece = Union["list[Run]", Hole]

_ESCAPED = r"\\(?:[0-7]{1,3}|x[0-9a-fA-F]{2}|[^{}])"
_BYTES = re.compile(rf"[^\\]+|{_ESCAPED}|.", re.DOTALL)
_TEXT = re.compile(
    rf"[^\\{{}}]+|\\u[0-9a-fA-F]{{4}}|\\U[0-9a-fA-F]{{8}}|\\N\{{[^{{}}\n]*\}}|{_ESCAPED}|\{{\{{|\}}\}}|.", re.DOTALL
)
_RAW = re.compile(r"[^{}]+|\{\{|\}\}|.", re.DOTALL)
_COMMENT = re.compile(r"#[^\n]*")
_SHORT = {
    "\n": "",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


def runs(source: str, literal: Literal, chunk: Chunk, spec: bool = False) -> Iterator[Run]:
    """The value of a chunk, stretch by stretch. In a format spec, doubled braces are no escape."""
    pattern = _BYTES if literal.is_bytes else _TEXT
    for match in (_RAW if literal.raw else pattern).finditer(source, chunk.start, chunk.end):
        written = match[0]
        if written in ("{{", "}}") and literal.formatted and not spec:
            value = written[0]
        elif written[0] == "\\" and not literal.raw:
            value = _unescaped(written, match.start())
            if literal.is_bytes and value:
                value = chr(ord(value[0]) & 0xFF) + value[1:]  # b"\777" is a single byte
        else:
            value = written
        yield Run(match.start(), match.end(), value)


def text(source: str, literal: Literal, chunk: Chunk, spec: bool = False) -> str:
    """The value of a chunk."""
    return "".join(run.value for run in runs(source, literal, chunk, spec))


def _unescaped(written: str, start: int) -> str:
    sign, digits = written[1:2], written[2:]
    if sign in _SHORT:
        return _SHORT[sign]
    if sign and sign in "01234567":
        return chr(int(written[1:], 8))
    if digits and sign in "xuU":
        return _character(int(digits, 16), start)
    if digits and sign == "N":
        import unicodedata

        try:
            return unicodedata.lookup(digits[1:-1])
        except KeyError:
            raise ScanError("unknown Unicode character name", start) from None
    return written


def _character(code: int, start: int) -> str:
    if code > 0x10FFFF:
        raise ScanError("illegal Unicode character", start)
    return chr(code)


def groups(tokens: Iterable[Token], depth: int = 0) -> Iterator[tuple[Literal, ...]]:
    """Literals that stand side by side and are one string. Comments and line ends in brackets don't part them.

    `depth` is the number of brackets that the tokens stand in.
    """
    together: list[Literal] = []
    for token in tokens:
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if token.literal:
            together.append(token.literal)
        elif together and token.kind != "comment" and (token.kind != "newline" or depth <= 0):
            yield tuple(together)
            together = []
    if together:
        yield tuple(together)


def pieces(source: str, literals: Iterable[Literal]) -> list[Piece]:
    """The pieces of a Text as `auditor.python.lower` makes them: what stands in a hole as a string is text too."""
    found: list[Piece] = []
    for piece in _pieces(source, literals):
        if isinstance(piece, Hole):
            found.append(piece)
        elif not piece.value:
            continue
        elif found and isinstance(found[-1], list):
            found[-1].append(piece)
        else:
            found.append([piece])
    return found


def _pieces(source: str, literals: Iterable[Literal]) -> Iterator[Run | Hole]:
    for literal in literals:
        for part in literal.parts:
            if isinstance(part, Chunk):
                yield from runs(source, literal, part)
                continue
            if part.debug:
                yield Run(*part.debug, debug_text(source, part, part.debug))
            inner = () if literal.template or reshapes(part) else _alone(part.tokens)
            if inner:
                yield from _pieces(source, inner)
            else:
                yield part


def debug_text(source: str, hole: Hole, debug: Chunk) -> str:
    """What `{x = }` prints before the value: the expression as it is written, without a comment behind it."""
    return source[debug.start : hole.end] + _COMMENT.sub("", source[hole.end : debug.end])


def conversion(hole: Hole) -> str:
    """How its value is converted; `{x=}` is short for `{x=!r}`."""
    return hole.conversion or ("r" if hole.debug and hole.spec is None else "")


def reshapes(hole: Hole) -> bool:
    """Its value is not put in just as str() gives it."""
    return conversion(hole) in ("r", "a") or bool(hole.spec)


def _alone(tokens: Sequence[Token]) -> tuple[Literal, ...]:
    """The literals of an expression that is nothing but one string, brackets around it or not."""
    written = [token for token in tokens if token.kind not in ("newline", "comment")]
    while len(written) > 2 and written[0].text == "(" and written[-1].text == ")":
        written = written[1:-1]
    literals = tuple(token.literal for token in written if token.literal)
    if len(literals) < len(written) or any(literal.is_bytes or literal.template for literal in literals):
        return ()
    return literals
