"""The facts of a file as bytes, and back: for the cache.

Nodes are stored by kind and in columns, since a list of like things is read many times faster than a nest of unlike
ones. Everything has a number, counted through the whole, and is told by the numbers of what comes before it; 0 is the
empty tuple, and the facts are the last of all:

    values   each string, number, None, True and False once
    rows     each tuple of numbers (spans, lines) once, by their length: a list for each column
    groups   nodes, those first that are made of values and rows alone: the name of their class, a list for each field;
             and tuples of nodes: no name, a list for each tuple

It is JSON in which nothing nests, so that the depth of a tree doesn't matter, with a checksum in front.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

from auditor.python import nodes
from auditor.python.nodes import PythonFacts
from auditor.python.record import Record, getter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Columns = list[list[int]]

_KINDS = {name: kind for name, kind in vars(nodes).items() if isinstance(kind, type) and issubclass(kind, Record)}

#: The parts of a node, by its class.
_FIELDS = {kind: getter(kind.__match_args__) for kind in _KINDS.values()}

#: Python prints and reads integers of some thousand digits only in base 16.
_LONG = 1 << 64


def dump(facts: PythonFacts) -> bytes:
    """The facts as bytes."""
    parts = _Parts(facts)
    stored = (parts.values, parts.long, list(parts.rows()), list(parts.groups()))
    data = json.dumps(stored, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return b"%08x" % zlib.crc32(data) + data


def load(data: bytes) -> PythonFacts:
    """The facts that `dump` made these bytes of; ValueError where it did not."""
    try:
        if int(data[:8], 16) != zlib.crc32(memoryview(data)[8:]):
            raise ValueError("the checksum is wrong")
        facts = _build(*json.loads(data[8:].decode("utf-8", "surrogatepass")))
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise ValueError(f"not the facts of a Python file: {error}") from error
    if not isinstance(facts, PythonFacts):
        raise ValueError("not the facts of a Python file")
    return facts


def _build(values: list[Any], long: list[int], rows: list[Columns], groups: list[tuple[str, Columns]]) -> object:
    for number in long:
        values[number] = int(values[number], 16)
    found: list[Any] = [(), *values]
    for columns in rows:
        found += zip(*columns, strict=True)
    part = found.__getitem__
    for name, columns in groups:
        if not name:
            found += [tuple([found[number] for number in row]) for row in columns]
        elif len(set(map(len, columns))) == 1:
            found += list(map(_KINDS[name], *[map(part, column) for column in columns]))
        else:
            raise ValueError("its columns are not equally long")
    return found[-1]


class _Parts:
    """Everything that facts are made of, numbered. Nodes and tuples are known by their identity."""

    def __init__(self, facts: PythonFacts) -> None:
        self.values: list[Any] = []
        self.long: list[int] = []
        self.known: dict[tuple[type, Any], int] = {}
        self.numbers: dict[int, int] = {}
        self.alike: dict[tuple[int, ...], list[int]] = {}  #: the identities of the rows that are equal to this one
        self.made: list[tuple[Any, Sequence[Any]]] = []  #: nodes and tuples with their parts, which come later
        self.collect(facts)

    def collect(self, facts: PythonFacts) -> None:
        numbers, alike = self.numbers, self.alike
        waiting: list[Any] = [facts]
        while waiting:
            made = waiting.pop()
            parts = made if type(made) is tuple else _FIELDS[type(made)](made)
            self.made.append((made, parts))
            for part in parts:
                kind, identity = type(part), id(part)
                if kind in _FIELDS:
                    waiting.append(part)
                elif identity in numbers:
                    continue
                elif kind is not tuple:
                    numbers[identity] = self.value(part)
                elif not part:
                    numbers[identity] = 0
                elif type(part[0]) is not int:
                    waiting.append(part)
                elif part in alike:
                    alike[part].append(identity)
                else:
                    alike[part] = [identity]

    def value(self, value: Any) -> int:
        # 1, 1.0 and True are equal, and so are 0.0 and -0.0.
        key = (type(value), repr(value) if type(value) is float else value)
        number = self.known.get(key)
        if number is None:
            if type(value) is int and abs(value) > _LONG:
                self.long.append(len(self.values))
                value = f"{value:x}"
            self.values.append(value)
            number = self.known[key] = len(self.values)
        return number

    def rows(self) -> Iterator[list[tuple[int, ...]]]:
        """The columns of the rows of each length; this numbers them."""
        ordered = sorted(self.alike, key=len)
        for number, row in enumerate(ordered, len(self.values) + 1):
            self.numbers.update(dict.fromkeys(self.alike[row], number))
        for length in sorted({len(row) for row in ordered}):
            yield list(zip(*[row for row in ordered if len(row) == length], strict=True))

    def groups(self) -> Iterator[tuple[str, list[Any]]]:
        """The groups, each when all that its nodes are made of has its number; this numbers them."""
        numbers = self.numbers
        count = len(self.values) + len(self.alike) + 1
        for (_, name), members in sorted(self.levels().items()):
            rows = [[numbers[id(part)] for part in parts] for _, parts in members]
            yield name, list(zip(*rows, strict=True)) if name else rows
            for made, _ in members:
                numbers[id(made)] = count
                count += 1

    def levels(self) -> dict[tuple[int, str], list[tuple[Any, Sequence[Any]]]]:
        """Nodes and tuples by how deep what they are made of nests, and by kind."""
        heights: dict[int, int] = {}
        found: dict[tuple[int, str], list[tuple[Any, Sequence[Any]]]] = {}
        for made, parts in reversed(self.made):
            height = heights[id(made)] = max([heights.get(id(part), 0) for part in parts]) + 1
            found.setdefault((height, "" if type(made) is tuple else type(made).__name__), []).append((made, parts))
        return found
