"""The tenant of one job in the hands of the next one, through every driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from auditor.lab import leak
from auditor.lab.leak import EXPERIMENT
from auditor.lab.leaks import DRIVERS, Driver, Variant

if TYPE_CHECKING:
    from auditor.lab.place import Place


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_a_committed_session_setting_is_the_next_jobs_tenant(place: Place, driver: Driver) -> None:
    if driver.missing:
        pytest.skip(f"needs {driver.missing}")
    place.with_invoices()
    seen = {variant: driver.run(place.worker_dsn, variant) for variant in driver.variants}
    if driver.clears:
        assert set(seen.values()) == {(0, 0, 0)}
    else:
        assert seen[Variant.SESSION] == (20_000, 10_000, 6_666)
        assert seen[Variant.SESSION_FAILS] == (20_000, 20_000, 6_666)  # what is left is the last success's
        assert seen[Variant.AUTOCOMMIT] == (20_000, 10_000, 6_666)  # there is nothing to roll back
        assert seen[Variant.LOCAL] == (0, 0, 0)


def test_the_experiment_holds(place: Place) -> None:
    outcome = EXPERIMENT.run(place)
    assert outcome.holds, outcome.verdict
    assert outcome.verdict.startswith("holds: ")
    assert [row.figures["seen"] for row in outcome.rows[:4]] == [
        (20_000, 10_000, 6_666),
        (20_000, 20_000, 6_666),
        (20_000, 10_000, 6_666),
        (0, 0, 0),
    ]


def test_a_driver_that_is_not_here_is_skipped_with_a_word(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = DRIVERS[0]._replace(name="theirs", needs=("no_such_driver",), program="no-such-program")
    monkeypatch.setattr(leak, "DRIVERS", (gone,))
    (row,) = EXPERIMENT.run(place).rows
    assert (row.what, row.here) == ("theirs", "skipped: needs no_such_driver and no-such-program")
    assert row.holds is None
