"""What a person sees: whole screens, to the letter."""

from __future__ import annotations

import io
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.files import Skipped
from auditor.findings import Applicability, Confidence, Finding, Fix, Place
from auditor.lines import SourceLines
from auditor.report import Report, Summary, render
from auditor.report.look import Look, look_at, plain
from auditor.report.summary import sentence, statistics
from tests.command.world import CARELESS, LEAK, REMARK, at, place_of, write

if TYPE_CHECKING:
    from pathlib import Path

WORKER = """\
from psycopg_pool import ConnectionPool

pool = ConnectionPool(URL)


def work(job):
    with pool.connection() as conn:
        conn.execute("SELECT set_config('app.tenant', %s, false)", (job.tenant,))
        bill(conn, job)


def serve():
    for job in jobs():
        work(job)
"""

TENANTS = """\
def set_tenant(conn, tenant):
    conn.execute(
        "SELECT set_config('app.tenant', %s, false)",
        (tenant,),
    )
"""


def screen(finding: Finding, here: Path, width: int = 100, colour: bool = False) -> str:
    """What is printed for a finding, as it stands in a source file: without the indentation of this one."""
    return "".join(render(Report([finding], Summary(), SourceLines(str(here)), Look(width, colour)), "text"))


def leak(place: Place, message: str = "app.tenant outlives its transaction and reaches the next job") -> Finding:
    return LEAK.at(place, message)


def test_the_places_of_a_finding_are_told_from_top_to_bottom(here: Path) -> None:
    write(here / "app/worker.py", WORKER)
    found = (
        leak(place_of("app/worker.py", WORKER, "SELECT set_config('app.tenant', %s, false)"))
        .see(
            place_of("app/worker.py", WORKER, "pool.connection()"),
            "a transaction begins here, and its commit keeps it",
        )
        .see(place_of("app/worker.py", WORKER, "work(job)", 1), "the next job starts here, still as this tenant")
        .mended("pass true as the third argument: the setting then ends with the transaction")
    )
    assert screen(found, here) == dedent("""\
        app/worker.py:8:23 ZZ101 leaky-setting: app.tenant outlives its transaction and reaches the next job [error]
         7 |     with pool.connection() as conn:
           |          ----------------- a transaction begins here, and its commit keeps it
         8 |         conn.execute("SELECT set_config('app.tenant', %s, false)", (job.tenant,))
           |                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        ...
        14 |         work(job)
           |         --------- the next job starts here, still as this tenant
           = mend: pass true as the third argument: the setting then ends with the transaction

        """)


def test_places_in_other_files_are_numbered_in_the_order_of_events(here: Path) -> None:
    write(here / "app/worker.py", WORKER)
    write(here / "app/tenants.py", TENANTS)
    borrowed = place_of("app/worker.py", WORKER, "pool.connection()")
    found = (
        leak(place_of("app/tenants.py", TENANTS, "SELECT set_config('app.tenant', %s, false)"))
        .see(borrowed, "the connection is borrowed here")
        .see(place_of("app/worker.py", WORKER, "bill(conn, job)"), "what this writes is kept at the end of the block")
        .see(borrowed, "the next job borrows the same connection, still as this tenant, and reads what is not its own")
        .sure(Confidence.MEDIUM)
    )
    headline = "app/tenants.py:3:10 ZZ101 leaky-setting: app.tenant outlives its transaction and reaches the next job"
    assert screen(found, here) == f"{headline} [error, medium confidence]\n" + dedent("""\
        3 |         "SELECT set_config('app.tenant', %s, false)",
          |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
         --> app/worker.py:7
        7 |     with pool.connection() as conn:
          |          ----------------- 1. the connection is borrowed here
          |                            3. the next job borrows the same connection, still as this tenant,
          |                            and reads what is not its own
        8 |         conn.execute("SELECT set_config('app.tenant', %s, false)", (job.tenant,))
        9 |         bill(conn, job)
          |         --------------- 2. what this writes is kept at the end of the block

        """)


def test_on_a_narrow_screen_labels_go_below_and_long_lines_are_cut(here: Path) -> None:
    write(here / "app/worker.py", WORKER)
    found = (
        leak(place_of("app/worker.py", WORKER, "(job.tenant,)"), "it leaks")
        .see(
            place_of("app/worker.py", WORKER, "pool.connection()"),
            "a transaction begins here, and its commit keeps it",
        )
        .mended("pass true as the third argument: the setting then ends with the transaction")
    )
    assert screen(found, here, 56) == dedent("""\
        app/worker.py:8:68 ZZ101 leaky-setting: it leaks [error]
        7 |     with pool.connection() as conn:
          |          -----------------
          |          a transaction begins here, and its commit
          |          keeps it
        8 | ...', %s, false)", (job.tenant,))
          |                    ^^^^^^^^^^^^^
          = mend: pass true as the third argument: the setting
            then ends with the transaction

        """)


def test_a_line_that_is_cut_at_both_ends(here: Path) -> None:
    text = f"x = [{'0, ' * 200}wrong(), {'1, ' * 200}]\n"
    write(here / "a.py", text)
    assert screen(leak(place_of("a.py", text, "wrong()"), "it leaks"), here, 60) == dedent("""\
        a.py:1:606 ZZ101 leaky-setting: it leaks [error]
        1 | ... 0, 0, 0, 0, 0, wrong(), 1, 1, 1, 1, 1, 1, 1, 1, 1...
          |                    ^^^^^^^

        """)


ODD_LINES = {
    "tabs are four columns, and the underline follows": (
        "if x:\n\tleak(\t1)\n",
        Place("a.py", 2, 2, 2, 10),
        "2 |     leak(   1)\n  |     ^^^^^^^^^^\n",
    ),
    "wide characters take two columns": (
        '名前 = "日本"; leak()\n',
        Place("a.py", 1, 12, 1, 18),
        '1 | 名前 = "日本"; leak()\n  |                ^^^^^^\n',
    ),
    "marks on letters take none": (
        "e\u0301 = leak()\n",
        Place("a.py", 1, 6, 1, 12),
        "1 | e\u0301 = leak()\n  |     ^^^^^^\n",
    ),
    "what would act on a terminal is spelt": (
        "x = '\x1b[31m\u202e'; leak()\n",
        Place("a.py", 1, 15, 1, 21),
        "1 | x = '\\x1b[31m\\u202e'; leak()\n  |                       ^^^^^^\n",
    ),
    "the line ends of Windows are no characters": (
        "a = 1\r\nleak()\r\nb = 2\r\n",
        Place("a.py", 2, 1, 2, 7),
        "2 | leak()\n  | ^^^^^^\n",
    ),
    "a form feed ends no line": ("\fa = 1\nleak()\n", Place("a.py", 2, 1, 2, 7), "2 | leak()\n  | ^^^^^^\n"),
    "a place on several lines is underlined to the end of the first": (
        "x = leak(\n    1,\n)\n",
        Place("a.py", 1, 5, 3, 2),
        "1 | x = leak(\n  |     ^^^^^\n",
    ),
    "a place without columns is what stands on the line": (
        "    leak()  \n",
        Place("a.py", 1),
        "1 |     leak()\n  |     ^^^^^^\n",
    ),
    "a place without an end is one character": ("x = leak()\n", Place("a.py", 1, 5), "1 | x = leak()\n  |     ^\n"),
    "a place of no width is one character": ("leak()\n", Place("a.py", 1, 3, 1, 3), "1 | leak()\n  |   ^\n"),
    "a place behind the end of its line": ("x\n", Place("a.py", 1, 9, 1, 12), "1 | x\n  |  ^\n"),
    "a place on an empty line": ("\n\nx\n", Place("a.py", 2, 1), "2 |\n  | ^\n"),
    "a line that is not there": ("x\n", Place("a.py", 7, 1, 7, 2), "  = line 7\n"),
    "line 0": ("x\n", Place("a.py", 0), "  = line 0\n"),
}


@pytest.mark.parametrize(("text", "place", "expected"), ODD_LINES.values(), ids=ODD_LINES)
def test_odd_lines(here: Path, text: str, place: Place, expected: str) -> None:
    write(here / "a.py", text)
    assert screen(leak(place, "it leaks"), here).split("\n", 1)[1] == f"{expected}\n"


def test_a_single_line_between_is_shown(here: Path) -> None:
    text = "a()\nb()\nc()\n"
    write(here / "a.py", text)
    found = leak(at("a.py", 3, 1, 4), "it leaks").see(at("a.py", 1, 1, 4), "it begins here")
    assert screen(found, here) == dedent("""\
        a.py:3:1 ZZ101 leaky-setting: it leaks [error]
        1 | a()
          | --- it begins here
        2 | b()
        3 | c()
          | ^^^

        """)


def test_two_places_on_one_line_have_a_row_each(here: Path) -> None:
    text = "one(two())\n"
    write(here / "a.py", text)
    found = leak(place_of("a.py", text, "two()"), "it leaks").see(place_of("a.py", text, "one(two())"), "called here")
    assert screen(found, here) == dedent("""\
        a.py:1:5 ZZ101 leaky-setting: it leaks [error]
        1 | one(two())
          | ---------- called here
          |     ^^^^^

        """)


def test_a_file_that_cannot_be_read_any_more_leaves_the_sentence(here: Path) -> None:
    found = leak(at("gone.py", 3), "it leaks").see(at("gone.py", 1), "it begins here").mended("mend it")
    assert screen(found, here) == dedent("""\
        gone.py:3:1 ZZ101 leaky-setting: it leaks [error]
          = line 1: it begins here
          = line 3
          = mend: mend it

        """)


def test_a_name_with_a_new_line_or_a_colour_stays_on_its_line(here: Path) -> None:
    assert screen(leak(at("a\nb\x1b[31m.py", 1), "it\nleaks"), here).splitlines()[0] == (
        "a\\nb\\x1b[31m.py:1:1 ZZ101 leaky-setting: it\\nleaks [error]"
    )


def test_what_fix_will_do_is_marked(here: Path) -> None:
    fix = Fix(Applicability.SAFE, "pass true")
    found = Finding("ZZ101", "leaky-setting", LEAK.severity, "it leaks", at("a.py", 1), fix=fix)
    assert screen(found, here).splitlines()[0] == "a.py:1:1 ZZ101 leaky-setting: it leaks [error] [*]"


def test_in_colour_the_text_is_the_same(here: Path) -> None:
    import re

    write(here / "app/worker.py", WORKER)
    found = leak(at("app/worker.py", 8, 9, 22)).see(at("app/worker.py", 7, 10, 27), "it begins here")
    painted = screen(found, here, colour=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == screen(found, here)
    assert "\x1b[1;31mZZ101\x1b[0m" in painted


SOURCE_CHARACTERS = st.text(st.sampled_from("abc (){}\t'日́\x1b\u202eé"), max_size=120)


@given(
    line=SOURCE_CHARACTERS,
    column=st.integers(1, 130),
    length=st.integers(0, 130),
    width=st.integers(40, 100),
    label=st.text(st.sampled_from("ab "), max_size=150),
)
def test_no_row_is_wider_than_the_screen(line: str, column: int, length: int, width: int, label: str) -> None:
    from auditor.report.look import cells
    from auditor.report.snippet import Mark, Snippet

    marks = [Mark(Place("a.py", 1, column, 1, column + length), label, "related"), Mark(Place("a.py", 1), "", "error")]
    for row in Snippet((line,), 2, Look(width)).show(marks):
        assert sum(columns for _, columns in cells(row)) <= width
        assert row.replace("\u0301", "").isprintable()


# The last line


COUNTED = {
    "nothing": ([], Summary(12, seconds=0.314), "no findings in 12 files, 0.31 s"),
    "one of each": (
        [LEAK, CARELESS, REMARK],
        Summary(1, seconds=59.9),
        "1 error, 1 warning, 1 note in 1 file, 59.90 s",
    ),
    "several": ([LEAK, LEAK, REMARK], Summary(12345, seconds=61), "2 errors, 1 note in 12,345 files, 1 min 1 s"),
    "with what was left out": (
        [],
        Summary(1, skipped=(Skipped("a.py", "…"), Skipped("b.py", "…")), suppressed=3),
        "no findings in 1 file, 0.00 s (3 suppressed; 2 paths skipped, -v tells why)",
    ),
}


@pytest.mark.parametrize(("rules", "summary", "expected"), COUNTED.values(), ids=COUNTED)
def test_the_last_line_counts(rules: list[object], summary: Summary, expected: str) -> None:
    findings = [rule.at(at("a.py", 1), "…") for rule in rules]  # type: ignore[attr-defined]
    assert sentence(Report(findings, summary, lambda _path: (), Look())) == expected


def test_statistics_count_by_rule_the_commonest_first() -> None:
    findings = [REMARK.at(at("a.py", 1), "…")] * 12 + [CARELESS.at(at("a.py", 1), "…"), LEAK.at(at("a.py", 1), "…")]
    assert statistics(Report(findings, Summary(), lambda _path: (), Look())) == (
        "12  ZZ301  small-remark\n 1  ZZ101  leaky-setting\n 1  ZZ201  careless-callback\n"
    )


# What a stream can show


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


LOOKS = {
    "a file is wide and plain": (io.StringIO(), "auto", {}, Look(120, False)),
    "a terminal has colours": (Terminal(), "auto", {}, Look(80, True)),
    "a terminal that is told not to": (Terminal(), "auto", {"NO_COLOR": "1"}, Look(80, False)),
    "an empty NO_COLOR says nothing": (Terminal(), "auto", {"NO_COLOR": ""}, Look(80, True)),
    "a dumb terminal": (Terminal(), "auto", {"TERM": "dumb"}, Look(80, False)),
    "a file that is told to": (io.StringIO(), "auto", {"FORCE_COLOR": "1"}, Look(120, True)),
    "FORCE_COLOR=0 says nothing": (io.StringIO(), "auto", {"FORCE_COLOR": "0"}, Look(120, False)),
    "NO_COLOR before FORCE_COLOR": (Terminal(), "auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, Look(80, False)),
    "an option before the environment": (io.StringIO(), "always", {"NO_COLOR": "1"}, Look(120, True)),
    "an option the other way": (Terminal(), "never", {"FORCE_COLOR": "1"}, Look(80, False)),
    "COLUMNS is the width": (Terminal(), "never", {"COLUMNS": "66"}, Look(66, False)),
    "no narrower than can be read": (Terminal(), "never", {"COLUMNS": "5"}, Look(40, False)),
    "COLUMNS that is no number": (Terminal(), "never", {"COLUMNS": "wide"}, Look(80, False)),
}


@pytest.mark.parametrize(("stream", "colour", "environment", "expected"), LOOKS.values(), ids=LOOKS)
def test_how_a_stream_is_written_to(
    stream: io.StringIO, colour: str, environment: dict[str, str], expected: Look
) -> None:
    assert look_at(stream, colour, environment) == expected


def test_a_stream_that_is_closed_is_no_terminal() -> None:
    stream = io.StringIO()
    stream.close()
    assert look_at(stream, "auto", {}) == Look(120, False)


@given(st.text())
def test_plain_text_is_one_printable_line(text: str) -> None:
    shown = plain(text)
    assert len(shown.splitlines()) <= 1
    assert "\x1b" not in shown


# Encodings


ENCODED = {
    "UTF-8": "x = 'é'\n".encode(),
    "UTF-8 with a mark": b"\xef\xbb\xbf" + "x = 'é'\n".encode(),
    "what it declares": "# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1"),
    "nothing that can be told": "x = 'é'\n".encode("latin-1"),
    "an encoding that there is not": "# coding: klingon\nx = 'é'\n".encode("latin-1"),
}


@pytest.mark.parametrize("data", ENCODED.values(), ids=ENCODED)
def test_lines_are_shown_whatever_their_encoding(here: Path, data: bytes) -> None:
    (here / "a.py").write_bytes(data)
    assert "x = 'é'" in SourceLines(str(here))("a.py")
