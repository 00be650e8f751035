"""A tenant that a connection is given when it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import CONNECT_TRIGGERS, SETTING_TRIGGERS, Confidence, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule(
    "TA107",
    "tenant-at-connect",
    Severity.WARNING,
    triggers=(*SETTING_TRIGGERS, *CONNECT_TRIGGERS),
    yields_to=("TA110",),
)

_MEND = "set it in each job, inside the transaction that does the work: set_config('{}', …, true)"


_FIRST = "is set when a connection is opened: every later job on it runs as the tenant of the one that opened it"
_GONE = "is set when a connection is opened, and the pool takes it away when the connection first comes back"


def check(timeline: Timeline) -> Iterator[Finding]:
    for fixed in timeline.tenants_at_connect():
        finding = RULE.at(fixed.set_at, f"{fixed.name} {_GONE if fixed.gone_after_first else _FIRST}")
        if fixed.pool_at is not None and fixed.pool_at != fixed.set_at:
            finding = finding.see(fixed.pool_at, "the pool keeps its connections for many jobs")
        if fixed.used_at is not None:
            how = "without a tenant" if fixed.gone_after_first else "as it is"
            finding = finding.see(fixed.used_at, f"a later job gets it {how}")
        yield finding.sure(fixed.sure).mended(_MEND.format(fixed.name))
    for given in timeline.tenants_of_roles():
        name = given.setting.name
        yield (
            RULE.at(
                given.place,
                f"{name} is given to {given.role}: all that connects from now on works for this tenant",
            )
            .sure(Confidence.HIGH if given.setting.of_task else Confidence.MEDIUM)
            .mended(_MEND.format(name))
        )
