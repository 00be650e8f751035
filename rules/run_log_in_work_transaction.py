"""The record of a run that vanishes with the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CLAIM_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA307", "run-log-in-work-transaction", Severity.NOTE, triggers=CLAIM_TRIGGERS)


def check(timeline: Timeline) -> Iterator[Finding]:
    for run in timeline.jobs:
        for log, ending in run.lost_logs:
            finding = RULE.at(
                log.place, "the record of this run is rolled back with the work: of a failed run nothing remains"
            )
            if ending.failed_at is not None:
                finding = finding.see(ending.failed_at, "when this fails, the record goes too")
            yield finding.sure(min(log.sure, run.claim.sure)).mended(
                "commit the record with the claim, before the work"
            )
