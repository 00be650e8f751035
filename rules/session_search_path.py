"""A tenant's search_path that outlives its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA106", "session-search-path", Severity.WARNING, triggers=(rb"search_path",))

_HEIRS = {
    "pool": "the next job to borrow this connection starts here, still in this tenant's schema",
    "kept": "the next call finds the connection as it was left, still in this tenant's schema",
    "caller": "whoever passed the connection goes on with it, still in this tenant's schema",
    "loop": "the next turn runs this first, still in this tenant's schema",
}


def check(timeline: Timeline) -> Iterator[Finding]:
    for leak in timeline.search_path_leaks():
        finding = RULE.at(
            leak.set_at,
            "search_path is set to a tenant's schema for the session: it outlives the job, "
            "and the next one on this connection reads and writes that tenant's tables",
        )
        if leak.kept_at is not None and leak.kept_at == leak.set_at:
            finding = finding.see(leak.connection.made or leak.set_at, "in autocommit it is kept at once")
        elif leak.kept_at is not None and timeline.ends_block(leak.kept_at):
            finding = finding.see(leak.kept_at, "the end of this block commits, and keeps it")
        elif leak.kept_at is not None:
            finding = finding.see(leak.kept_at, "the commit keeps it")
        if leak.heir is not None:
            finding = finding.see(leak.heir, _HEIRS[leak.kind])
        yield finding.sure(leak.sure).mended(
            "set it for the transaction only, inside the one that does the work: "
            "SET LOCAL search_path, or set_config('search_path', …, true)"
        )
