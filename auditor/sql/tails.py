"""The end of a query that was put together from parts: whether a part that is not known may be its row lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql.tokens import Lex, is_bare_hole, word_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from auditor.sql.tokens import Token

#: What a value or a name comes behind, and no clause.
_EXPECTING = word_set("by limit offset fetch first next and or not where from join on set in is like between as select")


def ends_openly(tokens: Sequence[Token]) -> bool:
    """Whether the query that begins these tokens ends with a hole that is a clause of its own: a lock, perhaps."""
    depth, ordered, found = 0, False, False
    for before, token in zip((None, *tokens), tokens, strict=False):
        if token.is_mark("("):
            depth += 1
        elif token.is_mark(")"):
            depth -= 1
            if depth < 0:
                break  # the end of the subquery
        elif depth:
            continue
        elif token.is_word("order", "limit"):
            found = found and ordered  # what stands before the first of them is a part of the conditions
            ordered = True
        elif is_bare_hole(token) and before is not None and _ends_operand(before):
            found = True
    return found


def _ends_operand(token: Token) -> bool:
    if token.lex is Lex.WORD:
        return token.value not in _EXPECTING
    return (
        token.lex is not Lex.OPERATOR and not token.is_mark(",") and not token.is_mark("(") and not token.is_mark(".")
    )
