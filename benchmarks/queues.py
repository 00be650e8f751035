#!/usr/bin/env python3
"""Jobs a second and how soon a job begins: the reference's workers beside published queues, on one server in one run.

    pip install procrastinate 'pgqueuer[asyncpg]' oban     (oban needs Python 3.12)
    python benchmarks/queues.py [--jobs N] [--workers 1,2,4] [--runs N] [--only NAME,…]

Every job does the same: it writes one row, in a transaction. Every worker is a process that runs ten jobs at a time, is
woken by a notification where its queue has that, and is asked for nothing that it does not do by default otherwise.
Throughput counts from the first row to the last, by the server's clock, so that no start-up is in it. How soon a job
begins is from just before it is enqueued to its row, with one idle worker, one job at a time.

Figures of one run can be compared with each other, and with no other machine's. The queues promise different things:
the reference counts, fences, keeps a row of every run, and sets the tenant and its role for each job.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import logging
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg

from auditor.lab.server import server

CONCURRENCY = 10
MARK = "INSERT INTO public.marks (number, at) VALUES (%s, clock_timestamp())"
TABLE = """
    CREATE TABLE IF NOT EXISTS public.marks (number int NOT NULL, at timestamptz NOT NULL);
    GRANT INSERT ON public.marks TO public;
    TRUNCATE public.marks
"""


Enqueue = Callable[[Sequence[int]], Awaitable[object]]

# The queues. `install` makes the tables; `enqueuing` opens what adds jobs; `work` runs until it is told to stop.


class Reference:
    """Threads, one job of a tenant like any other."""

    needs = "psycopg_pool"
    tenant_limit: int | None = None

    async def install(self, dsn: str) -> None:
        schema = Path(__file__).parent.parent / "auditor/reference/schema.sql"
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(schema.read_text(encoding="utf-8"))

    @asynccontextmanager
    async def enqueuing(self, dsn: str) -> AsyncIterator[Enqueue]:
        from auditor.reference.worker_async import NewJob, enqueue

        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:

            async def add(numbers: Sequence[int]) -> None:
                async with conn.transaction():
                    await conn.execute("SELECT set_config('app.tenant', '1', true)")
                    await enqueue(conn, *(NewJob("mark", {"number": number}) for number in numbers), wake=True)

            yield add

    def work(self, dsn: str) -> None:
        from auditor.reference.worker import Handlers, Options, Worker

        handlers = Handlers()

        @handlers.on("mark", dict[str, Any])
        def mark(job: Any) -> None:
            with job.finish() as conn:
                conn.execute(MARK, (job.payload["number"],))

        options = Options(concurrency=CONCURRENCY, tenant_limit=self.tenant_limit, listen=True)
        Worker(_as_worker(dsn), handlers, options).run()


class ReferenceFair(Reference):
    """The same with a bound on how many jobs of a tenant run at once, which its claims take turns for."""

    tenant_limit = 1000


class ReferenceAsync(Reference):
    """Coroutines."""

    def work(self, dsn: str) -> None:
        from auditor.reference.worker_async import AsyncHandlers, AsyncWorker, Options

        handlers = AsyncHandlers()

        @handlers.on("mark", dict[str, Any])
        async def mark(job: Any) -> None:
            async with job.finish() as conn:
                await conn.execute(MARK, (job.payload["number"],))

        options = Options(concurrency=CONCURRENCY, tenant_limit=None, listen=True)
        asyncio.run(AsyncWorker(_as_worker(dsn), handlers, options).run())


class Procrastinate:
    """Its async worker."""

    needs = "procrastinate"

    async def install(self, dsn: str) -> None:
        async with self._app(dsn)[0].open_async() as app:
            await app.schema_manager.apply_schema_async()

    @asynccontextmanager
    async def enqueuing(self, dsn: str) -> AsyncIterator[Enqueue]:
        app, task = self._app(dsn)
        async with app.open_async():
            yield lambda numbers: task.batch_defer_async(*({"number": number} for number in numbers))

    def work(self, dsn: str) -> None:
        asyncio.run(self._work(dsn))

    async def _work(self, dsn: str) -> None:
        async with _pool(dsn) as pool, self._app(dsn, pool)[0].open_async() as app:
            await app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="never")

    def _app(self, dsn: str, pool: Any = None) -> tuple[Any, Any]:
        import procrastinate

        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn, max_size=CONCURRENCY + 1))

        @app.task(name="mark")
        async def mark(number: int) -> None:
            async with pool.connection() as conn:
                await conn.execute(MARK, (number,))

        return app, mark


class PgQueuer:
    """Over asyncpg, as its documentation has it: over psycopg its listener holds the one connection."""

    needs = "pgqueuer"

    async def install(self, dsn: str) -> None:
        async with self._app(dsn) as app:
            await app.queries.install()

    @asynccontextmanager
    async def enqueuing(self, dsn: str) -> AsyncIterator[Enqueue]:
        async with self._app(dsn) as app:

            async def add(numbers: Sequence[int]) -> None:
                payloads = [str(number).encode() for number in numbers]
                await app.queries.enqueue(["mark"] * len(numbers), payloads, [0] * len(numbers))

            yield add

    def work(self, dsn: str) -> None:
        asyncio.run(self._work(dsn))

    async def _work(self, dsn: str) -> None:
        async with _pool(dsn) as pool, self._app(dsn) as app:

            @app.entrypoint("mark")
            async def mark(job: Any) -> None:
                async with pool.connection() as one:
                    await one.execute(MARK, (int(job.payload),))

            await app.run(batch_size=CONCURRENCY)

    @asynccontextmanager
    async def _app(self, dsn: str) -> AsyncIterator[Any]:
        import asyncpg
        import pgqueuer

        words = psycopg.conninfo.conninfo_to_dict(dsn)
        conn = await asyncpg.connect(host=words["host"], user=words["user"], database=words["dbname"])
        try:
            yield pgqueuer.PgQueuer.from_asyncpg_connection(conn)
        finally:
            await conn.close()


class Oban:
    """The queue of that name for Python."""

    needs = "oban"

    async def install(self, dsn: str) -> None:
        from oban.schema import install

        async with _pool(dsn) as pool:
            await install(pool)

    @asynccontextmanager
    async def enqueuing(self, dsn: str) -> AsyncIterator[Enqueue]:
        async with _pool(dsn) as pool:
            oban, mark = self._app(pool, {})
            yield lambda numbers: oban.enqueue_many(*(mark.new({"number": number}) for number in numbers))

    def work(self, dsn: str) -> None:
        asyncio.run(self._work(dsn))

    async def _work(self, dsn: str) -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        async with _pool(dsn) as pool, self._app(pool, {"default": CONCURRENCY})[0]:
            await stop.wait()

    def _app(self, pool: Any, queues: dict[str, int]) -> tuple[Any, Any]:
        import oban

        @oban.worker(queue="default")
        class Mark:
            async def process(self, job: Any) -> None:
                async with pool.connection() as conn:
                    await conn.execute(MARK, (job.args["number"],))

        return oban.Oban(pool=pool, queues=queues), Mark


QUEUES: dict[str, Any] = {
    "reference": Reference(),
    "reference-bounded": ReferenceFair(),
    "reference-async": ReferenceAsync(),
    "procrastinate": Procrastinate(),
    "pgqueuer": PgQueuer(),
    "oban": Oban(),
}


def _pool(dsn: str) -> Any:
    from psycopg_pool import AsyncConnectionPool

    return AsyncConnectionPool(dsn, min_size=1, max_size=CONCURRENCY + 4, kwargs={"autocommit": True}, open=False)


def _as_worker(dsn: str) -> str:
    return f"{dsn} user=app_worker"


# Measuring


def throughput(name: str, dsn: str, jobs: int, workers: int) -> float:
    """Jobs a second, from the first to the last."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(TABLE)
        asyncio.run(_enqueue(name, dsn, range(jobs)))
        conn.execute("VACUUM ANALYZE")
        processes = [_start(name, dsn) for _ in range(workers)]
        try:
            _until(conn, f"count(DISTINCT number) = {jobs}", 0.1, processes)
        finally:
            _end(processes)
        once = (
            "SELECT count(*) = count(DISTINCT number), extract(epoch FROM max(at) - min(at))::float8 FROM public.marks"
        )
        row = conn.execute(once).fetchone()
    assert row is not None
    assert row[0], f"{name} has run a job twice"
    return (jobs - 1) / float(row[1])


async def _enqueue(name: str, dsn: str, numbers: Sequence[int]) -> None:
    async with QUEUES[name].enqueuing(dsn) as add:
        for at in range(0, len(numbers), 1000):
            await add(numbers[at : at + 1000])


def begins_after(name: str, dsn: str, jobs: int) -> float:
    """Milliseconds from when a job is enqueued to its row; the median of so many jobs, one at a time."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(TABLE)
        processes = [_start(name, dsn)]
        try:
            return statistics.median(asyncio.run(_waits(name, dsn, conn, jobs, processes)))
        finally:
            _end(processes)


async def _waits(
    name: str, dsn: str, conn: psycopg.Connection[Any], jobs: int, processes: Sequence[subprocess.Popen[bytes]]
) -> list[float]:
    waits = []
    async with QUEUES[name].enqueuing(dsn) as add:
        for number in range(-1, jobs):
            await asyncio.sleep(0.05)
            row = conn.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
            await add([number])
            _until(conn, f"bool_or(number = {number})", 0.002, processes)
            began = "SELECT extract(epoch FROM min(at))::float8 FROM public.marks WHERE number = %s"
            at = conn.execute(began, (number,)).fetchone()
            assert row is not None
            assert at is not None
            waits.append(1000 * (at[0] - row[0]))
    return waits[1:]  # the first waits for the worker to start


def _start(name: str, dsn: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "--work", name, "--dsn", dsn], stderr=subprocess.PIPE)


def _until(
    conn: psycopg.Connection[Any], told: str, pause: float, processes: Sequence[subprocess.Popen[bytes]]
) -> None:
    """Wait until the rows say so."""
    deadline = time.monotonic() + 300
    while conn.execute(f"SELECT {told} FROM public.marks").fetchone() != (True,):
        for process in processes:
            if process.poll() is not None:
                raise SystemExit(f"a worker has ended: {process.stderr.read().decode() if process.stderr else ''}")
        if time.monotonic() > deadline:
            raise SystemExit(f"not within five minutes: {told}")
        time.sleep(pause)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        _wait_for(process)


def _wait_for(process: subprocess.Popen[bytes]) -> None:
    try:
        process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def compare(names: Sequence[str], jobs: int, counts: Sequence[int], runs: int) -> dict[str, dict[str, float]]:
    """The medians by queue and figure: jobs a second with so many workers, and milliseconds until a job begins."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    with server() as running:
        for run in range(runs):
            for name in names:
                dsn = _database(running.dsn, f"queue_{names.index(name)}_{run}")
                asyncio.run(QUEUES[name].install(dsn))
                for count in counts:
                    rate = throughput(name, dsn, jobs, count)
                    found[name].setdefault(f"{count} workers", []).append(rate)
                    print(f"{name}: {rate:.0f} jobs/s with {count}", file=sys.stderr)
                waited = begins_after(name, dsn, 30)
                found[name].setdefault("begins after", []).append(waited)
                print(f"{name}: begins after {waited:.1f} ms", file=sys.stderr)
    return {name: {key: statistics.median(all_) for key, all_ in of.items()} for name, of in found.items()}


def _database(dsn: str, name: str) -> str:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}")
    return psycopg.conninfo.make_conninfo(dsn, dbname=name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", help="names of queues, with commas between")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--dsn", help=argparse.SUPPRESS)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    if options.work:
        QUEUES[options.work].work(options.dsn)
        return
    wanted = options.only.split(",") if options.only else list(QUEUES)
    names = [name for name in wanted if importlib.util.find_spec(QUEUES[name].needs) is not None]
    for name in set(wanted) - set(names):
        print(f"{name}: not installed, so left out", file=sys.stderr)
    found = compare(names, options.jobs, [int(count) for count in options.workers.split(",")], options.runs)
    base = found[names[0]]
    print(f"\n{'':20}" + "".join(f"{key:>22}" for key in base))
    for name, figures in found.items():
        told = [f"{value:.0f} ({value / base[key]:.2f})" for key, value in figures.items()]
        print(f"{name:20}" + "".join(f"{each:>22}" for each in told))
    print(f"\njobs a second, and milliseconds until a job begins; medians of {options.runs}; in brackets to {names[0]}")
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
