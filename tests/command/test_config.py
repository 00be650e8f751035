"""The configuration: where it is found, what it may say, and what is said when it is wrong."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from auditor import drivers
from auditor.cli import main
from auditor.config import DRIVERS, Config, DriverDefaults, read_config
from auditor.errors import UserError
from auditor.findings import Confidence, Severity
from auditor.globs import matcher
from tests.command.world import write

if TYPE_CHECKING:
    from pathlib import Path

EVERYTHING = """\
paths = ["src"]
exclude = ["migrations", "*_pb2.py"]
include-tests = true
select = ["TA1", "attempts-unbounded"]
ignore = ["TA104"]
min-severity = "warning"
min-confidence = "low"
fail-on = "error"
job-tables = ["jobs", "app.tasks"]
tenant-settings = ["app.tenant"]
tenant-columns = ["tenant_id"]
default-driver = "psycopg2"
rules = ["team/rules"]
format = "concise"

[per-path-ignores]
"scripts/*.py" = ["TA101"]
"legacy" = ["TA3", "session-tenant"]

[drivers.psycopg]
autocommit = true
prepare-threshold = "none"
version = "3.2"

[drivers.psycopg2]
prepare-threshold = 5
"""


def test_everything_that_can_be_said(here: Path) -> None:
    write(here / "tenant-audit.toml", EVERYTHING)
    assert read_config(None, [], str(here)) == Config(
        folder=str(here),
        file="tenant-audit.toml",
        paths=("src",),
        exclude=("migrations", "*_pb2.py"),
        include_tests=True,
        select=("TA1", "attempts-unbounded"),
        ignore=("TA104",),
        per_path_ignores=(("scripts/*.py", ("TA101",)), ("legacy", ("TA3", "session-tenant"))),
        min_severity=Severity.WARNING,
        min_confidence=Confidence.LOW,
        fail_on=Severity.ERROR,
        job_tables=("jobs", "app.tasks"),
        tenant_settings=("app.tenant",),
        tenant_columns=("tenant_id",),
        default_driver="psycopg2",
        drivers={
            "psycopg": DriverDefaults(autocommit=True, prepare_threshold="none", version="3.2"),
            "psycopg2": DriverDefaults(prepare_threshold=5),
        },
        rules=("team/rules",),
        format="concise",
    )


def test_without_a_file_there_are_defaults(here: Path) -> None:
    config = read_config(None, [], str(here))
    assert (config.min_severity, config.min_confidence, config.fail_on) == (
        Severity.NOTE,
        Confidence.MEDIUM,
        Severity.WARNING,
    )


class TestWhere:
    def test_the_nearest_file_upward_from_the_first_path(self, here: Path) -> None:
        write(here / "pyproject.toml", "[tool.tenant-audit]\nformat = 'json'\n")
        write(here / "app/tenant-audit.toml", "format = 'concise'\n")
        write(here / "app/deep/a.py")
        assert read_config(None, ["app/deep/a.py", "."], str(here)).format == "concise"
        assert read_config(None, [".", "app/deep/a.py"], str(here)).format == "json"
        assert read_config(None, [], str(here / "app/deep")).format == "concise"

    def test_a_project_file_that_says_nothing_to_us_is_passed_over(self, here: Path) -> None:
        write(here / "pyproject.toml", "[tool.tenant-audit]\nformat = 'json'\n")
        write(here / "app/pyproject.toml", "[project]\nname = 'app'\n")
        assert read_config(None, ["app"], str(here)).format == "json"

    def test_a_broken_project_file_that_says_nothing_to_us_is_not_ours_to_judge(self, here: Path) -> None:
        write(here / "pyproject.toml", "[project\n")
        assert read_config(None, [], str(here)) == Config(str(here))

    def test_of_two_in_one_folder_ours_alone_counts(self, here: Path) -> None:
        write(here / "pyproject.toml", "[tool.tenant-audit]\nformat = 'json'\n")
        write(here / "tenant-audit.toml", "format = 'concise'\n")
        assert read_config(None, [], str(here)).format == "concise"

    def test_a_file_that_is_named_is_read_whatever_it_is_called(self, here: Path) -> None:
        write(here / "pyproject.toml", "[tool.tenant-audit]\nformat = 'json'\n")
        write(here / "ci/audit.toml", "format = 'github'\n")
        config = read_config("ci/audit.toml", [], str(here))
        assert (config.format, config.folder) == ("github", str(here / "ci"))

    def test_a_project_file_that_is_named_need_not_have_our_table(self, here: Path) -> None:
        write(here / "ci/pyproject.toml", "[project]\nname = 'app'\n")
        assert read_config("ci/pyproject.toml", [], str(here)) == Config(str(here / "ci"), "ci/pyproject.toml")

    def test_a_byte_order_mark_does_no_harm(self, here: Path) -> None:
        (here / "tenant-audit.toml").write_bytes(b"\xef\xbb\xbfformat = 'json'\n")
        assert read_config(None, [], str(here)).format == "json"


WRONG = {
    "a key that is nearly right": (
        "min-severty = 'note'",
        'tenant-audit.toml: min-severty is not a key; did you mean "min-severity"?',
    ),
    "a key that is far off": (
        "colour = true",
        (
            "tenant-audit.toml: colour is not a key; the keys are paths, exclude, include-tests, select, ignore, "
            "per-path-ignores, min-severity, min-confidence, fail-on, job-tables, tenant-settings, tenant-columns, "
            "default-driver, pool-mode, drivers, rules, format"
        ),
    ),
    "our table in our own file": (
        "[tool.tenant-audit]\nformat = 'json'",
        "tenant-audit.toml: tool is not a key; in this file the keys stand at the top, without [tool.tenant-audit]",
    ),
    "a string for a list": ("paths = 'src'", "tenant-audit.toml: paths is a string; it must be an array of strings"),
    "a list of other things": (
        "select = ['TA1', 2]",
        "tenant-audit.toml: select holds something that is not a string; it must be an array of strings",
    ),
    "a string for a boolean": (
        "include-tests = 'yes'",
        "tenant-audit.toml: include-tests is a string; it must be true or false",
    ),
    "a word that is nearly right": (
        "fail-on = 'eror'",
        'tenant-audit.toml: fail-on is "eror"; it must be one of note, warning, error; did you mean "error"?',
    ),
    "an empty word": ("format = ''", "tenant-audit.toml: format is an empty string; it must be a string"),
    "a list for a table": (
        "per-path-ignores = ['TA1']",
        "tenant-audit.toml: per-path-ignores is an array; it must be a table",
    ),
    "a string below a pattern": (
        "[per-path-ignores]\n'a.py' = 'TA1'",
        'tenant-audit.toml: per-path-ignores."a.py" is a string; it must be an array of strings',
    ),
    "a driver we don't know": (
        "[drivers.mysql]\nautocommit = true",
        f"tenant-audit.toml: drivers.mysql is not a driver; it must be one of {', '.join(DRIVERS)}",
    ),
    "a key of a driver": (
        "[drivers.psycopg]\nautocomit = true",
        'tenant-audit.toml: drivers.psycopg.autocomit is not a key; did you mean "autocommit"?',
    ),
    "a driver that is no table": (
        "[drivers]\npsycopg = 3",
        "tenant-audit.toml: drivers.psycopg is an integer; it must be a table",
    ),
    "a threshold that is no number": (
        "[drivers.psycopg]\nprepare-threshold = true",
        (
            "tenant-audit.toml: drivers.psycopg.prepare-threshold must be a number of executions, "
            'or "none" when nothing is prepared'
        ),
    ),
    "a date": ("paths = 2024-01-01", "tenant-audit.toml: paths is a date or time; it must be an array of strings"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_in_one_line(here: Path, text: str, message: str) -> None:
    write(here / "tenant-audit.toml", text)
    with pytest.raises(UserError) as caught:
        read_config(None, [], str(here))
    assert str(caught.value) == message


def test_in_the_project_file_the_table_is_named(here: Path) -> None:
    write(here / "pyproject.toml", "[tool.tenant-audit]\nselct = ['TA1']\n")
    with pytest.raises(UserError) as caught:
        read_config(None, [], str(here))
    assert str(caught.value) == 'pyproject.toml: [tool.tenant-audit] selct is not a key; did you mean "select"?'


def test_a_table_that_is_none_is_said_so(here: Path) -> None:
    write(here / "pyproject.toml", "[tool]\ntenant-audit = 1\n")
    with pytest.raises(UserError) as caught:
        read_config(None, [], str(here))
    assert str(caught.value) == "pyproject.toml: [tool.tenant-audit] is an integer; it must be a table"


@pytest.mark.parametrize("data", [b"format = \n", b"format = '\xff'\n"], ids=["not TOML", "not UTF-8"])
def test_what_cannot_be_parsed_is_said_so(here: Path, data: bytes) -> None:
    (here / "tenant-audit.toml").write_bytes(data)
    with pytest.raises(UserError, match=r"^tenant-audit\.toml: not valid TOML: "):
        read_config(None, [], str(here))


@pytest.mark.parametrize("make", [None, os.mkdir, os.mkfifo], ids=["missing", "a folder", "a pipe"])
def test_a_named_file_that_cannot_be_read_is_said_so(here: Path, make: object) -> None:
    if callable(make):
        make("audit.toml")
    with pytest.raises(UserError, match=r"^audit\.toml: the configuration cannot be read: "):
        read_config("audit.toml", [], str(here))


class TestCommandLineFirst:
    CONFIG = Config("/", select=("TA1",), ignore=("TA104",), format="json")

    def test_what_it_does_not_say_stays(self) -> None:
        assert self.CONFIG.but(select=None, ignore=None, format=None) == self.CONFIG

    def test_what_it_selects_is_not_ignored_by_the_file(self) -> None:
        config = self.CONFIG.but(select=("TA104",))
        assert (config.select, config.ignore) == (("TA104",), ())

    def test_what_it_ignores_is_ignored_too(self) -> None:
        assert self.CONFIG.but(ignore=("TA105",)).ignore == ("TA104", "TA105")


GLOBS = {
    "a name anywhere": ("migrations", "app/migrations", True),
    "what is below a name": ("migrations", "app/migrations/a.py", True),
    "not part of a name": ("migrations", "app/mymigrations/a.py", False),
    "a star in a name": ("*_pb2.py", "a/b/c_pb2.py", True),
    "a star stops at a slash": ("app/*.py", "app/deep/a.py", False),
    "a path from the folder": ("app/old", "app/old/a.py", True),
    "a path from the folder only": ("app/old", "x/app/old/a.py", False),
    "a path that begins with a slash": ("/old", "old/a.py", True),
    "a path that begins with a slash only there": ("/old", "app/old/a.py", False),
    "two stars cross slashes": ("app/**/gen", "app/a/b/gen/c.py", True),
    "two stars may be nothing": ("app/**/gen", "app/gen/c.py", True),
    "two stars at the end": ("app/**", "app/a/b.py", True),
    "two stars at the beginning": ("**/gen/*.py", "a/b/gen/c.py", True),
    "a question mark": ("a?.py", "ab.py", True),
    "a question mark is one character": ("a?.py", "abc.py", False),
    "a set": ("[ab].py", "b.py", True),
    "a set turned round": ("[!ab].py", "b.py", False),
    "a dot is a dot": ("a.py", "axpy", False),
    "a slash at the end": ("old/", "app/old/a.py", True),
    "a dot and a slash at the beginning": ("./app", "app/a.py", True),
    "a new line in a name": ("app", "app/a\nb.py", True),
    "brackets that are none": ("a[b", "a[b", True),
}


@pytest.mark.parametrize(("pattern", "path", "expected"), GLOBS.values(), ids=GLOBS)
def test_patterns_of_paths(pattern: str, path: str, expected: bool) -> None:
    assert matcher([pattern], "/project")(f"/project/{path}") is expected


def test_every_driver_can_be_configured() -> None:
    assert [driver.name for driver in drivers.DRIVERS] == list(DRIVERS)


@pytest.mark.parametrize(
    ("driver", "execute"),
    {
        "psycopg": "conn.execute",
        "psycopg2": "conn.cursor().execute",
        "asyncpg": "conn.execute",
        "django": "conn.cursor().execute",
        "sqlalchemy": "conn.execute",
        "pg8000.native": "conn.run",
        "pg8000": "conn.cursor().execute",
        "aiopg": "conn.cursor().execute",
        "databases": "conn.execute",
        "tortoise": "conn.execute_query",
    }.items(),
)
def test_sql_without_an_import_goes_through_the_default_driver(
    driver: str, execute: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here / "worker.py", f"async def run(conn):\n    await {execute}('SET app.tenant = 1')\n")
    assert main(["timeline", "."]) == 0
    assert "nothing here runs statements" in capsys.readouterr().out
    write(here / "tenant-audit.toml", f"default-driver = '{driver}'\n[drivers.'{driver}']\nautocommit = true\n")
    assert main(["timeline", "."]) == 0
    assert "SET app.tenant = 1" in capsys.readouterr().out
