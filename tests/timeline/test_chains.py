"""The calls that lead to a finding's places: told where they cross modules, and no more of them than help."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from tests.timeline.world import find

if TYPE_CHECKING:
    from pathlib import Path

SET = """
    def put(conn, tenant):
        conn.execute("SELECT set_config('app.tenant', %s, false)", (tenant,))
    """
JOB = """
    from psycopg_pool import ConnectionPool
    from tenancy import enter
    pool = ConnectionPool("dbname=app")

    def {name}(tenant):
        with pool.connection() as conn:
            enter(conn, tenant)
    """
ENTER = """
    from store import put

    def enter(conn, tenant):
        put(conn, tenant)
    """


def told(folder: Path, files: dict[str, str]) -> list[str]:
    """`line of source: what is said of it` for each call that the one finding tells."""
    (finding,) = find(folder, files)
    said = [(see.place, see.message) for see in finding.related]
    texts = {name: textwrap.dedent(text).splitlines() for name, text in files.items()}
    return [
        f"{texts[place.path][place.line - 1].strip()}: {message}"
        for place, message in said
        if message.startswith(("through", "a framework", "it runs"))
    ]


def test_calls_that_cross_modules_are_told_in_their_order(tmp_path: Path) -> None:
    files = {"jobs.py": JOB.format(name="remind"), "tenancy.py": ENTER, "store.py": SET}
    assert told(tmp_path, files) == ["enter(conn, tenant): through this call", "put(conn, tenant): through this call"]


def test_in_one_file_a_reader_finds_the_calls_himself(tmp_path: Path) -> None:
    one = SET + ENTER.replace("from store import put", "") + JOB.format(name="remind").replace("from tenancy", "#")
    assert told(tmp_path, {"jobs.py": one}) == []


def test_one_call_into_another_module_is_told(tmp_path: Path) -> None:
    files = {"jobs.py": JOB.format(name="remind"), "tenancy.py": SET.replace("put", "enter")}
    assert told(tmp_path, files) == ["enter(conn, tenant): through this call"]


def test_of_a_long_chain_the_first_and_the_last_calls_are_told(tmp_path: Path) -> None:
    steps = "\n".join(f"def step_{n}(conn, tenant):\n    step_{n + 1}(conn, tenant)\n" for n in range(6))
    middle = f"from store import put\n\n{steps}\ndef step_6(conn, tenant):\n    put(conn, tenant)\n"
    entry = "from steps import step_0\n\ndef enter(conn, tenant):\n    step_0(conn, tenant)\n"
    files = {"jobs.py": JOB.format(name="remind"), "tenancy.py": entry, "steps.py": middle, "store.py": SET}
    assert told(tmp_path, files) == [
        "enter(conn, tenant): through this call",
        "step_0(conn, tenant): through this call, and 5 more",
        "step_6(conn, tenant): through this call",
        "put(conn, tenant): through this call",
    ]


def test_of_several_ways_that_one_is_told_which_passes_what_is_named(tmp_path: Path) -> None:
    other = "from store import put\n\ndef enter_again(conn, tenant):\n    put(conn, tenant)\n"
    second = (
        JOB.format(name="charge").replace("import enter", "import enter_again as enter").replace("tenancy", "other")
    )
    files = {"jobs.py": JOB.format(name="remind"), "more.py": second, "tenancy.py": ENTER, "other.py": other}
    assert told(tmp_path, {**files, "store.py": SET}) == [
        "enter(conn, tenant): through this call",
        "put(conn, tenant): through this call",
    ]
    assert {see.place.path for see in find(tmp_path, {})[0].related} == {"jobs.py", "tenancy.py"}


def test_what_a_framework_supplies_is_told_as_such(tmp_path: Path) -> None:
    route = """
        from fastapi import Depends, FastAPI
        from tenancy import session
        app = FastAPI()

        @app.get("/")
        def home(conn=Depends(session)):
            conn.execute("SELECT 1")
        """
    dependency = """
        from psycopg_pool import ConnectionPool
        from store import put
        pool = ConnectionPool("dbname=app")

        def session(tenant):
            with pool.connection() as conn:
                put(conn, tenant)
                yield conn
        """
    assert told(tmp_path, {"api.py": route, "tenancy.py": dependency, "store.py": SET}) == [
        "put(conn, tenant): through this call"
    ]
