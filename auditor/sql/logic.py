"""SQL's logic over what little is known: values as sets of possibilities, and what operators make of them.

A possibility is one atom. `RAISE` is an error for certain; `MAY_HIDE` and `MAY_SHOW` are what is left when AND or OR
has one side that decides and another that raises: PostgreSQL promises no order, so the error may or may not come.
"""

from __future__ import annotations

import itertools
import json
import re
import uuid
from typing import TYPE_CHECKING, NamedTuple

from auditor.sql.tokens import word_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Atom(NamedTuple):
    """One possible value. `text` is set for values that are known; `items` for arrays."""

    kind: str
    text: str = ""
    items: tuple[str, ...] = ()


Value = frozenset[Atom]

TRUE_ = Atom("true")
FALSE_ = Atom("false")
NULL_ = Atom("null")
RAISE_ = Atom("raise")
MAY_HIDE_ = Atom("may hide")
MAY_SHOW_ = Atom("may show")
#: Something that is not NULL and not the empty string, such as a column of a row that has a tenant.
SOME_ = Atom("some")

#: Something that is not NULL, and may be the empty string.
ANY_ = Atom("any")

TRUE: Value = frozenset((TRUE_,))
FALSE: Value = frozenset((FALSE_,))
NULL: Value = frozenset((NULL_,))
RAISE: Value = frozenset((RAISE_,))
SOME: Value = frozenset((SOME_,))
EITHER: Value = frozenset((TRUE_, FALSE_))
ANY: Value = frozenset((ANY_,))
UNKNOWN: Value = frozenset((ANY_, NULL_))

_ERRORS = frozenset((RAISE_, MAY_HIDE_, MAY_SHOW_))
#: What hides a row, whatever else happens.
HIDING: Value = frozenset((FALSE_, NULL_))


def guarded(value: Value) -> Value:
    """A value behind a condition that is not known to hold: an error of it may not come."""
    return frozenset(MAY_HIDE_ if atom == RAISE_ else atom for atom in value)


def text(value: str) -> Value:
    return frozenset((Atom("text", value),))


def array(items: Iterable[str]) -> Value:
    return frozenset((Atom("array", "", tuple(items)),))


def lift(operation: Callable[..., Value], *values: Value) -> Value:
    """An operation on atoms, carried out on every combination of possibilities; an error stays an error."""
    made: set[Atom] = set()
    for atoms in itertools.product(*values):
        error = next((atom for atom in atoms if atom in _ERRORS), None)
        made |= {error} if error is not None else operation(*atoms)
    return frozenset(made)


def strict(operation: Callable[..., Value], *values: Value) -> Value:
    """Like `lift`, and NULL where any operand is NULL."""
    return lift(lambda *atoms: NULL if NULL_ in atoms else operation(*atoms), *values)


# Truth


def truth(value: Value) -> Value:
    """A value taken as a condition."""
    return lift(_truth, value)


def _truth(atom: Atom) -> Value:
    if atom in (TRUE_, FALSE_, NULL_):
        return frozenset((atom,))
    return _boolean(atom) if atom.kind == "text" else EITHER


def negated(value: Value) -> Value:
    turned = {TRUE_: FALSE_, FALSE_: TRUE_, MAY_HIDE_: MAY_SHOW_, MAY_SHOW_: MAY_HIDE_}
    return frozenset(turned.get(atom, atom) for atom in value)


def both(left: Value, right: Value) -> Value:
    """AND."""
    return _joined(left, right, decides=FALSE_, may=MAY_HIDE_, neutral=TRUE_)


def either(left: Value, right: Value) -> Value:
    """OR."""
    return _joined(left, right, decides=TRUE_, may=MAY_SHOW_, neutral=FALSE_)


def _joined(left: Value, right: Value, *, decides: Atom, may: Atom, neutral: Atom) -> Value:
    made = set()
    for one, other in itertools.product(left, right):
        pair = {one, other}
        if decides in pair:
            made.add(may if pair & _ERRORS else decides)
        elif RAISE_ in pair:
            made.add(RAISE_)
        elif pair & _ERRORS:
            made.add(next(iter(pair & _ERRORS)))
        else:
            made.add(NULL_ if NULL_ in pair else neutral)
    return frozenset(made)


# Comparison


def equal(left: Value, right: Value) -> Value:
    return strict(_equal, left, right)


def _equal(one: Atom, other: Atom) -> Value:
    kinds = {one.kind, other.kind}
    if kinds == {"text"}:
        return TRUE if _number(one.text) == _number(other.text) else FALSE
    if kinds <= {"true", "false"}:
        return TRUE if one == other else FALSE
    if kinds == {"text", "some"}:
        # A row that has a tenant has more than '' there.
        return EITHER if one.text or other.text else FALSE
    if kinds == {"array"}:
        return TRUE if one.items == other.items else FALSE
    return EITHER


def _number(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value


def ordered(left: Value, right: Value, holds: Callable[[float, float], bool]) -> Value:
    """<, <=, > and >=: decided between numbers only."""

    def compare(one: Atom, other: Atom) -> Value:
        a, b = _number(one.text), _number(other.text)
        if one.kind == other.kind == "text" and isinstance(a, float) and isinstance(b, float):
            return TRUE if holds(a, b) else FALSE
        return EITHER

    return strict(compare, left, right)


def distinct(left: Value, right: Value) -> Value:
    """IS DISTINCT FROM: NULL is a value like any other."""

    def compare(one: Atom, other: Atom) -> Value:
        if NULL_ in (one, other):
            return FALSE if one == other else TRUE
        return negated(_equal(one, other))

    return lift(compare, left, right)


def is_(value: Value, tested: Atom) -> Value:
    """IS NULL, IS TRUE, IS FALSE: never NULL themselves."""
    if tested == NULL_:
        return lift(lambda atom: TRUE if atom == NULL_ else FALSE, value)
    return lift(lambda atom: TRUE if atom == tested else FALSE, truth(value))


def in_array(value: Value, elements: Value) -> Value:
    """value = ANY(array)."""

    def contains(one: Atom, other: Atom) -> Value:
        if other == NULL_:
            return NULL
        if other.kind != "array":
            return EITHER
        found = FALSE
        for item in other.items:
            found = either(found, equal(frozenset((one,)), text(item)))
        return found if other.items else FALSE

    return lift(contains, value, elements)


# Casts

_INTEGER = re.compile(r"\s*[-+]?\d+\s*")
_BOOLEANS = {
    **dict.fromkeys(("t", "true", "on", "1", "y", "yes"), TRUE),
    **dict.fromkeys(("f", "false", "off", "0", "n", "no"), FALSE),
}
_TEXTUAL = frozenset(("text", "varchar", "character varying", "char", "character", "name", "citext", "bpchar", "bytea"))
_INTEGERS = frozenset(("int", "integer", "bigint", "smallint", "int2", "int4", "int8", "oid"))
#: Types whose input refuses '' and is not looked at otherwise.
_STRICT_TYPES = word_set(
    """
    numeric decimal real float float4 float8 money date time timestamp timestamptz timetz interval inet cidr macaddr
    point box bit varbit xid regclass regrole int4range int8range tstzrange daterange tsrange numrange ltree
    """
)


def cast(value: Value, type_name: str) -> Value:
    """What a cast makes of a value. Of a type we do not know, '' may be refused or not."""
    name = re.sub(r"\s*\([^)]*\)", "", type_name.lower()).removeprefix("pg_catalog.").replace('"', "")
    name = re.sub(r" with(?:out)? time zone$", "", name)
    if name.endswith("[]") or name.startswith("_"):
        element = name.removesuffix("[]").strip()
        return strict(lambda atom: _to_array(atom, element), value)
    return strict(lambda atom: _cast(atom, name), value)


def _cast(atom: Atom, name: str) -> Value:
    if name in _TEXTUAL:
        return text(atom.kind) if atom in (TRUE_, FALSE_) else _same(atom)
    if name in ("bool", "boolean"):
        return _boolean(atom) if atom.kind == "text" else _truth(atom)
    if atom.kind != "text":
        return _same(atom)
    if name in _INTEGERS:
        return _same(atom) if _INTEGER.fullmatch(atom.text) else RAISE
    if name == "uuid":
        return _same(atom) if _takes(uuid.UUID, atom.text.strip()) else RAISE
    if name in ("json", "jsonb"):
        return SOME if _takes(json.loads, atom.text) else RAISE
    if name in _STRICT_TYPES or name.startswith("timestamp"):
        return _same(atom) if atom.text.strip() else RAISE
    return _same(atom) if atom.text else frozenset((ANY_, RAISE_))


def _same(atom: Atom) -> Value:
    return frozenset((atom,))


def _boolean(atom: Atom) -> Value:
    return _BOOLEANS.get(atom.text.strip().lower(), RAISE)


def _takes(parse: Callable[[str], object], value: str) -> bool:
    try:
        parse(value)
    except (ValueError, RecursionError):
        return False
    return True


def _to_array(atom: Atom, element: str) -> Value:
    if atom.kind == "array":
        if any(RAISE_ in cast(text(item), element) for item in atom.items):
            return RAISE
        return _same(atom)
    if atom.kind != "text":
        return _same(atom)
    inside = atom.text.strip()
    if not (inside.startswith("{") and inside.endswith("}")):
        return RAISE
    items = [item.strip(' "') for item in inside[1:-1].split(",")] if inside[1:-1].strip() else []
    return _to_array(Atom("array", "", tuple(items)), element)
