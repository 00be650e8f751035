"""The words that django-tenants, and django-tenant-schemas before it, add to a connection of Django's.

`set_tenant()` and its like send nothing: the object remembers a schema, and whoever asks it for a cursor from then on
works there, through commits, rollbacks and reconnections, until it is told another. A request is given its tenant anew
by the middleware; nothing else is. Facts: `postgresql_backend/base.py` and `utils.py` of both; that they hold on a real
server is shown by tests/drivers/test_django_tenants.py.
"""

from __future__ import annotations

from auditor.drivers.model import Act

METHODS = {
    "set_tenant": Act.POINT,
    "set_schema": Act.POINT,
    "set_schema_to_public": Act.POINT_HOME,
    "get_tenant": Act.POINTED,
    "get_schema": Act.POINTED,
}
#: Attributes that tell which schema it is.
ATTRIBUTES = frozenset({"tenant", "schema_name"})
#: The package that gives each task of Celery's the schema of who sent it, and puts the one before back behind it.
PUTS_BACK = "tenant_schemas_celery"
