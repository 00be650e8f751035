"""Comments that speak to the audit, and the lines of long statements."""

from __future__ import annotations

import io
import sysconfig
import tokenize
from pathlib import Path

import pytest

from auditor.python.nodes import Comment
from auditor.python.read import decode
from auditor.python.scan import tokens
from tests.python.compact import facts_of


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            "x = 1  # tenant-audit: ignore[TA101] why",
            [Comment("# tenant-audit: ignore[TA101] why", 1, 7, False)],
            id="behind code",
        ),
        pytest.param(
            "if a:\n\t# tenant-audit: b\n\tc", [Comment("# tenant-audit: b", 2, 1, True)], id="on its own line"
        ),
        pytest.param("x = 'é'  # tenant-audit", [Comment("# tenant-audit", 1, 10, False)], id="columns are in bytes"),
        pytest.param("f(a,  # tenant-audit\n  b)", [Comment("# tenant-audit", 1, 6, False)], id="inside a statement"),
        pytest.param("x = '# tenant-audit'", [], id="a string is no comment"),
        pytest.param("x = '''\n# tenant-audit\n'''", [], id="nor is a line of a string"),
        pytest.param("x = f'# tenant-audit {a} # tenant-audit'", [], id="nor an f-string"),
        pytest.param("x = 'a\\\n# tenant-audit'", [], id="nor a string that goes on"),
        pytest.param("x = 1  # another comment\ny = 'tenant-audit'", [], id="other comments are left out"),
        pytest.param(
            "x = f'{a['b']}'  # tenant-audit", [Comment("# tenant-audit", 1, 17, False)], id="behind new syntax"
        ),
    ],
)
def test_comments(source: str, expected: list[Comment]) -> None:
    assert list(facts_of(source).comments) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("x = 1\ny = 2", [], id="statements of one line are not told"),
        pytest.param("x = f(\n  1,\n)", [(1, 3)], id="a call over three lines"),
        pytest.param("x = '''\n'''", [(1, 2)], id="a string over two lines"),
        pytest.param("x = 1 + \\\n  2", [(1, 2)], id="a joined line"),
        pytest.param("def f(\n  a,\n):\n  # note\n\n  pass", [(1, 3)], id="a header ends at its colon"),
        pytest.param("def f(a,\n  b=lambda: {1: 2}):\n\n  pass", [(1, 2)], id="colons inside are not the end"),
        pytest.param("if lambda: (1,\n  2):\n\n  pass", [(1, 2)], id="nor is that of a lambda"),
        pytest.param("def f(a):\n  # note\n  '''doc\n  '''", [(3, 4)], id="a comment is no part of a header"),
        pytest.param("@a(\n  b\n)\n@c\ndef f(): pass", [(1, 3)], id="a decorator stands alone"),
        pytest.param("with a(\n), b(\n):\n  x = (\n  )", [(1, 3), (4, 5)], id="header and body"),
        pytest.param(
            "try:\n  a\nexcept (B,\n  C):\n  d(\n  )\nelse:\n  e(\n)", [(3, 4), (5, 6), (8, 9)], id="handlers"
        ),
        pytest.param("match (\n  a\n):\n  case [\n    b\n  ]:\n    c", [(1, 3), (4, 6)], id="match and its cases"),
        pytest.param("class A(\n  B):\n  x = [\n  ]", [(1, 2), (3, 4)], id="a class"),
        pytest.param("if a: b(\n)", [(1, 2)], id="a body on the line of its header"),
        pytest.param("for a in b(\n):\n  pass\nelse:\n  c", [(1, 2)], id="a loop"),
        pytest.param("def f[\n  T\n](a): # b\n  # c\n  # d\n  pass", [(1, 3)], id="type parameters"),
    ],
)
def test_long_statements(source: str, expected: list[tuple[int, int]]) -> None:
    assert list(facts_of(f"{source}\n# tenant-audit").statements) == expected
    assert not facts_of(source).statements, "nobody asks where no comment speaks to the audit"


@pytest.mark.parametrize(
    "name", ["ast", "dataclasses", "enum", "inspect", "re/__init__", "typing", "tokenize", "string"]
)
def test_comments_are_found_where_tokenize_finds_them(name: str) -> None:
    path = Path(sysconfig.get_path("stdlib"), f"{name}.py")
    if not path.exists():
        pytest.skip("this Python keeps it elsewhere")
    source = decode(path.read_bytes())
    assert isinstance(source, str)
    expected = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    assert [token.text for token in tokens(source) if token.kind == "comment"] == expected
