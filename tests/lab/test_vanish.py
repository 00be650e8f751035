"""A machine that is gone without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from auditor.lab import network
from auditor.lab.vanish import EXPERIMENT

if TYPE_CHECKING:
    from auditor.lab.place import Place


def test_a_row_lock_lasts_until_the_server_notices_and_a_lease_until_it_ends(place: Place) -> None:
    try:
        with network.machine():
            pass
    except network.RefusedError as error:
        pytest.skip(str(error))
    outcome = EXPERIMENT.run(place)
    assert outcome.holds, outcome.verdict
    assert [row.figures["frees"] for row in outcome.rows] == [False, True, True]


def test_where_no_network_can_be_cut_a_word_says_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    outcome = EXPERIMENT.run(place)
    assert outcome.holds
    assert outcome.verdict == "skipped: it takes Linux, root, and the command ip, to cut a network"
