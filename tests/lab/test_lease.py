"""A job that takes longer than its lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.lab.chart_svg import svg
from auditor.lab.chart_text import text
from auditor.lab.lease import EXPERIMENT

if TYPE_CHECKING:
    from auditor.lab.place import Place


def test_who_works_when_a_lease_ends_before_its_job(place: Place) -> None:
    outcome = EXPERIMENT.run(place)
    assert outcome.holds, outcome.verdict
    seen = [tuple(row.figures.values()) for row in outcome.rows]
    assert seen == [
        (2, 2, "done"),
        (2, 1, "done"),
        (1, 1, "done"),
        (3, 0, "dead"),
        (1, 0, "running"),
        (2, 1, "done"),
    ]
    (picture,) = outcome.charts
    assert "hangs" in text(picture, 120, False)
    assert svg(picture).count("<rect") == sum(worked for worked, _, _ in seen)
