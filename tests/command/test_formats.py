"""The formats for machines, to the letter."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from auditor.config import FORMATS
from auditor.files import Skipped
from auditor.findings import Applicability, Confidence, Finding, Fix, Place, fingerprints
from auditor.report import Report, Summary, render
from auditor.report.look import Look
from tests.command.world import CARELESS, LEAK, REMARK, at

if TYPE_CHECKING:
    from pathlib import Path

FULL = (
    Finding(
        "ZZ101",
        "leaky-setting",
        LEAK.severity,
        "app.tenant outlives its transaction",
        Place("app/worker.py", 8, 23, 8, 65),
        symbol="work",
        fix=Fix(Applicability.SAFE, "pass true"),
        context="conn.execute(…)",
    )
    .see(at("app/worker.py", 7, 10, 27), "a transaction begins here")
    .see(at("app/other.py", 3), "the next job starts here")
    .mended("pass true as the third argument")
    .sure(Confidence.MEDIUM)
)


def rendered(form: str, *findings: Finding, summary: Summary | None = None) -> str:
    return "".join(render(Report(findings, summary or Summary(), lambda _path: (), Look()), form))


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_renders_nothing_and_something(form: str) -> None:
    assert isinstance(rendered(form), str)
    assert "ZZ101" in rendered(form, FULL)


# concise


def test_concise_is_one_line_a_finding() -> None:
    odd = REMARK.at(at("odd\nname:1.py", 1), "one\ntwo")
    assert rendered("concise", FULL, odd) == (
        "app/worker.py:8:23 ZZ101 leaky-setting: app.tenant outlives its transaction [error, medium confidence] [*]\n"
        "odd\\nname:1.py:1:1 ZZ301 small-remark: one\\ntwo [note]\n"
    )


# json


def document(*findings: Finding, summary: Summary | None = None) -> Any:
    return json.loads(rendered("json", *findings, summary=summary))


def test_json_says_everything() -> None:
    summary = Summary(2, (Skipped("pipe.py", "not a regular file"),), seconds=9.9)
    assert document(FULL, summary=summary) == {
        "version": 1,
        "findings": [
            {
                "code": "ZZ101",
                "name": "leaky-setting",
                "severity": "error",
                "confidence": "medium",
                "message": "app.tenant outlives its transaction",
                "path": "app/worker.py",
                "line": 8,
                "column": 23,
                "end_line": 8,
                "end_column": 65,
                "symbol": "work",
                "related": [
                    {"path": "app/worker.py", "line": 7, "column": 10, "message": "a transaction begins here"},
                    {"path": "app/other.py", "line": 3, "column": 1, "message": "the next job starts here"},
                ],
                "fix": {"applicability": "safe", "description": "pass true"},
                "fingerprint": fingerprints([FULL])[0],
                "url": None,
            }
        ],
        "files": {"read": 2, "skipped": [{"path": "pipe.py", "reason": "not a regular file"}]},
    }


def test_json_of_nothing() -> None:
    assert document() == {"version": 1, "findings": [], "files": {"read": 0, "skipped": []}}


def test_json_has_no_fix_where_there_is_none_and_an_end_in_any_case() -> None:
    (found,) = document(REMARK.at(at("a.py", 3, 5), "…"))["findings"]
    assert (found["fix"], found["end_line"], found["end_column"]) == (None, 3, 5)


def test_json_holds_names_that_are_not_unicode() -> None:
    text = rendered("json", REMARK.at(at("b\udcff.py", 1), "…"))
    assert json.loads(text)["findings"][0]["path"] == "b�.py"
    assert text.isascii()


def test_json_tells_equal_findings_apart() -> None:
    twice = [REMARK.at(at("a.py", line), "…") for line in (1, 9)]
    names = [found["fingerprint"] for found in document(*twice)["findings"]]
    assert len(set(names)) == 2


# github


ANNOTATED = {
    "all of it": (
        FULL,
        (
            "::error file=app/worker.py,line=8,endLine=8,col=23,endColumn=65,title=ZZ101 leaky-setting::"
            "app.tenant outlives its transaction (medium confidence)%0A"
            "app/worker.py:7 a transaction begins here%0A"
            "app/other.py:3 the next job starts here%0A"
            "mend: pass true as the third argument\n"
        ),
    ),
    "a warning": (
        CARELESS.at(at("a.sql", 1), "it does"),
        "::warning file=a.sql,line=1,endLine=1,col=1,endColumn=1,title=ZZ201 careless-callback::it does\n",
    ),
    "a note, on several lines, has no columns": (
        REMARK.at(Place("a.py", 1, 5, 3, 2), "it might"),
        "::notice file=a.py,line=1,endLine=3,title=ZZ301 small-remark::it might\n",
    ),
    "all that must be escaped": (
        REMARK.at(at("odd,name:50%\r\n.py", 1), "100%\r\nof: it, all"),
        (
            "::notice file=odd%2Cname%3A50%25%0D%0A.py,line=1,endLine=1,col=1,endColumn=1,title=ZZ301 small-remark::"
            "100%25%0D%0Aof: it, all\n"
        ),
    ),
}


@pytest.mark.parametrize(("found", "expected"), ANNOTATED.values(), ids=ANNOTATED)
def test_annotations(found: Finding, expected: str) -> None:
    assert rendered("github", found) == expected


def test_annotations_are_placed_from_the_root_of_the_repository(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(here.parent))
    assert "file=here/a.py," in rendered("github", REMARK.at(at("a.py", 1), "…"))
    monkeypatch.setenv("GITHUB_WORKSPACE", "/somewhere/else")
    assert "file=a.py," in rendered("github", REMARK.at(at("a.py", 1), "…"))
