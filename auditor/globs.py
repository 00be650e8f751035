"""Patterns of paths, as the configuration writes them.

A pattern without a slash matches the name of a file or folder wherever it stands: `migrations`, `*_pb2.py`. One with a
slash is a path from the folder of the configuration: `app/legacy`, `app/**/generated`. `*` and `?` stop at a slash,
`**` does not. What stands below a folder that matches, matches too.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def matcher(patterns: Iterable[str], base: str) -> Callable[[str], bool]:
    """A test of absolute paths against patterns that are relative to `base`."""
    expressions = [_translate(pattern) for pattern in patterns if pattern.strip("/")]
    if not expressions:
        return lambda _path: False
    match = re.compile("|".join(expressions), re.DOTALL).fullmatch
    prefix = base.rstrip(os.sep) + os.sep

    def matches(path: str) -> bool:
        return match(path.removeprefix(prefix).replace(os.sep, "/")) is not None

    return matches


def _translate(pattern: str) -> str:
    pattern = pattern.removeprefix("./")
    anchored = "/" in pattern.rstrip("/")
    body = "".join(_pieces(pattern.strip("/")))
    return f"(?:{'' if anchored else '(?:.*/)?'}{body}(?:/.*)?)"


_TOKEN = re.compile(r"(?P<deep>(?:(?<=/)|^)\*\*(?:/|$))|(?P<star>\*+)|(?P<one>\?)|\[(?P<set>!?\]?[^\]]*)\]", re.DOTALL)


def _pieces(pattern: str) -> Iterable[str]:
    end = 0
    for token in _TOKEN.finditer(pattern):
        yield re.escape(pattern[end : token.start()])
        end = token.end()
        if token["deep"]:
            yield "(?:.*/)?" if token["deep"].endswith("/") else ".*"
        elif token["star"]:
            yield "[^/]*"
        elif token["one"]:
            yield "[^/]"
        else:
            yield _character_set(token["set"])
    yield re.escape(pattern[end:])


def _character_set(text: str) -> str:
    negated = text.startswith("!")
    characters = re.sub(r"([\\\[\]^&|~])", r"\\\1", text.removeprefix("!"))
    return f"(?!/)[{'^' if negated else ''}{characters}]"
