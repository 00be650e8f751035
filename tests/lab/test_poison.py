"""A job that always fails, and one that ends its process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.lab import crash, poison

if TYPE_CHECKING:
    from auditor.lab.place import Place


def test_a_failure_that_is_counted_in_its_own_transaction_is_never_counted(place: Place) -> None:
    outcome = poison.EXPERIMENT.run(place)
    assert outcome.holds, outcome.verdict
    none, same, new = (row.figures for row in outcome.rows)
    never = {"fetches": 10, "status": "queued", "attempts": 0, "runs": 0, "next_ran": False}
    assert none == same == never
    assert new == {"fetches": 3, "status": "dead", "attempts": 3, "runs": 0, "next_ran": True}


def test_a_crash_is_counted_only_by_a_claim_that_is_committed(place: Place) -> None:
    outcome = crash.EXPERIMENT.run(place)
    assert outcome.holds, outcome.verdict
    single, leased, reaped = (row.figures for row in outcome.rows)
    assert single == {"died": 5, "status": "queued", "attempts": 0, "next_ran": False}
    assert leased == {"died": 3, "status": "running", "attempts": 3, "lost": 0, "next_ran": True}
    assert reaped == {"died": 3, "status": "dead", "attempts": 3, "lost": 3, "next_ran": True}
