"""Syntax that is newer than the Python that runs the audit."""

from __future__ import annotations

import ast
import os
import random
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.python import nodes
from auditor.python.lower import lower
from auditor.python.modern import parse_modern
from auditor.python.read import Unread, decode, read_python
from auditor.python.record import Record
from auditor.python.scan import ScanError
from tests.python.compact import compact, facts_of, without_columns

FIXTURES = Path(__file__).parent / "fixtures"


def test_a_file_in_new_syntax_is_read_like_its_twin_in_old() -> None:
    new = facts_of((FIXTURES / "new.py.txt").read_bytes())
    old = facts_of((FIXTURES / "old.py.txt").read_bytes())
    assert new.lowered
    assert not old.lowered
    for mine, twin in zip(new.module.body, old.module.body, strict=True):
        assert without_columns(mine) == without_columns(_reworded(twin))


def test_a_file_in_new_syntax_comes_to_the_same_on_every_python() -> None:
    expected = (FIXTURES / "new.nodes.txt").read_text(encoding="utf-8")
    assert compact((FIXTURES / "new.py.txt").read_bytes()) + "\n" == expected


def _reworded(item: Any) -> Any:
    """A part of the old file, with what its stand-ins stand for."""
    if isinstance(item, tuple):
        return tuple(map(_reworded, item))
    if not isinstance(item, Record):
        return item
    node: Any = type(item)(*(_reworded(getattr(item, name)) for name in item.__match_args__))
    if isinstance(node, nodes.Call) and node.function == nodes.Name("starred", node.function.span):
        return nodes.Starred(node.arguments[0], node.span)
    if isinstance(node, nodes.Call) and node.function == nodes.Name("template", node.function.span):
        return _template(node)
    return node


def _template(node: nodes.Call) -> nodes.Text:
    words = [part.pieces[0] if isinstance(part, nodes.Text) and part.pieces else part for part in node.arguments]
    pieces, formats = words[:-3], ["" if isinstance(word, nodes.Text) else str(word) for word in words[-3:]]
    return nodes.Text(tuple(pieces), node.span, True, tuple(formats))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("type A = int", "A = int", id="a type is an assignment"),
        pytest.param("type A[T: int, *B, **C] = T", "A = T", id="type parameters are left out"),
        pytest.param("if a: type B = int; type = 1", "if a\n  B = int\n  type = 1", id="type is still a name"),
        pytest.param("type(a); type[a]; type.b = c", "do type(a)\ndo type[a]\ntype.b = c", id="and can be used as one"),
        pytest.param("def f[T = int](a): pass", "def f(a)", id="a generic function"),
        pytest.param("class A[T]: pass", "class A()", id="a generic class"),
        pytest.param("class A[T](B[T]): pass", "class A(B[T])", id="a generic class with bases"),
        pytest.param("try: a\nexcept B, C: d", "try\n  do a\nexcept (B, C)\n  do d", id="exceptions without brackets"),
        pytest.param("try: a\nexcept* B, C: e", "try\n  do a\nexcept (B, C)\n  do e", id="also with a star"),
        pytest.param("try: a\nexcept (B), (C): d", "try\n  do a\nexcept (B, C)\n  do d", id="also with other brackets"),
        pytest.param("a[*b]", "do a[(*b)]", id="a star in an index makes a tuple"),
        pytest.param("a[*b, 1:2, *c]", "do a[(*b, ?(1, 2), *c)]", id="several stars in an index"),
        pytest.param("a[0][*b[*c]] = 1", "a[0][(*b[(*c)])] = 1", id="stars in stars"),
        pytest.param("def f(*a: *B, c=1): pass", "def f(args a: *B, keyword c = 1)", id="a starred annotation"),
        pytest.param("[*a for a in b]", "do list(*a for a in b)", id="a star in a comprehension"),
        pytest.param("lazy import a; lazy from b import c", "import a as a\nfrom b import c as c", id="lazy imports"),
        pytest.param("lazy = 1; lazy(a)", "lazy = 1\ndo lazy(a)", id="lazy is still a name"),
    ],
)  # fmt: skip
def test_new_statements(source: str, expected: str) -> None:
    assert compact(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("f'{a['b']}'", "{a['b']}", id="the same quotes inside"),
        pytest.param("f'{'\\n'.join(a)}'", "{'\\n'.join(a)}", id="a backslash inside"),
        pytest.param("f'{\na # }'\n}'", "{a}", id="lines and comments inside"),
        pytest.param("f'{a:{b}{c:{d}}}'", "{?(a, b, ?(c, d))}", id="formats inside formats"),
        pytest.param("f'{f'{f'{a}'}'}'", "{a}", id="f-strings inside f-strings"),
        pytest.param("f'{a}' 'b' f'{c['d']}'", "{a}b{c['d']}", id="strings side by side"),
        pytest.param("f'{a!r}{b['c']}'", "{?(a)}{b['c']}", id="a conversion"),
        pytest.param("f'{a['b'] = }'", "a['b'] = {?(a['b'])}", id="a debugged expression"),
        pytest.param("f'{a['b']=:>3}'", "a['b']={?(a['b'])}", id="a debugged expression with a format"),
        pytest.param("f'{{{a['b']}}}'", "{{a['b']}}", id="doubled braces"),
        pytest.param("f'\\N{BULLET}\\{a['b']}'", "•\\{a['b']}", id="a named character, and a backslash that is none"),
        pytest.param("rf'\\N{a['b']}\\d'", "\\N{a['b']}\\d", id="raw text"),
        pytest.param("f'{a['b'], 1}'", "{(a['b'], 1)}", id="a tuple"),
        pytest.param("f'{(lambda: a['b'])}'", "{(lambda(): a['b'])}", id="a lambda"),
        pytest.param("f'{a['b'] != 1}'", "{(a['b'] != 1)}", id="an exclamation mark that converts nothing"),
        pytest.param("f'''{a['''b''']}'''", "{a['b']}", id="three quotes inside three quotes"),
        pytest.param("f'{('a' 'b')}{c['d']}'", "ab{c['d']}", id="strings in a hole are text"),
        pytest.param("f'{a['b']}'.c(d)", None, id="what follows the string"),
    ],
)
def test_new_f_strings(source: str, expected: str | None) -> None:
    written = compact(f"x = {source}")
    assert written == ("x = \"{a['b']}\".c(d)" if expected is None else f"x = {expected!r}")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("t'a'", "t'a'", id="text alone"),
        pytest.param("t'a {b} c'", "t'a {b} c'['']", id="a hole"),
        pytest.param("t'{a:i}{b!r:>{c}}{d}'", "t'{a}{b}{d}'[':i' '!r:>{}' '']", id="formats are told beside"),
        pytest.param("t'{\"a\"}'", "t\"{'a'}\"['']", id="a string in a hole stays there"),
        pytest.param("t'a' rt'\\d{b}'", "t'a\\\\d{b}'['']", id="side by side"),
        pytest.param("f'{t'a'}'", "\"{t'a'}\"", id="a template in an f-string stays one"),
        pytest.param("t'{f'a{b}'}'", "t\"{'a{b}'}\"['']", id="an f-string in a template stays one"),
    ],
)
def test_t_strings(source: str, expected: str) -> None:
    assert compact(f"x = {source}") == f"x = {expected}"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        pytest.param("x = 1\nprint 'a'", 2, id="Python 2"),
        pytest.param("x = f'{a['b']}'\nprint 'a'", 2, id="Python 2 after something new"),
        pytest.param("x = f'{'", 1, id="a hole that isn't closed"),
        pytest.param("x = f'{}'", 1, id="an empty hole"),
        pytest.param("x = f'{a b}'", 1, id="no expression"),
        pytest.param("x = f'{a)}'", 1, id="a bracket too many"),
        pytest.param("x = f'{a!x}'", 1, id="a conversion that isn't one"),
        pytest.param("x = f'{a['b']=c}'", 1, id="a keyword in a hole"),
        pytest.param("x = f'}'", 1, id="a brace too many"),
        pytest.param("x = t'a' 'b'", 1, id="a template beside a string"),
        pytest.param("x = f'{a['b']}' b'c'", 1, id="bytes beside a string"),
        pytest.param("try: a\nexcept B, C as d: e", 2, id="several exceptions with a name need brackets"),
        pytest.param("def f[T](", 1, id="a function that breaks off"),
        pytest.param("type X[T] int", 1, id="a type without a value"),
    ],
)
def test_what_no_python_reads_is_unread(source: str, line: int) -> None:
    facts = read_python(source.encode())
    assert isinstance(facts, Unread), facts
    assert facts.line == line
    assert facts.reason.startswith("invalid syntax")


def test_columns_are_those_of_the_source() -> None:
    facts = facts_of("x = f'é{a}{b['c']}' + d[*e] + f")
    places = {node.id: node.span[1::2] for node in _names(facts.module)}
    assert places == {"x": (0, 1), "a": (9, 10), "b": (12, 13), "d": (23, 24), "e": (26, 27), "f": (31, 32)}


def _names(item: Any) -> list[nodes.Name]:
    if isinstance(item, nodes.Name):
        return [item]
    parts = [getattr(item, name) for name in item.__match_args__] if isinstance(item, Record) else item
    return [name for part in parts for name in _names(part)] if isinstance(parts, (list, tuple)) else []


def _standard_library(count: int) -> list[Path]:
    """Some files that are known to be good, the same ones in every run."""
    found = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return random.Random(758).sample(found, count)


@pytest.mark.parametrize("path", _standard_library(40), ids=os.path.basename)
def test_what_is_rewritten_without_need_keeps_its_meaning_and_its_places(path: Path) -> None:
    source = decode(path.read_bytes())
    assert isinstance(source, str)
    lines = source.encode().split(b"\n")
    rewritten = parse_modern(source)
    if rewritten is not None:
        assert lower(rewritten, lines) == lower(ast.parse(source), lines)


def test_what_has_nothing_new_is_left_alone() -> None:
    assert parse_modern("print 'a'") is None


def test_a_name_of_ours_in_the_source_is_no_mark() -> None:
    assert compact("mark0(a); mark_0(f'{b['c']}')") == "do mark0(a)\ndo mark_0(\"{b['c']}\")"


@pytest.mark.parametrize("source", ["f'{", "f'", "t'''{a", "(", "f'{a:{'", "f'{a!"])
def test_what_breaks_off_says_where(source: str) -> None:
    with pytest.raises(ScanError) as caught:
        parse_modern(source)
    assert 0 <= caught.value.offset <= len(source)


WORDS = [
    "'",
    '"',
    "'''",
    "f'",
    'f"',
    "rf'",
    "f'''",
    "a",
    "b",
    " ",
    "{",
    "}",
    "{{",
    "}}",
    "!r",
    ":",
    "=",
    ">3",
    "\\",
    "\\n",
]
WORDS += [
    "\\N{BULLET}",
    "(",
    ")",
    "[",
    "]",
    ",",
    "lambda",
    "\n",
    "# c\n",
    "1",
    "==",
    "!=",
    "é",
    "'k'",
    '"k"',
    "{a}",
    "{b!r}",
]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="this Python reads f-strings as strings")
@pytest.mark.filterwarnings("ignore")  # of backslashes that escape nothing
@settings(max_examples=1_000, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14), st.sampled_from(["f'", 'f"', "f'''", 'rf"""']))
def test_f_strings_are_taken_apart_as_the_newest_python_does(words: list[str], opening: str) -> None:
    source = f"x = ({opening}{''.join(words)}{opening.lstrip('rf')})"
    try:
        expected = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    rewritten = parse_modern(source)
    if rewritten is not None:
        lines = source.encode().split(b"\n")
        assert lower(rewritten, lines) == lower(expected, lines)
