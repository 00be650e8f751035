"""Files that can't be read, and that nothing makes the reader raise."""

from __future__ import annotations

import codecs
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from auditor.python import nodes
from auditor.python.read import Unread, decode, read_python
from tests.python.compact import compact

if TYPE_CHECKING:
    import random

EXAMPLES = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("**/*.py*")) if path.is_file()]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"x = 1\nif a\n  b", Unread("invalid syntax: expected ':'", 2, 5), id="an error has its place"),
        pytest.param(b"x = = 1", Unread("invalid syntax", 1, 5), id="an error without words"),
        pytest.param(b"x = 1\n\0", Unread("contains NUL bytes", 2, 1), id="NUL bytes"),
        pytest.param(
            b"x = 1\n# caf\xe9",
            Unread("not UTF-8, and no coding line says otherwise", 2, 6),
            id="another encoding than UTF-8",
        ),
        pytest.param(
            b"# coding: ascii\nx = '\xe9'", Unread("not ascii, as its coding line says", 2, 6), id="a wrong coding line"
        ),
        pytest.param(b"# coding: uft-8\n", Unread("unknown encoding: uft-8"), id="a coding line that says nothing"),
        pytest.param(b"# coding: hex\n", Unread("unknown encoding: hex"), id="an encoding that isn't one of text"),
        pytest.param(
            codecs.BOM_UTF8 + b"# coding: latin-1\n",
            Unread("begins with the byte order mark of UTF-8, while its coding line says latin-1"),
            id="a byte order mark against the coding line",
        ),
        pytest.param("x = 1".encode("utf-16"), Unread("saved as UTF-16, which Python does not read"), id="UTF-16"),
        pytest.param("x = 1".encode("utf-32"), Unread("saved as UTF-32, which Python does not read"), id="UTF-32"),
        pytest.param(b"(" * 300, Unread("nested too deeply to read"), id="brackets without end"),
    ],
)
def test_why_a_file_is_not_read(data: bytes, expected: Unread) -> None:
    assert read_python(data) == expected


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("x = 'é'".encode(), id="UTF-8"),
        pytest.param(codecs.BOM_UTF8 + "x = 'é'".encode(), id="UTF-8 with its mark"),
        pytest.param(codecs.BOM_UTF8 + "# coding: utf8\nx = 'é'".encode(), id="UTF-8 with its mark and a coding line"),
        pytest.param(b"# -*- coding: latin-1 -*-\nx = '\xe9'", id="latin-1"),
        pytest.param(b"#!python\n# vim: set fileencoding=cp1252 :\nx = '\xe9'", id="cp1252, said in the second line"),
        pytest.param(b"\r\n# coding: cp1252\r\nx = '\xe9'\r\n", id="Windows' line ends"),
        pytest.param(b"# coding: latin-1\rx = '\xe9'\r", id="the old Mac's line ends"),
        pytest.param("# a\nx = 'é'\n# coding: nonsense".encode(), id="a coding line that comes too late"),
        pytest.param("x = 'é'\n# coding: nonsense".encode(), id="or behind code"),
        pytest.param("\fx = 'é'".encode(), id="a form feed"),
    ],
)
def test_encodings(data: bytes) -> None:
    assert compact(data) == "x = 'é'"


def test_line_ends_in_strings_are_as_python_reads_them() -> None:
    assert compact(b"x = '''a\r\nb\rc'''") == "x = 'a\\nb\\nc'"


@pytest.mark.parametrize("action", ["error", "always"])
def test_warnings_of_the_parser_stay_inside(action: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error" if action == "error" else "always")
        before = list(warnings.filters)
        assert isinstance(read_python(rb"x = '\d' if 1is 1else 0; y: '\d'"), nodes.PythonFacts)
        assert list(warnings.filters) == before
    assert caught == []


def test_new_syntax_is_said_to_be_new() -> None:
    facts = read_python(b"x = t'a'") if sys.version_info < (3, 14) else read_python(b"lazy import a")
    assert isinstance(facts, nodes.PythonFacts)
    assert facts.lowered


def test_what_is_not_needed_is_not_imported() -> None:
    """Start-up is paid by every commit."""
    code = "import sys, auditor.python.read; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"dataclasses", "inspect", "libcst", "sqlglot", "auditor.python.modern"} & set(loaded)


PIECES = [
    *(b"def f(", b"):", b"\n", b"\r", b"\r\n", b"    ", b"\t", b"\f", b"\\", b"\0", b"'", b'"', b'"""', b"f'", b"t'"),
    *(b"{", b"}", b"[", b"]", b"(", b")", b":", b"=", b"!r", b"*", b"**", b",", b"x", b"1", b"if ", b"else ", b"type "),
    *(b"class A", b"except ", b"try:", b"match x:", b"case ", b"lambda ", b"yield ", b"await ", b"async ", b"# ", b"@"),
    *(b"# coding: ", b"latin-1", b"utf-16", b"utf-7", b"unicode_escape", b"punycode", b"rot13", b"\xef\xbb\xbf"),
    *(b"\xff", b"\xc3\xa9", b"\xe2\x82\xac", b"\\N{BULLET}", b"\\x4", b"\\ud800", b"tenant-audit", b"b'", b"rb'"),
]


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join))
@example(b"# coding: unicode_escape\n'\\ud800'")
@example(b"x = f'{a['b']}" + b"\\")
@example(b"f'{{'{f'{'x'}'")
def test_nothing_makes_it_raise(data: bytes) -> None:
    facts = read_python(data)
    assert isinstance(facts, (nodes.PythonFacts, Unread))
    if isinstance(facts, Unread):
        assert facts.reason
        assert min(facts.line, facts.column) >= 1


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(EXAMPLES), st.randoms(use_true_random=False))
def test_no_damage_to_a_good_file_makes_it_raise(data: bytes, dice: random.Random) -> None:
    broken = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        start = dice.randrange(len(broken) + 1)
        broken[start : start + dice.randint(0, 9)] = dice.choice([*PIECES, b"", bytes([dice.randrange(256)])])
    assert isinstance(read_python(bytes(broken)), (nodes.PythonFacts, Unread))


def test_a_decoded_file_has_one_kind_of_line_end() -> None:
    assert decode(codecs.BOM_UTF8 + b"a\r\nb\rc\n") == "a\nb\nc\n"
