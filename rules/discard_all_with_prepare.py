"""DISCARD ALL on a connection whose driver prepares statements by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule(
    "TA201",
    "discard-all-with-prepare",
    Severity.ERROR,
    triggers=(rb"discard\s+all", rb"deallocate\s+all", rb"deallocate\s+prepare\s+all"),
)


def check(timeline: Timeline) -> Iterator[Finding]:
    for ran in timeline.discards():
        if ran.before.in_transaction and ran.statement.kind == "discard":
            continue  # it fails before it can do harm, and discard-all-in-transaction says so
        if ran.before.prepares_after is None or not timeline.is_used_again(ran):
            continue
        what = "DISCARD ALL" if ran.statement.kind == "discard" else "DEALLOCATE ALL"
        version, of_version = timeline.version_of(ran), ""
        if version is not None:
            said = f"{ran.before.driver} {version.text}, which {version.path} tells"
            of_version = _told(said, timeline.notices_discard(ran))
        finding = RULE.at(
            ran.place,
            f"{what} drops the statements that {ran.before.driver} has prepared and still counts on: "
            f"later jobs fail with: prepared statement … does not exist{of_version}",
        )
        pool = timeline.pool_of(ran)
        if pool is not None:
            finding = finding.see(pool, f"statements are prepared after {ran.before.prepares_after} executions")
        elif ran.before.made is not None:
            finding = finding.see(
                ran.before.made, f"statements are prepared after {ran.before.prepares_after} executions"
            )
        yield finding.sure(ran.before.sure).mended(
            "set the tenant locally and clean nothing; or keep the driver from preparing "
            "(psycopg: prepare_threshold=None, asyncpg: statement_cache_size=0); or "
            "RESET ALL; CLOSE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES"
        )


def _told(version: str, notices: bool) -> str:
    """What the version that the project runs with changes of it: nothing to rely on."""
    return (
        f"; {version}, notices it only by luck, and not with one to five statements a job"
        if notices
        else f" ({version})"
    )
