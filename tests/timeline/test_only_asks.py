"""Which queries read no jobs, and only tell how many there are."""

from __future__ import annotations

import pytest

from auditor.sql.read import read_sql
from auditor.timeline.jobs.guarding import only_asks

TELLING = {
    "how many there are": "SELECT count(*) FROM jobs WHERE status = 'queued'",
    "whether there is one": "SELECT 1 FROM jobs WHERE status = 'queued' LIMIT 1",
    "how many of each kind": "SELECT lane, count(id) FROM jobs WHERE status = 'queued' GROUP BY lane",
}
READING = {
    "jobs": "SELECT id, payload FROM jobs WHERE status = 'queued'",
    "jobs, and how many there are beside": "SELECT id, count(*) OVER () FROM jobs WHERE status = 'queued'",
    "a column of that name": "SELECT id, count FROM jobs WHERE status = 'queued'",
}


@pytest.mark.parametrize("text", TELLING.values(), ids=TELLING)
def test_it_only_tells(text: str) -> None:
    (statement,) = read_sql(text)
    assert only_asks(statement)


@pytest.mark.parametrize("text", READING.values(), ids=READING)
def test_it_reads(text: str) -> None:
    (statement,) = read_sql(text)
    assert not only_asks(statement)
