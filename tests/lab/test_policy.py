"""The queue under the tenants' policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.lab.policy import EXPERIMENT

if TYPE_CHECKING:
    from auditor.lab.place import Place


def test_the_queue_is_empty_for_its_worker_without_an_error(place: Place) -> None:
    outcome = EXPERIMENT.run(place)
    assert outcome.holds, outcome.verdict
    open_, hidden, tenant, enqueued, loud, granted = (row.figures for row in outcome.rows)
    assert open_ == {"seen": 100, "claimed": True}
    assert hidden == {"seen": 0, "claimed": False}
    assert tenant == {"seen": 1}
    assert enqueued == loud == {"sqlstate": "42501"}
    assert granted == {"seen": 100, "claimed": True}
