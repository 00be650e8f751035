"""The README says what is so: its screens are what is printed, its table and its keys are the ones there are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from auditor import cli
from auditor.config import read_config
from auditor.lab.drift import WAYS
from auditor.lab.server import VARIABLE
from auditor.options import COMMANDS
from tests.packaging.readme import PICTURE, README, ROOT, SCREEN, fresh

if TYPE_CHECKING:
    from pathlib import Path

TEXT = README.read_text(encoding="utf-8")


def test_its_screens_and_its_table_are_what_is_printed_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    for name in ("NO_COLOR", "FORCE_COLOR", VARIABLE):
        monkeypatch.delenv(name, raising=False)
    assert len(SCREEN.findall(TEXT)) == 3
    assert fresh(TEXT) == TEXT, "python -m tests.packaging.readme writes them anew"


def test_its_picture_is_one_of_the_experiment_and_needs_nothing_else() -> None:
    assert re.findall(r"!\[.*?\]\((.*?)\)", TEXT) == [PICTURE.relative_to(ROOT).as_posix()]
    picture = ElementTree.parse(PICTURE).getroot()
    told = {text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert told >= {way.name for way in WAYS}
    for fetched in ("url(", "@import", "href"):
        assert fetched not in PICTURE.read_text(encoding="utf-8")


def test_the_configuration_is_one_that_is_taken_and_shows_every_key(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(example)
    config = read_config(None, [], str(tmp_path))
    assert config.file is not None
    shown = {key.replace("-", "_") for key in re.findall(r"^([\w-]+) =", example, re.MULTILINE)}
    assert shown == set(config._fields) - {"folder", "file"}


def test_the_options_it_names_are_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ([], *([each] for each in COMMANDS)):
        with pytest.raises(SystemExit):
            cli.main([*command, "--help"])
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    named = {
        option for line in TEXT.splitlines() if "pip" not in line for option in re.findall(r"--[a-z]+[a-z-]*", line)
    }
    assert named <= known
