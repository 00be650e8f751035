"""The columns of the jobs table: how each is added to one that is there, and which types the workers can do with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A default that is no constant at that moment would rewrite the table.
ADDED: Mapping[str, str] = {
    "kind": "text",
    "payload": "jsonb NOT NULL DEFAULT '{}'",
    "key": "text",
    "priority": "smallint NOT NULL DEFAULT 1",
    "status": "text NOT NULL DEFAULT 'queued'",
    "attempts": "integer NOT NULL DEFAULT 0",
    "max_attempts": "integer NOT NULL DEFAULT 3",
    "fence": "bigint NOT NULL DEFAULT 0",
    "run_at": "timestamptz NOT NULL DEFAULT now()",
    "time_limit": "interval NOT NULL DEFAULT interval '5 minutes'",
    "locked_until": "timestamptz",
    "deadline": "timestamptz",
    "worker": "text",
    "last_error": "text",
    "created_at": "timestamptz NOT NULL DEFAULT now()",
    "ended_at": "timestamptz",
}
_TEXT, _COUNT, _TIME = ("text", "character varying"), ("integer", "bigint", "smallint"), ("timestamp with time zone",)
#: As PostgreSQL calls them; a length is only told of those that a worker writes at any length.
_ACCEPTED: Mapping[str, tuple[str, ...]] = {
    "id": ("bigint", "integer"),
    "kind": _TEXT,
    "payload": ("jsonb", "json"),
    "key": _TEXT,
    "priority": _COUNT,
    "status": _TEXT,
    "attempts": _COUNT,
    "max_attempts": _COUNT,
    "fence": ("bigint",),
    "run_at": _TIME,
    "time_limit": ("interval",),
    "locked_until": _TIME,
    "deadline": _TIME,
    "worker": _TEXT,
    "last_error": _TEXT,
    "created_at": _TIME,
    "ended_at": _TIME,
}
#: What a worker writes at any length.
LONG = ("worker", "last_error")


def accepted(tenant_column: str, tenant_type: str) -> dict[str, tuple[str, ...]]:
    """The types that the workers can do with, by column, the tenant's as a team calls it."""
    return {**_ACCEPTED, tenant_column: _TEXT if tenant_type == "text" else (tenant_type,)}
