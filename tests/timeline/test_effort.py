"""What is done once is not done again for everyone who asks: counted or compared by identity, never timed."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

from auditor.config import Config
from auditor.program.code import ModuleInfo
from auditor.program.program import Program
from auditor.program.reach import Heirs
from auditor.python.nodes import PythonFacts
from auditor.python.read import read_python
from auditor.sources import find_files
from auditor.timeline.state import TooMuchError
from auditor.timeline.walker import DRY_BUDGET, DRY_TOTAL, LEAST_DRY_BUDGET, Walker


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
    assert heirs.of("Job") == ("Job", "Mail")
    assert heirs.add(module("class Letter(Mail): pass\n")) == {"Job", "Mail"}
    assert heirs.of("Job") == ("Job", "Mail", "Letter")
    assert heirs.of("Mail") == ("Mail", "Letter")


def steps_until_given_up(walker: Walker) -> int:
    walker.begin()
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
