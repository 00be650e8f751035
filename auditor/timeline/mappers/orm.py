"""Calls of an object-relational mapper as the SQL they stand for.

Nothing here knows a library: there are expressions, statements that grow call by call, and changes of objects that wait
to be flushed. All of them come to the text of a statement, which is then read and run as any other. What is only known
at run time stands in the text as a hole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.program.catalogue import UNNAMED
from auditor.program.origins import Origin
from auditor.sql.meaning import hole
from auditor.sql.words import is_attempts, words
from auditor.timeline.computing.texts import join_texts, text_of
from auditor.timeline.model.values import (
    Bound,
    Built,
    Change,
    Clause,
    Either,
    Field,
    Items,
    Literal,
    Quoted,
    Text,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from auditor.python import nodes

#: Operators of Python as those of SQL.
_OPERATORS = {"==": "=", "!=": "<>", "&": "AND", "|": "OR", "//": "/", "is": "IS", "is not": "IS NOT"}
_SAME = frozenset({"<", "<=", ">", ">=", "+", "-", "*", "/", "%"})


#: What a repository calls the class that it is of: `self.model`, `self._model_class`.
_OPEN_MODELS = frozenset({("model",), ("model", "class"), ("model", "cls"), ("orm", "model"), ("entity", "class")})


def open_table(value: Value) -> str:
    """The table of a model that is only known at run time, by what the program calls it; empty of anything else."""
    if not isinstance(value, Bound) or words(value.name) not in _OPEN_MODELS:
        return ""
    return UNNAMED + value.name.lstrip("_").lower()


def column_of_open(value: Value) -> Value:
    """`self.model.status` as the column that it is where it stands in SQL; any other value is itself."""
    table = open_table(value.receiver) if isinstance(value, Bound) else ""
    return Clause(Text(value.name), table=table) if table and isinstance(value, Bound) else value


def expression(value: Value) -> Text:
    """A value as it stands in a statement: an expression is itself, a constant is written out, the rest is a hole."""
    value = column_of_open(value)
    if isinstance(value, Clause):
        return value.text
    if isinstance(value, Built):
        return join_texts([Text("("), statement(value), Text(")")])
    if isinstance(value, Items) and not value.open:
        return join_texts([Text("("), *_separated([expression(item) for item in value.items], ", "), Text(")")])
    if isinstance(value, (Text, Literal)):
        return text_of(Quoted(value, identifier=False))
    return Text(hole(0), (Quoted(value, identifier=False),))


def clause(*pieces: str | Text) -> Clause:
    """An expression put together from pieces."""
    return Clause(join_texts([Text(piece) if isinstance(piece, str) else piece for piece in pieces]))


def ways(arguments: tuple[Value, ...]) -> list[tuple[Value, ...]]:
    """The arguments, once for each statement or expression that one of them may be: a query that some path grows."""
    for index, value in enumerate(arguments):
        if isinstance(value, Either) and any(isinstance(option, (Built, Clause)) for option in value.options):
            return [(*arguments[:index], option, *arguments[index + 1 :]) for option in value.options]
    return [arguments]


def operate(operator: str, left: Value, right: Value) -> Clause | None:
    """`left operator right` where one of them is an expression; None where neither is, or it is no operator of SQL."""
    left, right = column_of_open(left), column_of_open(right)
    known = _OPERATORS.get(operator) or (operator if operator in _SAME else None)
    fields = isinstance(left, Field) and operator in ("+", "-") and isinstance(right, (Literal, Clause))
    if known is None or not (fields or isinstance(left, (Clause, Built)) or isinstance(right, (Clause, Built))):
        return None
    one = Text(left.column) if isinstance(left, Field) else expression(left)
    other = expression(right)
    if known in ("=", "<>") and other.value == "NULL":
        known = "IS" if known == "=" else "IS NOT"
    if known in ("AND", "OR"):
        return clause("(", one, f" {known} ", other, ")")
    return clause(one, f" {known} ", other)


#: Methods of an expression that stand for an operator with one operand.
_COMPARES = {
    "in_": " IN ",
    "not_in": " NOT IN ",
    "notin_": " NOT IN ",
    "is_": " IS ",
    "is_not": " IS NOT ",
    "isnot": " IS NOT ",
    "like": " LIKE ",
    "ilike": " ILIKE ",
    "is_distinct_from": " IS DISTINCT FROM ",
}
_SUFFIXES = {"asc": "", "desc": " DESC", "nullsfirst": " NULLS FIRST", "nulls_first": " NULLS FIRST"}
_SAME_METHODS = frozenset({"label", "cast", "collate", "self_group", "scalar_subquery", "nullslast", "nulls_last"})


def receiver_of(receiver: Value, name: str) -> Value:
    """What a method is called on: a column of a model that is not known, where columns have such a method."""
    known = name in _COMPARES or name in _SUFFIXES or name in _SAME_METHODS or name == "between"
    return column_of_open(receiver) if known else receiver


def method(receiver: Clause, name: str, arguments: tuple[Value, ...]) -> Value | None:
    """A method of an expression; None of any that stands for nothing in SQL."""
    if name in _COMPARES and arguments:
        operand = expression(arguments[0])
        if name in ("in_", "not_in", "notin_") and not operand.value.startswith("("):
            operand = join_texts([Text("("), operand, Text(")")])
        return clause(receiver.text, _COMPARES[name], operand)
    if name in _SUFFIXES:
        return clause(receiver.text, _SUFFIXES[name])
    if name == "between" and len(arguments) > 1:
        return clause(receiver.text, " BETWEEN ", expression(arguments[0]), " AND ", expression(arguments[1]))
    return receiver if name in _SAME_METHODS else None


def call(name: str, arguments: tuple[Value, ...], path: str, span: nodes.Span) -> Clause:
    """A function of SQL, called with these arguments at that place."""
    head = f"{name}("
    written = Text(head, (), (Origin(0, len(head), path, span, -1, 0),))
    return clause(written, *_separated([expression(value) for value in arguments], ", "), ")")


def joined(word: str, arguments: tuple[Value, ...]) -> Clause:
    """`and_(…)` and `or_(…)`."""
    return clause("(", *_separated([expression(value) for value in arguments], f" {word} "), ")")


def case(whens: tuple[Value, ...], otherwise: Value) -> Clause | None:
    """`case((condition, value), …, else_=value)`, and the same in a list as it was once written."""
    if len(whens) == 1 and isinstance(whens[0], Items) and all(isinstance(one, Items) for one in whens[0].items):
        whens = whens[0].items
    pairs = [one.items for one in whens if isinstance(one, Items) and len(one.items) == 2 and not one.open]
    if not pairs or len(pairs) < len(whens):
        return None
    written = [piece for test, value in pairs for piece in (" WHEN ", expression(test), " THEN ", expression(value))]
    return clause("CASE", *written, " ELSE ", expression(otherwise), " END")


def _separated(texts: Iterable[Text], by: str) -> list[Text]:
    pieces: list[Text] = []
    for text in texts:
        pieces.extend([Text(by), text] if pieces else [text])
    return pieces


def statement(query: Built) -> Text:
    """The text of a statement."""
    pieces: list[Text]
    table = Text(query.table)
    if query.kind == "insert":
        names = ", ".join(name for name, _ in query.assigned)
        values = _separated([value for _, value in query.assigned], ", ")
        pieces = [Text("INSERT INTO "), table]
        pieces += [Text(f" ({names}) VALUES ("), *values, Text(")")] if values else [Text(" DEFAULT VALUES")]
    elif query.kind == "update":
        sets = [join_texts([Text(f"{name} = "), value]) for name, value in query.assigned]
        pieces = [Text("UPDATE "), table, Text(" SET "), *_separated(sets, ", ")]
    elif query.kind == "delete":
        pieces = [Text("DELETE FROM "), table]
    else:
        pieces = [Text("SELECT "), *(_separated(query.columns, ", ") or [Text("*")])]
        pieces += [Text(" FROM "), table] if query.table else []
    if query.where:
        pieces += [Text(" WHERE "), *_separated(query.where, " AND ")]
    if query.order:
        pieces += [Text(" ORDER BY "), *_separated(query.order, ", ")]
    if query.limit is not None:
        pieces += [Text(" LIMIT "), query.limit]
    pieces += [Text(f" {query.lock}")] if query.lock else []
    pieces += [Text(" RETURNING *")] if query.returning else []
    return join_texts(pieces)


def sent(value: Value) -> Value:
    """What is sent for a statement that calls have put together; anything else is itself."""
    if isinstance(value, Built):
        return statement(value)
    if isinstance(value, Clause):
        return value.text if value.whole else clause("SELECT ", value.text).text
    return value


def filtered(query: Built, conditions: Iterable[Value]) -> Built:
    """With more conditions; one that is not known is some condition."""
    return replace(query, where=(*query.where, *(expression(value) for value in conditions)))


def setting(query: Built, values: Iterable[tuple[str, Value]]) -> Built:
    """With more columns assigned."""
    return replace(query, assigned=(*query.assigned, *((name, expression(value)) for name, value in values)))


def locking(query: Built, skip: bool, refuse: bool = False, share: bool = False, key: bool = False) -> Built:
    """With the rows that it reads locked."""
    strength = "FOR KEY SHARE" if key and share else "FOR NO KEY UPDATE" if key else "FOR UPDATE"
    strength = "FOR SHARE" if share and not key else strength
    return replace(query, lock=strength + (" SKIP LOCKED" if skip else " NOWAIT" if refuse else ""))


def written_back(change: Change) -> Built:
    """The statement that writes a change back."""
    where = () if change.kind == "insert" else (clause("id = ", Text(hole(0), (Quoted(change.which, False),))).text,)
    return Built(change.kind, change.table, where=where, assigned=change.assigned)


def with_change(waiting: tuple[Change, ...], change: Change) -> tuple[Change, ...]:
    """What waits to be written back, with one more: changes of one object are written together."""
    for index, known in enumerate(waiting):
        same = (known.table, known.which) == (change.table, change.which)
        if same and known.kind != "delete" and change.kind == "update":
            names = {name for name, _ in change.assigned}
            kept = tuple(pair for pair in known.assigned if pair[0] not in names)
            grown = replace(known, assigned=(*kept, *change.assigned), late=known.late or change.late)
            if any(is_attempts(name) for name in names):
                # Of all that is written together, a count is what most is asked about.
                grown = replace(grown, path=change.path, span=change.span)
            return (*waiting[:index], grown, *waiting[index + 1 :])
    return (*waiting, change)
