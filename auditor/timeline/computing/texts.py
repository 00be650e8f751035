"""Putting texts together: holes are numbered anew, and every character still knows where it was written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from auditor.drivers.model import Filling
from auditor.sql.meaning import HOLE_CLOSE, HOLE_OPEN, hole
from auditor.timeline.model.values import LONGEST_TEXT, UNKNOWN, Items, Literal, Quoted, Template, Text, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from auditor.program.origins import Origin


def text_of(value: Value) -> Text:
    """A value as it would stand in a string: a text is itself, a literal is written out, anything else is a hole."""
    if isinstance(value, Text):
        return value
    if isinstance(value, Literal):
        return Text(str(value.value))
    if isinstance(value, Quoted):
        written = _written(value)
        if written is not None:
            return Text(written, composed=True)
    return Text(hole(0), (value,))


def _written(quoted: Quoted) -> str | None:
    """What psycopg's Identifier or Literal writes into a statement, where that is known."""
    inner = quoted.value
    if not quoted.identifier:
        if isinstance(inner, Literal):
            return "NULL" if inner.value is None else str(inner.value).lower()
        return "'" + inner.value.replace("'", "''") + "'" if isinstance(inner, Text) and not inner.holes else None
    names = inner.items if isinstance(inner, Items) else (inner,)
    known = [name.value for name in names if isinstance(name, Text) and not name.holes]
    return ".".join('"' + name.replace('"', '""') + '"' for name in known) if len(known) == len(names) else None


def join_texts(pieces: list[Text]) -> Text:
    """The texts one after the other, their holes numbered anew."""
    parts: list[str] = []
    holes: list[Value] = []
    origins: list[Origin] = []
    length = 0
    for piece in pieces:
        value = renumber(piece.value, len(holes)) if piece.holes and holes else piece.value
        shift = _shift_of(piece.value, value)
        origins.extend(
            origin._replace(start=shift(origin.start) + length, end=shift(origin.end) + length)
            for origin in piece.origins
        )
        parts.append(value)
        holes.extend(piece.holes)
        length += len(value)
        if length > LONGEST_TEXT:
            return Text(hole(0), (UNKNOWN,))
    return Text("".join(parts), tuple(holes), tuple(origins), composed=any(piece.composed for piece in pieces))


def fill(template: Template, formats: Mapping[str, Filling]) -> tuple[Text, tuple[Value, ...]]:
    """The statement that a driver makes of a template string, and its parameters in order."""
    pieces: list[Text] = []
    parameters: list[Value] = []
    for part in template.parts:
        if isinstance(part, Text):
            pieces.append(part)
            continue
        filling = formats.get(part.format)
        if isinstance(part.value, Template) and filling is Filling.SQL:
            text, more = fill(part.value, formats)
            pieces.append(text)
            parameters.extend(more)
        elif filling is Filling.PARAMETER:
            pieces.append(Text("%s"))
            parameters.append(part.value)
        elif filling in (Filling.IDENTIFIER, Filling.LITERAL):
            pieces.append(text_of(Quoted(part.value, identifier=filling is Filling.IDENTIFIER)))
        else:
            pieces.append(text_of(part.value))
    return replace(join_texts(pieces), composed=True), tuple(parameters)


def renumber(value: str, by: int) -> str:
    """`value` with every hole's number raised."""
    out = []
    for index, part in enumerate(value.split(HOLE_OPEN)):
        if index == 0:
            out.append(part)
            continue
        number, close, rest = part.partition(HOLE_CLOSE)
        out.append(f"{HOLE_OPEN}{int(number) + by}{close}{rest}" if close and number.isdecimal() else HOLE_OPEN + part)
    return "".join(out)


class _Shift:
    """Where an offset of a text lies after its holes were renumbered, which may have made their marks longer."""

    def __init__(self, before: str, after: str) -> None:
        self.moves: list[tuple[int, int]] = []
        old = new = 0
        while (old := before.find(HOLE_CLOSE, old)) >= 0 and (new := after.find(HOLE_CLOSE, new)) >= 0:
            self.moves.append((old, new - old))
            old, new = old + 1, new + 1

    def __call__(self, offset: int) -> int:
        moved = 0
        for old, by in self.moves:
            if offset <= old:
                break
            moved = by
        return offset + moved


def _shift_of(before: str, after: str) -> _Shift:
    return _Shift(before, after) if len(before) != len(after) else _Shift("", "")
