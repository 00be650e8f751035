"""Rule packs: how they are loaded, what is wrong with a broken one, and which rules a word means."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from auditor.errors import UserError
from auditor.packs import LoadedRule, find, load_packs, own_pack, select, triggers
from tests.command.world import CARELESS, LEAK, REMARK, write, write_rule

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def team(here: Path) -> Path:
    for rule in (REMARK, LEAK, CARELESS):
        write_rule(here / "team", rule)
    return here / "team"


def codes(rules: tuple[LoadedRule, ...] | list[LoadedRule]) -> list[str]:
    return [loaded.rule.code for loaded in rules]


def test_rules_come_in_the_order_of_their_codes(team: Path) -> None:
    rules = load_packs([str(team)])
    assert codes(rules) == ["ZZ101", "ZZ201", "ZZ301"]
    assert triggers(rules, rules) == (b"set_config",)
    assert rules[0].page == str(team / "leaky_setting.md")


def test_a_rule_without_triggers_looks_at_what_the_others_look_at(team: Path) -> None:
    text = (team / "leaky_setting.py").read_text()
    write(team / "leaky_setting.py", text.replace(', triggers=(rb"set_config",)', ""))
    write(team / "small_remark.py", (team / "small_remark.py").read_text().replace("set_config", "reset all"))
    rules = load_packs([str(team)])
    leaky, careless, remark = rules
    assert triggers([careless], rules) == (b"set_config",)
    assert triggers([remark], rules) == (b"reset all",)
    assert triggers([leaky], rules) == (b"set_config", b"reset all")


def test_our_own_pack_is_sound() -> None:
    assert {"TA901", "TA902"} <= set(codes(load_packs([own_pack()])))


def test_several_packs_are_one_list(team: Path) -> None:
    assert set(codes(load_packs([own_pack(), str(team)]))) > {"TA901", "ZZ101"}


def test_a_pack_changes_nothing_in_the_interpreter(team: Path) -> None:
    path = list(sys.path)
    write(team / "json.py", (team / "leaky_setting.py").read_text().replace("ZZ101", "ZZ999").replace("leaky", "json"))
    write(team / "json.md", "# ZZ999 json-setting\n")
    load_packs([str(team)])
    import json

    assert sys.path == path
    assert json.dumps(1) == "1"


def test_what_begins_with_an_underscore_is_no_rule(team: Path) -> None:
    write(team / "_notes.py", "1 / 0\n")
    assert len(load_packs([str(team)])) == 3


def test_a_rule_may_hold_a_dataclass(team: Path) -> None:
    text = (team / "leaky_setting.py").read_text()
    addition = "from dataclasses import dataclass\n\n\n@dataclass\nclass Hop:\n    line: 'int'\n"
    write(team / "leaky_setting.py", text + addition)
    assert len(load_packs([str(team)])) == 3


RULE = "from auditor.rule import Rule, Severity\n"
CHECK = "def check(timeline):\n    return []\n"

BROKEN = {
    "a syntax error": ("def check(:\n", "the rule cannot be loaded: SyntaxError: invalid syntax"),
    "an error at import": ("1 / 0\n", "the rule cannot be loaded: ZeroDivisionError: division by zero"),
    "an import that is not there": (
        "import nowhere_to_be_found\n",
        "the rule cannot be loaded: ModuleNotFoundError: No module named 'nowhere_to_be_found'",
    ),
    "no rule": (CHECK, "a rule needs `RULE = Rule(…)`; a module that is none begins with an underscore"),
    "no check": (
        RULE + "RULE = Rule('ZZ1000', 'odd', Severity.NOTE)\n",
        "the rule odd has no function `check(timeline)`",
    ),
    "a code in small letters": (
        RULE + "RULE = Rule('zz1', 'odd', Severity.NOTE)\n" + CHECK,
        "a code is two to eight capital letters and three or four digits, as in \"TA101\"; this is 'zz1'",
    ),
    "a name with capitals": (
        RULE + "RULE = Rule('ZZ1000', 'OddRule', Severity.NOTE)\n" + CHECK,
        "a name is written in small letters with dashes, as in \"session-tenant\"; this is 'OddRule'",
    ),
    "a severity that is a word": (
        RULE + "RULE = Rule('ZZ1000', 'odd', 'error')\n" + CHECK,
        "the severity of odd is 'error', which is no Severity",
    ),
    "triggers that are one": (
        RULE + "RULE = Rule('ZZ1000', 'odd', Severity.NOTE, triggers=(b'set'))\n" + CHECK,
        "the triggers of odd are no tuple",
    ),
    "a trigger that is text": (
        RULE + "RULE = Rule('ZZ1000', 'odd', Severity.NOTE, triggers=('set_config',))\n" + CHECK,
        "the trigger 'set_config' is not bytes",
    ),
    "a trigger that begins with anything": (
        RULE + "RULE = Rule('ZZ1000', 'odd', Severity.NOTE, triggers=(rb'\\w+config',))\n" + CHECK,
        "the trigger b'\\\\w+config' does not begin with three literal characters, which would slow down every run",
    ),
    "a trigger that is a choice": (
        RULE + "RULE = Rule('ZZ1000', 'odd', Severity.NOTE, triggers=(rb'set_config|reset',))\n" + CHECK,
        "the trigger b'set_config|reset' does not begin with three literal characters, which would slow down every run",
    ),
    "a trigger in capitals": (
        RULE + "RULE = Rule('ZZ1000', 'odd', Severity.NOTE, triggers=(b'RESET',))\n" + CHECK,
        "the trigger b'RESET' holds capital letters, and files are searched in lower case",
    ),
    "a trigger that is no expression": (
        RULE + "RULE = Rule('ZZ1000', 'odd', Severity.NOTE, triggers=(b'set(',))\n" + CHECK,
        "the trigger b'set(' is no regular expression: missing ), unterminated subpattern at position 3",
    ),
    "no page": (
        RULE + "RULE = Rule('ZZ1000', 'odd', Severity.NOTE)\n" + CHECK,
        "the rule odd has no page odd.md beside it",
    ),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_with_a_rule_is_said_in_one_line(here: Path, text: str, message: str) -> None:
    write(here / "team/odd.py", text)
    with pytest.raises(UserError) as caught:
        load_packs(["team"])
    assert str(caught.value).split(" (", 1)[0] == f"team/odd.py: {message}"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "name", "word"),
    [("ZZ101", "other", "ZZ101"), ("ZZ999", "leaky-setting", "leaky-setting")],
    ids=["two rules of one code", "two rules of one name"],
)
def test_what_is_called_alike_is_refused(team: Path, code: str, name: str, word: str) -> None:
    write(team / "other.py", f"{RULE}RULE = Rule({code!r}, {name!r}, Severity.NOTE)\n{CHECK}")
    write(team / "other.md", f"# {code} {name}\n")
    with pytest.raises(UserError) as caught:
        load_packs([str(team)])
    assert str(caught.value) == f"{team}/other.py: the rule is called {word}, as the one in {team}/leaky_setting.py is"


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("nowhere", "nowhere: the rule pack cannot be read: no such file or directory"),
        ("empty", "empty: there is no rule in this folder"),
        ("file.py", "file.py: the rule pack cannot be read: not a directory"),
    ],
)
def test_a_pack_that_is_none_is_said_so(here: Path, folder: str, message: str) -> None:
    (here / "empty").mkdir()
    write(here / "file.py")
    with pytest.raises(UserError) as caught:
        load_packs([folder])
    assert str(caught.value) == message


SELECTIONS = {
    "all without a word": ([], [], ["ZZ101", "ZZ201", "ZZ301"]),
    "one by its code": (["ZZ101"], [], ["ZZ101"]),
    "one by its name": (["careless-callback"], [], ["ZZ201"]),
    "many by the beginning of their codes": (["ZZ"], [], ["ZZ101", "ZZ201", "ZZ301"]),
    "small letters do": (["zz1"], [], ["ZZ101"]),
    "all but one": ([], ["ZZ2"], ["ZZ101", "ZZ301"]),
    "the more exact word wins when it selects": (["ZZ", "ZZ101"], ["ZZ1"], ["ZZ101", "ZZ201", "ZZ301"]),
    "the more exact word wins when it ignores": (["ZZ"], ["leaky-setting"], ["ZZ201", "ZZ301"]),
    "of two equal words ignoring wins": (["ZZ1"], ["ZZ1"], []),
}


@pytest.mark.parametrize(("selected", "ignored", "expected"), SELECTIONS.values(), ids=SELECTIONS)
def test_which_rules_words_mean(team: Path, selected: list[str], ignored: list[str], expected: list[str]) -> None:
    assert codes(select(load_packs([str(team)]), selected, ignored)) == expected


def test_a_word_that_means_no_rule_is_refused_with_the_nearest(team: Path) -> None:
    rules = load_packs([str(team)])
    with pytest.raises(UserError) as caught:
        find(["leaky-settings"], rules, "--select")
    assert str(caught.value) == '--select: there is no rule "leaky-settings"; did you mean "leaky-setting"?'
    with pytest.raises(UserError) as caught:
        find(["ZZ102"], rules, "--select")
    assert str(caught.value) == '--select: there is no rule "ZZ102"; did you mean "ZZ101"?'
    with pytest.raises(UserError) as caught:
        find([""], rules, "--select")
    assert str(caught.value) == '--select: there is no rule ""'
