"""What PostgreSQL's own functions make of values of which little is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.sql import logic
from auditor.sql.logic import ANY, NULL, SOME, UNKNOWN, Atom, Value

if TYPE_CHECKING:
    from collections.abc import Callable


def concatenated(*atoms: Atom) -> Value:
    if all(atom.kind == "text" for atom in atoms):
        return logic.text("".join(atom.text for atom in atoms))
    return SOME


def is_empty(atom: Atom) -> bool:
    return atom.kind == "array" and not atom.items


def _textual(change: Callable[[str], str]) -> Callable[..., Value]:
    """A function of text: known where its first argument is, and nothing is left of ''."""

    def made(*atoms: Atom) -> Value:
        known = atoms and atoms[0].kind == "text"
        return logic.text(change(atoms[0].text)) if known and (len(atoms) == 1 or not atoms[0].text) else SOME

    return made


def _split(atom: Atom, *others: Atom) -> Value:
    """string_to_array: of '' an empty array."""
    if atom.kind != "text":
        return ANY
    separator = others[0].text if others and others[0].kind == "text" else ""
    return logic.array(atom.text.split(separator) if atom.text and separator else ([atom.text] if atom.text else []))


def _split_by_pattern(atom: Atom, *_: Atom) -> Value:
    """regexp_split_to_array: of '' an array that holds ''."""
    return logic.array([""]) if atom == Atom("text", "") else ANY


def _length(atom: Atom, *_: Atom) -> Value:
    return logic.text(str(len(atom.text))) if atom.kind == "text" else ANY


def _array_length(atom: Atom, *_: Atom) -> Value:
    if atom.kind != "array":
        return UNKNOWN
    return logic.text(str(len(atom.items))) if atom.items else NULL


#: By name; each is given atoms that are neither NULL nor errors.
FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{name: _textual(str.strip) for name in ("trim", "btrim", "ltrim", "rtrim")},
    **{
        name: _textual(lambda text: text)
        for name in ("left", "right", "substr", "substring", "split_part", "replace", "translate", "regexp_replace")
    },
    "lower": _textual(str.lower),
    "upper": _textual(str.upper),
    "length": _length,
    "char_length": _length,
    "cardinality": lambda atom: logic.text(str(len(atom.items))) if atom.kind == "array" else ANY,
    "array_length": _array_length,
    "string_to_array": _split,
    "regexp_split_to_array": _split_by_pattern,
    "array_remove": lambda atom, gone: (
        logic.array(item for item in atom.items if item != gone.text) if atom.kind == "array" else ANY
    ),
}
