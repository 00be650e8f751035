"""One Python file, read into facts: the one door to this package. Nothing that is read is run."""

from __future__ import annotations

import ast
import warnings

from auditor.python.encoding import Unread, decode
from auditor.python.layout import comments, long_statements
from auditor.python.lower import lower
from auditor.python.nodes import PythonFacts

__all__ = ["Unread", "decode", "read_python"]

_TOO_DEEP = "nested too deeply to read"


def read_python(data: bytes) -> PythonFacts | Unread:
    """The facts of a file, or why it can't be read. Raises nothing, whatever the bytes are."""
    with warnings.catch_warnings():
        # Of '\d' in a string Python warns, and under -W error it would refuse the file.
        warnings.simplefilter("ignore")
        source = decode(data)
        if isinstance(source, Unread):
            return source
        try:
            return _facts(source)
        except SyntaxError as error:
            return _refused(error)
        except (RecursionError, MemoryError):
            return Unread(_TOO_DEEP)
        except ValueError as error:  # some parsers stumble over what they don't know yet
            return Unread(f"not understood by the running Python: {error}")


def _facts(source: str) -> PythonFacts:
    tree, lowered = _parse(source)
    lines = source.encode().split(b"\n")
    told = comments(source)
    return PythonFacts(lower(tree, lines), told, long_statements(tree, lines) if told else (), lowered)


def _parse(source: str) -> tuple[ast.Module, bool]:
    """The tree, and whether it took more than the running Python to parse it."""
    try:
        return ast.parse(source), False
    except (SyntaxError, ValueError):
        tree = _parse_modern(source)
        if tree is None:
            raise
        return tree, True


def _parse_modern(source: str) -> ast.Module | None:
    from auditor.python.modern import parse_modern
    from auditor.python.scan import ScanError

    try:
        return parse_modern(source)
    except ScanError:
        return None


def _refused(error: SyntaxError) -> Unread:
    line = max(error.lineno or 1, 1)
    if error.msg.startswith("too many "):
        return Unread(_TOO_DEEP, line)
    reason = error.msg if error.msg.startswith("invalid syntax") else f"invalid syntax: {error.msg}"
    return Unread(reason, line, max(error.offset or 1, 1))
