"""What the operations that SQL is built with make of texts: %, format, join, dedent, strip, psycopg's sql."""

from __future__ import annotations

import itertools
import re
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.program.origins import Origin
from auditor.sql.meaning import HOLE_OPEN, hole
from auditor.timeline.computing.texts import join_texts, text_of
from auditor.timeline.model.values import (
    UNKNOWN,
    Clause,
    Items,
    Literal,
    Made,
    Mapping,
    Quoted,
    Text,
    Unknown,
    Value,
    from_row,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_CONVERSIONS = "diouxXeEfFgGcrsa"
_NUMBERS = "diuoxXeEfFgG"
_WORD = re.compile(r"\S+")
#: A text of more words than this is not taken apart.
MOST_WORDS = 500


def slice_text(text: Text, start: int, end: int) -> Text:
    """Characters `start` up to `end`, with the holes and origins that lie in them."""
    value = text.value[start:end]
    if not text.holes or HOLE_OPEN not in value:
        holes: tuple[Value, ...] = ()
    else:
        # Holes are numbered in order of appearance, so those before and within the slice can be counted.
        skipped = text.value.count(HOLE_OPEN, 0, start)
        holes = text.holes[skipped : skipped + value.count(HOLE_OPEN)]
        value = _from_zero(value)
    origins = tuple(
        Origin(
            max(origin.start, start) - start,
            min(origin.end, end) - start,
            origin.path,
            origin.span,
            origin.piece,
            origin.skip + max(start - origin.start, 0),
        )
        for origin in text.origins
        if origin.start < end and origin.end > start
    )
    return Text(value, holes, origins, text.composed)


def _from_zero(value: str) -> str:
    parts = value.split(HOLE_OPEN)
    numbered = [
        hole(index) + part.partition("\ue001")[2] if "\ue001" in part else part for index, part in enumerate(parts[1:])
    ]
    return parts[0] + "".join(numbered)


def format_percent(text: Text, operand: Value) -> Value:
    """`text % operand`, with the placeholders that the operand does not fill left as holes."""
    pieces: list[Text] = []
    waiting = list(operand.items) if isinstance(operand, Items) and not operand.open else None
    single = operand if not isinstance(operand, (Items, Mapping)) else None
    at = 0
    value = text.value
    while (found := value.find("%", at)) >= 0:
        pieces.append(slice_text(text, at, found))
        at, name, conversion = _placeholder(value, found)
        if conversion == "%":
            pieces.append(Text("%"))
        elif name is not None:
            known = operand.get(Text(name)) if isinstance(operand, Mapping) else None
            pieces.append(_filled(known, conversion))
        elif waiting:
            pieces.append(_filled(waiting.pop(0), conversion))
        else:
            pieces.append(_filled(single, conversion))
    pieces.append(slice_text(text, at, len(value)))
    return join_texts(pieces)


def _filled(value: Value | None, conversion: str) -> Text:
    """What stands in the place of a placeholder; `%d` and its like take nothing but numbers."""
    if value in (None, UNKNOWN) and conversion in _NUMBERS:
        return text_of(Made("builtins.int"))
    return text_of(value if value is not None else UNKNOWN)


def _placeholder(value: str, at: int) -> tuple[int, str | None, str]:
    """The placeholder that starts with the % at `at`: where it ends, its name, its conversion."""
    name = None
    end = at + 1
    if value[end : end + 1] == "(":
        close = value.find(")", end)
        if close < 0:
            return end, None, "%"
        name, end = value[end + 1 : close], close + 1
    while end < len(value) and value[end] in "#0- +.123456789*":
        end += 1
    conversion = value[end : end + 1]
    if conversion and conversion in _CONVERSIONS + "%":
        return end + 1, name, conversion
    return at + 1, None, "%"


def format_braces(text: Text, arguments: tuple[Value, ...], keywords: tuple[tuple[str, Value], ...]) -> Value:
    """`text.format(*arguments, **keywords)`; a field that nothing fills is a hole."""
    named = dict(keywords)
    pieces: list[Text] = []
    automatic = 0
    at = 0
    for start, end, field in _fields(text.value):
        pieces.append(_unescaped(slice_text(text, at, start)))
        at = end
        name = field.partition("!")[0].partition(":")[0]
        first = name.partition(".")[0].partition("[")[0]
        if first == "":
            value = arguments[automatic] if automatic < len(arguments) else UNKNOWN
            automatic += 1
        elif first.isdecimal():
            value = arguments[int(first)] if int(first) < len(arguments) else UNKNOWN
        else:
            value = named.get(first, UNKNOWN)
        pieces.append(text_of(UNKNOWN if name != first else value))
    pieces.append(_unescaped(slice_text(text, at, len(text.value))))
    return join_texts(pieces)


def _fields(value: str) -> list[tuple[int, int, str]]:
    """Replacement fields: (start, end, what stands between the braces)."""
    fields = []
    at = 0
    while (at := value.find("{", at)) >= 0:
        if value[at + 1 : at + 2] == "{":
            at += 2
            continue
        depth, end = 1, at + 1
        while end < len(value) and depth:
            depth += {"{": 1, "}": -1}.get(value[end], 0)
            end += 1
        if depth:
            break
        fields.append((at, end, value[at + 1 : end - 1]))
        at = end
    return fields


def _unescaped(text: Text) -> Text:
    """`{{` and `}}` are written twice where a single brace is meant."""
    if "{{" not in text.value and "}}" not in text.value:
        return text
    pieces: list[Text] = []
    at = 0
    value = text.value
    while at < len(value):
        double = min((found for found in (value.find("{{", at), value.find("}}", at)) if found >= 0), default=-1)
        if double < 0:
            break
        pieces.append(slice_text(text, at, double + 1))
        at = double + 2
    pieces.append(slice_text(text, at, len(value)))
    return join_texts(pieces)


def call_method(text: Text, name: str, arguments: tuple[Value, ...], keywords: tuple[tuple[str, Value], ...]) -> Value:
    """A method of a string. What is not followed gives an unknown string."""
    if name == "format":
        if text.composed:
            arguments = tuple(_quoted(value) for value in arguments)
            keywords = tuple((keyword, _quoted(value)) for keyword, value in keywords)
        filled = format_braces(text, arguments, keywords)
        return replace(filled, composed=text.composed) if isinstance(filled, Text) else filled
    if name == "join" and arguments:
        return _joined(text, arguments[0])
    if name == "replace" and len(arguments) >= 2:
        return _replaced(text, arguments[0], arguments[1])
    if name in _TRIMS:
        return _trimmed(text, name, arguments)
    if name in _WHOLE and not text.holes:
        return replace(text, value=_WHOLE[name](text.value))
    if name in ("lower", "upper", "casefold", "title", "capitalize", "encode", "decode", "as_string", "format_map"):
        return text
    if name == "split" and not arguments and not keywords:
        return _words(text)
    if name in ("split", "splitlines"):
        return Items("list", (), open=True)
    if name in ("startswith", "endswith") and not text.holes and arguments:
        needle = arguments[0]
        if isinstance(needle, Text) and not needle.holes:
            return Literal(getattr(text.value, name)(needle.value))
    return Unknown(row=from_row(text))


def numbered(text: Text, placeholder: str) -> tuple[Text, int]:
    """With the placeholders of a library written as PostgreSQL's, $1 and so on; and how many there are."""
    pieces: list[Text] = []
    at = count = 0
    while (found := text.value.find(placeholder, at)) >= 0:
        count += 1
        pieces.extend([slice_text(text, at, found), Text(f"${count}")])
        at = found + len(placeholder)
    pieces.append(slice_text(text, at, len(text.value)))
    return join_texts(pieces), count


def _words(text: Text) -> Value:
    """`text.split()`: what is put together again with blanks is the same statement on one line."""
    found = list(itertools.islice(_WORD.finditer(text.value), MOST_WORDS + 1))
    if len(found) > MOST_WORDS:
        return Items("list", (), open=True)
    return Items("list", tuple(slice_text(text, word.start(), word.end()) for word in found))


def _quoted(value: Value) -> Value:
    """What psycopg's sql.SQL makes of a value that it puts in: all that it did not make itself becomes a literal."""
    made = isinstance(value, Quoted) or (isinstance(value, Text) and value.composed)
    return value if made else Quoted(value, identifier=False)


#: Methods that keep every character where it is, so that what is known of origins stays true.
_WHOLE: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
}
_TRIMS = ("strip", "lstrip", "rstrip", "removeprefix", "removesuffix")


def _trimmed(text: Text, name: str, arguments: tuple[Value, ...]) -> Value:
    given = [value.value for value in arguments if isinstance(value, Text) and not value.holes]
    if len(given) != len(arguments):
        return text
    trimmed = getattr(text.value, name)(*given)
    start = 0 if name in ("rstrip", "removesuffix") else len(text.value) - len(getattr(text.value, _LEFT[name])(*given))
    return slice_text(text, start, start + len(trimmed))


_LEFT = {"strip": "lstrip", "lstrip": "lstrip", "removeprefix": "removeprefix"}


def _joined(separator: Text, source: Value) -> Value:
    put_in = _quoted if separator.composed else _as_is
    if not isinstance(source, Items):
        return join_texts([text_of(put_in(Unknown(row=from_row(source))))])
    pieces: list[Text] = []
    for index, item in enumerate(source.items):
        if index:
            pieces.append(separator)
        pieces.append(text_of(put_in(item)))
    if source.open:
        pieces.extend([separator, text_of(put_in(UNKNOWN))])
    return join_texts(pieces)


def _as_is(value: Value) -> Value:
    return value


def doubles_quotes(name: str, arguments: tuple[Value, ...]) -> bool:
    """`text.replace("'", "''")`: what is put between quotes then stays between them."""
    return name == "replace" and arguments[:2] == (Text("'"), Text("''"))


def _replaced(text: Text, old: Value, new: Value) -> Value:
    if doubles_quotes("replace", (old, new)):
        text = replace(text, holes=tuple(Quoted(value, identifier=False) for value in text.holes))
    if not isinstance(old, Text) or old.holes or not old.value:
        return text
    pieces: list[Text] = []
    at = 0
    while (found := text.value.find(old.value, at)) >= 0:
        pieces.extend([slice_text(text, at, found), text_of(new)])
        at = found + len(old.value)
    pieces.append(slice_text(text, at, len(text.value)))
    return join_texts(pieces)


def dedent(text: Text) -> Text:
    """textwrap.dedent and inspect.cleandoc: characters go, so origins are told line by line."""
    lines = text.value.splitlines(keepends=True)
    wanted = textwrap.dedent(text.value).splitlines(keepends=True)
    if len(lines) != len(wanted):
        return text
    pieces: list[Text] = []
    at = 0
    for line, short in zip(lines, wanted, strict=True):
        pieces.append(slice_text(text, at + len(line) - len(short), at + len(line)))
        at += len(line)
    return join_texts(pieces)


def statement_of(text: Text, name: str, keywords: tuple[tuple[str, Value], ...]) -> Value | None:
    """A method of a text that SQLAlchemy has made a statement of; None for a method of a string."""
    if name == "bindparams":
        return Clause(text, keywords, whole=True)
    return text if name in ("columns", "execution_options", "with_only_columns", "options") else None
