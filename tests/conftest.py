"""What tests share: a real PostgreSQL, of each version that this machine has."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from auditor.lab.installations import installations
from auditor.lab.server import OwnServer, own_server

if TYPE_CHECKING:
    from collections.abc import Iterator

INSTALLATIONS = installations()
_numbers = itertools.count()


@pytest.fixture(scope="session", params=INSTALLATIONS, ids=str)
def postgres(request: pytest.FixtureRequest) -> Iterator[OwnServer]:
    """A server of our own, one for each process of the test run and each version."""
    with own_server(request.param, {}) as running:
        yield running


@pytest.fixture
def database(postgres: OwnServer) -> Iterator[str]:
    """The connection string of an empty database, for one test."""
    import psycopg

    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres.dsn, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}")
    yield postgres.dsn.replace("dbname=postgres", f"dbname={name}")
    with psycopg.connect(postgres.dsn, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)")
