"""Does the tenant of one job reach the next one on a pooled connection?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.lab.experiment import Experiment, Outcome, Row, Skipped, judged
from auditor.lab.leaks import DRIVERS, Variant

if TYPE_CHECKING:
    from auditor.lab.place import Place

#: What the next user of the connection sees after each of three jobs; the second fails where the variant says so.
_ARTICLE = {
    Variant.SESSION: (20_000, 10_000, 6_666),
    Variant.SESSION_FAILS: (20_000, 20_000, 6_666),
    Variant.AUTOCOMMIT: (20_000, 10_000, 6_666),
    Variant.LOCAL: (0, 0, 0),
}
_NOTHING = (0, 0, 0)


def run(place: Place) -> Outcome:
    place.with_invoices()
    rows = []
    for driver in DRIVERS:
        if driver.missing:
            rows.append(Skipped(driver.name, f"needs {driver.missing}").row())
            continue
        for variant in driver.variants:
            place.say(f"{driver.name}, {variant.value}")
            seen = driver.run(place.worker_dsn, variant)
            # asyncpg sets everything back when a connection is released; what SQLAlchemy does not commit is undone.
            expected = _NOTHING if driver.clears else _ARTICLE[variant]
            article = _ARTICLE[variant] if driver.name == "psycopg" else None
            rows.append(
                Row(
                    f"{driver.name}: {variant.value}",
                    _told(article) if article else "",
                    _told(seen),
                    seen == expected,
                    {"driver": driver.name, "variant": variant.name.lower(), "seen": seen},
                )
            )
    return judged(rows, "a session setting that was committed is the next job's tenant; a local one is nobody's")


def _told(seen: tuple[int, ...]) -> str:
    return " / ".join(f"{count:,}" for count in seen)


EXPERIMENT = Experiment(
    "leak",
    "Does one job's tenant reach the next job? Invoices that the next one sees, having set nothing",
    "Set the tenant locally, in the transaction of the job: set_config('app.tenant', …, true). TA101",
    run,
)
