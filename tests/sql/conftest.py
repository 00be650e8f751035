"""A PostgreSQL of our own for the tests that let it be the judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from auditor.lab.server import OwnServer


@pytest.fixture(scope="session")
def postgres_dsn(postgres: OwnServer) -> str:
    """The connection string of a fresh server's superuser."""
    return postgres.dsn
