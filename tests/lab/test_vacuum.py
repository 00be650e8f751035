"""A transaction that is held open: what VACUUM leaves behind, and what each fetch reads past."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from auditor.lab import drift, vacuum
from auditor.lab.chart_svg import svg
from auditor.lab.holders import HOLDERS, NOBODY

if TYPE_CHECKING:
    from auditor.lab.holders import Holder
    from auditor.lab.place import Place


def test_what_has_written_holds_all_that_died_since(place: Place) -> None:
    outcome = vacuum.EXPERIMENT.run(place)
    assert outcome.holds, outcome.verdict
    left = [row.figures["left"] for row in outcome.rows]
    jobs = outcome.rows[0].figures["jobs"]
    assert left == [jobs, jobs, 0, 0, jobs, jobs]


def test_each_fetch_reads_past_what_was_fetched_before(place: Place) -> None:
    outcome = drift.EXPERIMENT.run(place)
    assert outcome.holds, outcome.verdict
    nobody, reader, *held = (row.figures for row in outcome.rows)
    flat = nobody["buffers"][-1]
    assert reader["buffers"][-1] <= 2 * flat
    for figures in held:
        assert figures["buffers"] == sorted(figures["buffers"])
        assert figures["buffers"][-1] > 2 * flat
        assert figures["buffers"][-1] > 3 * figures["buffers"][0]
        assert figures["after"] < figures["buffers"][-1]
    (picture,) = outcome.charts
    assert svg(picture).count("<polyline") == len(outcome.rows)


@pytest.mark.parametrize("holder", [NOBODY, HOLDERS[0]], ids=["no transaction", "has written"])
def test_what_is_read_is_told_from_what_is_claimed(
    place: Place, monkeypatch: pytest.MonkeyPatch, holder: Holder
) -> None:
    claimed = drift.Way(holder._replace(holds=not holder.holds))
    monkeypatch.setattr(drift, "WAYS", (drift.Way(NOBODY), claimed))
    outcome = drift.EXPERIMENT.run(place)
    assert [row.holds for row in outcome.rows] == [True, False]
    assert not outcome.holds
    flat, other = (row.figures["buffers"] for row in outcome.rows)
    assert (flat == other) is (holder is NOBODY)
