"""Fixtures of the command line's tests: a working directory, a pack of planted rules, and a run from end to end."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from auditor import cli, packs
from auditor.findings import Confidence
from tests.command.world import CARELESS, LEAK, REMARK, FakeTimeline, at, plant, write, write_rule

if TYPE_CHECKING:
    from collections.abc import Callable

OWN = Path(packs.own_pack())


class Ran(NamedTuple):
    """How a run ended."""

    code: int
    out: str
    err: str


def codes(ran: Ran) -> list[str]:
    """The codes of a concise report, line by line."""
    return [line.split()[1] for line in ran.out.splitlines()]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, in an environment that says nothing about looks or repositories."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "GITHUB_WORKSPACE", "GIT_DIR", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pack in place of ours: three rules that find what is planted, and our two on files and comments."""
    folder = tmp_path / "pack"
    for rule in (LEAK, CARELESS, REMARK):
        write_rule(folder, rule)
    for name in ("unused_suppression", "unreadable_file"):
        for suffix in (".py", ".md"):
            shutil.copy(OWN / f"{name}{suffix}", folder)
    monkeypatch.setattr(packs, "own_pack", lambda: str(folder))
    return folder


@pytest.fixture
def timeline(pack: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTimeline:
    """What every run understands, to be filled by the test."""
    planted = FakeTimeline()

    def understand(inventory: object, words: object, config: object, options: object) -> object:
        return planted

    monkeypatch.setattr(cli, "understand", understand)
    monkeypatch.setattr(cli, "SMALL", 0)  # what is planted is found, whatever stands in the files
    return planted


@pytest.fixture
def run(here: Path, timeline: FakeTimeline, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run the command in the working directory."""

    def command(*words: str) -> Ran:
        capsys.readouterr()
        code = cli.main(words)
        return Ran(code, *capsys.readouterr())

    return command


@pytest.fixture
def tree(here: Path, timeline: FakeTimeline) -> None:
    """A project whose worker has a fault of each kind."""
    write(here / "app/worker.py", "leak()\ncareless()\nremark()\n")
    plant(here, "app/other.py", "tests/test_worker.py", "schema.sql")
    write(here / "pyproject.toml", "[project]\nname = 'app'\n")
    timeline.findings = [
        REMARK.at(at("app/worker.py", 3, 1, 9), "it might"),
        LEAK.at(at("app/worker.py", 1, 1, 7), "it leaks").mended("mend it"),
        CARELESS.at(at("app/worker.py", 2, 1, 11), "it is careless").sure(Confidence.MEDIUM),
    ]
