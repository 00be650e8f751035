"""Queries so plain that their tokens tell all: calls and values selected, values inserted, no clause beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.tokens import Lex, is_bare_hole, word_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from auditor.sql.tokens import Token

#: The words that such a query is made of.
_OWN = word_set("select insert into values returning true false null default")
#: Words that ask for a grammar.
_NEEDS_GRAMMAR = word_set(
    """
    from where join on order group having union except intersect limit offset with case when then else end and or not
    in is like ilike between any all some exists array as interval cast distinct lateral window over filter for update
    set conflict do using only table fetch row rows collate at similar operator overriding select
    """
)


def is_plain(tokens: Sequence[Token]) -> bool:
    """Whether no grammar is needed for this query."""
    if not (tokens[0].is_word("select") or [token.value for token in tokens[:2]] == ["insert", "into"]):
        return False
    inserts = tokens[0].value == "insert"
    returns = next((at for at, token in enumerate(tokens) if token.is_word("returning")), len(tokens))
    if returns < len(tokens) and not inserts:
        return False
    for at in range(1, len(tokens)):
        token = tokens[at]
        if token.lex is Lex.WORD:
            if token.value in _NEEDS_GRAMMAR or is_bare_hole(token) or _follows_value(tokens, at):
                return False
        elif token.lex is Lex.OPERATOR:
            if not (token.value == "::" or (token.value == "*" and at > returns)):
                return False
        elif token.is_mark("[") or token.is_mark(":"):
            return False
    return True


def _follows_value(tokens: Sequence[Token], at: int) -> bool:
    """Whether a word stands behind a value at once: an alias without AS, or something that is not plain."""
    before = tokens[at - 1]
    if before.value in _OWN or tokens[at].value in _OWN:
        return False
    return not (before.lex is Lex.MARK and before.value in "(,.") and not before.is_operator("::")
