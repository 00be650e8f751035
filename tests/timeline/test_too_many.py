"""Where there are too many states at one point, nothing is told in which they differ."""

from __future__ import annotations

from dataclasses import replace

from auditor.findings import Place
from auditor.timeline.model.connection import Autocommit, ConnectionState, Life, Status
from auditor.timeline.model.settings import NOT_KNOWN, Held, Holding, Setting
from auditor.timeline.model.state import MANY_STATES, MOST_STATES, State, merge

KEY = 1
LENT = ConnectionState("psycopg", Life.POOL, status=Status.IDLE, autocommit=Autocommit.ON)


def together(*also: ConnectionState) -> ConnectionState:
    """The connection after so many states met that they are given up."""
    tenants = [Held(Holding.VALUE, str(number), Place("jobs.py", number)) for number in range(1, MOST_STATES + 2)]
    others = [replace(LENT, settings=(Setting("app.tenant", tenant),)) for tenant in tenants]
    (met,) = merge([State(connections={KEY: connection}) for connection in (*also, *others)])
    return met.connections[KEY]


def test_its_settings_are_those_that_any_of_them_holds() -> None:
    met = together(LENT)
    assert met.status is Status.UNKNOWN
    assert met.settings == (Setting("app.tenant", NOT_KNOWN),)


def test_autocommit_is_known_only_where_all_agree() -> None:
    assert together(LENT).autocommit is Autocommit.ON
    assert together(replace(LENT, autocommit=Autocommit.OFF)).autocommit is Autocommit.UNKNOWN


def test_a_transaction_of_the_driver_is_not_taken_for_one_that_a_text_has_begun() -> None:
    begun = replace(LENT, status=Status.OPEN)
    others = [replace(LENT, settings=(Setting(f"app.n{number}", NOT_KNOWN),)) for number in range(MANY_STATES)]
    alike = [begun, replace(begun, begun_by_text=True)]
    met = merge([State(connections={KEY: connection}) for connection in (*alike, *others)])
    assert [state.connections[KEY] for state in met][:2] == alike
