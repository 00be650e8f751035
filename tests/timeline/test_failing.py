"""What becomes of a job that fails: which failure a handler counts, and what sends the job back."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.timeline.world import codes

if TYPE_CHECKING:
    from pathlib import Path

CLAIM = '''
    CLAIM = """SELECT id, body FROM jobs WHERE status = 'queued' AND attempts < 5
                ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"""
    FAIL = "UPDATE jobs SET attempts = attempts + 1, status = 'queued', run_at = now() + '1m' WHERE id = $1"
'''

#: The handler of LateError finds the transaction aborted only where the question before it was refused, and let pass.
TWO_FAILURES = """
    import asyncio
    import asyncpg
    from handlers import run

    class LateError(Exception):
        pass

    async def limit_of(job, conn: asyncpg.Connection):
        try:
            return await conn.fetchval("SELECT seconds FROM limits WHERE job_id = $1", job["id"])
        except asyncpg.UndefinedTableError:
            return None

    async def work(conn: asyncpg.Connection):
        async with conn.transaction():
            job = await conn.fetchrow(CLAIM)
            if job is None:
                return
            limit = await limit_of(job, conn)
            try:
                await run(job, limit)
            except LateError:
                await conn.execute(FAIL, job["id"])
"""


def worker(source: str) -> str:
    return textwrap.dedent(CLAIM) + textwrap.dedent(source)


def found(folder: Path, source: str, code: str) -> list[str]:
    return [one for one in codes(folder, worker(source)) if one.startswith(code)]


def test_a_handler_counts_in_what_its_own_failure_aborted(tmp_path: Path) -> None:
    assert not found(tmp_path, TWO_FAILURES, "TA303")


@pytest.mark.parametrize(
    "body",
    [
        # The statement that fails is what the handler is for.
        """
            try:
                await conn.execute("UPDATE invoices SET paid = true WHERE id = $1", job["id"])
            except Exception:
                await conn.execute(FAIL, job["id"])
        """,
        # What it let pass is raised again, as an error of our own.
        """
            errors = []
            try:
                try:
                    await conn.execute("UPDATE invoices SET paid = true WHERE id = $1", job["id"])
                except asyncpg.PostgresError as error:
                    errors.append(error)
                if errors:
                    raise LateError
                await run(job, None)
            except LateError:
                await conn.execute(FAIL, job["id"])
        """,
        # A call in the handler may fail as well, and is let pass: what aborted the transaction is as it was.
        """
            try:
                await conn.execute("UPDATE invoices SET paid = true WHERE id = $1", job["id"])
            except Exception as error:
                try:
                    run(job, error)
                except Exception:
                    pass
                await conn.execute(FAIL, job["id"])
        """,
    ],
    ids=["of its own", "raised again", "a failure in the handler"],
)
def test_a_failure_is_not_counted_in_the_transaction_that_it_aborted(tmp_path: Path, body: str) -> None:
    head = TWO_FAILURES.rpartition("            limit = await limit_of")[0]
    source = worker(head) + textwrap.indent(textwrap.dedent(body), " " * 8)
    assert [one for one in codes(tmp_path, source) if one.startswith("TA303")], source


SENT_BACK = """
    import psycopg

    def send_back(conn: psycopg.Connection, job, error):
        conn.execute("UPDATE jobs SET status = 'queued', last_error = {error} WHERE id = %s", {parameters})

    def {name}(conn: psycopg.Connection, job):
        {claim}
        conn.commit()
"""
TAKES_WHAT_WAITS = """conn.execute(
            "UPDATE jobs SET status = 'running', attempts = attempts + 1, locked_until = now() + '1m' WHERE id ="
            " (SELECT id FROM jobs WHERE status = 'queued' LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
        )"""
TAKES_WHAT_IT_IS_TOLD = """conn.execute(
            "UPDATE jobs SET status = 'running', attempts = attempts + 1, locked_until = now() + '1m' WHERE id = %s", (job,)
        )"""


@pytest.mark.parametrize(
    ("error", "parameters", "claim", "at_once"),
    [
        ("%s", "(str(error), job)", TAKES_WHAT_WAITS, True),
        ("'the content has changed'", "(job,)", TAKES_WHAT_WAITS, False),
        ("%s", "('the content has changed', job)", TAKES_WHAT_WAITS, False),
        ("%s", "(str(error), job)", TAKES_WHAT_IT_IS_TOLD, False),
    ],
    ids=["a failure", "sent back for another reason", "the same by a parameter", "a message brings its id"],
)
def test_only_what_failed_and_is_asked_for_is_tried_at_once(
    tmp_path: Path, error: str, parameters: str, claim: str, at_once: bool
) -> None:
    source = SENT_BACK.format(error=error, parameters=parameters, claim=claim, name="take")
    assert bool(found(tmp_path, source, "TA306")) is at_once
