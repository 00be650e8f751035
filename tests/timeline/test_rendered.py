"""Statements that a library which is not read makes of a text, and what is done with one job that has many parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from auditor.findings import Confidence
from tests.timeline.world import codes, find

if TYPE_CHECKING:
    from pathlib import Path

CLAIM = "SELECT id FROM jobs WHERE state = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
HEAD = f"""
    import asyncpg
    import httpx
    from unread import Dialect, render

    CLAIM = "{CLAIM}"
    TEMPLATE = "SELECT id FROM {{{{{{{{ table }}}}}}}} WHERE state = :state ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"

    class Queue:
        dialect = Dialect("asyncpg")

        def get(self):
            return self.dialect.render(CLAIM, {{{{}}}})

    async def run(pool):
        async with pool.acquire() as conn, conn.transaction():
            {{taken}}
            async with httpx.AsyncClient() as client:
                await client.post("http://somewhere", json=row["id"])
            await conn.execute(*render("UPDATE jobs SET state = 'done' WHERE id = :id", id=row["id"]))
"""
WAYS = {
    "spread": "row = await conn.fetchrow(*render(CLAIM))",
    "with values by name": 'row = await conn.fetchrow(*render(TEMPLATE, table="jobs", state="queued"))',
    "taken apart": "query, values = render(CLAIM, {}); row = await conn.fetchrow(query, *values)",
    "by place": "made = render(CLAIM, {}); row = await conn.fetchrow(made[0], *made[1])",
    "by attribute": "made = render(CLAIM, {}); row = await conn.fetchrow(made.sql, *made.values)",
    "as it is": "row = await conn.fetchrow(render(CLAIM))",
    "a method that a method calls": "row = await conn.fetchrow(*Queue().get())",
}


@pytest.mark.parametrize("taken", WAYS.values(), ids=WAYS)
def test_the_text_that_a_library_is_handed_is_what_runs(taken: str, tmp_path: Path) -> None:
    found = find(tmp_path, {"worker.py": HEAD.format(taken=taken)})
    waits = [one for one in found if one.code == "TA501"]
    assert [one.confidence for one in waits] == [Confidence.MEDIUM]


def test_what_only_mentions_a_statement_gives_none(tmp_path: Path) -> None:
    for taken in (
        "row = await conn.fetchrow(describe(CLAIM))",
        "row = await conn.fetchrow(*log.record(CLAIM, {}))",
        'row = await conn.fetchrow(*render("Please select one from the jobs"))',
    ):
        source = HEAD.replace("{{{{{{{{", "").format(taken=taken).replace("UPDATE jobs SET", "SELECT")
        assert codes(tmp_path / str(abs(hash(taken))), source) == [], taken


ONE_JOB = """
    import asyncpg

    async def run(pool):
        async with pool.acquire() as conn, conn.transaction():
            {taken}
            for step in {steps}:
                await perform(step)
            await conn.execute("DELETE FROM jobs WHERE id = $1", {steps}[0])
"""


def test_the_parts_of_one_job_are_no_jobs(tmp_path: Path) -> None:
    one = ONE_JOB.format(taken=f'job = await conn.fetchrow("{CLAIM}")', steps='job["steps"]')
    assert codes(tmp_path, one) == ["TA302 at worker.py:6"]
