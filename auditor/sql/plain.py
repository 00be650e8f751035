"""Queries so plain that their tokens tell all: one table, columns and values, conditions that AND joins.

This is a grammar that only says yes or no, small enough to be sure of: what it takes, `salvage` reads as sqlglot would.
The tests hold the two against each other. It spares most small files the import of sqlglot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.tokens import Lex, Token, is_bare_hole, word_set

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Words that are no name of a column, a table or a plain function: PostgreSQL's reserved words, and its words that open
#: syntax of their own (`cast(x AS y)`, `extract(year FROM x)`).
_NO_NAMES = word_set(
    """
    all analyse analyze and any array as asc asymmetric authorization between binary both case cast check collate
    collation column concurrently constraint create cross current_catalog current_date current_role current_schema
    current_time current_timestamp current_user default deferrable desc distinct do else end except exists extract false
    fetch filter for foreign freeze from full grant group grouping having ilike in initially inner intersect interval
    into is isnull join json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar
    json_serialize json_table json_value lateral leading left like limit localtime localtimestamp merge_action natural
    normalize not notnull null nullif offset on only or order outer over overlaps overlay placing position primary
    references returning right row select session_user set setof similar some substring symmetric system_user table
    tablesample then to trailing treat trim true union unique update user using values variadic verbose when where
    window with within xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot
    xmlserialize xmltable
    """
)
_CONSTANTS = ("true", "false", "null")
_CLOCKS = ("current_timestamp", "current_date", "current_time", "localtimestamp", "localtime")
_COMPARES = ("=", "<>", "!=", "<", "<=", ">", ">=")
#: Types of one word whose names sqlglot and a reading from tokens agree on.
_TYPES = word_set("text uuid int integer bigint smallint jsonb json boolean bool date timestamptz timestamp numeric")
_END = Token(Lex.MARK, "", 0, 0)


def is_plain(tokens: Sequence[Token]) -> bool:
    """Whether no other grammar is needed for this query."""
    first = tokens[0].value
    return tokens[0].lex is Lex.WORD and first in _VERBS and _VERBS[first](_Reader(tokens))


class _Reader:
    """A place in the tokens. Each method goes on over what it takes, and says whether that was there."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    def peek(self, ahead: int = 0) -> Token:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else _END

    def word(self, *words: str) -> bool:
        for ahead, word in enumerate(words):
            if not self.peek(ahead).is_word(word):
                return False
        self.at += len(words)
        return True

    def mark(self, mark: str) -> bool:
        found = self.peek().is_mark(mark)
        self.at += found
        return found

    def name(self) -> bool:
        token = self.peek()
        found = token.lex is Lex.NAME or (
            token.lex is Lex.WORD and token.value not in _NO_NAMES and not is_bare_hole(token)
        )
        self.at += found
        return found

    def list_of(self, item: Callable[[], bool]) -> bool:
        """One or more, with commas between."""
        while item():
            if not self.mark(","):
                return True
        return False

    def ends(self) -> bool:
        return self.at == len(self.tokens)

    # Values

    def value(self) -> bool:
        """An operand, or one that a constant is added to or taken from: so a count and a clock are moved."""
        if not self.operand():
            return False
        if self.peek().is_operator("+", "-"):
            self.at += 1
            return self.constant() and not self.peek().is_operator("::")
        return True

    def operand(self) -> bool:
        if not (self.constant() or self.named()):
            return False
        if self.peek().is_operator("::"):
            self.at += 2
            return self.peek(-1).is_word(*_TYPES)
        return True

    def constant(self) -> bool:
        token = self.peek()
        if token.lex in (Lex.PARAMETER, Lex.STRING, Lex.NUMBER) or token.is_word(*_CONSTANTS, *_CLOCKS):
            self.at += 1
        elif token.is_word("interval") and self.peek(1).lex is Lex.STRING:
            self.at += 2
        else:
            return False
        return True

    def named(self) -> bool:
        """A column, or a call."""
        if not self.name() or (self.mark(".") and not self.name()):
            return False
        if not self.mark("("):
            return True
        if self.mark(")"):
            return True
        if self.peek().is_operator("*"):
            self.at += 1
            return self.mark(")")
        return self.list_of(self.value) and self.mark(")")

    def shown(self) -> bool:
        """What is selected or returned."""
        if self.peek().is_operator("*"):
            self.at += 1
            return True
        return self.value() and (not self.word("as") or self.name())

    def column(self) -> bool:
        return self.name() and (not self.mark(".") or self.name())

    # Clauses

    def table(self) -> bool:
        if not (self.name() and (not self.mark(".") or self.name())):
            return False
        return self.name() if self.word("as") else True

    def aliased(self) -> bool:
        return self.table() and (self.name() or True)

    def condition(self) -> bool:
        while self.comparison():
            if not self.word("and"):
                return True
        return False

    def comparison(self) -> bool:
        if not self.value():
            return False
        if self.word("is"):
            return (self.word("not") or True) and self.word("null")
        if not self.peek().is_operator(*_COMPARES):
            return False
        self.at += 1
        return self.value()

    def where(self) -> bool:
        return not self.word("where") or self.condition()

    def returns(self) -> bool:
        return not self.word("returning") or self.list_of(self.shown)

    def ordering(self) -> bool:
        return self.column() and (self.word("asc") or self.word("desc") or True)

    def bounds(self) -> bool:
        """ORDER BY and LIMIT."""
        if self.word("order", "by") and not self.list_of(self.ordering):
            return False
        if not self.word("limit"):
            return True
        self.at += 1
        return self.peek(-1).lex in (Lex.PARAMETER, Lex.NUMBER)

    # Statements

    def select(self) -> bool:
        self.at += 1
        if not self.list_of(self.shown):
            return False
        if self.word("from") and not (self.aliased() and self.where() and self.bounds()):
            return False
        return self.ends()

    def insert(self) -> bool:
        self.at += 1
        if not (self.word("into") and self.table()):
            return False
        if self.mark("(") and not (self.list_of(self.name) and self.mark(")")):
            return False
        return self.word("values") and self.list_of(self.row) and self.returns() and self.ends()

    def row(self) -> bool:
        return self.mark("(") and self.list_of(self.filled) and self.mark(")")

    def filled(self) -> bool:
        return self.word("default") or self.value()

    def update(self) -> bool:
        self.at += 1
        return (
            self.aliased()
            and self.word("set")
            and self.list_of(self.assignment)
            and self.where()
            and self.returns()
            and self.ends()
        )

    def assignment(self) -> bool:
        if not self.name() or not self.peek().is_operator("="):
            return False
        self.at += 1
        return self.filled()

    def delete(self) -> bool:
        self.at += 1
        return self.word("from") and self.aliased() and self.where() and self.returns() and self.ends()


_VERBS: dict[str, Callable[[_Reader], bool]] = {
    "select": _Reader.select,
    "insert": _Reader.insert,
    "update": _Reader.update,
    "delete": _Reader.delete,
}
