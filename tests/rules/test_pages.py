"""The pages of our own rules: every example is audited as a project of its own; what is found is what its marks say.

That a page is well-formed, and its rule fit to be searched by, is tested here too, so that a new rule is asked for it.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from auditor import cli
from auditor.files import Role, SourceFile
from auditor.packs import LoadedRule, load_packs, own_pack
from auditor.pages import Example, Expected, examples, read_page
from auditor.search import literals, search

PACK = Path(own_pack())
RULES = load_packs([own_pack()])
SECTIONS = ["Bad", "Good", "How to mend", "Left alone"]
#: Rules on how files and comments are written, which no statement breaks.
ON_FILES = ("TA901", "TA902")


@dataclass(frozen=True, eq=False)
class Case:
    """An example of a rule's page."""

    rule: LoadedRule
    example: Example


def _cases() -> list[Any]:
    found = []
    for rule in RULES:
        for example in examples(rule.page):
            words = re.sub(r"\W+", "-", example.title.lower()).strip("-")
            kind = "good" if example.good else "bad"
            found.append(pytest.param(Case(rule, example), id=f"{rule.rule.name}-{kind}-{words}"))
    return found


CASES = _cases()
BAD = [case for case in CASES if not case.values[0].example.good]


def _by_rule(rules: tuple[LoadedRule, ...]) -> list[Any]:
    return [pytest.param(rule, id=rule.rule.name) for rule in rules]


EVERY_RULE = _by_rule(RULES)


# Examples


def write(example: Example, folder: Path) -> None:
    """The example as a project: its own configuration file is where the look for one ends."""
    for path, text in {"tenant-audit.toml": "", **example.files}.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


@cache
def audit(case: Case) -> list[dict[str, Any]]:
    """What the command finds in the example, at its default settings."""
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        project, report = Path(folder, "project"), Path(folder, "report.json")
        write(case.example, project)
        os.chdir(project)
        try:
            code = cli.main(["--quiet", "--jobs", "1", "--format", "json", "--output", str(report), "."])
        finally:
            os.chdir(before)
        assert code in (0, 1)
        found = json.loads(report.read_text(encoding="utf-8"))["findings"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("case", CASES)
def test_what_is_found_is_what_is_marked(case: Case) -> None:
    found = audit(case)
    marks = case.example.expected
    assert Counter((one["path"], one["line"], one["code"]) for one in found) == Counter(mark[:3] for mark in marks)
    told = {(one["path"], one["line"], one["code"]): one["confidence"] for one in found}
    assert [mark for mark in marks if mark.confidence and told[mark[:3]] != mark.confidence.value] == []


@pytest.mark.parametrize("case", CASES)
def test_every_place_is_there_and_a_finding_covers_more_than_a_character(case: Case) -> None:
    for finding in audit(case):
        for place in (finding, *finding["related"]):
            lines = case.example.files[place["path"]].split("\n")
            assert 0 < place["line"] <= len(lines)
            assert 0 < place["column"] <= len(lines[place["line"] - 1]) + 1
        if finding["code"] not in ON_FILES:
            start, end = (finding["line"], finding["column"]), (finding["end_line"], finding["end_column"])
            assert end > (start[0], start[1] + 1)


@pytest.mark.parametrize("case", CASES)
def test_what_is_said_is_one_sentence_with_a_mend(case: Case) -> None:
    for finding in audit(case):
        for words in (finding["message"], *(related["message"] for related in finding["related"])):
            assert words
            assert not words.endswith(".")
            assert not words[0].isupper() or words.split()[0].isupper()


@pytest.mark.parametrize("case", CASES)
def test_bad_examples_break_their_rule_and_good_ones_do_not(case: Case) -> None:
    own = [mark for mark in case.example.expected if mark.code == case.rule.rule.code]
    assert bool(own) != case.example.good


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_page_has_examples_of_both_kinds(rule: LoadedRule) -> None:
    of_kind = Counter(example.good for example in examples(rule.page))
    least = (1, 1) if rule.rule.code in ON_FILES else (2, 3)
    assert (of_kind[False] >= least[0], of_kind[True] >= least[1]) == (True, True)


def test_no_two_examples_of_a_page_have_one_name() -> None:
    ids = Counter(case.id for case in CASES)
    assert [name for name, times in ids.items() if times > 1] == []


@pytest.mark.parametrize("case", CASES)
def test_python_examples_are_python(case: Case) -> None:
    for path, text in case.example.files.items():
        broken = any(mark.code == "TA901" and mark.path == path for mark in case.example.expected)
        if path.endswith(".py") and not broken:
            ast.parse(text, path)


# Pages


def test_every_rule_has_a_page_and_every_page_a_rule() -> None:
    stems = {suffix: {file.stem for file in PACK.glob(f"*{suffix}")} for suffix in (".py", ".md")}
    assert stems[".py"] == stems[".md"]
    assert {Path(rule.module).stem for rule in RULES} == stems[".py"]


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_page_is_named_as_its_rule(rule: LoadedRule) -> None:
    assert read_page(rule).title == f"{rule.rule.code} {rule.rule.name}"
    assert Path(rule.page).stem == rule.rule.name.replace("-", "_")


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_page_has_all_its_sections_in_order(rule: LoadedRule) -> None:
    text = Path(rule.page).read_text(encoding="utf-8")
    found = [line[3:] for line in _prose(text) if line.startswith("## ")]
    assert sorted(found) == sorted(SECTIONS)
    assert found.index("Bad") < found.index("Good") < found.index("Left alone")


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_page_begins_with_what_happens_in_one_short_sentence(rule: LoadedRule) -> None:
    summary = read_page(rule).summary
    assert 20 <= len(summary) <= 110
    assert summary.endswith(".")
    assert rule.rule.name not in summary


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_page_fits_the_screen_and_names_no_one_s_machine(rule: LoadedRule) -> None:
    for line in _prose(Path(rule.page).read_text(encoding="utf-8")):
        assert len(line) <= 120
        assert not re.search(r"/(?:home|Users|tmp|work|usr)/|[A-Z]:\\", line)
        assert line == line.rstrip()


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_what_a_page_refers_to_exists(rule: LoadedRule) -> None:
    known = {one.rule.code for one in RULES}
    text = Path(rule.page).read_text(encoding="utf-8")
    assert set(re.findall(r"\bTA\d{3}\b", text)) <= known


def _prose(text: str) -> list[str]:
    """The lines of a page outside its code."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            lines.append(line)
    return lines


# Rules


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_rule_knows_nothing_of_the_auditor_but_its_door(rule: LoadedRule) -> None:
    tree = ast.parse(Path(rule.module).read_text(encoding="utf-8"))
    loaded: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            loaded.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            loaded.add(node.module or "")
    assert {name for name in loaded if name.partition(".")[0] in ("auditor", "rules")} == {"auditor.rule"}


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_triggers_can_be_searched_for_fast(rule: LoadedRule) -> None:
    for trigger in rule.rule.triggers:
        re.compile(trigger)
        assert len(literals(trigger)[0]) >= 3
        assert literals(trigger)[0] == literals(trigger)[0].lower()


@pytest.mark.parametrize("case", BAD)
def test_the_triggers_of_a_rule_find_its_bad_examples(case: Case, tmp_path: Path) -> None:
    write(case.example, tmp_path)
    files = [
        SourceFile(path, os.path.join(tmp_path, path), "sql" if path.endswith(".sql") else "python", Role.REPORTED)
        for path in case.example.files
        if path.endswith((".py", ".sql"))
    ]
    assert not case.rule.rule.triggers or search(files, case.rule.rule.triggers)


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_measurements_are_told_with_what_they_were_measured_on(rule: LoadedRule) -> None:
    if rule.rule.code in ON_FILES:
        return
    text = " ".join(_prose(Path(rule.page).read_text(encoding="utf-8")))
    found = [text[match.start() : match.start() + 200] for match in re.finditer(r"\b[Mm]easured\b", text)]
    assert found
    assert any(re.search(r"PostgreSQL \d+\.\d+", near) for near in found)


def test_marks_are_of_known_rules() -> None:
    known = {rule.rule.code for rule in RULES}
    marks: set[Expected] = set()
    for case in CASES:
        marks |= case.values[0].example.expected
    assert {mark.code for mark in marks} <= known
