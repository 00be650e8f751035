"""A local setting where no transaction is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import SETTING_TRIGGERS, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule("TA102", "local-without-transaction", Severity.ERROR, triggers=SETTING_TRIGGERS, yields_to=("TA110",))


def check(timeline: Timeline) -> Iterator[Finding]:
    for ran, setting in timeline.settings():
        if setting.tenant is None or setting.clears or not timeline.ends_at_once(ran, setting):
            continue
        place = setting.place if setting.place.path == ran.place.path else ran.place
        finding = RULE.at(
            place, f"{setting.name} is set locally with no transaction open: it ends with its own statement"
        )
        if setting.place != place:
            finding = finding.see(setting.place, "set here, for the transaction")
        if ran.before.switched_at is not None:
            finding = finding.see(ran.before.switched_at, "autocommit is switched on here")
        elif ran.before.made is not None:
            finding = finding.see(ran.before.made, "the connection is in autocommit")
        yield finding.sure(min(ran.before.sure, setting.tenant)).mended(
            "open a transaction around the setting and the work that needs it"
        )
