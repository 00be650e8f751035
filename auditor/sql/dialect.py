"""A sqlglot dialect of our own: PostgreSQL's queries and expressions as the audit wants to see them.

What differs from sqlglot's Postgres:

- Tokens are ours (`auditor.sql.translate`), so offsets count in the text as given, and placeholders and holes are names
  to the parser: they may stand wherever a value or a name may. A hole where neither can stand is a clause, left out.
- Functions keep the names they are written with. sqlglot translates them into what other databases call them.
- Operators that PostgreSQL has and the standard has not all bind as PostgreSQL binds them.
- Nodes know where they stand in the text: `span_of`.

Commands, policies, roles and the heads of tables and functions are not here: they are a few keywords in a fixed order,
for which sqlglot has no tree, and reading them from tokens spares the 110 ms of its import.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError

from auditor.sql.extensible import postgres_parser
from auditor.sql.meaning import Lock, Span
from auditor.sql.translate import as_clause, as_it_stands, translate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from auditor.sql.tokens import Token

# What sqlglot cannot read we read ourselves; its opinion of that is not for our users.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

#: What the parser is asked for whose place in the text somebody wants to know.
_SPANNED = (
    "_parse_select",
    "_parse_statement",
    "_parse_table",
    "_parse_primary",
    "_parse_function",
    "_parse_types",
    "_parse_unary",
    "_parse_bitwise",
    "_parse_range",
    "_parse_disjunction",
)


def _spanned(parse: Callable[..., Any]) -> Callable[..., Any]:
    """The same parser method; what it makes remembers from which token to which it was made."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        first = self._curr
        node = parse(self, *args, **kwargs)
        if isinstance(node, exp.Expression) and first and self._prev:
            node.meta.setdefault("span", (first.start, self._prev.end + 1))
        return node

    return method


_PostgresParser: Any = postgres_parser()

#: Row locks by their words, with the strength they stand for; the longer ones first.
_STRENGTHS = (
    (("FOR", "NO", "KEY", "UPDATE"), "no key update"),
    (("FOR", "KEY", "SHARE"), "key share"),
    (("FOR", "UPDATE"), "update"),
    (("FOR", "SHARE"), "share"),
)


class Worker(Postgres):
    """PostgreSQL as workers write it."""

    INDEX_OFFSET = 0  # subscripts stay as written

    class Parser(_PostgresParser):  # type: ignore[misc]
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        #: Only those whose arguments are more than a list.
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parse
            for name, parse in _PostgresParser.FUNCTION_PARSERS.items()
            if name in {"CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "TRIM", "XMLELEMENT", "XMLTABLE"}
        }
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parse
            for name, parse in _PostgresParser.NO_PAREN_FUNCTION_PARSERS.items()
            if name in {"ANY", "CASE", "VARIADIC"}
        }

        def _parse_locks(self) -> list[Any]:
            """All locks that PostgreSQL has; `lock_of` tells them apart."""
            locks: list[Any] = []
            while (strength := self._take_strength()) is not None:
                start, name = strength
                if self._match_text_seq("OF"):
                    self._parse_csv(self._parse_table_parts)
                nowait = bool(self._match_text_seq("NOWAIT"))
                skips = not nowait and bool(self._match_text_seq("SKIP", "LOCKED"))
                lock = exp.Lock(update=True)
                lock.meta["lock"] = Lock(name, skips, nowait, Span(start, self._prev.end + 1))
                locks.append(lock)
            return locks

        def _take_strength(self) -> tuple[int, str] | None:
            start = self._curr.start if self._curr else 0
            return next(((start, name) for words, name in _STRENGTHS if self._match_text_seq(*words)), None)


for _name in _SPANNED:
    setattr(Worker.Parser, _name, _spanned(getattr(_PostgresParser, _name)))


def parse_query(tokens: Sequence[Token], text: str) -> exp.Expression | None:
    """The tree of one SELECT, VALUES, INSERT, UPDATE, DELETE or MERGE; None where it will not parse."""
    return _parse(tokens, text, "_parse_statement")


def parse_expression(tokens: Sequence[Token], text: str) -> exp.Expression | None:
    """The tree of one expression; None where it will not parse."""
    return _parse(tokens, text, "_parse_disjunction")


def _parse(tokens: Sequence[Token], text: str, method: str) -> exp.Expression | None:
    parser: Any = Worker.Parser(dialect=Worker())
    tried: list[int] = []
    for read_hole in (as_it_stands, as_clause):
        translated = list(translate(tokens, text, read_hole))
        places = [token.start for token in translated]
        if places == tried:
            break
        tried = places
        try:
            trees = parser._parse(getattr(Worker.Parser, method), translated, text)  # noqa: SLF001
        except RecursionError:
            return None
        # sqlglot's builders trip over what they do not expect with any of Python's errors.
        except (ParseError, TypeError, ValueError, AttributeError, LookupError, AssertionError):
            continue
        if len(trees) == 1 and isinstance(trees[0], exp.Expression) and not isinstance(trees[0], exp.Command):
            return trees[0]
    return None


def lock_of(node: exp.Expression) -> Lock:
    """The row lock that a node stands for."""
    lock: Lock = node.meta["lock"]
    return lock


def span_of(node: Any) -> Span:
    """Where a node stands: as remembered while parsing, or from its first to its last part."""
    known = node.meta.get("span")
    if known:
        return Span(*known)
    start, end = -1, 0
    for part in node.walk():
        meta = part.meta
        stretch = meta.get("span") or ((meta["start"], meta["end"] + 1) if "start" in meta else None)
        if stretch:
            start = stretch[0] if start < 0 else min(start, stretch[0])
            end = max(end, stretch[1])
    return Span(max(start, 0), end)
