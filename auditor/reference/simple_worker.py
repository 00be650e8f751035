"""A worker for jobs of some hundred milliseconds that write only in the database. It goes with schema.sql and jobs.py.

    handlers = SimpleHandlers()

    @handlers.on("invoice.number", NumberInvoice)
    def number_invoice(conn: Connection, payload: NumberInvoice) -> None:
        conn.execute(NUMBER, (payload.invoice,))          # as the job's tenant, in the job's transaction

    sys.exit(SimpleWorker("dbname=app user=app_worker", handlers).run())

Lock, work and finish are one transaction: its lock on the job's row keeps other workers away for as long as it works.
So the work is done once or not at all, there is no lease to lose, and what dies gives its lock up at once.

The plainest worker of that kind counts an attempt where it catches the failure, in a transaction of its own, and has
two limits: a job that fails is first in the queue again at once, so that its attempts follow upon each other; and a job
that ends its process is never counted, so that it kills every worker that comes to it. This one is rid of both by a
short statement that is committed before the work begins: it counts, and puts the job off until the next attempt is due.

Two limits remain, and where either matters, use the other worker:

- The work's transaction is open for as long as the work takes. All that time VACUUM can clear away nothing that died
  since it began, in any table of the database. So nothing slow belongs in it, and no call to the world outside, which
  would be made again whenever the job is.
- Nothing watches it. A job that hangs keeps its worker, and one whose machine vanishes keeps its lock until the server
  finds out by its keepalives.
"""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

from .jobs import KEEPALIVES, PASSING, SETTINGS, TRANSACTION_TIMEOUT, Options, P, describe, logger, probe

# Counts the attempt, or buries the job where there is none left: its worker died the last time.
TAKE = """
    WITH next AS MATERIALIZED (
        SELECT ready.id
          FROM (VALUES (3::smallint), (2), (1), (0)) AS level (priority)
         CROSS JOIN LATERAL (
               SELECT id FROM app.jobs
                WHERE status = 'queued' AND priority = level.priority AND run_at <= (SELECT clock_timestamp())
                  AND kind = ANY (%(kinds)s)
                ORDER BY run_at, id
                LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
         ) AS ready
         LIMIT 1
    )
    UPDATE app.jobs
       SET attempts = least(attempts + 1, max_attempts),
           status = CASE WHEN attempts < max_attempts THEN 'queued' ELSE 'dead' END,
           ended_at = CASE WHEN attempts < max_attempts THEN NULL ELSE clock_timestamp() END,
           run_at = clock_timestamp()
                  + (1 + random()) / 2 * least(%(cap)s, %(base)s * 2 ^ least(attempts, 30)) * interval '1 second'
      FROM next WHERE jobs.id = next.id
    RETURNING jobs.id, tenant_id::text, kind, payload, attempts, status
"""
# It waits, for a moment: whoever looks for a job at the same time locks this one's row too, before it sees that the job
# is not due any more. SKIP LOCKED would pass over the job that was just counted.
LOCK = "SELECT id FROM app.jobs WHERE id = %s AND attempts = %s AND status = 'queued' FOR NO KEY UPDATE"
BECOME = "SELECT set_config('role', 'app_tenant', true), set_config('app.tenant', %s, true)"
DONE = "UPDATE app.jobs SET status = 'done', ended_at = clock_timestamp() WHERE id = %s AND attempts = %s"
FAILED = """
    UPDATE app.jobs
       SET last_error = %(error)s,
           status = CASE WHEN attempts < max_attempts THEN 'queued' ELSE 'dead' END,
           ended_at = CASE WHEN attempts < max_attempts THEN NULL ELSE clock_timestamp() END
     WHERE id = %(id)s AND attempts = %(attempt)s AND status = 'queued'
    RETURNING status
"""

Handler = Callable[[psycopg.Connection[Any], P], None]


class SimpleHandlers(dict[str, tuple[Callable[[Any, Any], None], Callable[..., Any]]]):
    """Which function runs which kind of job. A worker claims no other kinds."""

    def on(self, kind: str, payload: Callable[..., P]) -> Callable[[Handler[P]], Handler[P]]:
        """Register a handler. `payload` is called with the payload's fields: a dataclass, a model, `dict`."""

        def register(handler: Handler[P]) -> Handler[P]:
            if kind in self:
                raise ValueError(f"{kind} has a handler already")
            self[kind] = handler, payload
            return handler

        return register


class SimpleWorker:
    """Runs one job after the other."""

    def __init__(self, dsn: str, handlers: SimpleHandlers, options: Options | None = None) -> None:
        self.options = options or Options()
        self._handlers = handlers
        self._stop = threading.Event()
        self._pool = ConnectionPool(
            dsn,
            min_size=1,
            max_size=1,
            kwargs={"autocommit": True, **KEEPALIVES},
            configure=configure,
            check=ConnectionPool.check_connection,
            open=False,
        )

    def run(self) -> int:
        """Work until SIGTERM, SIGINT or `stop`, and let the job that runs end."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self.stop())
        with self._pool:
            with self._pool.connection() as conn:
                probe(conn)
            while not self._stop.is_set():
                try:
                    idle = not self.run_one()
                except PASSING as error:
                    logger.warning("the queue cannot be reached: %s", error)
                    idle = True
                if idle:
                    self._stop.wait(self.options.poll * random.uniform(0.5, 1.5))
        return 0

    def stop(self) -> None:
        self._stop.set()

    def run_one(self) -> bool:
        """Run the next job. Whether there was one."""
        options = self.options
        wanted = {"kinds": list(self._handlers), "base": options.backoff, "cap": options.backoff_cap}
        with self._pool.connection() as conn:
            taken = conn.execute(TAKE, wanted).fetchone()
        if taken is None:
            return False
        job, tenant, kind, fields, attempt, status = taken
        if status == "dead":
            logger.error("%s job %s of tenant %s is dead: its worker died at attempt %s", kind, job, tenant, attempt)
            return True
        handler, payload = self._handlers[kind]
        try:
            with self._pool.connection() as conn, conn.transaction():
                if conn.execute(LOCK, (job, attempt)).fetchone() is None:
                    return True  # this worker was away for so long that the next attempt has begun
                conn.execute(BECOME, (tenant,))
                handler(conn, payload(**fields))
                conn.execute("SET LOCAL ROLE NONE")
                if conn.execute(DONE, (job, attempt)).rowcount == 0:
                    raise RuntimeError("the job's row is gone")
        except Exception as error:
            told = describe(error)
            with self._pool.connection() as conn:
                row = conn.execute(FAILED, {"id": job, "attempt": attempt, "error": told}).fetchone()
            extra = {"job": job, "tenant": tenant, "kind": kind, "attempt": attempt}
            became = "is no longer this worker's" if row is None else f"failed and is {row[0]}"
            logger.error("%s job %s of tenant %s %s: %s", kind, job, tenant, became, told, exc_info=error, extra=extra)
        return True


def configure(conn: psycopg.Connection[Any]) -> None:
    """The settings of a session of ours, which is in autocommit."""
    conn.execute(SETTINGS)
    if conn.info.server_version >= 170000:
        conn.execute(TRANSACTION_TIMEOUT)
