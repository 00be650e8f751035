"""Writes the parts of the README that are generated: `python -m tests.packaging.readme`.

Its picture is a measurement, and is made anew only when asked for: `python -m tests.packaging.readme picture`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from pathlib import Path

from auditor import cli
from auditor.packs import load_packs, own_pack
from auditor.pages import table

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "drift.svg"
#: A comment names the command whose screen follows.
SCREEN = re.compile(r"(<!-- screen: (.*?) -->\n)```console\n.*?```\n", re.DOTALL)
#: Times and versions are those of the machine that runs it: the README has one of each. What a line of a table is
#: filled up with at its end is not seen.
VARIES = (
    (re.compile(r", [0-9.]+ s$", re.MULTILINE), ", 0.3 s"),
    (re.compile(r"^PostgreSQL [0-9.]+, .*$", re.MULTILINE), "PostgreSQL 18.6, psycopg 3.3.9, psycopg_pool 3.3.3"),
    (re.compile(r" +$", re.MULTILINE), ""),
)
RULES = re.compile(r"(<!-- rules -->\n).*?(<!-- end of rules -->)", re.DOTALL)


def printed(command: str) -> str:
    """What a command of ours prints in the root of the repository, without what varies."""
    os.environ["COLUMNS"] = "110"
    before, out = Path.cwd(), io.StringIO()
    os.chdir(ROOT)
    try:
        with contextlib.redirect_stdout(out):
            cli.main(shlex.split(command)[1:])
    finally:
        os.chdir(before)
    told = out.getvalue()
    for varying, instead in VARIES:
        told = varying.sub(instead, told)
    return f"$ {command}\n{told}"


def fresh(text: str) -> str:
    """The README with its screens and its table as they are now."""
    text = SCREEN.sub(lambda found: f"{found[1]}```console\n{printed(found[2])}```\n", text)
    rules = table(load_packs([own_pack()]))
    return RULES.sub(lambda found: f"{found[1]}\n{rules}\n{found[2]}", text)


def picture() -> str:
    """What the experiment `drift` draws of this machine, with colours for the dark and the light."""
    from auditor.lab.chart_svg import svg
    from auditor.lab.installations import installations
    from auditor.lab.page import STYLE
    from auditor.lab.run import experiments, run
    from auditor.lab.server import own_server

    with own_server(installations()[0], {}) as server:
        (report,) = run(experiments(["drift"]), server, full=False, seed=1, say=lambda told: None)
    (chart,) = report.outcome.charts
    first, rest = svg(chart).split("\n", 1)
    return f"{first}\n<style>{STYLE}\nsvg {{ background: var(--paper); }}\n</style>\n{rest}\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["picture"]:
        PICTURE.write_text(picture(), encoding="utf-8")
    README.write_text(fresh(README.read_text(encoding="utf-8")), encoding="utf-8")
