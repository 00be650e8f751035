"""A text of many statements, cut into them at exact offsets; data of dumps and psql's own commands left out.

Only what can hide a semicolon is looked at, so a dump is cut at the speed of searching, not of reading.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from auditor.sql.meaning import Span
from auditor.sql.tokens import DOLLAR_QUOTE, SPACE, end_of_comment, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKER = "tenant-audit:"


class SqlComment(NamedTuple):
    """A comment that speaks to the audit. `own_line` is false where something stands before it on its line."""

    text: str
    start: int
    end: int
    own_line: bool

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


class Script(NamedTuple):
    """The statements of a text, without their semicolons and what surrounds them, and the comments meant for us."""

    statements: tuple[Span, ...]
    comments: tuple[SqlComment, ...]


_EDGE = re.compile(r"""['"$;()\\]|--|/\*""")
#: In a routine whose body is BEGIN ATOMIC the words that open and close blocks count as well.
_EDGE_OR_BLOCK = re.compile(rf"""{_EDGE.pattern}|(?<![\w$])(?:begin|case|end)(?![\w$])""", re.IGNORECASE)
_ATOMIC = re.compile(rf"{SPACE}*atomic(?![\w$])", re.IGNORECASE)
_BLANK = re.compile(rf"(?:{SPACE}|;)+")
_STRING_END = re.compile(r"[^']*(?:''[^']*)*'")
_ESCAPED_STRING_END = re.compile(r"[^'\\]*(?:(?:\\[\s\S]|'')[^'\\]*)*'")
_NAME_END = re.compile(r'[^"]*"')
_DOLLAR = re.compile(DOLLAR_QUOTE)
_META = re.compile(r"\\([A-Za-z]+)[^\n]*")

#: What hides nothing, and what hides a semicolon in the simplest way: a whole statement of these is found in one go.
_PLAIN = r"""[^'"$;()\\/-]*"""
_HIDDEN = r"""-(?!-)|/(?!\*)|'[^'\\]*'"""
_SIMPLE = re.compile(rf"{_PLAIN}(?:(?:{_HIDDEN}|\({_PLAIN}(?:(?:{_HIDDEN}){_PLAIN})*\)){_PLAIN})*;")

#: psql's commands that send what stands before them, as a semicolon does.
_SENDERS = frozenset(("g", "gx", "gset", "gexec", "gdesc", "watch", "crosstabview", "parse", "sendpipeline"))

#: How much of a COPY is read to see whether data follows: names and options, never data.
_COPY_HEAD = 20_000


def split_script(text: str, start: int = 0, end: int | None = None) -> Script:
    """Cut a text, or a stretch of it, into its statements, in linear time."""
    splitter = _Splitter(text, start, len(text) if end is None else end)
    return Script(tuple(splitter.statements()), tuple(splitter.comments))


def comments(text: str) -> tuple[SqlComment, ...]:
    """The comments of a text that speak to the audit."""
    return split_script(text).comments if MARKER in text else ()


class _Splitter:
    def __init__(self, text: str, start: int, end: int) -> None:
        self.text = text
        self.start = start
        self.end = end
        self.comments: list[SqlComment] = []
        self.begin = 0  #: of the statement being read
        self.hidden: list[Span] = []  #: its comments and psql commands
        self.depth = 0  #: of parentheses
        self.blocks = 0  #: of BEGIN ATOMIC and CASE
        self.routine = False
        self.semicolon_inside = False  #: whether brackets or blocks hide one
        self.trust_brackets = True
        self.more_data = True  #: whether data of a COPY may still come to an end

    def statements(self) -> Iterator[Span]:
        after = self.start
        while (at := self._start(after)) < self.end:
            stop, after = self._end_of_statement(at)
            piece = self._piece(stop)
            if piece is not None:
                yield piece
                after = self._skip_data(piece, after)

    def _end_of_statement(self, at: int) -> tuple[int, int]:
        """Where the statement ends, and where the text goes on."""
        text = self.text
        simple = None if self.routine else _SIMPLE.match(text, at, self.end)
        if simple is not None:
            return simple.end() - 1, simple.end()
        while True:
            edge = (_EDGE_OR_BLOCK if self.routine else _EDGE).search(text, at, self.end)
            if edge is None:
                if not self._reopen():
                    return self.end, self.end
                at = self.begin
                continue
            mark, start = edge[0], edge.start()
            if mark == ";" and not self._hides_semicolon():
                return start, edge.end()
            meta = _META.match(text, start, self.end) if mark == "\\" else None
            if meta is None:
                at = self._pass(mark, start, edge.end())
            elif meta[1] in _SENDERS:
                return start, meta.end()
            else:
                at = self._hide(start, meta.end())

    def _pass(self, mark: str, start: int, after: int) -> int:
        """Step over what begins at this edge, and say where it ends."""
        text = self.text
        if mark == "(":
            self.depth += 1
        elif mark == ")":
            self.depth = max(0, self.depth - 1)
        elif mark == "'":
            return self._after(_ESCAPED_STRING_END if self._escapes(start) else _STRING_END, after)
        elif mark == '"':
            return self._after(_NAME_END, after)
        elif mark == "$":
            return self._after_dollar(start)
        elif mark == "--":
            return self._hide(start, self._end_of_line(after))
        elif mark == "/*":
            return self._hide(start, end_of_comment(text, start, self.end))
        elif mark[0] not in ";\\":
            self._count_block(mark.lower(), after)
        return after

    def _after(self, pattern: re.Pattern[str], at: int) -> int:
        found = pattern.match(self.text, at, self.end)
        return found.end() if found else self.end

    def _after_dollar(self, start: int) -> int:
        tag = _DOLLAR.match(self.text, start, self.end)
        if tag is None or _continues_name(self.text, start):
            return start + 1
        close = self.text.find(tag[0], tag.end(), self.end)
        return self.end if close < 0 else close + len(tag[0])

    def _end_of_line(self, at: int) -> int:
        line = self.text.find("\n", at, self.end)
        return self.end if line < 0 else line

    def _escapes(self, quote: int) -> bool:
        """Whether the quote opens an E'…' string, where a backslash hides the next character."""
        return quote > self.begin and self.text[quote - 1] in "eE" and not _continues_name(self.text, quote - 1)

    def _count_block(self, word: str, after: int) -> None:
        if word == "begin":
            self.blocks += bool(self.blocks == 0 and _ATOMIC.match(self.text, after, self.end))
        elif self.blocks:
            self.blocks += 1 if word == "case" else -1

    def _hides_semicolon(self) -> bool:
        hidden = self.trust_brackets and bool(self.depth or self.blocks)
        self.semicolon_inside |= hidden
        return hidden

    def _reopen(self) -> bool:
        """A bracket that is never closed must not swallow the statements behind it: read them again without brackets.

        Once a text, so that the time stays linear.
        """
        if not (self.semicolon_inside and (self.depth or self.blocks)):
            return False
        self.trust_brackets = False
        self.comments = [comment for comment in self.comments if comment.start < self.begin]
        self._reset(self.begin)
        return True

    def _start(self, at: int) -> int:
        """Find where the next statement begins, and what it begins with."""
        text = self.text
        while True:
            blank = _BLANK.match(text, at, self.end)
            at = blank.end() if blank else at
            if text.startswith("--", at):
                at = self._hide(at, self._end_of_line(at))
            elif text.startswith("/*", at):
                at = self._hide(at, end_of_comment(text, at, self.end))
            elif text.startswith("\\", at) and not text.startswith("\\:", at):
                at = self._end_of_line(at)
            else:
                break
        self._reset(at)
        self.routine = self._begins_routine(at)
        return at

    def _reset(self, at: int) -> None:
        self.begin = at
        self.hidden.clear()
        self.depth = self.blocks = 0
        self.semicolon_inside = False

    def _begins_routine(self, at: int) -> bool:
        if self.text[at : at + 6].lower() != "create":
            return False
        words = [token.value for token in tokenize(self.text, at, min(self.end, at + 100))[1:4]]
        return words[:1] in (["function"], ["procedure"]) or words in (
            ["or", "replace", "function"],
            ["or", "replace", "procedure"],
        )

    def _hide(self, start: int, end: int) -> int:
        self.hidden.append(Span(start, end))
        if self.text.find(MARKER, start, end) >= 0:
            line = self.text.rfind("\n", 0, start) + 1
            self.comments.append(SqlComment(self.text[start:end], start, end, not self.text[line:start].strip()))
        return end

    def _piece(self, end: int) -> Span | None:
        """The statement that ends here, without the comments and space behind it."""
        end = self._before_space(end)
        while self.hidden and self.hidden[-1].end == end:
            end = self._before_space(self.hidden.pop().start)
        return Span(self.begin, end) if end > self.begin else None

    def _before_space(self, end: int) -> int:
        while end > self.begin and self.text[end - 1] in " \t\n\r\f\v\x00\ufeff":
            end -= 1
        return end

    def _skip_data(self, piece: Span, after: int) -> int:
        r"""Behind COPY … FROM STDIN come lines of data up to one that is `\.`; it is found, not read."""
        if not self.more_data or not self._copies_in(piece):
            return after
        at = after
        while (mark := self.text.find("\n\\.", at, self.end)) >= 0:
            at = mark + 3
            if self.text[at : self._end_of_line(at)].strip() == "":
                return at
        self.more_data = False
        return after

    def _copies_in(self, piece: Span) -> bool:
        if self.text[piece.start : piece.start + 4].lower() != "copy":
            return False
        tokens = tokenize(self.text, piece.start, min(piece.end, piece.start + _COPY_HEAD))
        return any(tokens[at].is_word("from") and tokens[at + 1].is_word("stdin") for at in range(len(tokens) - 1))


def _continues_name(text: str, at: int) -> bool:
    """Whether the character at `at` goes on with a name that began before it."""
    before = text[at - 1 : at] if at else ""
    return bool(before) and (before.isalnum() or before in "_$" or before >= "\x80")
