"""What is done once is not done again for everyone who asks: counted or compared by identity, never timed."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

from auditor.config import Config
from auditor.findings import Confidence, Place
from auditor.program.code import ModuleInfo
from auditor.program.program import Program
from auditor.program.reach import Heirs
from auditor.program.wanted import Wanted, is_any_in
from auditor.python.nodes import PythonFacts
from auditor.python.read import read_python
from auditor.sources import find_files
from auditor.timeline.model.events import Event, Worked
from auditor.timeline.model.state import State, TooMuchError
from auditor.timeline.walking.walker import (
    BUDGET,
    DRY_BUDGET,
    DRY_TOTAL,
    LAST_BUDGET,
    LEAST_BUDGET,
    LEAST_DRY_BUDGET,
    LEAST_TOTAL,
    TOTAL_BUDGET,
    Walker,
)


def module(source: str) -> ModuleInfo:
    facts = read_python(source.encode())
    assert isinstance(facts, PythonFacts)
    return ModuleInfo("jobs", "jobs.py", "/jobs.py", facts, source.encode())


def test_heirs_are_gathered_once() -> None:
    heirs = Heirs()
    heirs.add(module("class Job: pass\nclass Mail(Job): pass\n"))
    heirs.add(module("class Other: pass\n"))
    assert heirs.of("Job") is heirs.of("Job")


def test_heirs_that_are_read_later_count() -> None:
    heirs = Heirs()
    heirs.add(module("class Job: pass\nclass Mail(Job): pass\n"))
    assert heirs.of("Job") == {"Job", "Mail"}
    assert heirs.add(module("class Letter(Mail): pass\n")) == {"Job", "Mail"}
    assert heirs.of("Job") == {"Job", "Mail", "Letter"}
    assert heirs.of("Mail") == {"Mail", "Letter"}


def test_patterns_are_tried_where_a_literal_of_them_stands() -> None:
    wanted = Wanted([rb"set\s+local\b", rb"skip\s+locked", rb"\blease_(?:until|by)\b"])
    assert not wanted.within("select count(*) from notes")
    (skip,) = wanted.within("for update\nskip\nunlocked")
    assert not is_any_in([skip], "skip")
    assert is_any_in([skip], "skip locked")
    wanted.add(rb"take_note")
    assert is_any_in(wanted.within("select take_note()"), "select take_note()")


def steps_until_given_up(walker: Walker, event: Event | None = None) -> int:
    walker.begin()
    if event is not None:
        walker.see(event, State())
    with contextlib.suppress(TooMuchError):
        for _ in itertools.count():
            walker.step()
    return walker.steps - 1


def test_entry_points_are_given_up_sooner_where_many_led_to_no_connection(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("")
    config = Config(str(tmp_path))
    walker = Walker(Program(find_files([], config, str(tmp_path)), config, ()))
    before = [steps_until_given_up(walker) for _ in range(DRY_TOTAL // DRY_BUDGET)]
    assert set(before) == {DRY_BUDGET}
    steps_until_given_up(walker)
    assert steps_until_given_up(walker) == LEAST_DRY_BUDGET


def test_an_audit_ends_however_many_entry_points_have_too_many_ways(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("")
    config = Config(str(tmp_path))
    walker = Walker(Program(find_files([], config, str(tmp_path)), config, ()))
    worked = Worked(Place("jobs.py", 1), "a call", ())
    shares = [steps_until_given_up(walker, worked) for _ in range(400)]
    assert shares == sorted(shares, reverse=True)
    assert (shares[0], shares[-1]) == (BUDGET, LAST_BUDGET)
    assert LEAST_BUDGET in shares
    assert sum(shares) < TOTAL_BUDGET + LEAST_TOTAL + BUDGET + LEAST_BUDGET + len(shares) * LAST_BUDGET


POLICY = "CREATE POLICY own ON {} USING (owner = current_setting('{}', true))"


def test_what_policies_read_is_gathered_once_until_more_is_told(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("")
    config = Config(str(tmp_path))
    program = Program(find_files([], config, str(tmp_path)), config, ())
    catalogue = program.catalogue
    for number, (table, name) in enumerate([("jobs", "app.desk"), ("notes", "app.shelf")], 1):
        place = Place("schema.sql", number)
        for statement in program.read_sql(POLICY.format(table, name)):
            catalogue.add(statement, lambda _, place=place: place)  # type: ignore[misc]
        assert catalogue.is_tenant(name) is Confidence.HIGH
        assert catalogue.policy_settings() is catalogue.policy_settings()
    assert catalogue.policy_settings() == {"app.desk", "app.shelf"}
