"""TOML, by the standard library's parser or, before Python 3.11, by the one that it was made from."""

from __future__ import annotations

import sys
from typing import Any


def parse(text: str) -> dict[str, Any]:
    """What a TOML file says. Raises ValueError, or RecursionError, where it is none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    loaded: dict[str, Any] = tomllib.loads(text)
    return loaded
