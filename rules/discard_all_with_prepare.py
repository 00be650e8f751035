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


#: From this version on psycopg notices DISCARD ALL, if only where its text is first seen while statements are cached.
_NOTICES = (3, 3, 5)


def _told(driver: str, numbers: tuple[int, ...]) -> str:
    """What the version that the project runs with changes of it: nothing to rely on."""
    if driver == "psycopg" and numbers >= _NOTICES:
        return "; {version}, which {file} tells, notices it only by luck, and not with one to five statements a job"
    return " ({version}, which {file} tells)"


def check(timeline: Timeline) -> Iterator[Finding]:
    for ran in timeline.discards():
        if ran.before.in_transaction and ran.statement.kind == "discard":
            continue  # it fails before it can do harm, and discard-all-in-transaction says so
        if ran.before.prepares_after is None or not timeline.is_used_again(ran):
            continue
        what = "DISCARD ALL" if ran.statement.kind == "discard" else "DEALLOCATE ALL"
        version = timeline.version_of(ran)
        of_version = ""
        if version is not None:
            told = _told(ran.before.driver, version.numbers)
            of_version = told.format(version=f"{ran.before.driver} {version.text}", file=version.path)
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
