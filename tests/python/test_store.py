"""Facts as bytes, and back."""

from __future__ import annotations

import json
import random
import sysconfig
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.python.nodes import Module, PythonFacts
from auditor.python.read import read_python
from auditor.python.store import dump, load
from tests.python.compact import facts_of

SOURCES = [
    *sorted(Path(__file__).parent.glob("**/*.py*")),
    *random.Random(17).sample(sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")), 30),
]


@pytest.mark.parametrize("path", [path for path in SOURCES if path.is_file()], ids=lambda path: path.name)
def test_what_is_loaded_is_what_was_dumped(path: Path) -> None:
    facts = read_python(path.read_bytes())
    assert isinstance(facts, PythonFacts)
    stored = dump(facts)
    assert load(stored) == facts
    assert repr(load(stored)) == repr(facts)
    assert dump(load(stored)) == stored


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("", id="an empty file"),
        pytest.param("x = 1, 1.0, True, 0, 0.0, -0.0, False, None, ''", id="values that are equal and not the same"),
        pytest.param("x = 1e999, -1e999", id="infinity"),
        pytest.param(f"x = 0x{'f' * 9_000}, -0x{'f' * 9_000}, {2**64}", id="numbers of thousands of digits"),
        pytest.param("x = '\\ud83d\\ude00', '\\U0001f600', '\\udc80'", id="halves of characters"),
        pytest.param("x = ()\ndef f(): return ()", id="empty tuples"),
        pytest.param("x = 1  # tenant-audit\ny = [\n]", id="comments and long statements"),
        pytest.param("x = " + "+".join("a" * 900), id="a long chain"),
        pytest.param("if a: b\n" + "elif a: b\n" * 900, id="a deep one"),
    ],
)
def test_odd_values_come_back(source: str) -> None:
    stored = dump(facts_of(source))
    assert dump(load(stored)) == stored
    if len(source) < 1_000:
        assert repr(load(stored)) == repr(facts_of(source))


def _sealed(content: object) -> bytes:
    data = json.dumps(content).encode()
    return b"%08x" % zlib.crc32(data) + data


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"00000000", id="a checksum alone"),
        pytest.param(b"nonsense" * 9, id="no checksum"),
        pytest.param(dump(PythonFacts(Module(())))[:-1], id="cut off"),
        pytest.param(dump(PythonFacts(Module(()))).replace(b"Module", b"module"), id="changed"),
        pytest.param(_sealed({}), id="another shape"),
        pytest.param(_sealed([[], [], [], []]), id="no facts"),
        pytest.param(_sealed([["a"], [], [], []]), id="something else than facts"),
        pytest.param(_sealed([[], [], [], [["Name", [[9], [9]]]]]), id="a number of nothing"),
        pytest.param(_sealed([[], [], [], [["Nomen", [[0], [0]]]]]), id="an unknown class"),
        pytest.param(_sealed([[], [], [], [["Name", [[0], [0, 0]]]]]), id="columns of different length"),
        pytest.param(_sealed([[], [], [], [["Name", [[0]]]]]), id="a field missing"),
        pytest.param(_sealed([[], [], [[[1], [1, 2]]], []]), id="rows of different length"),
        pytest.param(_sealed([["x"], [0], [], []]), id="a long number that is none"),
    ],
)
def test_what_was_not_dumped_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not the facts of a Python file"):
        load(data)


STORED = dump(facts_of("def f(a, *b): return a.c(f'{b} d', 1)"))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=50) | st.integers(0, len(STORED) * 8 - 1))
def test_no_damage_goes_unnoticed(damage: bytes | int) -> None:
    data = bytearray(STORED)
    if isinstance(damage, bytes):
        data = bytearray(damage)
    else:
        data[damage // 8] ^= 1 << damage % 8
    try:
        assert load(bytes(data)) == load(STORED)  # a digit of the checksum in another case
    except ValueError:
        return
