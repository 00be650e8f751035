"""Pictures: what is drawn where, with and without colours and signs."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from auditor.lab.chart import Bars, Chart, Lines, Spans
from auditor.lab.chart_svg import svg
from auditor.lab.chart_text import number, text
from auditor.lab.experiment import Experiment, Outcome, Row
from auditor.lab.page import page
from auditor.lab.run import Report

if TYPE_CHECKING:
    from pathlib import Path

LINES = Lines("Claim", "ms", ("1k", "2k", "3k"), {"held": (1, 4, 8), "none & <idle>": (1, 1, 1)})
BARS = Bars("Cost", "ms", {"local": 0, "discard": 9})
SPANS = Spans("Who", {"first": ((0, 2, "works"),), "second": ((1, 4, "late"),)})


def test_lines_rise_where_their_figures_do() -> None:
    drawn = text(LINES, 80, False).splitlines()
    assert drawn[0] == "Claim (ms)"
    assert drawn[1].startswith("8 ")
    columns = [line.index("a") for line in drawn[1:11] if "a" in line]
    assert columns == sorted(columns, reverse=True)  # the later the higher
    assert sum("b" in line for line in drawn[1:11]) == 1
    assert drawn[-2:] == ["  a  held", "  b  none & <idle>"]


def test_a_bar_is_as_long_as_its_figure_and_nothing_is_nothing() -> None:
    local, discard = text(BARS, 80, False).splitlines()[1:]
    assert local.split() == ["local", "0"]
    assert discard.count("█") > 20


def test_a_lane_is_filled_while_it_lasts() -> None:
    first, second = text(SPANS, 60, False).splitlines()[1:3]
    assert first.index("works") < second.index("late")
    assert first.endswith("·")
    assert not second.endswith("·")


def test_long_names_have_their_room_on_a_page() -> None:
    name = "a fence without heartbeats, both workers loop: second"
    for drawn in (svg(Bars("Cost", "ms", {name: 1})), svg(Spans("Who", {name: ((0, 1, "works"),)}))):
        texts = ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")
        (end,) = [float(text.attrib["x"]) for text in texts if text.text == name]
        assert end >= 6.5 * len(name)


@pytest.mark.parametrize("chart", [LINES, BARS, SPANS], ids=lambda chart: type(chart).__name__)
def test_every_picture_is_a_picture_anywhere(chart: Chart, monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (10, 40, 200):
        assert text(chart, width, False)
    assert "\x1b[" in text(chart, 80, True)
    assert ElementTree.fromstring(svg(chart)).tag.endswith("svg")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert text(chart, 80, False).isascii()


@pytest.mark.parametrize(("figure", "told"), [(0, "0"), (8.25, "8.25"), (0.6943, "0.694"), (20_000, "20,000")])
def test_figures_have_three_places_or_so(figure: float, told: str) -> None:
    assert number(figure) == told


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_can_be_seen_in_both_colours(scheme: str, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("there is no Chromium here")
    experiment = Experiment("drift", "How so?", "So.", lambda place: Outcome((), ""))
    outcome = Outcome((Row("one", "1", "1", True),), "holds: so", (LINES, BARS, SPANS))
    (tmp_path / "page.html").write_text(
        page({"postgresql": "18"}, [Report(experiment, outcome, 1.0)]), encoding="utf-8"
    )
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=800,1400", "--hide-scrollbars"]
    words += [f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={tmp_path / 'shot.png'}"]
    words += ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    subprocess.run([*words, str(tmp_path / "page.html")], check=True, capture_output=True, timeout=120)
    shares = _brightness(tmp_path / "shot.png")
    assert (shares > 128) == (scheme == "light")


def _brightness(picture: Path) -> float:
    """The mean of the bytes of a PNG's first line, which is the page's ground."""
    import struct
    import zlib

    data, at, packed = picture.read_bytes(), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        if kind == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += 12 + length
    line = zlib.decompress(packed)[1:300]  # behind the filter's byte
    return line[0]


def test_a_page_without_reports_is_a_page() -> None:
    assert "<h1>" in page({"postgresql": "18"}, [])
