"""Programs that speak to several databases: only what is run on PostgreSQL is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.timeline.world import find

if TYPE_CHECKING:
    from pathlib import Path

STORAGE = """
from django.db import connections


class CLASS:
    def NAME(self, alias, limit):
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT id FROM jobs WHERE status = 'queued' LIMIT %s FOR UPDATE SKIP LOCKED", [limit])
            return [row[0] for row in cursor.fetchall()]
"""
COMMAND = """
from django.core.management.base import BaseCommand
from MODULE import CLASS


class Command(BaseCommand):
    def handle(self, **options):
        for job in CLASS().NAME("default", 5):
            run(job)
"""


@pytest.mark.parametrize(
    ("module", "owner", "name", "found"),
    [
        ("broker.storage", "Storage", "pick", True),
        ("broker.postgres", "Storage", "pick", True),
        ("broker.mysql", "Storage", "pick", False),
        ("mariadb.storage", "Storage", "pick", False),
        ("broker.storage", "SQLiteStorage", "pick", False),
        ("broker.storage", "Storage", "pick_mysql", False),
        ("mysql_to_postgres.storage", "Storage", "pick", True),
        ("broker.sqlite_and_postgres", "Storage", "pick", True),
        ("mysql.storage", "PostgresStorage", "pick", True),
    ],
)
def test_what_is_written_for_another_database_is_not_judged(
    tmp_path: Path, module: str, owner: str, name: str, found: bool
) -> None:
    texts = (
        text.replace("CLASS", owner).replace("NAME", name).replace("MODULE", module) for text in (STORAGE, COMMAND)
    )
    storage, command = texts
    files = {module.replace(".", "/") + ".py": storage, "app/management/commands/work.py": command}
    assert ("TA410" in {one.code for one in find(tmp_path, files)}) is found
