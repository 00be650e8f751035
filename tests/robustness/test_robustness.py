"""No input ends a run in anything but a report: damaged, endless or hostile sources, and Python's own library."""

from __future__ import annotations

import io
import json
import os
import sysconfig
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from auditor import cli
from auditor.packs import load_packs, own_pack
from auditor.pages import examples

if TYPE_CHECKING:
    import random

WORKER = """\
from psycopg_pool import ConnectionPool

pool = ConnectionPool("")


def run_job(tenant):
    with pool.connection() as conn:
        conn.execute("SELECT set_config('app.tenant', %s, false)", (tenant,))
        conn.execute("SELECT count(*) FROM invoices")
"""


class Report:
    """What a run printed and how it ended."""

    def __init__(self, code: int, text: str, errors: str) -> None:
        self.code, self.errors = code, errors
        self.data: dict[str, Any] = json.loads(text) if text else {}

    @property
    def codes(self) -> list[str]:
        return [one["code"] for one in self.data["findings"]]


def audit(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Report:
    capsys.readouterr()
    code = cli.main(
        ["--config", os.fspath(folder / "tenant-audit.toml"), "--format", "json", *words, os.fspath(folder)]
    )
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return Report(code, out, err)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one worker that has one fault, which must be found whatever stands beside it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "tenant-audit.toml").write_text("")
    (folder / "worker.py").write_text(WORKER)
    return folder


def nested(depth: int, opens: str, inside: str, closes: str) -> str:
    return opens * depth + inside + closes * depth


#: Python that is fine, and more of it than anybody writes by hand. All of it names a trigger, so it is read.
MUCH = {
    "a sum of thousands": "x = set_config" + " + 1" * 900,
    "an elif chain": "def f(a, conn):\n    if a == 0:\n        set_config()\n"
    + "".join(f"    elif a == {n}:\n        conn.execute('SET app.tenant = 1')\n" for n in range(900)),
    "a chain of calls": "set_config = q" + ".where(1)" * 200,
    "calls in calls": f"set_config = {nested(90, 'f(', '1', ')')}",
    "brackets in brackets": f"set_config = {nested(90, '[', '1', ']')}",
    "functions in functions": "".join(f"{'    ' * n}def set_config{n}():\n" for n in range(40)) + "    " * 40 + "pass",
    "a thousand branches": "def f(conn, a):\n"
    + "".join(f"    if a[{n}]:\n        conn.execute('SET app.tenant = {n}')\n" for n in range(1_000)),
    "a thousand handlers": "def f(c):\n"
    + "".join(
        "    try:\n        c.execute('SET app.t = 1')\n    except E:\n        c.rollback()\n" for _ in range(500)
    ),
    "a long list": f"QUERIES = [{', '.join(repr(f'SET app.tenant = {n}') for n in range(20_000))}]",
}
#: Programs that have no end.
ENDLESS = {
    "a function that calls itself": {
        "a.py": "def set_config(conn):\n    conn.execute('SET app.t = 1')\n    set_config(conn)"
    },
    "two that call each other": {
        "a.py": "from b import g\n\n\ndef set_config(c):\n    c.execute('SET app.t = 1')\n    g(c)",
        "b.py": "from a import set_config\n\n\ndef g(c):\n    set_config(c)",
    },
    "a class that is its own base": {
        "a.py": "class set_config(set_config):\n    x = set_config\n\n\nset_config().x.x()"
    },
    "modules that re-export each other": {
        "a.py": "from b import *\nfrom b import set_config",
        "b.py": "from a import *\nfrom a import set_config\n\nset_config()",
    },
    "names that are each other": {"a.py": "set_config = b = set_config\nb = [set_config, b]\nset_config = {b: b}"},
    "a decorator that decorates itself": {"a.py": "@set_config\ndef set_config(f):\n    return set_config(set_config)"},
    "a generator that goes on for ever": {
        "a.py": "def set_config(c):\n    while 1:\n        c.execute('SET app.t = 1')\n        yield from set_config(c)"
    },
    "a function in SQL that calls itself": {
        "a.sql": "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT f() $$;",
        "a.py": "import psycopg\n\nconn = psycopg.connect()\nconn.execute('SELECT f()')\nconn.execute('SET app.t = 1')",
    },
    "a view of itself": {
        "a.sql": "CREATE VIEW v AS SELECT * FROM v; CREATE POLICY p ON v USING (x = current_setting('a'));"
    },
}
#: Calls of the driver that would not work, beside a fault: what they mean is left open.
STRANGE = """\
import psycopg
from psycopg_pool import ConnectionPool

strange = ConnectionPool(*options, **{**more, "kwargs": {1: 2}}, reset=reset, configure=5)


def reset(*args, **options):
    args[0].execute(*args, **options)


def set_config(x, *y, **z):
    with strange.connection(**z) as conn, conn.cursor() as (a, b):
        conn.execute("SELECT set_config('app.t', %(x)s, %(y)s)", {**x, "y": False})
        conn.execute(*x)
        conn.execute()
        conn.execute("%s" % x % x)
        conn.execute("{}{0}{a.b[0]!r:>{w}}".format(x))
        conn.execute(b"\\xff set_config" + x)
        conn.execute("\\ud800 set_config \\x00")
        conn.execute("set_config" * 100000000)
        conn.execute("%(a" % x)
        conn.autocommit = x
        conn.transaction(1, 2, 3).transaction()
        strange.putconn()
        strange.connection().connection()
        del conn
        conn.commit()
    with psycopg as conn, (psycopg.connect() if x else y) as [conn, *rest]:
        conn.execute(conn)
    lambda conn=conn: conn.execute("SET app.t = 1")
    return await_(conn for conn in strange if conn.execute("RESET ALL"))
"""
#: Files that are no source, by name and content.
NO_SOURCE = {
    "bytes that are no text": ("a.py", b"\xff\xfe\x00set_config"),
    "a NUL": ("a.py", b"set_config = '\x00'"),
    "cut off in a string": ("a.py", b"x = 'set_config"),
    "an encoding that there is not": ("a.py", b"# coding: nonsense\nset_config = 1"),
    "Python 2": ("a.py", b"print 'set_config'"),
    "brackets beyond what Python reads": ("a.py", nested(2_000, "(", "set_config", ")").encode()),
    "a sum beyond what Python reads": ("a.py", f"x = set_config{' + 1' * 20_000}".encode()),
    "SQL with NULs": ("a.sql", b"SELECT set_config\0"),
}


@pytest.mark.parametrize("source", MUCH.values(), ids=MUCH)
def test_much_is_no_trouble(project: Path, capsys: pytest.CaptureFixture[str], source: str) -> None:
    (project / "much.py").write_text(source)
    report = audit(project, capsys)
    assert report.codes.count("TA101") >= 1
    assert "TA901" not in report.codes


@pytest.mark.parametrize("files", ENDLESS.values(), ids=ENDLESS)
def test_what_has_no_end_is_cut(project: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str]) -> None:
    for name, text in files.items():
        (project / name).write_text(text)
    report = audit(project, capsys)
    assert "TA101" in report.codes
    assert "TA901" not in report.codes


def test_strange_calls_of_the_driver_mean_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "strange.py").write_text(STRANGE)
    report = audit(project, capsys)
    assert "TA101" in report.codes
    assert "TA901" not in report.codes


@pytest.mark.parametrize(("name", "data"), NO_SOURCE.values(), ids=NO_SOURCE)
def test_a_bad_file_is_a_finding_and_ends_nothing(
    project: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes
) -> None:
    (project / name).write_bytes(data)
    report = audit(project, capsys)
    assert report.code == 1
    assert sorted(report.codes) == ["TA101", "TA901"]


def test_loops_of_links_and_pipes_are_passed_by(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "loop").symlink_to(project, target_is_directory=True)
    (project / "self.py").symlink_to(project / "self.py")
    (project / "gone.sql").symlink_to(project / "nowhere.sql")
    os.mkfifo(project / "pipe.py")
    (project / "folder.py").mkdir()
    assert audit(project, capsys).codes.count("TA101") == 1


def test_a_dump_of_many_megabytes_is_read(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "\n".join(f"{n}\tset_config\t'; DROP TABLE x; --\t\\N" for n in range(100_000))
    inserts = "\n".join(f"INSERT INTO t VALUES ({n}, 'SET app.tenant = 1;');" for n in range(50_000))
    policy = "CREATE POLICY p ON invoices USING (tenant = current_setting('app.tenant')::int);"
    (project / "dump.sql").write_text(f"COPY t (a, b, c, d) FROM stdin;\n{rows}\n\\.\n{inserts}\n{policy}\n")
    report = audit(project, capsys)
    assert "TA602" in report.codes
    assert "TA901" not in report.codes


SOURCES = sorted(
    text
    for rule in load_packs([own_pack()])
    for one in examples(rule.page)
    for text in one.files.values()
    if "conn" in text
)


def damaged(source: str, dice: random.Random) -> str:
    """A source with tokens lost, doubled or exchanged."""
    try:
        words = [token.string for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.string]
    except (tokenize.TokenError, IndentationError):
        words = source.split(" ")
    cut = dice.choice(words)
    for _ in range(dice.randint(1, 4)):
        at, other = dice.randrange(len(words)), dice.choice(words)
        source = source.replace(words[at], dice.choice(("", other, words[at] * 2)), dice.randint(1, 3))
    return source if dice.random() < 0.9 else source[: source.find(cut)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(source=st.sampled_from(SOURCES), dice=st.randoms(use_true_random=False))
@example(source=WORKER, dice=None)
def test_no_damage_ends_a_run(
    project: Path, capsys: pytest.CaptureFixture[str], source: str, dice: random.Random | None
) -> None:
    text = damaged(source, dice) if dice else source
    (project / "damaged.py").write_text(text, encoding="utf-8", errors="surrogatepass")
    report = audit(project, capsys, "--jobs", "1", "--min-confidence", "low")
    assert report.code == 1
    assert "TA101" in report.codes


def test_the_library_of_python_itself_is_read_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = sysconfig.get_path("stdlib")
    (tmp_path / "tenant-audit.toml").write_text('exclude = ["site-packages", "dist-packages"]\ninclude-tests = true\n')
    capsys.readouterr()
    code = cli.main(["--config", os.fspath(tmp_path / "tenant-audit.toml"), "--format", "json", library])
    out, err = capsys.readouterr()
    assert code in (0, 1)
    assert "Traceback" not in err
    report = json.loads(out)
    assert report["files"]["read"] > 100
    # Its own tests keep files that are no Python on purpose; nothing else is to be found in it.
    assert [one for one in report["findings"] if one["code"] != "TA901"] == []
