"""PL/pgSQL: the statements of a block in order, its control flow flattened.

Conditions and values are kept as the SELECT that PL/pgSQL makes of them, if they call something or read a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.meaning import Kind, Statement, TermKind
from auditor.sql.quoted import open_dynamic
from auditor.sql.scan import calls_in
from auditor.sql.script import split_script
from auditor.sql.terms import span_of
from auditor.sql.tokens import Lex, Token, close_of, tokenize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from auditor.sql.cursor import Cursor

    Tokens = Sequence[Token]

#: Words that open or close something and are followed by the next statement at once.
_STEPS = frozenset(("begin", "loop", "else", "exception"))
#: Words whose condition reaches to the word named here.
_CONDITIONS = {"if": "then", "elsif": "then", "elseif": "then", "when": "then", "while": "loop"}
#: Statements that say nothing to a database.
_SILENT = frozenset(("raise", "null", "exit", "continue", "get"))
_QUERIES = frozenset(
    ("select", "insert", "update", "delete", "merge", "with", "values", "explain", "show", "table", "(")
)


def statements_of(tokens: Tokens, cursor: Cursor) -> Iterator[Statement]:
    """The statements of a block; `cursor` knows the text they stand in and how statements are read."""
    return _Block(tokens, cursor).statements()


class _Block:
    def __init__(self, tokens: Tokens, cursor: Cursor) -> None:
        self.tokens = tokens
        self.text = cursor.text
        self.nested = cursor.nested
        self.at = 0

    def statements(self) -> Iterator[Statement]:
        while self.at < len(self.tokens):
            word = self.tokens[self.at]
            if word.is_mark(";") or word.is_word(*_STEPS):
                self.at += 1
            elif word.is_operator("<<"):
                self._until(lambda token: token.is_operator(">>"))
            elif word.is_operator("#"):
                self.at += 3  # #variable_conflict use_column
            elif word.is_word("declare"):
                self.at += 1
                yield from self._declarations()
            elif word.is_word("end"):
                self._until(lambda token: token.is_mark(";"))
            elif word.is_word("case"):
                self.at += 1
                yield from self._expression(self._up_to("when"))
            elif word.is_word(*_CONDITIONS):
                self.at += 1
                yield from self._expression(self._up_to(_CONDITIONS[word.value]))
            elif word.is_word("for", "foreach"):
                self.at += 1
                yield from self._loop(self._up_to("loop"))
            else:
                yield from self._statement(self._until(lambda token: token.is_mark(";")))

    def _until(self, ends: Callable[[Token], bool]) -> Tokens:
        """What comes before the first token outside brackets that ends it; that one is stepped over."""
        begin = self.at
        while self.at < len(self.tokens) and not ends(self.tokens[self.at]):
            self.at = close_of(self.tokens, self.at) if self.tokens[self.at].is_mark("(") else self.at
            self.at += 1
        stretch = self.tokens[begin : self.at]
        self.at += 1
        return stretch

    def _up_to(self, word: str) -> Tokens:
        """What comes before a keyword, a CASE … END with keywords of its own left whole. WHEN is not stepped over."""
        cases = 0

        def ends(token: Token) -> bool:
            nonlocal cases
            if cases == 0 and token.is_word(word):
                return True
            cases += token.is_word("case") - (cases > 0 and token.is_word("end"))
            return False

        stretch = self._until(ends)
        self.at -= word == "when"
        return stretch

    # Pieces

    def _declarations(self) -> Iterator[Statement]:
        """name type := expression; or name CURSOR FOR query."""
        while self.at < len(self.tokens) and not self.tokens[self.at].is_word("begin"):
            declared = self._until(lambda token: token.is_mark(";"))
            if any(token.is_word("cursor") for token in declared[1:4]):
                query = _after(declared, lambda token: token.is_word("for", "is"))
                yield from self._read(query)
            else:
                yield from self._expression(
                    _after(declared, lambda token: token.is_operator(":=", "=") or token.is_word("default"))
                )

    def _loop(self, head: Tokens) -> Iterator[Statement]:
        """FOR target IN query, EXECUTE or range."""
        source = _after(head, lambda token: token.is_word("in"))
        if source and source[0].is_word("reverse", "array"):
            source = source[1:]
        yield from self._source(source)

    def _source(self, tokens: Tokens) -> Iterator[Statement]:
        """What rows are taken from."""
        if tokens and tokens[0].is_word("execute"):
            yield from self._dynamic(tokens[1:])
        elif tokens and tokens[0].value in _QUERIES:
            yield from self._read(tokens)
        else:
            yield from self._expression(tokens)

    def _statement(self, tokens: Tokens) -> Iterator[Statement]:
        if not tokens:
            return
        first, rest = tokens[0], tokens[1:]
        if first.is_word("perform"):
            yield from self._read([first._replace(value="select"), *rest])
        elif first.is_word("execute"):
            yield from self._dynamic(rest)
        elif first.is_word("return"):
            yield from self._return(rest)
        elif first.is_word("assert"):
            yield from self._expression(rest)
        elif first.is_word("open"):
            yield from self._source(_after(rest, lambda token: token.is_word("for")))
        elif first.is_word("fetch", "move"):
            yield self.nested(_without_targets(tokens), self.text)
        elif not first.is_word(*_SILENT):
            value = _assigned(tokens)
            yield from self._read(_without_targets(tokens)) if value is None else self._expression(value)

    def _return(self, rest: Tokens) -> Iterator[Statement]:
        if rest and rest[0].is_word("query"):
            yield from self._source(rest[1:])
        else:
            yield from self._expression(rest[1:] if rest and rest[0].is_word("next") else rest)

    def _read(self, tokens: Tokens) -> Iterator[Statement]:
        if tokens:
            yield self.nested(tokens, self.text)

    def _expression(self, tokens: Tokens) -> Iterator[Statement]:
        """An expression, if it does more than compute."""
        if not tokens:
            return
        called = calls_in(tokens)
        if any(called) or any(token.is_word("select") for token in tokens):
            start = tokens[0].start
            yield self.nested([Token(Lex.WORD, "select", start, start), *tokens], self.text)

    def _dynamic(self, tokens: Tokens) -> Iterator[Statement]:
        """EXECUTE of a text: read as far as it is written out, else one statement of which nothing is known."""
        end = next((at for at, token in enumerate(tokens) if token.is_word("into", "using")), len(tokens))
        opened = open_dynamic(tokens[:end], self.text)
        if opened is None:
            span = span_of(tokens)
            yield Statement(Kind.OTHER, span, parsed=False, text=self.text[span.start : span.end])
            return
        for piece in split_script(opened.text, *opened.span).statements:
            yield self._quoted(self.nested(tokenize(opened.text, *piece), opened.text))

    def _quoted(self, statement: Statement) -> Statement:
        """The statement with what is quoted before it is put into a setting: no quote in it ends the string there."""
        if not statement.settings:
            return statement
        return statement._replace(
            settings=tuple(
                changed._replace(value=changed.value._replace(kind=TermKind.OTHER))
                if changed.value.kind is TermKind.HOLE and _is_quoted(self.text[slice(*changed.value.span)])
                else changed
                for changed in statement.settings
            )
        )


def _is_quoted(put_in: str) -> bool:
    """Whether what stands where a value is put in quotes it: a format of format(), or a function."""
    return put_in.endswith(("I", "L")) or "quote_literal" in put_in or "quote_nullable" in put_in


def _after(tokens: Tokens, begins: Callable[[Token], bool]) -> Tokens:
    """What follows the first such token; nothing where there is none."""
    return next((tokens[at + 1 :] for at, token in enumerate(tokens) if begins(token)), ())


def _assigned(tokens: Tokens) -> Tokens | None:
    """The value of `target := value`, where target is a variable, a field or an element; None for anything else."""
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.is_operator(":=", "="):
            return tokens[at + 1 :] if at else None
        if token.is_mark("["):
            at = close_of(tokens, at)
        elif not (token.is_name or token.is_mark(".") or token.lex is Lex.PARAMETER) or (
            at and not token.is_mark(".") and not tokens[at - 1].is_mark(".")
        ):
            return None
        at += 1
    return None


def _without_targets(tokens: Tokens) -> Tokens:
    """The statement without INTO [STRICT] variable, …, which is PL/pgSQL's and not SQL's."""
    at = depth = 0
    for at, token in enumerate(tokens):
        depth += (token.is_mark("(") or token.is_mark("[")) - (token.is_mark(")") or token.is_mark("]"))
        if depth == 0 and token.is_word("into") and at and not tokens[at - 1].is_word("insert", "merge"):
            break
    else:
        return tokens
    end = at + 1
    if end < len(tokens) and tokens[end].is_word("strict"):
        end += 1
    while end < len(tokens):
        end += 1  # a name
        while end < len(tokens) and tokens[end].is_mark("["):
            end = close_of(tokens, end) + 1
        if end < len(tokens) and (tokens[end].is_mark(",") or tokens[end].is_mark(".")):
            end += 1
        else:
            break
    return [*tokens[:at], *tokens[end:]]
