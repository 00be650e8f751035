"""What Python comes to as nodes."""

from __future__ import annotations

import pytest

from auditor.python import nodes
from auditor.python.read import Unread, read_python
from tests.python.compact import all_nodes, compact, facts_of


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("a.b(c, *d, e=1, **f)", "do a.b(c, *d, e=1, **f)", id="a call keeps all kinds of arguments"),
        pytest.param("x = y = 1", "x = y = 1", id="an assignment has all its targets"),
        pytest.param("x: int", "x: int", id="a declaration has no value"),
        pytest.param("x: int = 1", "x: int = 1", id="an annotated assignment"),
        pytest.param("x.y[0] += 1", "x.y[0] += 1", id="an augmented assignment"),
        pytest.param("x = None, True, 1, 1.5", "x = (None, True, 1, 1.5)", id="constants"),
        pytest.param("x = ..., 2j", "x = (?(), ?())", id="an ellipsis and complex numbers are opaque"),
        pytest.param("x = -1, +2.5, - -3", "x = (-1, 2.5, 3)", id="signed numbers are constants"),
        pytest.param("x = -a, ~1, -True", "x = (?(a), ?(1), ?(True))", id="signed names and inverted ones are opaque"),
        pytest.param("x = not a", "x = (not a)", id="not"),
        pytest.param("x = a + b * c", "x = (a + (b * c))", id="operators nest as they bind"),
        pytest.param("x = a + b - c", "x = ((a + b) - c)", id="a chain leans left"),
        pytest.param("x = a @ b // c ** d", "x = ((a @ b) // (c ** d))", id="operators are written as in Python"),
        pytest.param("x = a and b and c or d", "x = ((a and b and c) or d)", id="and, or"),
        pytest.param("x = a < b <= c is not d", "x = (a < b <= c is not d)", id="a chained comparison is one"),
        pytest.param("x = a if b else c", "x = (a if b else c)", id="a conditional expression"),
        pytest.param("x = a[1:b], c[d, ::e]", "x = (a[?(1, b)], c[(d, ?(e))])", id="slices are opaque"),
        pytest.param("x = [a, *b], {c}, {d: e, **f}", "x = ([a, *b], {c}, {d: e, **f})", id="displays"),
        pytest.param("if (x := f()): pass", "if (x := f())", id="an assignment expression"),
        pytest.param("await f(x)", "do (await f(x))", id="await"),
        pytest.param("a, *b = c", "(a, *b) = c", id="targets may be starred"),
        pytest.param("assert a, b", "assert a", id="assert leaves its message out"),
        pytest.param("del a, b[0]", "del a, b[0]", id="del"),
        pytest.param("raise A from b", "raise A", id="raise leaves its cause out"),
        pytest.param("raise", "raise ", id="raise again"),
        pytest.param("global a, b", "global a, b", id="global"),
        pytest.param("pass", "", id="pass leaves nothing"),
    ],
)
def test_expressions_and_simple_statements(source: str, expected: str) -> None:
    assert compact(source) == expected.rstrip()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("[a for a in b if c if d]", "do list(a for a in b if c if d)", id="a list with two conditions"),
        pytest.param("{a for a, b in c for d in a}", "do set(a for (a, b) in c for d in a)", id="a set of two loops"),
        pytest.param("{a: b for a in c}", "do dict(a, b for a in c)", id="a dict has two results"),
        pytest.param("f(a for a in b)", "do f(generator(a for a in b))", id="a generator expression"),
        pytest.param("[a async for a in b]", "do async list(a for a in b)", id="an asynchronous one"),
        pytest.param("x = lambda a, *b, c=1: a", "x = (lambda(a, args b, keyword c = 1): a)", id="a lambda"),
        pytest.param("x = lambda: (yield 1)", "x = (lambda*(): (yield 1))", id="a lambda that yields"),
    ],
)
def test_comprehensions_and_lambdas(source: str, expected: str) -> None:
    assert compact(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("x = 'a' \"b\" '''c'''", "x = 'abc'", id="strings side by side are one"),
        pytest.param("x = ''", "x = ''", id="an empty string has no pieces"),
        pytest.param("x = b'caf\\xc3\\xa9'", "x = 'café'", id="bytes are read as UTF-8"),
        pytest.param("x = b'caf\\xe9'", "x = 'café'", id="or else as latin-1"),
        pytest.param("x = f'a {b} c'", "x = 'a {b} c'", id="an f-string has holes"),
        pytest.param("x = 'a' f'{b}' 'c' f'd'", "x = 'a{b}cd'", id="text around holes is merged"),
        pytest.param("x = f'{{a}}'", "x = '{a}'", id="doubled braces are single ones"),
        pytest.param("x = f'{a!r} {b:>3} {c!s} {d:}'", "x = '{?(a)} {?(b)} {c} {d}'", id="what reshapes is opaque"),
        pytest.param("x = f'{a:>{b}}'", "x = '{?(a, b)}'", id="a format spec has parts too"),
        pytest.param("x = f'{a = }'", "x = 'a = {?(a)}'", id="a debugged hole has its text before it"),
        pytest.param("x = f'a {f\"b {c}\"} d'", "x = 'a b {c} d'", id="an f-string in a hole is inlined"),
        pytest.param("x = f'a {\"b\"} c'", "x = 'a b c'", id="a string in a hole is text"),
        pytest.param("x = f'{\"b\"!r}'", "x = \"{?('b')}\"", id="but not when it is converted"),
        pytest.param("x = f'{b\"b\"}'", "x = \"{'b'}\"", id="nor when it is bytes"),
        pytest.param("x = f'{1}{None}'", "x = '{1}{None}'", id="other constants stay in their holes"),
        pytest.param("x = f'{a, b}'", "x = '{(a, b)}'", id="a tuple in a hole"),
    ],
)
def test_strings(source: str, expected: str) -> None:
    assert compact(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param('"""doc"""\nx = 1', "x = 1", id="of a module"),
        pytest.param('class A:\n    """doc"""\n    x = 1', "class A()\n  x = 1", id="of a class"),
        pytest.param('def f():\n    """doc"""', "def f()", id="of a function"),
        pytest.param("x = 1\n'note'\nb'note'\nf'note'", "x = 1", id="and any other string that does nothing"),
        pytest.param("f'{g()}'", "do '{g()}'", id="but not one whose holes do something"),
    ],
)
def test_docstrings_are_left_out(source: str, expected: str) -> None:
    assert compact(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            "def f(a, /, b: int, c=1, *d, e, g=2, **h) -> A: pass",
            "def f(positional a, b: int, c = 1, args d, keyword e, keyword g = 2, kwargs h) -> A",
            id="all kinds of parameters",
        ),
        pytest.param(
            "@a.b(1)\n@c\nasync def f(): await x", "@a.b(1)\n@c\nasync def f()\n  do (await x)", id="decorators"
        ),
        pytest.param("def f():\n    yield", "def f*()\n  do (yield )", id="a generator"),
        pytest.param(
            "def f():\n    def g():\n        yield from x\n    return lambda: (yield)",
            "def f()\n  def g*()\n    do (yield from x)\n  return (lambda*(): (yield ))",
            id="what yields inside belongs to the inner function",
        ),
        pytest.param("class A(B, c=D): x = 1", "class A(B, c=D)\n  x = 1", id="a class with keywords"),
        pytest.param("def f():\n    return\n    nonlocal x", "def f()\n  return\n  nonlocal x", id="a bare return"),
    ],
)
def test_functions_and_classes(source: str, expected: str) -> None:
    assert compact(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            "if a: b\nelif c: d\nelse: e", "if a\n  do b\nelse\n  if c\n    do d\n  else\n    do e", id="elif nests"
        ),
        pytest.param("while a:\n    break\nelse:\n    b", "while a\n  break\nelse\n  do b", id="a loop with an else"),
        pytest.param("async for a in b:\n    continue", "async for a in b\n  continue", id="an asynchronous loop"),
        pytest.param(
            "with a as b, c() as (d, e): f", "with a as b, c() as (d, e)\n  do f", id="several items of a with"
        ),
        pytest.param("async with (a as b, c,): f", "async with a as b, c\n  do f", id="items in brackets"),
        pytest.param(
            "try: a\nexcept (B, C) as d: e\nexcept: g\nelse: h\nfinally: i",
            "try\n  do a\nexcept (B, C) as d\n  do e\nexcept\n  do g\nelse\n  do h\nfinally\n  do i",
            id="try with everything",
        ),
        pytest.param("try: a\nexcept* B as c: d", "try\n  do a\nexcept B as c\n  do d", id="except* is read as except"),
    ],
)
def test_blocks(source: str, expected: str) -> None:
    assert compact(source) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        pytest.param("1", "[1] ()", id="a number"),
        pytest.param("-1 | 'a' | None", "[-1, 'a', None] ()", id="one of several values"),
        pytest.param("A.b", "[A.b] ()", id="a dotted name is a value"),
        pytest.param("1 | 2 as x", "[1, 2] (x)", id="values that are bound"),
        pytest.param("x", "[] (x) always", id="a name takes anything"),
        pytest.param("_", "[] () always", id="a wildcard takes anything"),
        pytest.param("x if x", "[] (x) if x", id="a guard may refuse"),
        pytest.param("1 | _", "[] () always", id="a wildcard among values takes anything"),
        pytest.param("1 | A()", "[] ()", id="values beside other patterns are not all"),
        pytest.param("[a, *b]", "[] (a, b)", id="a sequence binds names"),
        pytest.param("{'k': a, **b}", "[] (b, a)", id="a mapping binds names"),
        pytest.param("A(a, b=B(c) as d)", "[] (a, d, c)", id="a class binds names"),
        pytest.param("(a, 1) | (1, a)", "[] (a)", id="a name in every choice is told once"),
    ],
)
def test_cases(pattern: str, expected: str) -> None:
    assert compact(f"match x:\n    case {pattern}:\n        f()") == f"match x\n  case {expected}\n    do f()"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("import a.b, c as d", "import a as a (loads a.b)\nimport c as d", id="each module of a list"),
        pytest.param("import a.b as c", "import a.b as c", id="a renamed submodule"),
        pytest.param("from a import b, c as d", "from a import b as b\nfrom a import c as d", id="each name of a list"),
        pytest.param("from . import a", "from . import a as a", id="from the package"),
        pytest.param("from ..a import *", "from ..a import * as *", id="everything"),
    ],
)
def test_imports(source: str, expected: str) -> None:
    assert compact(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            "if TYPE_CHECKING:\n    from a import b\n    x = 1\nelse:\n    c = 1",
            "from a import b as b\nc = 1",
            id="only their imports are kept, and what runs instead",
        ),
        pytest.param(
            "if typing.TYPE_CHECKING:\n    try:\n        import a\n    except ImportError:\n        import b",
            "import a as a\nimport b as b",
            id="imports are found in blocks inside",
        ),
        pytest.param("if not TYPE_CHECKING:\n    a()\nelse:\n    import b", "do a()\nimport b as b", id="turned round"),
        pytest.param(
            "if a: b\nelif TYPE_CHECKING: import c\nelse: d",
            "if a\n  do b\nelse\n  import c as c\n  do d",
            id="as one branch of several",
        ),
    ],
)
def test_type_checking_blocks_are_left_out(source: str, expected: str) -> None:
    assert compact(source) == expected


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        pytest.param("'Connection[Any]'", "Connection[Any]", id="a quoted type"),
        pytest.param("'Pool | None'", "(Pool | None)", id="a quoted union"),
        pytest.param("Optional['Pool']", "Optional[Pool]", id="a quoted argument"),
        pytest.param("dict[str, 'list[\"Pool\"]']", "dict[(str, list[Pool])]", id="quotes in quotes"),
        pytest.param("'Pool' | None", "(Pool | None)", id="one side of a union"),
        pytest.param("Callable[['A'], 'B']", "Callable[([A], B)]", id="lists of types"),
        pytest.param("Literal['A']", "Literal['A']", id="a literal stays a string"),
        pytest.param("t.Annotated['A', 'b c']", "t.Annotated[(A, 'b c')]", id="what is annotated stays a string"),
        pytest.param("'the number of rows'", "'the number of rows'", id="prose stays a string"),
        pytest.param("''", "''", id="an empty string stays one"),
        pytest.param("'\\n  A,  # type\\n  B'", "(A, B)", id="lines and comments"),
    ],
)
def test_quoted_annotations_are_code(annotation: str, expected: str) -> None:
    assert compact(f"x: {annotation}") == f"x: {expected}"
    assert compact(f"def f(x: {annotation}) -> {annotation}: pass") == f"def f(x: {expected}) -> {expected}"


def test_a_quoted_annotation_stands_where_its_string_does() -> None:
    facts = facts_of("\nx: 'A[B]'")
    assert {node.span for node in all_nodes(facts) if isinstance(node, nodes.Name) and node.id != "x"} == {(2, 3, 2, 9)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("def f(): pass", (1, 4, 1, 5), id="def"),
        pytest.param("@a\nasync  def   name(): pass", (2, 13, 2, 17), id="async def with spaces to spare"),
        pytest.param("class É(B): pass", (1, 6, 1, 8), id="class, in bytes"),
        pytest.param("def \\\n  f(): pass", (1, 0, 1, 5), id="a name on another line"),
    ],
)
def test_the_place_of_a_name(source: str, expected: nodes.Span) -> None:
    (node,) = facts_of(source).module.body
    assert isinstance(node, (nodes.Function, nodes.Class))
    assert node.name_span == expected


def test_spans_are_those_of_ast() -> None:
    (node,) = facts_of("x = é + f(1,\n  2)").module.body
    assert isinstance(node, nodes.Assign)
    assert isinstance(node.value, nodes.Binary)
    assert (node.span, node.value.span, node.value.right.span) == ((1, 0, 2, 4), (1, 4, 2, 4), (1, 9, 2, 4))


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("x = " + " + ".join(["'a'"] * 950), id="a sum of 950 terms"),
        pytest.param("if a: b\n" + "elif a: b\n" * 950, id="950 times elif"),
        pytest.param("x = " + "(" * 150 + "a" + ")" * 150, id="150 brackets"),
        pytest.param("x = " + "[" * 90 + "a" + "]" * 90, id="90 lists"),
        pytest.param("x = a" + ".b()" * 150, id="150 calls in a row"),
    ],
)
def test_what_nests_deep_is_read(source: str) -> None:
    facts_of(source)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("x = " + " + ".join(["a"] * 3_000), id="a sum of 3,000 terms"),
        pytest.param("if a: b\n" + "elif a: b\n" * 3_000, id="3,000 times elif"),
        pytest.param("x = a" + ".b" * 3_000, id="3,000 attributes"),
        pytest.param("x = a" + "()" * 3_000, id="3,000 calls"),
        pytest.param("x = " + "a if b else " * 3_000 + "c", id="3,000 conditions"),
        pytest.param("x = " + "lambda: " * 3_000 + "c", id="3,000 lambdas"),
        pytest.param("x = " + "-" * 100_000 + "1", id="100,000 signs"),
        pytest.param("(" * 1_000 + ")" * 1_000, id="1,000 brackets"),
        pytest.param("".join(" " * n + "if a:\n" for n in range(150)) + " " * 150 + "b", id="150 indentations"),
        pytest.param("x = " + 'f"{' * 400 + "a" + '}"' * 400, id="400 f-strings in f-strings"),
    ],
)
def test_what_nests_deeper_is_read_or_said_to_be_too_deep(source: str) -> None:
    facts = read_python(source.encode())
    if isinstance(facts, Unread):
        assert facts.reason == "nested too deeply to read"
