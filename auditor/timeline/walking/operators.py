"""What operators make of values: truth, comparison, arithmetic on texts and collections, subscripts."""

from __future__ import annotations

from dataclasses import replace

from auditor.timeline.computing import files
from auditor.timeline.computing.strings import format_percent
from auditor.timeline.computing.texts import join_texts, text_of
from auditor.timeline.mappers.expressions import OPERATED, is_expression
from auditor.timeline.model import values
from auditor.timeline.model.values import (
    NONE,
    UNKNOWN,
    Class,
    Either,
    External,
    Function,
    Instance,
    Items,
    Literal,
    Mapping,
    Pending,
    Pool,
    Row,
    Text,
    Unknown,
    Value,
    either,
    from_row,
    options_of,
)


def truth_of(value: Value) -> bool | None:
    """Whether a value is true in a condition, or None when it can be either."""
    if isinstance(value, Literal):
        return bool(value.value)
    if isinstance(value, Text):
        return (
            None if value.holes and value.value.strip() == value.value and len(value.value) < 4 else bool(value.value)
        )
    if isinstance(value, (Items, Mapping)):
        length = len(value.items) if isinstance(value, Items) else len(value.pairs)
        return True if length else (None if value.open else False)
    if isinstance(value, Instance) and value.claim:
        return None
    if isinstance(value, _TRUE):
        return True
    if isinstance(value, External) and value.name.startswith("builtins."):
        return True
    if isinstance(value, Either):
        answers = {truth_of(option) for option in value.options}
        return answers.pop() if len(answers) == 1 else None
    return None


def compare(operator: str, left: Value, right: Value) -> bool | None:
    """The outcome of a comparison of two values, or None when it is not known."""
    if operator in ("is", "==", "is not", "!="):
        same = _same(left, right)
        return None if same is None else same is (operator in ("is", "=="))
    if operator in ("in", "not in") and isinstance(right, (Items, Mapping)) and not right.open:
        inside = [
            _same(left, item) for item in (right.items if isinstance(right, Items) else [k for k, _ in right.pairs])
        ]
        if True in inside:
            return operator == "in"
        return None if None in inside else operator == "not in"
    if isinstance(left, Literal) and isinstance(right, Literal):
        return _ordered(operator, left.value, right.value)
    return None


def _ordered(operator: str, left: object, right: object) -> bool | None:
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return None
    answers = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
    return answers.get(operator)


#: Values that are true in any condition.
_TRUE = (Function, Class, Instance, Pool, values.Connection, values.Cursor, Pending, values.Module, values.Raised)
#: Values that are something, so never None, and never equal to a plain literal.
_SOMETHING = (*_TRUE, Text, Items, Mapping, External)


def _same(left: Value, right: Value) -> bool | None:
    if isinstance(left, Either) or isinstance(right, Either):
        answers = {_same(one, other) for one in options_of(left) for other in options_of(right)}
        return answers.pop() if len(answers) == 1 else None
    if isinstance(left, Literal) and isinstance(right, Literal):
        return left.value == right.value
    if isinstance(left, Text) and isinstance(right, Text) and not left.holes and not right.holes:
        return left.value == right.value
    if isinstance(left, External) and isinstance(right, External):
        # Members of one enumeration are told apart by name: TransactionStatus.IDLE and TransactionStatus.INTRANS.
        one, other = left.name.split("."), right.name.split(".")
        return one[-1] == other[-1] if one[-2:-1] == other[-2:-1] else None
    if any(isinstance(one, Instance) and one.claim for one in (left, right)):
        return None
    if (isinstance(left, _SOMETHING) and right == NONE) or (isinstance(right, _SOMETHING) and left == NONE):
        return False
    if isinstance(left, (Class, Instance, Function)) and left == right:
        return True
    return None


def operate(operator: str, left: Value, right: Value) -> Value:
    if isinstance(left, Text):
        if operator == "+":
            return join_texts([left, text_of(right)])
        if operator == "%":
            return format_percent(left, right)
        if operator == "*" and isinstance(right, Literal) and isinstance(right.value, int) and right.value <= 64:
            return join_texts([left] * max(right.value, 0))
    if isinstance(right, Text) and operator == "+" and isinstance(left, (Unknown, values.Made)):
        return join_texts([text_of(left), right])
    if operator == "/" and (joined := files.divided(left, right)) is not None:
        return joined
    if isinstance(left, Items) and isinstance(right, Items) and operator == "+":
        return Items(left.kind, (*left.items, *right.items), left.open or right.open)
    if isinstance(left, Mapping) and isinstance(right, Mapping) and operator == "|":
        return Mapping((*left.pairs, *right.pairs), left.open or right.open)
    if isinstance(left, Literal) and isinstance(right, Literal) and operator in ("+", "-"):
        one, other = left.value, right.value
        if isinstance(one, int) and isinstance(other, int):
            return Literal(one + other if operator == "+" else one - other)
    return _reckoned(operator, left, right)


def _reckoned(operator: str, left: Value, right: Value) -> Value:
    """What is only known at run time, or what an ORM makes of it."""
    row = from_row(left) or from_row(right)
    if is_expression(left) or is_expression(right):
        return values.Made(OPERATED, (Text(operator), left, right), row=row)
    return Unknown(row=row)


def subscript(value: Value, key: Value) -> Value:
    """`value[key]`; an unknown key of a known collection gives any of its values."""
    if isinstance(value, Items):
        if isinstance(key, Literal) and isinstance(key.value, int) and not value.open:
            index = key.value
            return value.items[index] if -len(value.items) <= index < len(value.items) else UNKNOWN
        if isinstance(key, Literal) and isinstance(key.value, int) and 0 <= key.value < len(value.items):
            return value.items[key.value]
        return either(list(value.items)) if value.items else UNKNOWN
    if isinstance(value, Mapping):
        known = value.get(key)
        if known is not None:
            return known
        if not isinstance(key, (Text, Literal)) or (isinstance(key, Text) and key.holes):
            return either([item for _, item in value.pairs]) if value.pairs else UNKNOWN
        return UNKNOWN
    if isinstance(value, External):
        return External(value.name)  # Annotated[...], list[int]: the class itself
    if isinstance(value, Row) and value.many:
        return value.item or replace(value, many=False)
    return Unknown(row=from_row(value), setting=value.setting if isinstance(value, Unknown) else "")
