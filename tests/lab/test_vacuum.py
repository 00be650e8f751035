"""A transaction that is held open: what VACUUM leaves behind, and what each fetch reads past."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.lab import drift, vacuum
from auditor.lab.chart_svg import svg

if TYPE_CHECKING:
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
