"""Whether a live database carries what the workers need, as the login that asks."""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.errors import UserError, one_line
from auditor.reference.columns import LONG, accepted
from auditor.reference.write import Names, rename

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

FOLDER = Path(__file__).parent

_COLUMNS = """
    SELECT column_name::text, format_type(atttypid, CASE WHEN column_name = ANY (%s) THEN atttypmod END)
      FROM information_schema.columns
      JOIN pg_namespace ON nspname = table_schema
      JOIN pg_class ON relnamespace = pg_namespace.oid AND relname = table_name
      JOIN pg_attribute ON attrelid = pg_class.oid AND attname = column_name
     WHERE table_schema = %s AND table_name = %s
"""
_INDEXES = "SELECT indexname::text FROM pg_indexes WHERE schemaname = %s"
_FUNCTIONS = """
    SELECT proname::text, prosecdef, coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)
      FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace WHERE nspname = %s
"""
_POLICIES = """
    SELECT relname::text, relforcerowsecurity FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
     WHERE nspname = %s AND relrowsecurity
"""


def check(dsn: str, names: Names) -> list[str]:
    """What is missing or wrong, a sentence each."""
    try:
        import psycopg
    except ImportError as error:
        raise UserError("this needs psycopg: pip install 'tenant-audit[lab]'") from error
    try:
        with psycopg.connect(dsn, autocommit=True, application_name="tenant-audit") as conn:
            return [*_refusals(conn, names), *_missing(conn, names)]
    except psycopg.Error as error:
        raise UserError(f"the database cannot be asked: {one_line(str(error))}") from error


def _refusals(conn: Any, names: Names) -> Iterator[str]:
    """Why a worker would not start."""
    jobs = _jobs(names)
    try:
        jobs.probe(conn)
    except jobs.RefusedError as error:
        yield f"a worker would refuse to start: {error}"


def _jobs(names: Names) -> ModuleType:
    """The module of the workers with the names of this database."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "jobs.py")
        path.write_text(rename((FOLDER / "jobs.py").read_text(encoding="utf-8"), names, "jobs.py"), encoding="utf-8")
        spec = importlib.util.spec_from_file_location("_tenant_audit_jobs", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        finally:
            del sys.modules[spec.name]
    return module


def _missing(conn: Any, names: Names) -> Iterator[str]:
    """What schema.sql makes and is not there."""
    schema = (FOLDER / "schema.sql").read_text(encoding="utf-8")
    yield from _missing_columns(conn, names, schema)
    indexes = {row[0] for row in conn.execute(_INDEXES, (names.schema,))}
    for name in re.findall(r"INDEX IF NOT EXISTS jobs_(\w+)", schema):
        if f"{names.jobs}_{name}" not in indexes:
            yield f"{names.jobs}_{name}: this index is missing"
    functions = {row[0]: row[1:] for row in conn.execute(_FUNCTIONS, (names.schema,))}
    for name in re.findall(r"FUNCTION app\.(\w+)\(", schema):
        if name not in functions:
            yield f"{name}: this function is missing"
        elif functions[name] != (True, True):
            yield f"{name}: is not SECURITY DEFINER with search_path = pg_catalog, pg_temp"
    for table, forced in conn.execute(_POLICIES, (names.schema,)):
        if not forced:
            yield f"{table}: row security is not forced, so its owner sees every tenant's rows"


def _missing_columns(conn: Any, names: Names, schema: str) -> Iterator[str]:
    for ours, theirs in names.tables().items():
        there = dict(conn.execute(_COLUMNS, (list(LONG), names.schema, theirs)).fetchall())
        if not there:
            yield f"{theirs}: there is no such table that this login may see"
            continue
        types = accepted(names.column, names.type) if ours == "jobs" else {}
        for column, kind in _columns_of(schema, ours):
            name, wanted = (names.column, names.type) if column == "tenant_id" else (column, kind)
            if name not in there:
                yield f"{theirs}.{name}: is missing ({wanted})"
            elif there[name] not in types.get(name, (wanted,)):
                yield f"{theirs}.{name}: is {there[name]}, and should be {wanted}"


def _columns_of(schema: str, table: str) -> list[tuple[str, str]]:
    """The columns that schema.sql gives a table, with what PostgreSQL calls their types."""
    body = schema.split(f"CREATE TABLE IF NOT EXISTS app.{table} (\n", 1)[1].split("\n)", 1)[0]
    spelt = {"timestamptz": "timestamp with time zone"}
    found = re.findall(r"^    ([a-z_]+) +([a-z]+)\b", body, re.MULTILINE)
    return [(column, spelt.get(kind, kind)) for column, kind in found]
