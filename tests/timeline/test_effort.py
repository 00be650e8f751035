"""What is done once is not done again for everyone who asks: counted or compared by identity, never timed."""

from __future__ import annotations

from auditor.program.code import ModuleInfo
from auditor.program.reach import Heirs
from auditor.python.nodes import PythonFacts
from auditor.python.read import read_python


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
