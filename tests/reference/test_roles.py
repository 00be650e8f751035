"""Who may do what, and where a worker refuses to start."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest

from auditor.reference.jobs import NewJob, RefusedError, probe
from auditor.reference.worker import Handlers, Job, Worker
from tests.reference.harness import SCHEMA, Queue, note, working

DENIED = psycopg.errors.InsufficientPrivilege


@pytest.fixture
def worker(queue: Queue) -> Any:
    """A connection of the worker's login."""
    with psycopg.connect(queue.worker_dsn, autocommit=True) as conn:
        yield conn


def as_tenant(conn: psycopg.Connection[Any], statement: str, tenant: str = "1") -> list[Any]:
    """What a statement gives in a transaction of the work."""
    with conn.transaction():
        conn.execute("SET LOCAL ROLE app_tenant")
        conn.execute("SELECT set_config('app.tenant', %s, true)", (tenant,))
        cursor = conn.execute(statement)
        return cursor.fetchall() if cursor.description else []


def test_the_schema_can_be_run_again(queue: Queue) -> None:
    """What is there stays, jobs and rights and all."""
    described = (
        "SELECT relname, relacl::text, reloptions::text, relowner::regrole::text, relforcerowsecurity FROM pg_class"
        " WHERE relnamespace = 'app'::regnamespace UNION ALL"
        " SELECT proname, proacl::text, proconfig::text, proowner::regrole::text, prosecdef FROM pg_proc"
        " WHERE pronamespace = 'app'::regnamespace ORDER BY 1"
    )
    (job,) = queue.enqueue(NewJob("note"))
    before = queue.all(described)
    queue.admin.execute(SCHEMA)
    assert queue.all(described) == before
    assert queue.state(job) == ("queued", 0)


def test_the_schema_needs_no_superuser(queue: Queue) -> None:
    """A managed database gives out a role that may create roles, and no more."""
    name = queue.one("SELECT 'own_' || current_database()")  # the role stays: what it granted depends on it
    queue.admin.execute(f"CREATE ROLE {name} LOGIN CREATEROLE")
    queue.admin.execute(f"GRANT app_owner, app_worker, app_tenant TO {name} WITH ADMIN OPTION")
    queue.admin.execute(f"CREATE DATABASE {name} OWNER {name}")
    try:
        with psycopg.connect(re.sub("dbname=[^ ]*", f"dbname={name}", queue.login(name)), autocommit=True) as conn:
            conn.execute(SCHEMA)
            conn.execute(SCHEMA)
    finally:
        queue.admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_all_is_told_in_comments(queue: Queue) -> None:
    missing = (
        "SELECT attrelid::regclass || '.' || attname FROM pg_attribute WHERE attrelid = 'app.jobs'::regclass"
        " AND attnum > 0 AND col_description(attrelid, attnum) IS NULL"
    )
    assert set(queue.all(missing)) == {"app.jobs.id", "app.jobs.created_at", "app.jobs.max_attempts"}
    assert queue.one(
        "SELECT bool_and(obj_description(oid) IS NOT NULL) FROM pg_proc WHERE pronamespace='app'::regnamespace"
    )


def test_the_workers_login_sees_nothing_of_a_tenant(queue: Queue, worker: psycopg.Connection[Any]) -> None:
    for statement in ("SELECT FROM app.invoices", "INSERT INTO app.invoices (tenant_id, number) VALUES (1, '1')"):
        with pytest.raises(DENIED):
            worker.execute(statement)


def test_the_workers_login_can_move_jobs_and_do_no_more_with_them(
    queue: Queue, worker: psycopg.Connection[Any]
) -> None:
    queue.enqueue(NewJob("note"))
    worker.execute("UPDATE app.jobs SET run_at = clock_timestamp()")
    for statement in (
        "UPDATE app.jobs SET tenant_id = 2",
        "UPDATE app.jobs SET payload = '{}'",
        "UPDATE app.jobs SET max_attempts = 100",
        "INSERT INTO app.jobs (tenant_id, kind) VALUES (1, 'note')",
        "DELETE FROM app.jobs",
        "DELETE FROM app.job_runs",
        "UPDATE app.job_runs SET attempt = 0",
        "TRUNCATE app.jobs",
        "SELECT app.enqueue_jobs('[]')",
        "SELECT app.finish_job(1, 1)",
        "CREATE TABLE app.mine ()",
    ):
        with pytest.raises(DENIED):
            worker.execute(statement)


def test_the_tenants_role_cannot_touch_the_queue(queue: Queue, worker: psycopg.Connection[Any]) -> None:
    queue.enqueue(NewJob("note"))
    for statement in (
        "SELECT FROM app.jobs",
        "UPDATE app.jobs SET run_at = clock_timestamp()",
        "INSERT INTO app.jobs (tenant_id, kind) VALUES (1, 'note')",
        "DELETE FROM app.jobs",
        "SELECT FROM app.job_runs",
        "SELECT app.prune_jobs(interval '0', 1)",
    ):
        with pytest.raises(DENIED):
            as_tenant(worker, statement)


def test_a_tenant_sees_its_own_rows_and_writes_no_others(queue: Queue, worker: psycopg.Connection[Any]) -> None:
    for tenant in ("1", "2"):
        as_tenant(worker, "INSERT INTO app.invoices (number) VALUES ('1')", tenant)
    assert as_tenant(worker, "SELECT tenant_id FROM app.invoices", "2") == [(2,)]
    assert as_tenant(worker, "SELECT tenant_id FROM app.invoices", "") == []  # no tenant: no row, and no error
    assert as_tenant(worker, "UPDATE app.invoices SET total = 1 WHERE tenant_id = 2 RETURNING 1", "1") == []
    with pytest.raises(DENIED):
        as_tenant(worker, "INSERT INTO app.invoices (tenant_id, number) VALUES (2, '2')", "1")


def test_a_tenant_finishes_no_job_of_another(queue: Queue, worker: psycopg.Connection[Any]) -> None:
    (job,) = queue.enqueue(NewJob("note"), tenant=1)
    queue.admin.execute(
        "UPDATE app.jobs SET status = 'running', attempts = 1, fence = 1, worker = 'w', deadline = clock_timestamp(),"
        " locked_until = clock_timestamp()"
    )
    for tenant, found in (("2", None), ("", None), ("1", True)):
        assert as_tenant(worker, f"SELECT app.hold_job({job}, 1)", tenant) == [(found,)]
        assert as_tenant(worker, f"SELECT app.finish_job({job}, 1)", tenant) == [(found,)]


def test_a_handler_that_leaves_its_tenant_commits_nothing(queue: Queue) -> None:
    """It became another one in mid-transaction: what it wrote as either of them is rolled back."""
    handlers = Handlers()

    @handlers.on("stray", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        with job.finish() as conn:
            conn.execute("INSERT INTO app.invoices (number) VALUES ('mine')")
            conn.execute("SELECT set_config('app.tenant', '2', true)")
            conn.execute("INSERT INTO app.invoices (number) VALUES ('yours')")

    (job,) = queue.enqueue(NewJob("stray", max_attempts=1))
    with working(queue, handlers):
        queue.until_ended(job)
    assert queue.state(job) == ("dead", 1)
    assert queue.one("SELECT count(*) FROM app.invoices") == 0


def test_each_transaction_of_the_work_has_the_tenant_and_its_role(queue: Queue) -> None:
    handlers, seen = Handlers(), []

    @handlers.on("look", dict[str, Any])
    def run(job: Job[dict[str, Any]]) -> None:
        look = "SELECT current_user::text, session_user::text, current_setting('app.tenant')"
        for block in (job.transaction, job.transaction, job.finish):
            with block() as conn:
                seen.append(conn.execute(look).fetchone())

    (job,) = queue.enqueue(NewJob("look"), tenant=7)
    with working(queue, handlers):
        queue.until_ended(job)
    assert seen == [("app_tenant", "app_worker", "7")] * 3


# The start


def refusal(dsn: str) -> str:
    with pytest.raises(RefusedError) as caught:
        Worker(dsn, Handlers()).run()
    return str(caught.value)


def test_a_worker_starts_as_the_schemas_login(queue: Queue) -> None:
    with psycopg.connect(queue.worker_dsn, autocommit=True) as conn:
        probe(conn)


@pytest.fixture
def login(queue: Queue) -> Any:
    """Make a login that is like the worker's but for something."""
    queue.admin.execute("DROP ROLE IF EXISTS other_worker")

    def make(options: str = "", roles: str = "app_tenant") -> str:
        queue.admin.execute(f"CREATE ROLE other_worker LOGIN NOINHERIT {options}")
        if roles:
            queue.admin.execute(f"GRANT {roles} TO other_worker")
        queue.admin.execute("GRANT USAGE ON SCHEMA app TO other_worker")
        queue.admin.execute("GRANT SELECT, UPDATE ON app.jobs TO other_worker")
        return queue.login("other_worker")

    yield make
    queue.admin.execute("RESET ROLE; DROP OWNED BY other_worker; DROP ROLE other_worker")


def test_a_login_like_it_starts_too(queue: Queue, login: Any) -> None:
    with psycopg.connect(login(), autocommit=True) as conn:
        probe(conn)


def test_a_superuser_is_refused(queue: Queue) -> None:
    assert refusal(queue.dsn) == (
        "lab is a superuser, whom no row security binds: "
        "let the worker log in as app_worker of schema.sql, or a role of its own like it"
    )


def test_bypassrls_is_refused(queue: Queue, login: Any) -> None:
    assert refusal(login("BYPASSRLS")) == (
        "other_worker has BYPASSRLS and would see every tenant's rows: ALTER ROLE other_worker NOBYPASSRLS"
    )


def test_bypassrls_of_the_tenants_role_is_refused(queue: Queue) -> None:
    queue.admin.execute("ALTER ROLE app_tenant BYPASSRLS")
    try:
        assert refusal(queue.worker_dsn).endswith("ALTER ROLE app_tenant NOBYPASSRLS")
    finally:
        queue.admin.execute("ALTER ROLE app_tenant NOBYPASSRLS")


def test_an_owner_is_refused(queue: Queue, login: Any) -> None:
    """So is who is a member of the owner, and can take that role."""
    told = refusal(login(roles="app_tenant, app_owner"))
    assert told.startswith("other_worker owns invoices, jobs, or may become who does")
    assert told.endswith("let the worker log in as app_worker of schema.sql, or a role of its own like it")


def test_a_tenants_role_that_owns_a_tenants_table_is_refused(queue: Queue) -> None:
    queue.admin.execute("ALTER TABLE app.invoices OWNER TO app_tenant")
    assert refusal(queue.worker_dsn).startswith("app_tenant owns invoices, or may become who does")


def test_a_jobs_table_under_row_security_is_refused(queue: Queue) -> None:
    """Without the probe there would be no error, and no job either."""
    queue.enqueue(NewJob("note"))
    queue.admin.execute("ALTER TABLE app.jobs ENABLE ROW LEVEL SECURITY")
    queue.admin.execute(
        "CREATE POLICY tenant ON app.jobs USING (tenant_id = nullif(current_setting('app.tenant', true), '')::bigint)"
    )
    with psycopg.connect(queue.worker_dsn) as conn:
        assert conn.execute("SELECT FROM app.jobs").fetchall() == []
    assert refusal(queue.worker_dsn) == (
        'app_worker cannot see all jobs (query would be affected by row-level security policy for table "jobs"), '
        "and the queue would seem empty: "
        "ALTER TABLE app.jobs DISABLE ROW LEVEL SECURITY, and GRANT what schema.sql grants"
    )


def test_a_login_that_has_the_tenants_rights_all_the_time_is_refused(queue: Queue, login: Any) -> None:
    dsn = login(roles="")
    queue.admin.execute("ALTER ROLE other_worker INHERIT; GRANT app_tenant TO other_worker")
    assert refusal(dsn) == (
        "other_worker has the rights of app_tenant without taking its role: ALTER ROLE other_worker NOINHERIT, "
        "then REVOKE app_tenant FROM other_worker and GRANT it again"
    )
    queue.admin.execute("ALTER ROLE other_worker NOINHERIT; REVOKE app_tenant FROM other_worker")
    queue.admin.execute("GRANT app_tenant TO other_worker")  # as the message says
    with psycopg.connect(dsn, autocommit=True) as conn:
        probe(conn)


def test_a_login_that_cannot_become_a_tenant_is_refused(queue: Queue, login: Any) -> None:
    dsn = login(roles="")
    assert refusal(dsn) == "other_worker cannot become the tenants' role: GRANT app_tenant TO other_worker"


def test_a_login_without_rights_on_the_queue_is_refused(queue: Queue, login: Any) -> None:
    dsn = login()
    queue.admin.execute("REVOKE SELECT ON app.jobs FROM other_worker")
    assert refusal(dsn).startswith("other_worker cannot see all jobs (permission denied for table jobs)")
    queue.admin.execute("REVOKE USAGE ON SCHEMA app FROM other_worker")
    assert refusal(dsn).startswith("other_worker cannot see all jobs (permission denied for schema app)")


def test_a_database_without_the_schema_is_refused(queue: Queue) -> None:
    queue.admin.execute("DROP SCHEMA app CASCADE")
    told = "there is no app.jobs, or no role app_tenant: run schema.sql in this database"
    assert refusal(queue.worker_dsn) == told


def test_the_sessions_have_their_limits(queue: Queue) -> None:
    handlers = Handlers()
    note(handlers)
    settings = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    with working(queue, handlers) as (worker, _):
        (job,) = queue.enqueue(NewJob("note"))
        queue.until_ended(job)
        with worker._pool.connection() as conn:  # noqa: SLF001
            found = [conn.execute(f"SHOW {name}").fetchone() for name in settings]
            assert found == [("15s",), ("5s",), ("15s",)]
            assert conn.execute("SHOW client_connection_check_interval").fetchone() == ("5s",)
            assert conn.execute("SHOW plan_cache_mode").fetchone() == ("force_custom_plan",)
            if conn.info.server_version >= 170000:
                assert conn.execute("SHOW transaction_timeout").fetchone() == ("15min",)
