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
TEXT, COUNT, TIME = ("text", "character varying"), ("integer", "bigint", "smallint"), ("timestamp with time zone",)
#: By column, as PostgreSQL calls the types; a length is only told of those that a worker writes at any length.
ACCEPTED: Mapping[str, tuple[str, ...]] = {
    "id": ("bigint", "integer"),
    "kind": TEXT,
    "payload": ("jsonb", "json"),
    "key": TEXT,
    "priority": COUNT,
    "status": TEXT,
    "attempts": COUNT,
    "max_attempts": COUNT,
    "fence": ("bigint",),
    "run_at": TIME,
    "time_limit": ("interval",),
    "locked_until": TIME,
    "deadline": TIME,
    "worker": TEXT,
    "last_error": TEXT,
    "created_at": TIME,
    "ended_at": TIME,
}
#: What a worker writes at any length.
LONG = ("worker", "last_error")


def accepted(tenant_type: str) -> tuple[str, ...]:
    """The types of a tenant column of that type."""
    return TEXT if tenant_type == "text" else (tenant_type,)
