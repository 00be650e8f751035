"""From a character of a string's value back to where it is written."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.python import nodes
from auditor.python.locate import locate
from auditor.python.read import decode
from tests.python.compact import all_nodes, facts_of


def _text(source: str) -> nodes.Text:
    """The outermost string of the source."""
    found = [node for node in all_nodes(facts_of(source)) if isinstance(node, nodes.Text)]
    return min(found, key=lambda node: (node.span[0], node.span[1], -node.span[2], -node.span[3]))


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("x = 'a→b'", id="a plain string"),
        pytest.param("x = ('a'\n     'b→c')", id="the second of two strings"),
        pytest.param("x = '''a\n  b→c'''", id="a line of a long string"),
        pytest.param("x = '''a\r\n  b→c'''", id="Windows' line ends"),
        pytest.param("x = 'é' 'é→a'", id="characters, not bytes"),
        pytest.param("x = r'\\d→a'", id="a raw string"),
        pytest.param("x = '\\x41\\u00e9\\N{BULLET}\\101\\\\→a'", id="behind escapes"),
        pytest.param("x = 'a\\\n  →b'", id="behind a joined line"),
        pytest.param("x = f'{a}b{c}→d'", id="behind holes"),
        pytest.param("x = f'{{a}}→b'", id="behind doubled braces"),
        pytest.param("x = f'{a['b']:>{c}}→d'", id="behind a new kind of hole"),
        pytest.param("x = f'{a}' \"b\" rf'\\{c}→d'", id="several kinds side by side"),
        pytest.param("x = f'a{f\"b→c\"}'", id="inside a string in a hole"),
        pytest.param("x = f'{a = }→b'", id="behind a debugged hole"),
        pytest.param("x = t'{a!r:>3}→b'", id="a template"),
        pytest.param("if a:\n    b(c, 'd', '''\n    → e''')", id="an argument among others"),
        pytest.param("x = f'é{a['b']}' + c['→']", id="behind new syntax on its line"),
    ],
)
def test_the_character_behind_an_arrow(source: str) -> None:
    """The place of the arrow, in the source without it, is that of the character that follows it."""
    value = "".join(piece for node in _all(source) for piece in node.pieces if isinstance(piece, str))
    assert value.count("→") == 1
    ((node, number, offset),) = [
        (node, number, piece.index("→"))
        for node in _all(source)
        for number, piece in enumerate(node.pieces)
        if isinstance(piece, str) and "→" in piece
    ]
    decoded = decode(source.encode())
    assert isinstance(decoded, str)
    before = decoded[: decoded.index("→")]
    expected = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    assert locate(source, node.span, number, offset) == expected
    assert locate(source, node.span, number, offset + 1) == (expected[0], expected[1] + 1)


def _all(source: str) -> list[nodes.Text]:
    return [node for node in all_nodes(facts_of(source)) if isinstance(node, nodes.Text)]


def test_bytes_are_located_by_character() -> None:
    source = "x = b'caf\\xc3\\xa9!'"
    node = _text(source)
    assert node.pieces == ("café!",)
    assert [locate(source, node.span, 0, offset)[1] for offset in range(6)] == [7, 8, 9, 10, 18, 19]


@pytest.mark.parametrize(
    ("span", "piece", "offset", "expected"),
    [
        pytest.param((1, 4, 1, 9), 0, 4, (1, 5), id="a character too many"),
        pytest.param((1, 4, 1, 9), 1, 0, (1, 5), id="a piece too many"),
        pytest.param((1, 4, 1, 9), -1, 0, (1, 5), id="no piece at all"),
        pytest.param((1, 0, 1, 1), 0, 0, (1, 1), id="no string"),
        pytest.param((9, 4, 9, 9), 0, 0, (9, 5), id="no line"),
        pytest.param((1, 99, 1, 100), 0, 0, (1, 10), id="no column"),
        pytest.param((2, 4, 2, 9), 0, 0, (2, 5), id="a string that breaks off"),
    ],
)
def test_what_cannot_be_told_is_where_the_string_begins(
    span: nodes.Span, piece: int, offset: int, expected: tuple[int, int]
) -> None:
    assert locate("x = 'abc'\ny = 'abc", span, piece, offset) == expected


class Spelling(NamedTuple):
    """A literal, and for each character of its value from where to where in the literal that is written."""

    source: str
    value: str
    written: list[tuple[int, int]]


@st.composite
def spellings(draw: st.DrawFn) -> Spelling:
    """A value written in some way that Python allows."""
    raw, formatted = draw(st.booleans()), draw(st.booleans())
    quote = draw(st.sampled_from(["'", '"', "'''", '"""']))
    prefix = ("r" if raw else "") + ("f" if formatted else "")
    text, value, written = "".join(draw(st.permutations(prefix))) + quote, "", []
    for character in draw(st.text(alphabet="ab {}'\"\\\n%é•😀", max_size=12)):
        ways = [way for way in _ways(character, raw, formatted, quote) if way is not None]
        if ways:
            start = len(text)
            text += draw(st.sampled_from(ways))
            written.append((start, len(text)))
            value += character
        if not raw and draw(st.integers(0, 9)) == 0:
            text += "\\\n"
    return Spelling(text + quote, value, written)


def _ways(character: str, raw: bool, formatted: bool, quote: str) -> list[str | None]:
    """How a character can be written; not at all in some literals."""
    plain = None if character in "\\'\"" or (character == "\n" and len(quote) == 1) else character
    if character in "{}" and formatted:
        plain = character * 2
    if raw:
        return [plain]
    code = ord(character)
    return [
        plain,
        f"\\{code:03o}" if code < 256 else None,
        f"\\x{code:02x}" if code < 256 else None,
        f"\\u{code:04X}" if code < 65536 else None,
        f"\\U{code:08x}",
        "\\N{BULLET}" if character == "•" else None,
        "\\n" if character == "\n" else None,
        f"\\{character}" if character in "\\'\"" else None,
    ]


HOLE = "f'{a}'"


@settings(max_examples=300, deadline=None)
@given(st.lists(spellings() | st.just(HOLE), min_size=1, max_size=4), st.sampled_from(["\n", "\r\n", "\r"]))
def test_every_character_is_where_it_is_written(parts: list[Spelling | str], line_end: str) -> None:
    source = "é = (\n  0, "
    pieces: list[list[tuple[str, int, int]]] = [[]]
    for part in parts:
        if isinstance(part, Spelling):
            here, places = len(source), zip(part.value, part.written, strict=True)
            pieces[-1] += [(sign, here + start, here + end) for sign, (start, end) in places]
            source += part.source + "  # é\n "
        else:
            pieces.append([])
            source += HOLE + " "
    source += ")"
    written = source.replace("\n", line_end)
    node = _text(written)
    numbered = [number for number, piece in enumerate(node.pieces) if isinstance(piece, str)]
    for number, expected in zip(numbered, filter(None, pieces), strict=True):
        assert node.pieces[number] == "".join(sign for sign, _, _ in expected)
        for offset, (_, start, end) in enumerate(expected):
            assert locate(written, node.span, number, offset) == _place(source, start)
            assert locate(written, node.span, number, offset + 1, end=True) == _place(source, end)


def _place(source: str, offset: int) -> tuple[int, int]:
    return source.count("\n", 0, offset) + 1, offset - source.rfind("\n", 0, offset)
