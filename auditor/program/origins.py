"""Where a text comes from, stretch by stretch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from auditor.python import nodes


class Origin(NamedTuple):
    """From where a stretch of a text comes: characters `start` up to `end` are those of piece `piece`, `skip` in.

    `path` is a file; for Python `span` is that of the literal in it, for a .sql file `span` is None and the characters
    are those of the file itself. Where a call stands for the text, `span` is the call's and `piece` is -1.
    """

    start: int
    end: int
    path: str
    span: nodes.Span | None
    piece: int
    skip: int
