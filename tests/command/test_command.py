"""The command from end to end, over a timeline that is planted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from auditor import cli
from auditor.directives import parse_directive
from auditor.files import Skipped
from auditor.findings import Confidence
from tests.command.conftest import Ran, codes
from tests.command.world import CARELESS, LEAK, REMARK, FakeTimeline, at, write, write_rule

if TYPE_CHECKING:
    from pathlib import Path

Run = Callable[..., Ran]

pytestmark = pytest.mark.usefixtures("tree")


SCREEN = """\
app/worker.py:1:1 ZZ101 leaky-setting: it leaks [error]
1 | leak()
  | ^^^^^^
  = mend: mend it

app/worker.py:2:1 ZZ201 careless-callback: it is careless [warning, medium confidence]
2 | careless()
  | ^^^^^^^^^^

app/worker.py:3:1 ZZ301 small-remark: it might [note]
3 | remark()
  | ^^^^^^^^

1 error, 1 warning, 1 note in 3 files, """


def test_findings_come_in_the_order_of_places_with_their_lines(run: Run) -> None:
    ran = run()
    assert ran.out.startswith(SCREEN)
    assert (ran.code, ran.err) == (1, "")


def test_where_no_word_stands_that_a_rule_looks_for_nothing_more_is_done(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def understand(*_: object) -> object:
        raise AssertionError

    monkeypatch.setattr(cli, "SMALL", 100)
    monkeypatch.setattr(cli, "understand", understand)
    assert run().out.startswith("no findings in 3 files, ")
    write(here / "schema.sql", "SELECT Set_Config('app.tenant', '1', true);")
    assert run().code == 2
    (here / "schema.sql").unlink()
    (here / "schema.sql").symlink_to("app/worker.py")
    (here / "app/other.py").unlink()
    os.mkfifo(here / "app/other.py")
    assert run().code == 0
    assert "1 path skipped" in run().out


def test_a_clean_run_says_one_line(run: Run, timeline: FakeTimeline) -> None:
    timeline.findings = []
    ran = run("check", "app")
    assert ran.out.startswith("no findings in 2 files, ")
    assert (ran.code, ran.err, ran.out.count("\n")) == (0, "", 1)


def test_quiet_says_nothing_but_findings(run: Run, timeline: FakeTimeline) -> None:
    assert run("-q").out.endswith("3 | remark()\n  | ^^^^^^^^\n\n")
    timeline.findings = []
    assert run("-q") == Ran(0, "", "")


EXITS = {
    "warnings fail a run": (["--ignore", "ZZ101"], 1),
    "notes don't": (["--select", "ZZ301"], 0),
    "notes do when that is asked for": (["--select", "ZZ301", "--fail-on", "note"], 1),
    "warnings don't when only errors shall": (["--ignore", "ZZ101", "--fail-on", "error"], 0),
    "errors always do": (["--fail-on", "error"], 1),
    "nothing does when nothing shall": (["--exit-zero"], 0),
    "what is not shown does not": (["--min-severity", "error", "--ignore", "ZZ101"], 0),
}


@pytest.mark.parametrize(("words", "code"), EXITS.values(), ids=EXITS)
def test_the_exit_code(run: Run, words: list[str], code: int) -> None:
    assert run(*words).code == code


SHOWN = {
    "all of them": ([], ["ZZ101", "ZZ201", "ZZ301"]),
    "selected by the beginning of codes": (["--select", "ZZ1,ZZ3"], ["ZZ101", "ZZ301"]),
    "selected twice": (["--select", "ZZ1", "--select", "small-remark"], ["ZZ101", "ZZ301"]),
    "ignored by name": (["--ignore", "leaky-setting"], ["ZZ201", "ZZ301"]),
    "severe enough": (["--min-severity", "warning"], ["ZZ101", "ZZ201"]),
    "sure enough": (["--min-confidence", "high"], ["ZZ101", "ZZ301"]),
    "of a path that has none": (["app/other.py"], []),
    "paths between options": (["app/other.py", "--min-severity", "note", "app/worker.py"], ["ZZ101", "ZZ201", "ZZ301"]),
}


@pytest.mark.parametrize(("words", "expected"), SHOWN.values(), ids=SHOWN)
def test_which_findings_are_shown(run: Run, words: list[str], expected: list[str]) -> None:
    assert codes(run("--format", "concise", *words)) == expected


def test_what_is_not_sure_enough_is_left_out_unless_asked_for(run: Run, timeline: FakeTimeline) -> None:
    timeline.findings = [LEAK.at(at("app/worker.py", 1), "…").sure(Confidence.LOW)]
    assert codes(run("--format", "concise")) == []
    assert codes(run("--format", "concise", "--min-confidence", "low")) == ["ZZ101"]


def test_a_fault_that_is_found_twice_is_told_once_and_as_surely_as_it_was_found(
    run: Run, timeline: FakeTimeline
) -> None:
    sure = LEAK.at(at("app/worker.py", 1), "it leaks")
    unsure = sure.see(at("app/worker.py", 2), "by way of this").sure(Confidence.MEDIUM)
    timeline.findings = [unsure, sure, unsure]
    assert run("--format", "concise").out == "app/worker.py:1:1 ZZ101 leaky-setting: it leaks [error]\n"


def test_tests_and_context_are_not_reported_on(run: Run, timeline: FakeTimeline) -> None:
    timeline.findings = [LEAK.at(at(path, 1), "…") for path in ("tests/test_worker.py", "schema.sql", "app/worker.py")]
    assert [line.split(":")[0] for line in run("--format", "concise", "app").out.splitlines()] == ["app/worker.py"]
    assert len(run("--format", "concise", "--include-tests").out.splitlines()) == 3
    assert len(run("--format", "concise", "tests").out.splitlines()) == 1


def test_a_finding_may_explain_itself_by_places_anywhere(run: Run, timeline: FakeTimeline) -> None:
    timeline.findings = [LEAK.at(at("app/worker.py", 1), "it leaks").see(at("schema.sql", 1), "as this says")]
    assert " --> schema.sql:1\n1 | SELECT 1;\n" in run("app").out


# Configuration


def test_the_configuration_is_heeded_and_the_command_line_before_it(here: Path, run: Run) -> None:
    write(here / "tenant-audit.toml", "select = ['ZZ2', 'ZZ3']\nformat = 'concise'\nfail-on = 'error'\n")
    assert (codes(run()), run().code) == (["ZZ201", "ZZ301"], 0)
    assert (codes(run("--select", "ZZ1")), run("--select", "ZZ1").code) == (["ZZ101"], 1)


def test_rules_are_ignored_by_path(here: Path, run: Run, timeline: FakeTimeline) -> None:
    timeline.findings += [LEAK.at(at("app/other.py", 1), "…")]
    write(here / "pyproject.toml", "[tool.tenant-audit.per-path-ignores]\n'app/w*.py' = ['ZZ1', 'small-remark']\n")
    assert codes(run("--format", "concise")) == ["ZZ101", "ZZ201"]


UNKNOWN_RULES = {
    "selected": (["--select", "ZZ1,leaky-settin"], "", '--select: there is no rule "leaky-settin"'),
    "ignored": (["--ignore", "XX"], "", '--ignore: there is no rule "XX"'),
    "selected by the file": ([], "select = ['ZZ9']", 'tenant-audit.toml: select: there is no rule "ZZ9"'),
    "ignored by the file, and something on the command line": (
        ["--ignore", "ZZ1"],
        "ignore = ['ZZ9']",
        'tenant-audit.toml: ignore: there is no rule "ZZ9"',
    ),
    "ignored by path": (
        [],
        "per-path-ignores = {'a.py' = ['ZZ9']}",
        'tenant-audit.toml: per-path-ignores."a.py": there is no rule "ZZ9"',
    ),
}


@pytest.mark.parametrize(("words", "text", "message"), UNKNOWN_RULES.values(), ids=UNKNOWN_RULES)
def test_a_rule_that_there_is_not_is_said_so(here: Path, run: Run, words: list[str], text: str, message: str) -> None:
    write(here / "tenant-audit.toml", text)
    ran = run(*words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert message in ran.err


def test_a_pack_runs_when_the_command_line_names_it(here: Path, run: Run, timeline: FakeTimeline) -> None:
    from auditor.findings import Severity
    from auditor.rule import Rule

    own = Rule("TEAM001", "our-own", Severity.ERROR)
    write_rule(here / "team", own)
    timeline.findings = [own.at(at("app/worker.py", 1), "…")]
    assert codes(run("--format", "concise", "--rules", "team", "app")) == ["TEAM001"]


def test_a_pack_that_only_the_configuration_names_is_not_run_and_that_is_said(here: Path, run: Run) -> None:
    witness = here / "witness"
    write(here / "team/rule.py", f"open({str(witness)!r}, 'w')\n")
    write(here / "tenant-audit.toml", "rules = ['team']\nselect = ['ZZ3']\n")
    ran = run("app")
    assert not witness.exists()
    assert ran.code == 0
    assert ran.err == (
        "tenant-audit: tenant-audit.toml names rule packs (team); they were not loaded, because a pack is code and "
        "runs only when the command line asks for it: --rules FOLDER\n"
    )


# Suppression


def test_comments_hide_findings_and_are_judged(run: Run, timeline: FakeTimeline) -> None:
    comments = [("# tenant-audit: ignore[ZZ1] why", 1), ("# tenant-audit: ignore[ZZ101]", 2)]
    timeline.program.directives = tuple(
        parse_directive(text, "app/worker.py", line, 9, False, ()) for text, line in comments
    )
    ran = run("--select", "ZZ1,ZZ3,TA9")
    assert "ZZ101 leaky-setting" not in ran.out
    assert "app/worker.py:2:9 TA902 unused-suppression: no finding of ZZ101 is hidden by this comment" in ran.out
    assert "(1 suppressed)" in ran.out
    assert ran.code == 0


# Formats and output


def test_json_is_all_there_is_on_standard_output(run: Run) -> None:
    ran = run("--format", "json")
    found = json.loads(ran.out)
    assert [one["code"] for one in found["findings"]] == ["ZZ101", "ZZ201", "ZZ301"]
    assert (found["files"]["read"], ran.err) == (3, "")


def test_a_fingerprint_follows_its_line(here: Path, run: Run, timeline: FakeTimeline) -> None:
    def prints() -> list[str]:
        return [one["fingerprint"] for one in json.loads(run("--format", "json").out)["findings"]]

    before = prints()
    write(here / "app/worker.py", "\n\nif x:\n    leak()\ncareless()\nremark()\n")
    timeline.findings = [
        LEAK.at(at("app/worker.py", 4, 5, 11), "it leaks"),
        CARELESS.at(at("app/worker.py", 5, 1, 11), "it is careless"),
        REMARK.at(at("app/worker.py", 6, 1, 9), "it might"),
    ]
    assert prints() == before


def test_concise_tells_its_summary_aside(run: Run) -> None:
    ran = run("--format", "concise")
    assert ran.err.startswith("1 error, 1 warning, 1 note in 3 files, ")
    assert len(ran.out.splitlines()) == 3


def test_github_counts_at_the_end(run: Run) -> None:
    lines = run("--format", "github").out.splitlines()
    assert [line.split(" ")[0] for line in lines[:3]] == ["::error", "::warning", "::notice"]
    assert lines[3].startswith("1 error, 1 warning, 1 note in 3 files, ")


@pytest.mark.parametrize("form", ["text", "concise", "json", "github"])
def test_a_report_in_a_file_leaves_the_summary_to_standard_error(here: Path, run: Run, form: str) -> None:
    (here / "out").mkdir()
    ran = run("--format", form, "--output", "out/report", "--color", "auto")
    assert ran.out == ""
    assert ran.err.startswith("1 error, 1 warning, 1 note in 3 files, ")
    assert "ZZ101" in (here / "out/report").read_text()
    assert [path.name for path in (here / "out").iterdir()] == ["report"]


def test_a_report_replaces_the_file_that_was_there(here: Path, run: Run) -> None:
    write(here / "real", "old")
    (here / "report").symlink_to("real")
    run("--format", "concise", "--output", "report")
    assert "ZZ101" in (here / "real").read_text()
    assert (here / "report").is_symlink()


def test_a_report_can_go_to_a_device(run: Run) -> None:
    assert run("--output", os.devnull).code == 1


@pytest.mark.parametrize(("path", "reason"), [("nowhere/report", "no such file or directory"), (".", "is a directory")])
def test_a_report_that_cannot_be_written_is_said_so(here: Path, run: Run, path: str, reason: str) -> None:
    before = sorted(here.iterdir())
    ran = run("--output", path)
    assert (ran.code, ran.err) == (2, f"tenant-audit: {path}: the report cannot be written: {reason}\n")
    assert sorted(here.iterdir()) == before


def test_statistics(run: Run) -> None:
    counts = "1  ZZ101  leaky-setting\n1  ZZ201  careless-callback\n1  ZZ301  small-remark\n"
    assert f"\n{counts}1 error, " in run("--statistics").out
    assert run("--statistics", "--format", "json").err.startswith(counts)


def test_verbose_tells_what_was_read_and_left_out(here: Path, run: Run, timeline: FakeTimeline) -> None:
    timeline.program.skipped = (Skipped("pi\npe.py", "not a regular file"),)
    ran = run("-v", "app")
    assert ran.err.splitlines() == [
        "configuration: none, so the defaults",
        "rules: TA901 TA902 ZZ101 ZZ201 ZZ301",
        "files: 1 context, 2 reported, 1 test",
        "skipped: pi\\npe.py: not a regular file",
    ]
    assert "(1 path skipped, -v tells why)" in ran.out
