"""Calls found in tokens alone: where no tree is wanted, or none can be made."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.sql.everyday import EVERYDAY
from auditor.sql.meaning import Call, SettingChange, SettingRead, Span
from auditor.sql.terms import sets_one, setting_change, setting_read, term_of
from auditor.sql.tokens import Lex, close_of, split_at, word_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from auditor.sql.tokens import Token

#: Words that may stand before a bracket without calling anything.
_NO_CALLS = word_set(
    """
    all and any array as between by case check conflict default distinct do else end except exists filter from group
    having if in inner insert intersect into is join key lateral left like limit not offset on only or order outer over
    partition primary references return returning returns right row select set sets some table then unique union update
    using values when where with within
    """
)
#: Words after which a name and a bracket are a table and its columns.
_NAMES_TABLE = ("into", "as", "table", "update", "references", "only", "copy", "with", "recursive")


class Called(NamedTuple):
    settings: tuple[SettingChange, ...]
    reads: tuple[SettingRead, ...]
    calls: tuple[Call, ...]


def calls_in(tokens: Sequence[Token]) -> Called:
    """What a stretch of tokens calls."""
    settings, reads, calls = [], [], []
    for at, token in enumerate(tokens[:-1]):
        if not token.is_name or not tokens[at + 1].is_mark("("):
            continue
        begin, schema = at, ""
        while begin > 1 and tokens[begin - 1].is_mark(".") and tokens[begin - 2].is_name:
            begin -= 2
            schema = schema or tokens[begin].value
        if (token.lex is Lex.WORD and token.value in _NO_CALLS) or (begin and tokens[begin - 1].is_word(*_NAMES_TABLE)):
            continue
        close = close_of(tokens, at + 1)
        end = tokens[min(close, len(tokens) - 1)].end
        arguments = tuple(term_of(part) for part in split_at(tokens[at + 2 : close], ","))
        span = Span(tokens[begin].start, end)
        plain = schema in ("", "pg_catalog")
        if plain and token.value == "set_config" and sets_one(arguments):
            settings.append(setting_change(arguments, span))
        elif plain and token.value == "current_setting":
            reads.append(setting_read(arguments, span))
        elif not plain or token.value not in EVERYDAY:
            calls.append(Call(token.value, schema, arguments, span))
    return Called(tuple(settings), tuple(reads), tuple(calls))
