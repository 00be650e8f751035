"""Policies and functions as objects of alembic_utils: each is given what stands behind its head.

Facts: `PGPolicy(schema, signature, definition, on_entity)` and `PGFunction(schema, signature, definition)`, whose SQL
is the head that these make, and the definition (alembic_utils/pg_policy.py and pg_function.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from auditor.program.tree import descend, last_name
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.program.code import ModuleInfo

PACKAGE = "alembic_utils"
_PARAMETERS = ("schema", "signature", "definition", "on_entity")


class Entity(NamedTuple):
    head: str
    definition: nodes.Text


def entities(module: ModuleInfo) -> Iterator[Entity]:
    """Those that a module makes, with the strings that define them."""
    if not any(part.loads.partition(".")[0] == PACKAGE for part in module.imports):
        return
    for part in descend(module.facts.module.body):
        name = last_name(part.function) if isinstance(part, nodes.Call) else None
        if isinstance(part, nodes.Call) and name in ("PGPolicy", "PGFunction"):
            given = dict(zip(_PARAMETERS, part.arguments, strict=False)) | dict(part.keywords)
            definition, signature = given.get("definition"), _plain(given.get("signature"))
            if isinstance(definition, nodes.Text) and signature:
                table = _plain(given.get("on_entity")) or "unnamed"
                policy = f'CREATE POLICY "{signature}" ON {table} '
                yield Entity(policy if name == "PGPolicy" else f"CREATE FUNCTION {signature} ", definition)


def _plain(value: object) -> str:
    """A string that is written out; empty for any other."""
    pieces = value.pieces if isinstance(value, nodes.Text) else ()
    written = [piece for piece in pieces if isinstance(piece, str)]
    return "".join(written) if len(written) == len(pieces) else ""
