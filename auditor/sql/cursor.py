"""A reader's place in the tokens of one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.meaning import Span, Table
from auditor.sql.tokens import Lex, Token, close_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from auditor.sql.meaning import Statement

    #: Reads the tokens of a statement inside another one: what EXPLAIN, PREPARE or a body holds.
    Nested = Callable[[Sequence[Token], str], Statement]


class Cursor:
    """Steps over tokens; past the last there is an empty mark, so that looking is always safe."""

    def __init__(self, tokens: Sequence[Token], text: str, nested: Nested) -> None:
        self.tokens = tokens
        self.text = text
        self.nested = nested
        self.at = 0
        end = tokens[-1].end if tokens else 0
        self._none = Token(Lex.MARK, "", end, end)

    @property
    def done(self) -> bool:
        return self.at >= len(self.tokens)

    def peek(self, offset: int = 0) -> Token:
        at = self.at + offset
        return self.tokens[at] if 0 <= at < len(self.tokens) else self._none

    def next(self) -> Token:
        token = self.peek()
        self.at += 1
        return token

    def sees(self, *words: str) -> bool:
        """Whether these words come next, in this order."""
        return all(self.peek(offset).is_word(word) for offset, word in enumerate(words))

    def take(self, *words: str) -> bool:
        """Step over these words if they come next."""
        if not self.sees(*words):
            return False
        self.at += len(words)
        return True

    def take_any(self, *words: str) -> str:
        """Step over one of these words if one comes next, and say which."""
        if not self.peek().is_word(*words):
            return ""
        return self.next().value

    def take_mark(self, mark: str) -> bool:
        if not self.peek().is_mark(mark):
            return False
        self.at += 1
        return True

    def take_operator(self, *operators: str) -> bool:
        if not self.peek().is_operator(*operators):
            return False
        self.at += 1
        return True

    def raw(self, token: Token) -> str:
        """A token that stands for a name: placeholders as they are written."""
        return self.text[token.start : token.end] if token.lex is Lex.PARAMETER else token.value

    def takes_name(self) -> bool:
        return self.peek().is_name or self.peek().lex is Lex.PARAMETER

    def name(self) -> str:
        """One name, or nothing where none comes."""
        return self.raw(self.next()) if self.takes_name() else ""

    def qualified(self) -> tuple[str, str, Span]:
        """A name that may have a schema before it: schema, name and where they stand."""
        start = self.peek().start
        parts = [self.name()]
        while parts[-1] and self.peek().is_mark("."):
            self.at += 1
            parts.append(self.name())
        schema = parts[-2] if len(parts) > 1 else ""
        return schema, parts[-1], Span(start, self.peek(-1).end if parts[0] else start)

    def table(self) -> Table:
        """[ONLY] schema.table [*]."""
        inside = self.take("only") and self.take_mark("(")
        schema, name, span = self.qualified()
        self.take_operator("*")
        if inside:
            self.take_mark(")")
        return Table(name, schema, "", span)

    def tables(self) -> tuple[Table, ...]:
        """A list of tables."""
        tables = [self.table()]
        while self.take_mark(","):
            tables.append(self.table())
        return tuple(table for table in tables if table.name)

    def brackets(self) -> Sequence[Token]:
        """What stands inside the parentheses that come next; they are stepped over."""
        if not self.peek().is_mark("("):
            return ()
        close = close_of(self.tokens, self.at)
        inside = self.tokens[self.at + 1 : close]
        self.at = close + 1
        return inside

    def rest(self) -> Sequence[Token]:
        """All that is left; nothing is left then."""
        rest = self.tokens[self.at :]
        self.at = len(self.tokens)
        return rest

    def until(self, *words: str) -> Sequence[Token]:
        """What comes before the first of these words outside brackets; all that is left where none comes."""
        begin = self.at
        while not self.done and not self.peek().is_word(*words):
            self.skip()
        return self.tokens[begin : self.at]

    def skip(self) -> None:
        """Step over one token, or over a bracket with all that is in it."""
        opens = self.peek().is_mark("(") or self.peek().is_mark("[")
        self.at = min(close_of(self.tokens, self.at) + 1, len(self.tokens)) if opens else self.at + 1

    def find(self, *words: str) -> bool:
        """Go on to where these words come next outside brackets; stay where they never do."""
        begin = self.at
        while not self.done:
            if self.sees(*words):
                return True
            self.skip()
        self.at = begin
        return False

    def statement(self) -> Statement:
        """The statement that all the rest makes."""
        return self.nested(self.rest(), self.text)
