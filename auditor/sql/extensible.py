"""sqlglot's parser for Postgres, as a class that can be extended.

`sqlglot[c]` lays compiled modules over sqlglot's own, and no class of ours may inherit from a compiled one. The source
is still there beside them: the parser is then made from it once more, for us alone.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot.dialects.postgres import Postgres

if TYPE_CHECKING:
    from types import ModuleType


def postgres_parser() -> Any:
    """The class to extend."""
    parser = sys.modules["sqlglot.parser"]
    if str(parser.__file__).endswith(".py"):
        return Postgres.Parser
    folder = Path(sqlglot.__file__).parent
    base = _interpreted("parser", folder / "parser.py")
    package: Any = sqlglot
    sys.modules["sqlglot.parser"] = package.parser = base
    try:
        return _interpreted("parsers_postgres", folder / "parsers" / "postgres.py").PostgresParser
    finally:
        sys.modules["sqlglot.parser"] = package.parser = parser


def _interpreted(name: str, source: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"auditor.sql.interpreted_{name}", source)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
