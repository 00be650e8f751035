"""What `auditor/drivers/django_tenants.py` says of the schema that a connection remembers, shown on a real server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from auditor.drivers.django_tenants import METHODS

pytest.importorskip("django_tenants")

#: It takes settings and installed applications of its own, so it runs in a process of its own.
PROGRAM = """
import json, sys
from django.conf import settings
settings.configure(
    DATABASES={"default": {"ENGINE": "django_tenants.postgresql_backend", **json.loads(sys.argv[1])}},
    INSTALLED_APPS=["django_tenants", "django.contrib.contenttypes"],
    DATABASE_ROUTERS=["django_tenants.routers.TenantSyncRouter"],
    TENANT_MODEL="contenttypes.ContentType",
    TENANT_DOMAIN_MODEL="contenttypes.ContentType",
    SHARED_APPS=["django_tenants", "django.contrib.contenttypes"],
    TENANT_APPS=["django.contrib.contenttypes"],
)
import django
django.setup()
from django.db import connection, transaction
from django_tenants.utils import schema_context

def path():
    with connection.cursor() as cursor:
        cursor.execute("SHOW search_path")
        return cursor.fetchone()[0].split(",")[0]

seen = {"at first": path()}
with connection.cursor() as cursor:
    cursor.execute("CREATE SCHEMA one")
connection.set_schema("one")
seen["told"] = path()
try:
    with transaction.atomic():
        connection.set_schema("two")
        raise KeyError
except KeyError:
    pass
seen["rolled back"] = path()
connection.close()
seen["opened anew"] = path()
found = connection.tenant
try:
    with schema_context("three"):
        raise KeyError
except KeyError:
    pass
seen["after the block"] = path()
connection.set_tenant(found)
seen["put back"] = path()
connection.set_schema_to_public()
seen["at home"] = path()
seen["unknown"] = [name for name in sys.argv[2:] if not callable(getattr(connection, name, None))]
print(json.dumps(seen))
"""


def test_what_the_object_remembers_outlives_rollbacks_and_connections(database: str, tmp_path: Path) -> None:
    told = conninfo_to_dict(database)
    given = {"NAME": told["dbname"], "USER": told["user"], "HOST": told["host"], "PORT": str(told.get("port", ""))}
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", json.dumps(given), *METHODS]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {
        "at first": "public",
        "told": "one",
        "rolled back": "two",
        "opened anew": "two",
        "after the block": "two",
        "put back": "two",
        "at home": "public",
        "unknown": [],
    }
