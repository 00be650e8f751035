"""What the workers beside this file share: what they ask of the database, what a job is, and when they refuse to start.

The statements go with schema.sql. Nothing here opens a connection or keeps one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

import psycopg
from psycopg.types.json import Jsonb

logger = logging.getLogger("app.worker")
P = TypeVar("P")

#: What a lost connection, a server that restarts, a deadlock or a timeout raise: worth trying again.
PASSING = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)


# What is asked of the database. Times are the server's, by clock_timestamp(): now() stands still in a transaction.

# Where a tenant's running jobs are counted, claims take turns: two at once could fill the same place. The claim is a
# statement of its own after this one, so that it sees what the claim before it has committed.
TAKE_TURNS = "SELECT pg_advisory_xact_lock(hashtextextended('app.jobs', 0))"

# One search of the index a priority: with priority as a mere sort key, PostgreSQL 17 and older read past every job that
# is to run later. FOR NO KEY UPDATE, since FOR UPDATE skips a job beside an open foreign-key check. MATERIALIZED, since
# a plan that asks `next` twice would lock twice.
CLAIM = """
    WITH busy AS MATERIALIZED (
        SELECT tenant_id FROM app.jobs
         WHERE status = 'running' AND %(tenant_limit)s::int IS NOT NULL
         GROUP BY tenant_id HAVING count(*) >= %(tenant_limit)s::int
    ), next AS MATERIALIZED (
        SELECT ready.id
          FROM (VALUES (3::smallint), (2), (1), (0)) AS level (priority)
         CROSS JOIN LATERAL (
               SELECT id FROM app.jobs
                WHERE status = 'queued' AND priority = level.priority AND run_at <= (SELECT clock_timestamp())
                  AND attempts < max_attempts AND kind = ANY (%(kinds)s)
                  AND tenant_id <> ALL (ARRAY(SELECT tenant_id FROM busy))
                ORDER BY run_at, id
                LIMIT %(most)s FOR NO KEY UPDATE SKIP LOCKED
         ) AS ready
         LIMIT %(most)s
    ), claimed AS (
        UPDATE app.jobs
           SET status = 'running', attempts = attempts + 1, fence = fence + 1, worker = %(worker)s,
               deadline = clock_timestamp() + time_limit,
               locked_until = clock_timestamp() + least(time_limit, %(lease)s * interval '1 second')
          FROM next WHERE jobs.id = next.id
        RETURNING jobs.*
    ), run AS (
        INSERT INTO app.job_runs (job_id, fence, attempt, worker) SELECT id, fence, attempts, worker FROM claimed
    )
    SELECT id, tenant_id::text AS tenant, kind, payload, attempts AS attempt, max_attempts, fence,
           extract(epoch FROM time_limit)::float8 AS time_limit,
           extract(epoch FROM clock_timestamp() - run_at)::float8 AS waited
      FROM claimed
"""

HEARTBEAT = """
    UPDATE app.jobs SET locked_until = least(clock_timestamp() + %(lease)s * interval '1 second', deadline)
      FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[]) AS mine (id, fence)
     WHERE jobs.id = mine.id AND jobs.fence = mine.fence
       AND status = 'running' AND locked_until > clock_timestamp()
    RETURNING jobs.id, jobs.fence
"""

# The role and the tenant for one transaction, and no statement of it beyond the job's time.
BECOME = """
    SELECT set_config('role', 'app_tenant', true), set_config('app.tenant', %(tenant)s, true),
           set_config('statement_timeout', %(milliseconds)s, true)
"""
HOLD = "SELECT app.hold_job(%(id)s, %(fence)s)"
FINISH = "SELECT app.finish_job(%(id)s, %(fence)s)"

# Full jitter: anywhere between at once and the whole delay, so that what failed together does not come back together.
FAIL = """
    WITH failed AS (
        UPDATE app.jobs
           SET status = CASE WHEN attempts < max_attempts AND NOT %(give_up)s THEN 'queued' ELSE 'dead' END,
               ended_at = CASE WHEN attempts < max_attempts AND NOT %(give_up)s THEN NULL ELSE clock_timestamp() END,
               run_at = clock_timestamp()
                      + random() * least(%(cap)s, %(base)s * 2 ^ least(attempts - 1, 30)) * interval '1 second',
               locked_until = NULL, deadline = NULL, worker = NULL, last_error = %(error)s
         WHERE id = %(id)s AND fence = %(fence)s AND status = 'running'
        RETURNING id, fence, status
    ), run AS (
        UPDATE app.job_runs SET outcome = 'failed', ended_at = clock_timestamp(), error = %(error)s
          FROM failed WHERE job_id = failed.id AND job_runs.fence = failed.fence
    )
    SELECT status FROM failed
"""

RELEASE = """
    WITH released AS (
        UPDATE app.jobs
           SET status = 'queued', attempts = attempts - 1, locked_until = NULL, deadline = NULL, worker = NULL
          FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[]) AS mine (id, fence)
         WHERE jobs.id = mine.id AND jobs.fence = mine.fence AND status = 'running'
        RETURNING jobs.id, jobs.fence
    ), run AS (
        UPDATE app.job_runs SET outcome = 'released', ended_at = clock_timestamp()
          FROM released WHERE job_id = released.id AND job_runs.fence = released.fence
    )
    SELECT id, fence FROM released
"""

REAP = """
    WITH expired AS MATERIALIZED (
        SELECT id, worker FROM app.jobs
         WHERE status = 'running' AND locked_until < (SELECT clock_timestamp())
         ORDER BY id LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED
    ), reaped AS (
        UPDATE app.jobs
           SET status = CASE WHEN attempts < max_attempts THEN 'queued' ELSE 'dead' END,
               ended_at = CASE WHEN attempts < max_attempts THEN NULL ELSE clock_timestamp() END,
               run_at = clock_timestamp()
                      + random() * least(%(cap)s, %(base)s * 2 ^ least(attempts - 1, 30)) * interval '1 second',
               fence = fence + 1, locked_until = NULL, deadline = NULL, worker = NULL,
               last_error = 'nothing was heard of ' || expired.worker
          FROM expired WHERE jobs.id = expired.id
        RETURNING jobs.*
    ), run AS (
        UPDATE app.job_runs SET outcome = 'lost', ended_at = clock_timestamp(), error = reaped.last_error
          FROM reaped WHERE job_id = reaped.id AND job_runs.fence = reaped.fence - 1
    )
    SELECT id, tenant_id::text, kind, attempts, status, last_error FROM reaped
"""

PRUNE = "SELECT app.prune_jobs(%s * interval '1 second', 1000)"
ENQUEUE = "SELECT app.enqueue_jobs(%s, %s)"

# Timeouts for the queue's own statements; what notices a machine that is gone, which would else take hours; and plans
# that are made for the table as it is: one that is kept from when the queue was short reads all of a long one.
SETTINGS = """
    SELECT set_config('statement_timeout', '15s', false), set_config('lock_timeout', '5s', false),
           set_config('idle_in_transaction_session_timeout', '15s', false),
           set_config('client_connection_check_interval', '5s', false),
           set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),
           set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '25s', false),
           set_config('plan_cache_mode', 'force_custom_plan', false)
"""
TRANSACTION_TIMEOUT = "SELECT set_config('transaction_timeout', '15min', false)"  # from PostgreSQL 17 on
KEEPALIVES: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}

ROLES = """
    SELECT rolname, rolsuper, rolbypassrls,
           ARRAY(SELECT relname::text FROM pg_class
                  WHERE (relrowsecurity OR relname = 'jobs' AND relnamespace = app.oid)
                    AND pg_has_role(role.oid, relowner, 'MEMBER') ORDER BY 1)
      FROM pg_roles AS role LEFT JOIN pg_namespace AS app ON nspname = 'app'
     WHERE rolname IN (current_user, 'app_tenant') ORDER BY rolname <> 'app_tenant'
"""
RIGHTS = """
    SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace AS app ON app.oid = relnamespace
                    WHERE nspname = 'app' AND relname = 'jobs'),
           (SELECT pg_has_role(current_user, oid, 'USAGE') FROM pg_roles WHERE rolname = 'app_tenant')
"""
LOG_IN = "let the worker log in as app_worker of schema.sql, or a role of its own like it"


class RefusedError(RuntimeError):
    """The worker does not start: what it would run as, or on, is not safe. The message says what to do."""


#: Why a job is stopped whose worker is.
SHUTDOWN = "its worker stops"


class LeaseLostError(RuntimeError):
    """The job is no longer this run's: its lease or its time ended, or the worker stops. Let it pass."""


class GiveUpError(RuntimeError):
    """Raised by a handler that knows that no other attempt will do better: the job is dead at once."""


# Jobs, made and handled


@dataclass(frozen=True)
class NewJob:
    """A job to enqueue."""

    kind: str
    payload: Any = field(default_factory=dict)  #: a mapping or a dataclass, that becomes a JSON object
    key: str | None = None  #: at most one job of its tenant and kind is queued or running with the same key
    priority: int = 1  #: 3 is first, 0 is last
    max_attempts: int = 3
    run_at: datetime | None = None
    delay: float = 0  #: seconds from now, or from run_at
    time_limit: float = 300  #: seconds that one run may take


def arguments(jobs: Sequence[NewJob], wake: bool) -> tuple[Jsonb, bool]:
    """What ENQUEUE takes."""
    return Jsonb([{key: _json(value) for key, value in vars(job).items() if value is not None} for job in jobs]), wake


def _json(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value.isoformat() if isinstance(value, datetime) else value


@dataclass(eq=False)
class Run(Generic[P]):
    """One run of a job that was claimed: what is known without asking the database."""

    id: int
    tenant: str
    kind: str
    payload: P
    attempt: int
    max_attempts: int
    fence: int
    time_limit: float
    waited: float  #: seconds from when it could have been run to when it was claimed
    started: float  #: by this machine's clock that never jumps, before the claim was sent
    lease: float
    stopped: str = ""  #: why it has to stop; a handler with a long loop may look at it
    finished: bool = False

    def __post_init__(self) -> None:
        self.deadline = self.started + self.time_limit
        self.ends = min(self.started + self.lease, self.deadline)

    @property
    def idempotency_key(self) -> str:
        """The same for each attempt of this job, and for no other job: for calls that must not be done twice."""
        return f"{self.kind}/{self.id}"

    def extend(self, asked: float) -> None:
        """A heartbeat that was sent at that time was answered."""
        self.ends = min(asked + self.lease, self.deadline)

    def check(self) -> None:
        """Raise LeaseLostError where the job is not this run's any more, as far as can be told from here."""
        if self.stopped or time.monotonic() >= self.ends:
            raise LeaseLostError(self.stopped or "its lease has ended")
        if self.finished:
            raise RuntimeError("the job is finished: there is no transaction of its work after the last one")

    def become(self) -> dict[str, str]:
        """What BECOME takes."""
        rest = max(1, int(1000 * (self.deadline - time.monotonic())))
        return {"tenant": self.tenant, "milliseconds": str(rest)}

    def key(self) -> dict[str, int]:
        """What names this run in a statement."""
        return {"id": self.id, "fence": self.fence}

    def log(self, level: int, message: str, *words: object, exc_info: BaseException | None = None) -> None:
        extra = {"job": self.id, "tenant": self.tenant, "kind": self.kind, "attempt": self.attempt}
        which = (self.kind, self.id, self.tenant, self.attempt)
        message = f"%s job %s of tenant %s, attempt %s: {message}"
        logger.log(level, message, *which, *words, exc_info=exc_info, extra=extra)


class Event(NamedTuple):
    """Something for a metric: claimed, done, failed, dead, lost, released, or reaped."""

    name: str
    kind: str
    tenant: str
    job: int
    attempt: int
    seconds: float  #: how long it waited when it was claimed, and how long it ran otherwise


@dataclass(frozen=True)
class Options:
    """How a worker works. Times are in seconds."""

    concurrency: int = 4  #: how many jobs this worker runs at once
    tenant_limit: int | None = 2  #: how many jobs of one tenant run at once, over all workers; None for any number
    lease: float = 30  #: a worker that is silent for so long has lost its jobs; it is heard of three times as often
    poll: float = 1  #: how often an idle worker looks, give or take a half
    listen: bool = False  #: hear of jobs that were enqueued with `wake`; needs a connection that is no pooler's
    grace: float = 20  #: how long a worker that stops waits for its jobs to end
    backoff: float = 5  #: the longest wait after a first failure; it doubles with each, up to the cap
    backoff_cap: float = 3600
    keep_done: float | None = 7 * 86400  #: how long jobs that are done are kept; None for ever


# Before a worker starts


def probe(conn: psycopg.Connection[Any]) -> None:
    """Refuse to work with more rights than a worker needs, or where the queue would look empty and is not."""
    if conn.info.server_version < 140000:
        raise RefusedError("the server is older than PostgreSQL 14: use a newer one")
    for role, is_super, bypasses, owned in conn.execute(ROLES).fetchall():
        if is_super:
            raise RefusedError(f"{role} is a superuser, whom no row security binds: {LOG_IN}")
        if bypasses:
            raise RefusedError(f"{role} has BYPASSRLS and would see every tenant's rows: ALTER ROLE {role} NOBYPASSRLS")
        if owned:
            tables = ", ".join(owned)
            raise RefusedError(f"{role} owns {tables}, or may become who does, and could undo its rules: {LOG_IN}")
    user = conn.info.user
    found, inherits = conn.execute(RIGHTS).fetchone() or (False, None)
    if not found or inherits is None:
        raise RefusedError("there is no app.jobs, or no role app_tenant: run schema.sql in this database")
    if inherits:
        raise RefusedError(
            f"{user} has the rights of app_tenant without taking its role: "
            f"ALTER ROLE {user} NOINHERIT, then REVOKE app_tenant FROM {user} and GRANT it again"
        )
    try:
        with conn.transaction():
            conn.execute("SET LOCAL ROLE app_tenant")
    except psycopg.errors.InsufficientPrivilege as error:
        raise RefusedError(f"{user} cannot become the tenants' role: GRANT app_tenant TO {user}") from error
    try:
        with conn.transaction():
            conn.execute("SET LOCAL row_security = off")  # what would be hidden without a word is an error now
            conn.execute("SELECT FROM app.jobs LIMIT 1")
    except psycopg.errors.InsufficientPrivilege as error:
        raise RefusedError(
            f"{user} cannot see all jobs ({error.diag.message_primary}), and the queue would seem empty: "
            "ALTER TABLE app.jobs DISABLE ROW LEVEL SECURITY, and GRANT what schema.sql grants"
        ) from error


def describe(error: BaseException, stopped: str = "") -> str:
    """What is kept of an error: short, and such that PostgreSQL takes it as text."""
    told = f"{type(error).__name__}: {error}" + (f" ({stopped})" if stopped else "")
    return told.replace("\0", "").encode("utf-8", "backslashreplace").decode()[:2000]


def keys(runs: Sequence[Run[Any]]) -> dict[str, list[int]]:
    """What HEARTBEAT and RELEASE take."""
    return {"ids": [run.id for run in runs], "fences": [run.fence for run in runs]}
