"""What the statements read: asserted by plan and by buffers, never by time."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from auditor.reference.jobs import CLAIM, HEARTBEAT, REAP, NewJob
from auditor.reference.worker import Handlers, Job
from tests.reference.harness import Gate, Queue, eventually, note, working

WANTED: dict[str, Any] = {"kinds": ["note"], "worker": "w", "lease": 60, "most": 5}
FUTURE = """
    INSERT INTO app.jobs (tenant_id, kind, priority, run_at)
    SELECT n %% 20, 'note', n %% 4, clock_timestamp() + interval '1 day' FROM generate_series(1, %s) AS n
"""


def explain(conn: psycopg.Connection[Any], statement: str, words: dict[str, Any], times: int = 3) -> dict[str, Any]:
    """The plan as it ran the last time; the first one also reads the catalogue, and sets hints."""
    for _ in range(times):
        row = conn.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", words).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    assert isinstance(plan, dict)
    return plan


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of a plan that were run."""
    return [plan, *(node for below in plan.get("Plans", []) if below["Actual Loops"] for node in nodes(below))]


def buffers(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


@pytest.mark.parametrize("limit", [None, 2], ids=lambda limit: f"tenant_limit={limit}")
def test_an_empty_poll_beside_fifty_thousand_future_jobs_reads_a_handful(queue: Queue, limit: int | None) -> None:
    queue.admin.execute(FUTURE, (50_000,))
    queue.admin.execute("ANALYZE app.jobs")
    with psycopg.connect(queue.worker_dsn, autocommit=True) as conn:
        plan = explain(conn, CLAIM, {**WANTED, "tenant_limit": limit})
    print("empty poll:", buffers(plan), "buffers")
    assert buffers(plan) <= 20
    scans = {(node["Node Type"], node.get("Index Name")) for node in nodes(plan) if "Relation Name" in node}
    assert ("Index Scan", "jobs_queued") in scans
    assert not any(kind == "Seq Scan" for kind, _ in scans)


def test_a_claim_beside_fifty_thousand_jobs_reads_what_it_claims(queue: Queue) -> None:
    queue.admin.execute(FUTURE, (50_000,))
    queue.admin.execute("UPDATE app.jobs SET run_at = clock_timestamp() WHERE id <= 25000")
    queue.admin.execute("VACUUM ANALYZE app.jobs")
    with psycopg.connect(queue.worker_dsn, autocommit=True) as conn:
        plan = explain(conn, CLAIM, {**WANTED, "tenant_limit": None})
    (scan,) = [node for node in nodes(plan) if node.get("Index Name") == "jobs_queued"]
    print("claim of five:", buffers(scan), "buffers in the scan")
    assert scan["Actual Rows"] * scan["Actual Loops"] == 5
    assert buffers(scan) <= 25
    assert queue.one("SELECT count(*) FROM app.jobs WHERE status = 'running'") == 15


def test_the_reaper_and_the_count_of_running_jobs_read_the_running_ones(queue: Queue) -> None:
    queue.admin.execute(FUTURE, (50_000,))
    queue.admin.execute(
        "UPDATE app.jobs SET status = 'running', attempts = 1, fence = 1, worker = 'w',"
        " deadline = clock_timestamp() + interval '1 hour', locked_until = clock_timestamp() + interval '1 hour'"
        " WHERE id <= 20"
    )
    queue.admin.execute("VACUUM ANALYZE app.jobs")
    queue.enqueue(NewJob("note"))
    with psycopg.connect(queue.worker_dsn, autocommit=True) as conn:
        plans = [explain(conn, REAP, {"base": 1, "cap": 1}, 1), explain(conn, CLAIM, {**WANTED, "tenant_limit": 2}, 1)]
    for plan in plans:
        (scan,) = [node for node in nodes(plan) if node.get("Index Name") == "jobs_running"]
        assert buffers(scan) <= 25
        assert buffers(plan) <= 100


def test_heartbeats_stay_on_their_page(queue: Queue) -> None:
    """Heap-only, so that no index grows by them: nothing indexes what they write, and each page has room."""
    queue.enqueue(*[NewJob("note") for _ in range(500)])
    queue.admin.execute(
        "UPDATE app.jobs SET status = 'running', attempts = 1, fence = 1, worker = 'w',"
        " deadline = clock_timestamp() + interval '1 hour', locked_until = clock_timestamp() + interval '1 minute'"
    )
    queue.admin.execute("VACUUM app.jobs")
    ids = queue.all("SELECT id FROM app.jobs")
    counted = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_all_tables WHERE relid = 'app.jobs'::regclass"
    sizes = "SELECT pg_relation_size(indexrelid) FROM pg_index WHERE indrelid = 'app.jobs'::regclass"
    with psycopg.connect(queue.worker_dsn, autocommit=True) as conn:
        queue.admin.execute("SELECT pg_stat_force_next_flush()")
        queue.until("SELECT n_tup_upd >= 500 FROM pg_stat_all_tables WHERE relid = 'app.jobs'::regclass")
        before, before_sizes = queue.all(counted)[0], queue.all(sizes)
        for n in range(5):
            for part in range(0, 500, 4):  # four jobs a heartbeat, as a worker has
                mine = ids[part : part + 4]
                beat = {"ids": mine, "fences": [1] * len(mine), "lease": 60 + n}
                assert len(conn.execute(HEARTBEAT, beat).fetchall()) == 4
        conn.execute("SELECT pg_stat_force_next_flush()")
        conn.execute("SELECT 1")
    queue.until("SELECT n_tup_upd >= %s FROM pg_stat_all_tables WHERE relid = 'app.jobs'::regclass", before[0] + 2500)
    after = queue.all(counted)[0]
    print("heap-only heartbeats:", after[1] - before[1], "of", after[0] - before[0])
    assert after[0] - before[0] == 2500
    assert after[1] - before[1] >= 2450
    assert queue.all(sizes) == before_sizes


def test_a_worker_that_began_on_a_small_table_reads_no_more_when_it_has_grown(queue: Queue) -> None:
    """A plan that is kept from then would read all of it, several times a claim, until it is analyzed again."""
    handlers, gate = Handlers(), Gate()
    note(handlers)

    @handlers.on("gate", dict[str, Any])
    def wait(job: Job[dict[str, Any]]) -> None:
        gate.wait()

    @handlers.on("fail", dict[str, Any])
    def fail(job: Job[dict[str, Any]]) -> None:
        with job.transaction():
            pass
        raise ValueError

    updated = "SELECT n_tup_upd >= %s FROM pg_stat_all_tables WHERE relid = 'app.jobs'::regclass"
    read = "SELECT seq_tup_read FROM pg_stat_all_tables WHERE relid = 'app.jobs'::regclass"
    some = [*[NewJob("note") for _ in range(20)], *[NewJob("fail") for _ in range(8)]]
    queue.admin.execute("ALTER TABLE app.jobs SET (autovacuum_enabled = false)")
    (first,) = queue.enqueue(NewJob("gate", priority=3))
    queue.admin.execute("ANALYZE app.jobs")
    with working(queue, handlers, lease=0.3, concurrency=2) as (worker, seen):
        gate.reached()

        def asked() -> int:
            return worker._pool.get_stats()["requests_num"]  # noqa: SLF001

        def run_all(*new: NewJob) -> None:
            before = len(seen.names())
            queue.enqueue(*new)
            eventually(lambda: sum(name in ("done", "dead") for name in seen.names()[before:]) == len(new))

        run_all(*some)
        queue.until(updated, 100)
        queue.admin.execute(FUTURE, (50_000,))
        before, begun = queue.one(read), asked()
        run_all(*some)
        eventually(lambda: asked() >= begun + 200)
        gate.open()
        seen.until("done", first)
    # Sessions tell what they have read when they end. Some were still at it when the table was small.
    assert queue.one(read) - before < 50_000
