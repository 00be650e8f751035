"""The process itself: what it imports, what it writes to whom, and how it is asked for help."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from auditor import __version__
from tests.command.conftest import Ran
from tests.command.world import LEAK, write_rule

if TYPE_CHECKING:
    from pathlib import Path

Run = Callable[..., Ran]

pytestmark = pytest.mark.usefixtures("tree")


def spawn(*words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "auditor", *words]
    return subprocess.run(command, capture_output=True, check=False, env={**os.environ, **environment})


@pytest.mark.parametrize("words", [["--version"], ["rule", "--version"], ["-q", "--version"]])
def test_the_version(words: list[str]) -> None:
    ran = spawn(*words)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"tenant-audit {__version__}\n".encode(), b"")


@pytest.mark.parametrize("words", [["--help"], ["check", "-h"], ["rule", "--help"], ["timeline", "--help"]])
def test_help_is_given(words: list[str]) -> None:
    ran = spawn(*words, COLUMNS="80")
    assert ran.returncode == 0
    assert ran.stdout.startswith(b"usage: tenant-audit")
    assert ran.stderr == b""


def test_every_option_is_in_the_help() -> None:
    text = spawn("--help").stdout.decode()
    for option in [
        "--format",
        "--output",
        "--select",
        "--ignore",
        "--min-severity",
        "--min-confidence",
        "--fail-on",
        "--exit-zero",
        "--rules",
        "--config",
        "--jobs",
        "--statistics",
        "--quiet",
        "--verbose",
        "--color",
        "--version",
        "--include-tests",
    ]:
        assert option in text


def test_a_reader_who_has_seen_enough_causes_no_trouble(here: Path) -> None:
    write_rule(here / "team", LEAK)
    page = here / "team/leaky_setting.md"
    page.write_text(page.read_text() + "More than a pipe holds.\n" * 10_000)
    script = f"{sys.executable} -m auditor rule ZZ101 --rules team | head -c 1"
    ran = subprocess.run(script, shell=True, capture_output=True, check=False)
    assert (ran.stdout, ran.stderr) == (b"#", b"")


def test_what_the_encoding_lacks_is_spelt() -> None:
    ran = spawn("--config", "nö.toml", PYTHONIOENCODING="ascii")
    message = b"n\\xf6.toml: the configuration cannot be read: no such file or directory"
    assert (ran.returncode, ran.stderr) == (2, b"tenant-audit: " + message + b"\n")


NOT_NEEDED = ("rich", "sqlglot", "libcst", "subprocess", "multiprocessing", "pathlib", "json", "shutil", "asyncio")


@pytest.mark.parametrize(
    ("words", "more"),
    [(["--version"], ("argparse", "dataclasses", "re", "enum")), (["nowhere.py"], ()), (["rule", "TA901"], ())],
    ids=["the version", "a wrong path", "a page"],
)
def test_what_is_not_needed_is_not_imported(words: list[str], more: tuple[str, ...]) -> None:
    script = (
        "import sys; before = set(sys.modules); from auditor.cli import main; main(sys.argv[1:]); "
        "print(*(set(sys.modules) - before), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, check=False, text=True)
    imported = set(ran.stderr.split())
    assert "auditor.cli" in imported
    assert not imported.intersection((*NOT_NEEDED, *more))
