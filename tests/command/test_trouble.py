"""What is said when something is wrong, and how a run ends then."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from auditor import cli
from tests.command.conftest import Ran
from tests.command.world import LEAK, FakeTimeline, at, write

if TYPE_CHECKING:
    from pathlib import Path

Run = Callable[..., Ran]

pytestmark = pytest.mark.usefixtures("tree")


WRONG = {
    "a path that is not there": (["nowhere.py"], "nowhere.py: there is no such file or folder"),
    "a command that does not come first": (["-q", "rule"], "rule: there is no such file or folder"),
    "an option that is nearly right": (
        ["--min-severty", "note"],
        'unrecognized arguments: --min-severty; did you mean "--min-severity"?',
    ),
    "an option that is nowhere near": (["--zzz"], "unrecognized arguments: --zzz; see tenant-audit --help"),
    "a number that is none": (["--jobs", "many"], "--jobs: many is not a number of processes; see tenant-audit --help"),
    "no process at all": (["--jobs", "0"], "--jobs: 0 is not a number of processes; see tenant-audit --help"),
    "a configuration that is not there": (
        ["--config", "nowhere.toml"],
        "nowhere.toml: the configuration cannot be read: no such file or directory",
    ),
    "a pack that is not there": (
        ["--rules", "nowhere"],
        "nowhere: the rule pack cannot be read: no such file or directory",
    ),
    "a rule to explain that there is not": (
        ["rule", "leaky-settings"],
        'rule: there is no rule "leaky-settings"; did you mean "leaky-setting"?',
    ),
}


@pytest.mark.parametrize(("words", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_in_one_line(run: Run, words: list[str], message: str) -> None:
    assert run(*words) == Ran(2, "", f"tenant-audit: {message}\n")


def test_a_choice_that_there_is_not_is_said_in_one_line(run: Run) -> None:
    ran = run("--format", "xml")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith("tenant-audit: --format: invalid choice: 'xml'")


FAILING = "from auditor.rule import Rule, Severity\nRULE = Rule('TEAM001', 'our-own', Severity.ERROR)\n"

FAILURES = {
    "an exception": (
        "def check(timeline):\n    yield 1 / 0\n",
        "failed: ZeroDivisionError: division by zero; with -v you see where",
    ),
    "an exception of several lines": (
        "def check(timeline):\n    raise ValueError('one\\ntwo')\n",
        "failed: ValueError: one two; with -v you see where",
    ),
    "no finding": (
        "def check(timeline):\n    yield 'leak'\n",
        "yields something that is no Finding; make findings with RULE.at(place, message)",
    ),
}


@pytest.mark.parametrize(("check", "message"), FAILURES.values(), ids=FAILURES)
def test_a_rule_that_fails_ends_the_run_with_one_line(here: Path, run: Run, check: str, message: str) -> None:
    write(here / "team/own.py", FAILING + check)
    write(here / "team/own.md", "# TEAM001 our-own\n")
    assert run("--rules", "team", "app") == Ran(2, "", f"tenant-audit: team/own.py: the rule our-own {message}\n")


def test_verbose_shows_where_a_rule_fails(here: Path, run: Run) -> None:
    write(here / "team/own.py", f"{FAILING}def check(timeline):\n    yield 1 / 0\n")
    write(here / "team/own.md", "# TEAM001 our-own\n")
    err = run("--rules", "team", "-v", "app").err
    assert "team/own.py" in err.split("tenant-audit: ")[0]
    assert "ZeroDivisionError" in err


def test_verbose_shows_no_code_where_only_a_path_is_wrong(run: Run) -> None:
    assert run("-v", "nowhere.py").err == "tenant-audit: nowhere.py: there is no such file or folder\n"


def test_a_check_may_find_nothing_at_all(here: Path, run: Run) -> None:
    write(here / "team/own.py", f"{FAILING}def check(timeline):\n    return None\n")
    write(here / "team/own.md", "# TEAM001 our-own\n")
    assert run("--rules", "team", "--select", "TEAM", "app").code == 0


def test_an_error_of_our_own_is_one_line_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def understand(*_: object) -> object:
        raise RecursionError("too deep")

    monkeypatch.setattr(cli, "understand", understand)
    ran = run("app")
    assert ran == Ran(
        2, "", "tenant-audit: internal error, please report it: RecursionError: too deep; with -v you see where\n"
    )


def test_an_interrupted_run_ends_quietly(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def understand(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "understand", understand)
    assert run("app") == Ran(130, "", "")


def test_a_working_directory_that_is_gone_is_said_so(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = here / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert run() == Ran(2, "", "tenant-audit: the working directory is not there any more; go to one that is\n")


def test_names_that_no_terminal_can_show_are_spelt(here: Path, run: Run, timeline: FakeTimeline) -> None:
    name = os.fsdecode(b"b\xff.py")
    (here / name).write_text("leak()\n")
    timeline.findings = [LEAK.at(at(name, 1, 1, 7), "it leaks")]
    for form in ("text", "concise", "json", "github"):
        assert run("--format", form).code == 1
