"""Ways of claiming: what they take, find and read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.lab.claim import EXPERIMENT

if TYPE_CHECKING:
    from auditor.lab.place import Place


def test_what_each_way_of_claiming_takes_and_reads(place: Place) -> None:
    outcome = EXPERIMENT.run(place)
    assert outcome.holds, outcome.verdict
    taken = [row.figures["taken"] for row in outcome.rows[:4]]
    assert taken == [200, 1, 1, 1]
    assert [row.figures["found"] for row in outcome.rows[4:6]] == [0, 200]
    bare, once = (row.figures["buffers"] for row in outcome.rows[6:])
    assert isinstance(bare, int)
    assert isinstance(once, int)
    assert once <= 5
    assert bare > 20 * once
