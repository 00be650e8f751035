"""A tenant's search_path that outlives its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.rule import Confidence, Finding, Rule, Severity, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = Rule(
    "TA106",
    "session-search-path",
    Severity.WARNING,
    triggers=(rb"search_path", rb"set_tenant", rb"set_schema", rb"tenant_schemas_celery"),
)

#: What becomes of the path that a class of connections sets, by whether it is set once.
_FORGETS = {
    True: "this path is set once a connection: on one that is kept, the next tenant works in the schema of the first",
    False: "where there is no tenant none is set: the connection goes on in the schema of the one before",
}


def check(timeline: Timeline) -> Iterator[Finding]:
    for leak in timeline.search_path_leaks():
        if leak.lost_cleanup is not None:
            continue
        finding = RULE.at(
            leak.set_at,
            "search_path is set to a tenant's schema for the session: it outlives the job, "
            "and the next one on this connection reads and writes that tenant's tables",
        ).see_all(timeline.way_of_leak(leak, still="in this tenant's schema"))
        yield finding.sure(leak.sure).mended(
            "set it for the transaction only, inside the one that does the work: "
            "SET LOCAL search_path, or set_config('search_path', …, true)"
        )
    for left, put_back in timeline.schemas_left():
        finding = RULE.at(
            left.pointed,
            "the connection is pointed at another schema here, and one way out leaves it there: "
            "whoever uses it next reads and writes that tenant's tables",
        ).see(put_back, "here it is put back")
        yield finding.sure(Confidence.MEDIUM).mended(
            "put it back in finally, or use the block that does: with tenant_context(tenant), with schema_context(name)"
        )
    for left in timeline.schemas_kept_by_tasks():
        finding = RULE.at(
            left.pointed,
            "the connection is pointed at a tenant's schema here, and the task ends there: "
            "the next one in this process that names no tenant reads and writes that tenant's tables",
        ).see(left.place, "the task")
        yield finding.sure(Confidence.MEDIUM).mended(
            "put it back in finally, or use the block that does: with tenant_context(tenant), with schema_context(name)"
        )
    for forgotten in timeline.forgetful_wrappers():
        finding = RULE.at(forgotten.place, _FORGETS[forgotten.once]).see(
            forgotten.why,
            "that it was set is remembered here, and not for whom"
            if forgotten.once
            else "the tenant is taken away here, and nothing is sent",
        )
        yield finding.sure(Confidence.MEDIUM).mended(
            "remember for which tenant the path was set, and set it anew for any other, also for none"
        )
