"""Ways of cleaning a pooled connection: when they fail, and how many connections they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.lab.chart_text import text
from auditor.lab.reset import EXPERIMENT, version

if TYPE_CHECKING:
    from auditor.lab.place import Place


def test_what_each_way_of_cleaning_breaks(place: Place) -> None:
    outcome = EXPERIMENT.run(place)
    assert outcome.holds, outcome.verdict
    seen = {row.what: row.figures for row in outcome.rows}
    assert seen["nothing, set for the session"]["left"] == 200
    assert seen["nothing, set locally"]["left"] == 0
    assert seen["DISCARD ALL"]["failed"][0] == 7
    assert seen["DISCARD ALL, never prepared itself"]["failed"] == (7, 14, 21, 28, 35, 42, 49, 56)
    assert [seen[f"DISCARD ALL, threshold {threshold}"]["failed"][0] for threshold in (1, 10)] == [3, 12]
    assert seen["DISCARD ALL, prepare_threshold=None"]["failed"] == ()
    assert seen["the parts of DISCARD ALL that keep plans"]["failed"] == ()
    assert seen["the parts of DISCARD ALL that keep plans"]["connections"] == 1
    if version() >= (3, 3, 5):
        assert seen["DISCARD ALL, six executions in each job"]["failed"] == ()
    left_open = seen["RESET without commit"]
    assert left_open["connections"] == int(str(left_open["jobs"])) + 1
    (bars,) = outcome.charts
    assert "RESET without commit" in text(bars, 100, False)
