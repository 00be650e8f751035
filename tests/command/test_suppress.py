"""Comments that hide findings: what they say, where they count, and what is said of those that hide nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from auditor.audit import suppress
from auditor.directives import Directive, parse_directive
from auditor.findings import Finding, Severity
from auditor.packs import LoadedRule, load_packs
from auditor.suppress import apply
from tests.command.world import CARELESS, LEAK, REMARK, at

if TYPE_CHECKING:
    from pathlib import Path


def directive(
    text: str, line: int = 1, own_line: bool = False, statements: tuple[tuple[int, int], ...] = ()
) -> Directive:
    found = parse_directive(text, "app.py", line, 5, own_line, statements)
    assert found is not None
    return found


SAID = {
    "a name and a reason": ("# tenant-audit: ignore[leaky-setting] one job only", ("leaky-setting",), "one job only"),
    "codes with commas": ("# tenant-audit: ignore[ZZ101, ZZ2]", ("ZZ101", "ZZ2"), ""),
    "codes with blanks and commas at odd places": ("#tenant-audit:ignore[ ,ZZ101  ZZ2,]x", ("ZZ101", "ZZ2"), "x"),
    "in SQL": ("-- tenant-audit: ignore[ZZ101] why", ("ZZ101",), "why"),
    "in a block of SQL": ("/* tenant-audit: ignore[ZZ101] why */", ("ZZ101",), "why"),
    "in a block of several lines": ("/*\n * tenant-audit: ignore[ZZ101] why\n */", ("ZZ101",), "why"),
    "behind another comment": ("# noqa: E501  # tenant-audit: ignore[ZZ101] why", ("ZZ101",), "why"),
    "a word twice": ("# tenant-audit: ignore[ZZ101, ZZ101]", ("ZZ101",), ""),
    "in capitals": ("# Tenant-Audit: IGNORE[ZZ101]", ("ZZ101",), ""),
}


@pytest.mark.parametrize(("text", "words", "reason"), SAID.values(), ids=SAID)
def test_what_a_comment_says(text: str, words: tuple[str, ...], reason: str) -> None:
    found = directive(text)
    assert (found.words, found.reason, found.problem, found.whole_file) == (words, reason, None, False)


def test_a_comment_for_the_whole_file() -> None:
    found = directive("# tenant-audit: ignore-file[ZZ101] generated")
    assert (found.words, found.whole_file) == (("ZZ101",), True)


NOTHING_SAID = {
    "a bare word": ("# tenant-audit: ignore", "bare"),
    "a bare word with a reason": ("# tenant-audit: ignore because of this", "bare"),
    "empty brackets": ("# tenant-audit: ignore[] why", "bare"),
    "brackets of blanks and commas": ("# tenant-audit: ignore[ , ]", "bare"),
    "the whole file, bare": ("# tenant-audit: ignore-file", "bare"),
    "another word": ("# tenant-audit: off", "unclear"),
    "a word that begins alike": ("# tenant-audit: ignored[ZZ101]", "unclear"),
    "another kind of ignoring": ("# tenant-audit: ignore-next-line[ZZ101]", "unclear"),
    "nothing": ("# tenant-audit:", "unclear"),
}


@pytest.mark.parametrize(("text", "problem"), NOTHING_SAID.values(), ids=NOTHING_SAID)
def test_what_speaks_to_us_and_says_nothing(text: str, problem: str) -> None:
    assert directive(text).problem == problem


@pytest.mark.parametrize(
    "text",
    [
        "# see tenant-audit: ignore[ZZ101] for how",
        "# run by tenant-audit",
        "# tenant-audit ignore[ZZ101]",
        "# my-tenant-audit: ignore[ZZ101]",
        "# noqa",
    ],
)
def test_what_only_mentions_us_says_nothing(text: str) -> None:
    assert parse_directive(text, "app.py", 1, 1, False, ()) is None


# Lines of a file, and for a comment of it the lines on which a finding is hidden.
SOURCE = [
    "one()",
    "two(",
    '    "a",  # 3',
    "    b,",
    ")",
    "three()",
    "# comment of line 7",
    "",
    "# comment of line 9",
    "four(",
    '    "c",',
    ")",
    "five()",
    "",
]

STATEMENTS = ((2, 5), (10, 12))

COUNTS = {
    "behind a statement of one line: that line": ((6, False), [6]),
    "on any line of a statement: all of it": ((3, False), [2, 3, 4, 5]),
    "behind the end of a statement: all of it": ((5, False), [2, 3, 4, 5]),
    "on a line of its own inside a statement: all of it": ((4, True), [2, 3, 4, 5]),
    "on a line of its own: the statement that follows, past blank lines and comments": ((7, True), [10, 11, 12]),
    "the last of several comments": ((9, True), [10, 11, 12]),
    "at the end of the file: nothing": ((14, True), []),
}


@pytest.mark.parametrize(("where", "hidden"), COUNTS.values(), ids=COUNTS)
def test_where_a_comment_counts(where: tuple[int, bool], hidden: list[int]) -> None:
    found = directive("# tenant-audit: ignore[ZZ101]", where[0], where[1], STATEMENTS)
    lines = tuple(SOURCE)
    assert [line for line in range(1, 14) if found.covers(at("app.py", line), lambda _path: lines)] == hidden


def test_of_nested_statements_the_smallest_counts() -> None:
    found = directive("-- tenant-audit: ignore[ZZ101]", 4, True, ((1, 9), (3, 5), (2, 8)))
    assert found.statement == (3, 5)


def test_a_statement_of_one_line_that_follows_counts_alone() -> None:
    found = directive("# tenant-audit: ignore[ZZ101]", 1, True, ((5, 9),))
    lines = ("# …", "one()", "two()")
    assert [line for line in range(1, 9) if found.covers(at("app.py", line), lambda _path: lines)] == [2]


def test_without_the_lines_the_next_line_counts() -> None:
    found = directive("# tenant-audit: ignore[ZZ101]", 1, True, ((2, 3),))
    assert [line for line in range(1, 9) if found.covers(at("app.py", line), lambda _path: ())] == [2, 3]


def test_the_place_is_the_comment() -> None:
    assert directive("# tenant-audit: ignore[ZZ101]\n", 7).place == at("app.py", 7, 5, 34)


# Applying


@pytest.fixture
def rules(pack: Path) -> tuple[LoadedRule, ...]:
    return load_packs([str(pack)])


def finding(line: int = 1, path: str = "app.py", rule: object = LEAK) -> Finding:
    return rule.at(at(path, line), "it leaks")  # type: ignore[attr-defined, no-any-return]


def told(findings: list[Finding]) -> list[tuple[int, str]]:
    return [(finding.place.line, finding.message) for finding in findings]


def test_what_a_comment_names_is_hidden(rules: tuple[LoadedRule, ...]) -> None:
    others = [finding(2), finding(1, rule=CARELESS), finding(1, "other.py")]
    outcome = apply([finding(), *others], [directive("# tenant-audit: ignore[ZZ1]")], rules, rules, lambda _path: ())
    assert outcome.kept == others
    assert outcome.suppressed == [finding()]
    assert outcome.unused == []


def test_a_comment_for_the_whole_file_hides_all_of_that_rule_in_it(rules: tuple[LoadedRule, ...]) -> None:
    comment = directive("# tenant-audit: ignore-file[leaky-setting]", 9)
    outcome = apply([finding(), finding(99), finding(1, "b.py")], [comment], rules, rules, lambda _path: ())
    assert outcome.kept == [finding(1, "b.py")]


def test_a_place_that_only_explains_is_not_hidden(rules: tuple[LoadedRule, ...]) -> None:
    seen = finding(5).see(at("app.py", 1), "it begins here")
    outcome = apply([seen], [directive("# tenant-audit: ignore[ZZ101]")], rules, rules, lambda _path: ())
    assert outcome.kept == [seen]


JUDGED = {
    "a rule that finds nothing there": (
        "# tenant-audit: ignore[ZZ201] why",
        ["no finding of ZZ201 is hidden by this comment; the next one would be hidden unseen"],
    ),
    "one of two rules": (
        "# tenant-audit: ignore[ZZ101, small-remark] why",
        ["no finding of small-remark is hidden by this comment; the next one would be hidden unseen"],
    ),
    "a rule that there is not": (
        "# tenant-audit: ignore[ZZ101, ZZ999] why",
        ["this comment names ZZ999, which is no rule, so it hides nothing"],
    ),
    "no rule": ("# tenant-audit: ignore why", ["this comment names no rule, so it hides nothing"]),
    "nothing we know": (
        "# tenant-audit: skip[ZZ101]",
        ["this comment speaks to tenant-audit and asks for nothing that it knows, so it hides nothing"],
    ),
    "all in order": ("# tenant-audit: ignore[leaky-setting] why", []),
    "the judgement itself is hidden": ("# tenant-audit: ignore[ZZ101, ZZ201, TA902] both may come", []),
    "hiding judgements is never judged": ("# tenant-audit: ignore[ZZ101, unused-suppression] why", []),
}


@pytest.mark.parametrize(("text", "messages"), JUDGED.values(), ids=JUDGED)
def test_comments_that_hide_nothing_are_findings(rules: tuple[LoadedRule, ...], text: str, messages: list[str]) -> None:
    outcome = suppress([finding()], [directive(text)], rules, rules, lambda _path: ())
    judged = [found for found in outcome.kept if found.code == "TA902"]
    assert [found.message for found in judged] == messages
    assert all(found.severity is Severity.NOTE and found.place.column == 5 for found in judged)


def test_a_rule_that_was_not_chosen_is_not_named_in_vain(rules: tuple[LoadedRule, ...]) -> None:
    chosen = [loaded for loaded in rules if loaded.rule.code in ("ZZ101", "TA902")]
    comments = [directive("# tenant-audit: ignore[ZZ201]"), directive("# tenant-audit: ignore[ZZ]", 3)]
    assert suppress([], comments, rules, chosen, lambda _path: ()).kept == []


def test_without_the_rule_on_comments_nothing_is_said_of_them(rules: tuple[LoadedRule, ...]) -> None:
    chosen = [loaded for loaded in rules if loaded.rule.code != "TA902"]
    assert suppress([], [directive("# tenant-audit: ignore")], rules, chosen, lambda _path: ()).kept == []


def test_findings_of_all_kinds_come_in_one_order(rules: tuple[LoadedRule, ...]) -> None:
    found = [finding(9), finding(2, rule=REMARK), finding(2, "a.py")]
    outcome = suppress(found, [directive("# tenant-audit: ignore", 5)], rules, rules, lambda _path: ())
    assert [(one.place.path, one.place.line) for one in outcome.kept] == [
        ("a.py", 2),
        ("app.py", 2),
        ("app.py", 5),
        ("app.py", 9),
    ]
