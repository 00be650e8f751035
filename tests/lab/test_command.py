"""`tenant-audit lab`: what it prints and writes, its exit codes, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import psycopg
import pytest

from auditor import cli
from auditor.lab import run as runner
from auditor.lab.chart import Bars, Lines, Spans
from auditor.lab.experiment import Experiment, Outcome, Row, Skipped, judged
from auditor.lab.place import WORKER, Place
from auditor.lab.server import MARKER, VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

CHARTS = (
    Lines("Claim <time>", "ms", ("1", "2", "3"), {"held": (1, 2, 3), "none": (1, 1, 1)}),
    Bars("Cost", "ms", {"local": 0.35, "discard": 8.9}),
    Spans("Who worked", {"first": ((0, 3, "works"),), "second": ((2, 5, "works too"),)}),
)


def made(name: str, *rows: Row) -> Experiment:
    def run(place: Place) -> Outcome:
        with place.admin() as conn:
            conn.execute("INSERT INTO jobs DEFAULT VALUES")
        place.say("half")
        outcome = judged(rows, "all of it")
        return Outcome(outcome.rows, outcome.verdict, CHARTS)

    return Experiment(name, f"Is {name} so?", "Do so & so.", run)


GOOD = made("good", Row("one", "1", "1", True, {"count": 1}), Skipped("two", "it is not here").row())
BAD = made("bad", Row("one", "1", "2", False, {"count": 2}))


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    by_name = {"good": GOOD, "bad": BAD}
    monkeypatch.setattr(runner, "NAMES", tuple(by_name))
    monkeypatch.setattr(runner, "load", by_name.__getitem__)


def left(dsn: str) -> tuple[int, int]:
    """Our schemas and roles in a database."""
    with psycopg.connect(dsn) as conn:
        roles = "(SELECT count(*) FROM pg_roles WHERE rolname = %s)"
        found = f"SELECT count(*) FILTER (WHERE nspname = %s), {roles} FROM pg_namespace"
        row = conn.execute(found, (MARKER, WORKER)).fetchone()
    assert row is not None
    return row


def test_what_holds_is_shown_and_leaves_nothing_behind(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lab", "good", "--dsn", database]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("PostgreSQL ")
    for told in ("Is good so?", "skipped: it is not here", "holds: all of it", "Do so & so.", "Claim <time> (ms)"):
        assert told in shown
    assert left(database) == (0, 0)


def test_what_differs_is_told_with_exit_code_1(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lab", "all", "--dsn", database]) == 1
    assert "differs: one: 2, and not 1" in capsys.readouterr().out


def test_the_json_is_as_documented(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lab", "--dsn", database, "--json", str(tmp_path / "found.json")]) == 1
    data = json.loads((tmp_path / "found.json").read_text())
    assert data["versions"]["postgresql"]
    assert data["versions"]["psycopg"]
    first, second = data["experiments"]
    assert first.pop("seconds") > 0
    assert first == {
        "name": "good",
        "holds": True,
        "verdict": "holds: all of it",
        "rows": [
            {"what": "one", "article": "1", "here": "1", "holds": True, "count": 1},
            {"what": "two", "article": "", "here": "skipped: it is not here", "holds": None},
        ],
    }
    assert second["holds"] is False
    capsys.readouterr()
    cli.main(["lab", "good", "--dsn", database, "--json", "-"])
    assert json.loads(capsys.readouterr().out)["experiments"][0]["name"] == "good"


def test_the_page_needs_nothing_else(database: str, tmp_path: Path) -> None:
    assert cli.main(["lab", "good", "--dsn", database, "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg ") == 3
    assert "Claim &lt;time&gt;" in page
    assert "Do so &amp; so." in page
    for fetched in ("<script", "<link", "src=", "url(", "@import"):
        assert fetched not in page
    assert page.replace('xmlns="http://www.w3.org/2000/svg"', "").count("http") == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["goood"], "there is no experiment 'goood'; did you mean \"good\"?"),
        (["--quick", "--full"], "not allowed with argument --quick"),
        (["--dsn", "host=/nowhere"], "no connection to the database that was given"),
        (["good", "--json", "/nowhere/x"], "/nowhere/x: cannot be written"),
    ],
)
def test_wrong_use_is_exit_code_2(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lab", *words]) == 2
    assert told in capsys.readouterr().err


def test_a_database_that_is_not_empty_is_left_alone(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("CREATE TABLE theirs ()")
    assert cli.main(["lab", "good", "--dsn", database]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_without_the_extra_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg_pool", None)
    assert cli.main(["lab", "good"]) == 2
    assert capsys.readouterr().err == (
        "tenant-audit: the laboratory needs PostgreSQL and its driver: pip install 'tenant-audit[lab]'\n"
    )


def test_what_there_is_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lab", "list"]) == 0
    assert capsys.readouterr().out == "good    Is good so?\nbad     Is bad so?\n"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "cancelled"])
def test_who_ends_it_finds_nothing_left_behind(database: str, how: signal.Signals) -> None:
    command = [sys.executable, "-m", "auditor", "lab", "lease", "--dsn", database]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith(b"PostgreSQL")
        while left(database) == (0, 0) and running.poll() is None:
            pass
        os.kill(running.pid, how)
        assert running.wait(30) == 130
        assert running.stderr is not None
        assert b"Traceback" not in running.stderr.read()
    assert left(database) == (0, 0)


def test_a_server_of_its_own_goes_with_ctrl_c() -> None:
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # for the server's user, where we are root
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE} | {"TMPDIR": folder}
        command = [sys.executable, "-m", "auditor", "lab", "lease"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as running:
            assert running.stdout is not None
            assert running.stdout.readline().startswith(b"PostgreSQL")
            assert os.listdir(folder)
            os.kill(running.pid, signal.SIGINT)
            assert running.wait(30) == 130
        assert os.listdir(folder) == []
