"""The commands that explain: `tenant-audit rule` and `tenant-audit timeline`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.command.conftest import Ran, codes
from tests.command.world import LEAK, FakeTimeline, at, plant

if TYPE_CHECKING:
    from pathlib import Path

Run = Callable[..., Ran]

pytestmark = pytest.mark.usefixtures("tree")


def test_the_rules_are_listed_with_their_first_sentences(run: Run) -> None:
    ran = run("rule")
    assert "ZZ101  leaky-setting       error    It happens at run time.\n" in ran.out
    assert "ZZ301  small-remark        note     It happens at run time.\n" in ran.out
    assert run("rule", "ZZ").out.count("\n") == 3


@pytest.mark.parametrize("word", ["leaky-setting", "ZZ101", "zz101", "ZZ1"])
def test_a_rule_is_explained_by_its_page(run: Run, word: str) -> None:
    ran = run("rule", word)
    assert ran.out.startswith("# ZZ101 leaky-setting\n\nIt happens at run time. More follows.\n")
    assert "leak()\n" in ran.out
    assert "expect" not in ran.out


def test_rules_as_json(run: Run) -> None:
    one = json.loads(run("rule", "ZZ101", "--format", "json").out)
    assert {name: one[name] for name in ("code", "name", "severity", "summary", "url")} == {
        "code": "ZZ101",
        "name": "leaky-setting",
        "severity": "error",
        "summary": "It happens at run time.",
        "url": None,
    }
    assert one["page"].startswith("# ZZ101 leaky-setting\n")
    many = json.loads(run("rule", "--format", "json").out)
    assert [each["code"] for each in many] == ["TA901", "TA902", "ZZ101", "ZZ201", "ZZ301"]


def test_on_a_terminal_a_page_is_set_as_text(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from auditor.report import look

    monkeypatch.setattr(look, "is_terminal", lambda _stream: True)
    monkeypatch.setenv("COLUMNS", "60")
    ran = run("rule", "ZZ101", "--color", "never")
    assert "```" not in ran.out
    assert "leak()" in ran.out
    assert "\x1b" not in ran.out
    assert "\x1b" in run("rule", "ZZ101", "--color", "always").out


def test_a_folder_that_is_named_like_a_command_is_audited_when_it_looks_like_one(
    here: Path, run: Run, timeline: FakeTimeline
) -> None:
    plant(here, "rule/a.py")
    timeline.findings = [LEAK.at(at("rule/a.py", 1), "…")]
    assert codes(run("--format", "concise", "./rule")) == ["ZZ101"]
    assert codes(run("check", "rule", "--format", "concise")) == ["ZZ101"]
    assert "ZZ101  leaky-setting" in run("rule").out


# timeline


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("app/worker.py", None),
        ("app/worker.py:serve", "serve"),
        ("app:Worker.run", "Worker.run"),
        ("odd:name.py", None),
        ("odd:name.py:serve", "serve"),
    ],
)
def test_a_timeline_is_shown_of_a_path_or_of_one_function(
    here: Path, run: Run, timeline: FakeTimeline, monkeypatch: pytest.MonkeyPatch, word: str, shown: str | None
) -> None:
    import types

    plant(here, "odd:name.py")
    seen: list[object] = []
    view = types.ModuleType("auditor.report.timeline_view")
    view.show = lambda *given: seen.extend(given)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "auditor.report.timeline_view", view)
    assert run("timeline", word).code == 0
    assert seen[:2] == [timeline, shown]
