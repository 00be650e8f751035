"""The examples of rules' pages on real servers: what is said of a rule is what happens."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from auditor import cli
from auditor.lab.prove import proof_file, prove
from auditor.lab.server import OwnServer, Server
from auditor.packs import LoadedRule, load_packs, own_pack

#: Rules that speak of source files, or of a project's settings as a whole, and of nothing that a statement does.
NOT_AT_RUN_TIME = {"TA901", "TA902"}


@cache
def rules() -> dict[str, LoadedRule]:
    return {rule.rule.code: rule for rule in load_packs([own_pack()])}


def test_every_rule_that_speaks_of_run_time_has_a_proof() -> None:
    without = {code for code, rule in rules().items() if not proof_file(rule).is_file()}
    assert without == NOT_AT_RUN_TIME


def test_every_proof_is_a_rules() -> None:
    folder = Path(own_pack()) / "proofs"
    assert {path.stem for path in folder.glob("*.py")} <= {Path(rule.module).stem for rule in rules().values()}


@pytest.mark.parametrize("code", [code for code, rule in rules().items() if proof_file(rule).is_file()])
def test_only_the_bad_example_shows_the_fault(postgres: OwnServer, database: str, code: str) -> None:
    (proven,) = prove([rules()[code]], Server(database, postgres.version), lambda told: None)
    assert dict(proven.bad) == dict(proven.proof.bad_shows)
    assert dict(proven.good) == dict(proven.proof.good_shows)
    assert proven.holds
    assert proven.bad != proven.good


def test_the_command_shows_both(
    monkeypatch: pytest.MonkeyPatch, database: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert cli.main(["lab", "prove", "TA102", "--dsn", database, "--json", str(tmp_path / "x.json")]) == 0
    shown = capsys.readouterr().out
    for told in ("TA102  local-without-transaction", "bad: A pool in autocommit", "holds"):
        assert told in shown
    (proof,) = json.loads((tmp_path / "x.json").read_text())["proofs"]
    assert (proof["code"], proof["holds"]) == ("TA102", True)
    assert cli.main(["lab", "prove", "TA901", "--dsn", database]) == 2
    assert "speaks of nothing that happens on a server" in capsys.readouterr().err


def test_a_page_is_refused_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lab", "prove", "TA102", "--html", str(tmp_path / "x.html")]) == 2
    assert "--json" in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()
