"""The bar that long runs show on a terminal."""

from __future__ import annotations

import io
import subprocess
import sys
import threading

from auditor.report.progress import Bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_short_run_shows_nothing() -> None:
    stream = Terminal()
    bar = Bar(stream)
    bar("reading", 1, 2)
    bar.close()
    assert stream.getvalue() == ""


def test_a_long_run_shows_how_far_it_is_and_takes_the_bar_away() -> None:
    stream = Terminal()
    threads = threading.active_count()
    bar = Bar(stream, after=0)
    bar("reading", 1, 400)
    assert "reading" in stream.getvalue()
    assert "1/400" in stream.getvalue()
    assert threading.active_count() == threads
    bar.close()
    assert stream.getvalue().endswith("\x1b[2K")


def test_rich_is_imported_only_when_the_bar_is_due() -> None:
    script = (
        "import sys, io; from auditor.report.progress import Bar; bar = Bar(io.StringIO(), after={}); "
        "bar('reading', 1, 2); bar.close(); print('rich' in sys.modules)"
    )
    for after, expected in (("9", b"False\n"), ("0", b"True\n")):
        ran = subprocess.run([sys.executable, "-c", script.format(after)], capture_output=True, check=True)
        assert ran.stdout == expected
