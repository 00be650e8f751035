"""What statements mean to a queue, and which only look as if they meant something."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.sql.meaning import hole
from auditor.sql.queue import Step, StepKind, queue_steps
from auditor.sql.read import read_sql


def steps(text: str) -> tuple[Step, ...]:
    return tuple(step for statement in read_sql(text) for step in queue_steps(statement))


@pytest.mark.parametrize(
    ("assignments", "column"),
    [
        ("response_status = 404, status = 'done'", "status"),
        ("status = 'done', response_status = 404", "status"),
        ("response_status = %s, status = 'done'", "status"),
    ],
)
def test_of_several_columns_of_states_the_one_with_a_state_is_the_jobs(assignments: str, column: str) -> None:
    (step,) = steps(f"UPDATE deliveries SET {assignments}, error = NULL WHERE id = %s")
    assert step.state_in == column


PICK = "SELECT id FROM jobs WHERE status = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"

CLAIMS: dict[str, tuple[str, dict[str, Any]]] = {
    "a row lock": (
        "SELECT * FROM jobs WHERE status = 'new' AND run_at <= now() AND attempts < 5 LIMIT 1 FOR UPDATE SKIP LOCKED",
        {"how": "row lock", "skip_locked": True, "delayed": True, "bounded": True, "limited": True, "counts": False},
    ),
    "a delete in a CTE, what was locked coming back": (
        (
            "WITH next AS (SELECT id FROM work LIMIT 9 FOR UPDATE SKIP LOCKED), gone AS (DELETE FROM work w USING next"
            " WHERE w.id = next.id) SELECT d.* FROM next JOIN documents d ON d.id = next.id"
        ),
        {"how": "delete", "skip_locked": True, "returns": False},
    ),
    "a column of any name that is filled in where it was empty": (
        (
            "UPDATE parcels SET fetched = now() WHERE id IN (SELECT id FROM parcels WHERE fetched IS NULL LIMIT 1"
            " FOR UPDATE SKIP LOCKED) RETURNING id"
        ),
        {"how": "delete", "skip_locked": True, "returns": True},
    ),
    "a row lock that waits": (
        "SELECT * FROM jobs WHERE status = 'queued' ORDER BY id LIMIT 1 FOR UPDATE",
        {"how": "row lock", "skip_locked": False},
    ),
    "an outbox": (
        "SELECT * FROM outbox WHERE published_at IS NULL ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED",
        {"how": "row lock", "skip_locked": True, "limited": True},
    ),
    "a lease": (
        (
            "UPDATE jobs SET status = 'running', attempts = attempts + 1, locked_by = %s,"
            f" locked_until = clock_timestamp() + interval '5 min' WHERE id = ({PICK}) RETURNING *"
        ),
        {
            "how": "lease",
            "skip_locked": True,
            "counts": True,
            "until": "locked_until",
            "clock": "clock_timestamp",
            "token": "locked_by",
            "picks": "scalar",
            "limited": True,
            "returns": True,
            "states": ("running",),
            "bounded": False,
        },
    ),
    "a lease through a CTE": (
        f"WITH next AS ({PICK}) UPDATE jobs SET status = 'running' FROM next WHERE jobs.id = next.id RETURNING jobs.*",
        {"how": "lease", "picks": "cte", "materialized": False},
    ),
    "a lease through a CTE that is materialized": (
        f"WITH next AS MATERIALIZED ({PICK}) UPDATE jobs SET status = 'running' FROM next WHERE jobs.id = next.id",
        {"how": "lease", "picks": "cte", "materialized": True},
    ),
    "a lease that may take more": (
        f"UPDATE jobs SET status = 'running' WHERE id IN ({PICK}) RETURNING *",
        {"how": "lease", "picks": "in"},
    ),
    "a lease of an array": (
        f"UPDATE jobs SET status = 'running' WHERE id = ANY(ARRAY({PICK})) RETURNING *",
        {"how": "lease", "picks": "array"},
    ),
    "a lease without a lock": (
        "UPDATE jobs SET status = 'running' WHERE status = 'queued' AND queue = %s",
        {"how": "lease", "skip_locked": False, "rechecks": True},
    ),
    "a lease of what has expired": (
        "UPDATE jobs SET locked_until = now() + %s, tries = tries + 1 WHERE locked_until < now() AND tries < 3",
        {"how": "lease", "watches": "locked_until", "bounded": True, "counts": True},
    ),
    "a lease bounded inside": (
        (
            "UPDATE jobs SET state = 'executing' WHERE id IN"
            " (SELECT id FROM jobs WHERE state = 'available' AND attempt < max_attempts LIMIT 5 FOR UPDATE SKIP LOCKED)"
        ),
        {"how": "lease", "bounded": True},
    ),
    "a lease bounded with an OR": (
        "UPDATE jobs SET state = 'executing' WHERE state = 'ready' AND (max_tries IS NULL OR tries < max_tries)",
        {"bounded": True},
    ),
    "a visibility timeout": (
        (
            "UPDATE q SET vt = clock_timestamp() + interval '30 s', read_ct = read_ct + 1 WHERE id IN"
            " (SELECT id FROM q WHERE vt <= clock_timestamp() ORDER BY id LIMIT 10 FOR UPDATE SKIP LOCKED) RETURNING *"
        ),
        {"how": "lease", "until": "vt", "counts": True, "delayed": True},
    ),
    "the second half of select-then-update": (
        "UPDATE jobs SET status = 'running', worker_id = %s, started_at = now() WHERE id = %s",
        {"how": "lease", "by_id": True, "token": "worker_id"},
    ),
    "a state that comes from outside": (
        (
            "UPDATE q SET status = %s WHERE id = (SELECT id FROM q WHERE status = %s LIMIT 1 FOR UPDATE SKIP LOCKED)"
            " RETURNING *"
        ),
        {"how": "lease", "skip_locked": True},
    ),
    "tables that are holes": (
        f"UPDATE {hole(0)} SET status = 'running' WHERE id = (SELECT id FROM {hole(1)} LIMIT 1 FOR UPDATE SKIP LOCKED)",
        {"how": "lease", "skip_locked": True},
    ),
    "a deletion": (
        "DELETE FROM jobs WHERE id = (SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING data",
        {"how": "delete", "skip_locked": True, "returns": True},
    ),
    "an advisory lock": (
        "SELECT id FROM jobs WHERE status = 'queued' AND pg_try_advisory_lock(id) LIMIT 1",
        {"how": "advisory lock", "skip_locked": False},
    ),
    "names in camel case": (
        'UPDATE "Jobs" SET "lockedUntil" = now() + interval \'1 min\', "lockToken" = %s WHERE "lockedUntil" IS NULL',
        {"how": "lease", "until": "lockedUntil", "token": "lockToken"},
    ),
    "a state that is an enumeration": (
        "UPDATE jobs SET status = 'RUNNING'::job_status WHERE status = CAST('QUEUED' AS job_status)",
        {"states": ("running",)},
    ),
    "a prepared claim": (f"PREPARE claim AS {PICK}", {"how": "row lock"}),
}


@pytest.mark.parametrize(("text", "fields"), CLAIMS.values(), ids=CLAIMS)
def test_a_claim(text: str, fields: dict[str, Any]) -> None:
    (claim,) = [step for step in steps(text) if step.kind is StepKind.CLAIM]
    assert {name: getattr(claim, name) for name in fields} == fields


STEPS: dict[str, tuple[str, list[str]]] = {
    "what is too late, ended in batches by a state from outside": (
        (
            "UPDATE runs SET status = %s, completed_at = now() WHERE id IN (SELECT id FROM runs WHERE status = 'queued'"
            " AND deadline < now() LIMIT 9 FOR UPDATE SKIP LOCKED) RETURNING id"
        ),
        ["finish"],
    ),
    "workers that are gone, marked by a state from outside": (
        (
            "UPDATE nodes SET state = %s WHERE id IN (SELECT id FROM nodes WHERE state = 'running'"
            " AND last_heartbeat < now() - interval '1 minute' LIMIT 9 FOR UPDATE SKIP LOCKED) RETURNING id"
        ),
        ["bury"],
    ),
    "jobs that wait, marked by a state from outside": (
        (
            "UPDATE runs SET status = %s WHERE id IN (SELECT id FROM runs WHERE status = 'queued' LIMIT 9"
            " FOR UPDATE SKIP LOCKED) RETURNING id"
        ),
        ["claim"],
    ),
    "a count": ("UPDATE jobs SET attempts = attempts + 1 WHERE id = %s", ["count"]),
    "a count through coalesce": ("UPDATE jobs SET retry_count = coalesce(retry_count, 0) + 1 WHERE id = %s", ["count"]),
    "a count that comes from outside": ("UPDATE jobs SET attempts = %s WHERE id = %s", ["count"]),
    "a count down": ("UPDATE jobs SET attempts_left = attempts_left - 1 WHERE id = %s", ["count"]),
    "a count that is reset is none": ("UPDATE jobs SET attempts = 0 WHERE id = %s", []),
    "a finish": ("UPDATE jobs SET status = 'done', finished_at = now() WHERE id = %s", ["finish"]),
    "a finish told by its time": ("UPDATE outbox SET published_at = now() WHERE id = ANY(%s)", ["finish"]),
    "a finish by deletion": ("DELETE FROM jobs WHERE id = %s", ["finish"]),
    "a failure": ("UPDATE jobs SET status = 'failed', last_error = %s WHERE id = %s", ["fail"]),
    "a failure told by its error": (
        "UPDATE outbox SET attempts = attempts + 1, last_error = %s WHERE id = %s",
        ["fail", "count"],
    ),
    "one job goes back": ("UPDATE jobs SET status = 'queued', run_at = %s WHERE id = %s", ["requeue"]),
    "one job goes back by losing its holder": ("UPDATE jobs SET locked_by = NULL WHERE id = %s", ["requeue"]),
    "one job goes back with a delay": ("UPDATE jobs SET run_at = now() + interval '1 min' WHERE id = %s", ["requeue"]),
    "a retry that gives up": (
        "UPDATE jobs SET status = CASE WHEN attempts >= max_attempts THEN 'dead' ELSE 'queued' END WHERE id = %s",
        ["requeue", "bury", "bound"],
    ),
    "a heartbeat": (
        "UPDATE jobs SET locked_until = now() + interval '1 min' WHERE id = %s AND lock_token = %s",
        ["extend"],
    ),
    "a heartbeat of its own column": ("UPDATE jobs SET heartbeat_at = now() WHERE id = %s", ["extend"]),
    "a reaper by the time limit": (
        "UPDATE jobs SET status = 'queued', locked_by = NULL WHERE status = 'running' AND locked_until < now()",
        ["reap"],
    ),
    "a reaper by the age": (
        "UPDATE jobs SET status = 'queued' WHERE status = 'running' AND now() - started_at > interval '1 h'",
        ["reap"],
    ),
    "a reaper by the state alone": ("UPDATE jobs SET status = 'queued' WHERE status = 'running'", ["reap"]),
    "a reaper that counts and gives up": (
        (
            "UPDATE jobs SET attempts = attempts + 1, status = CASE WHEN attempts >= 3 THEN 'dead' ELSE 'queued' END"
            " WHERE status = 'running' AND heartbeat_at < now() - interval '1 min'"
        ),
        ["reap", "bury", "count", "bound"],
    ),
    "a burial": (
        "UPDATE jobs SET status = 'dead' WHERE status = 'running' AND locked_until < now() AND tries >= max_tries",
        ["bury", "bound"],
    ),
    "an enqueue": ("INSERT INTO jobs (kind, payload) VALUES (%s, %s)", ["enqueue"]),
    "an enqueue told by its columns": ("INSERT INTO things (payload, run_at) VALUES (%s, now())", ["enqueue"]),
    "a log of runs": ("INSERT INTO job_runs (job_id, worker, attempt) VALUES (%s, %s, 1)", ["run log"]),
    "a heartbeat of a lease": ("UPDATE jobs SET locked_until = now() + interval '1 min' WHERE id = %s", ["extend"]),
    "a lease that is set into the past": (
        "UPDATE jobs SET lease_expires_at = clock_timestamp() - interval '1 minute' WHERE id = %s",
        [],
    ),
    "a lease that a negative time sets into the past": (
        "UPDATE jobs SET locked_until = now() + interval '-1 hour' WHERE id = %s",
        [],
    ),
    "a heartbeat that is made old": ("UPDATE jobs SET heartbeat_at = now() - %s::interval WHERE id = %s", []),
    "a bound that is asked for": ("SELECT id FROM jobs WHERE attempts >= max_attempts", ["bound"]),
    "a purge is no claim": (
        (
            "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE status = 'done' LIMIT 100 FOR UPDATE SKIP LOCKED)"
            " RETURNING id"
        ),
        [],
    ),
}


@pytest.mark.parametrize(("text", "kinds"), STEPS.values(), ids=STEPS)
def test_a_step(text: str, kinds: list[str]) -> None:
    assert [step.kind.value for step in steps(text)] == kinds


DETAILS: dict[str, tuple[str, dict[str, Any]]] = {
    "a fence of a token": (
        "UPDATE jobs SET status = 'done' WHERE id = %s AND lock_token = %s",
        {"fence": "lock_token"},
    ),
    "a fence of an attempt": ("UPDATE jobs SET status = 'done' WHERE id = %s AND attempts = %s", {"fence": "attempts"}),
    "a fence of a worker": ("UPDATE jobs SET status = 'done' WHERE id = %s AND worker_id = :w", {"fence": "worker_id"}),
    "a fence of time": (
        "UPDATE jobs SET status = 'done' WHERE id = %s AND locked_until > now()",
        {"fence": "locked_until"},
    ),
    "no fence": ("UPDATE jobs SET status = 'done' WHERE id = %s AND status = 'running'", {"fence": "", "by_id": True}),
    "an open fence is none": ("UPDATE jobs SET status = 'done' WHERE id = %s OR lock_token = %s", {"fence": ""}),
    "a retry with a delay": ("UPDATE jobs SET status = 'queued', run_at = now() + %s WHERE id = %s", {"delayed": True}),
    "a retry at once": ("UPDATE jobs SET status = 'queued' WHERE id = %s", {"delayed": False}),
    "what a reaper watches": (
        "UPDATE jobs SET status = 'queued' WHERE status = 'running' AND started_at < now() - interval '1 h'",
        {"watches": "started_at"},
    ),
    "what a reaper watches, whatever its name": (
        "UPDATE jobs SET status = 'queued' WHERE status = 'running' AND updated_at < now() - interval '1 h'",
        {"watches": "updated_at"},
    ),
    "what a heartbeat renews": ("UPDATE jobs SET last_heartbeat = now() WHERE id = %s", {"extends": "last_heartbeat"}),
    "an answer that can be read": ("UPDATE jobs SET status = 'done' WHERE id = %s RETURNING id", {"returns": True}),
    "schema and table": ("UPDATE app.jobs SET status = 'done' WHERE id = %s", {"schema": "app", "table": "jobs"}),
}


@pytest.mark.parametrize(("text", "fields"), DETAILS.values(), ids=DETAILS)
def test_details(text: str, fields: dict[str, Any]) -> None:
    step = steps(text)[0]
    assert {name: getattr(step, name) for name in fields} == fields


AGES = {
    "now() - started_at > interval '5 minutes'": "started_at",
    "started_at + interval '5 minutes' < now()": "started_at",
    "now() > updated_at + limit_seconds * interval '1 second'": "updated_at",
    "extract(epoch from now() - updated_at) > 300": "updated_at",
    "date_part('epoch', now() - updated_at) > %s": "updated_at",
    "300 < extract(epoch from (clock_timestamp() - updated_at))": "updated_at",
    "interval '5 minutes' <= now() - updated_at": "updated_at",
    "age(now(), updated_at) > interval '5 minutes'": "updated_at",
    "age(updated_at) > interval '1 day'": "updated_at",
    "age(finished_on, begun_on) > interval '1 day'": "",
    "extract(hour from now()) > opens_at": "",
    "extract(hour from now() - interval '1 hour') >= opens_at": "",
    "extract(epoch from now() - updated_at) < 300": "",
    "updated_at + interval '5 minutes' > now()": "",
    "run_at + interval '5 minutes' < now()": "",
}


@pytest.mark.parametrize("before", ["", "count(*) OVER () > 0 AND "], ids=["plainly", "by tree"])
@pytest.mark.parametrize(("condition", "column"), AGES.items(), ids=AGES)
def test_an_age_is_one_however_it_is_asked_for(condition: str, column: str, before: str) -> None:
    text = f"UPDATE jobs SET status = 'queued' WHERE {before}status = 'running' AND {condition}"
    (step,) = (step for step in steps(text) if step.kind is StepKind.REAP)
    assert step.watches == column


LOCKED = {
    f"{PICK}": "skip",
    PICK.replace(" SKIP LOCKED", ""): "wait",
    PICK.replace("SKIP LOCKED", "NOWAIT"): "refuse",
    f"UPDATE jobs SET status = 'running' WHERE id = ({PICK}) RETURNING id": "skip",
    "UPDATE jobs SET status = 'running' WHERE id = (SELECT id FROM jobs WHERE status = 'queued' LIMIT 1)": "",
    "SELECT id FROM jobs WHERE status = 'queued' AND pg_try_advisory_lock(id) LIMIT 1": "",
}


@pytest.mark.parametrize(("text", "how"), LOCKED.items())
def test_how_what_is_picked_is_locked(text: str, how: str) -> None:
    (claim,) = [step for step in steps(text) if step.kind is StepKind.CLAIM]
    assert claim.locked == how


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("SELECT id FROM jobs WHERE status = 'queued' LIMIT 10", ["look"]),
        ("SELECT id FROM outbox WHERE published_at IS NULL", ["look"]),
        ("SELECT id FROM jobs WHERE status = 'running' AND locked_until < now()", ["look"]),
        ("SELECT name FROM people WHERE status = 'pending'", []),
        ("SELECT id FROM jobs WHERE status = 'done'", []),
        (f"SELECT id FROM jobs WHERE status = 'queued' {hole(0)} ORDER BY {hole(1)} LIMIT {hole(2)}", ["look"]),
        (f"SELECT id FROM jobs WHERE status = 'queued' ORDER BY id LIMIT 1 {hole(0)}", []),
        (f"SELECT id FROM jobs WHERE status = 'queued' ORDER BY id DESC {hole(0)} LIMIT 1", []),
        (f"SELECT id FROM jobs WHERE status = 'queued' {hole(0)}", []),
    ],
)
def test_a_look_at_jobs_that_locks_none(text: str, kinds: list[str]) -> None:
    assert [step.kind.value for step in steps(text)] == kinds


LOOK_ALIKES = {
    "a state of its own, with a nonce that each write renews": (
        "UPDATE firings SET status = 'accepted', error_message = NULL, write_nonce = %s WHERE id = %s"
    ),
    "an end in a state of its own, told with its error": (
        "UPDATE firings SET status = 'window_missed', error_message = 'too late', fence_nonce = %s WHERE id = %s"
    ),
    "what is said of many, owners staying who they are": (
        "UPDATE letters SET body = NULL, owner_id = CASE WHEN owner_id = %s THEN NULL ELSE owner_id END"
        " WHERE user_id = %s OR owner_id IS NULL"
    ),
    "an entry of a list that is changed": (
        "UPDATE backlog SET title = coalesce(%s, title), owner = coalesce(%s, owner) WHERE id = %s RETURNING *"
    ),
    "what nobody has used for long, cleared away in batches": (
        "DELETE FROM chunks WHERE hash IN (SELECT hash FROM chunks WHERE last_used_at < %s LIMIT 9"
        " FOR UPDATE SKIP LOCKED) RETURNING size"
    ),
    "one row locked by its id": "SELECT * FROM jobs WHERE id = %s FOR UPDATE",
    "one row locked by its id, or not at all": "SELECT * FROM accounts WHERE id = %s FOR UPDATE SKIP LOCKED",
    "rows locked for a payment": "SELECT balance FROM accounts WHERE owner = %s FOR UPDATE",
    "rows locked in order": "SELECT * FROM stock WHERE product IN (%s, %s) ORDER BY product FOR UPDATE",
    "an OTP's tries": "UPDATE otp_codes SET attempts = attempts + 1 WHERE id = %s AND attempts < 5 RETURNING code",
    "a login's failures": "UPDATE users SET failures = failures + 1, locked_until = now() + %s WHERE id = %s",
    "an account that is activated": "UPDATE users SET status = 'active' WHERE status = 'pending' AND email = %s",
    "a session that is prolonged": "UPDATE sessions SET expires_at = now() + interval '1 h' WHERE id = %s",
    "a report": "SELECT status, count(*) FROM jobs GROUP BY status",
    "an order that is sent": "UPDATE orders SET shipped_at = now() WHERE id = %s",
    "a user's role": "UPDATE users SET role = 'admin' WHERE id = %s",
    "a lock for readers": "SELECT * FROM jobs WHERE status = 'queued' LIMIT 1 FOR SHARE",
    "a job as it is shown": "SELECT * FROM jobs WHERE id = %s",
}


@pytest.mark.parametrize("text", LOOK_ALIKES.values(), ids=LOOK_ALIKES)
def test_what_only_looks_like_a_claim(text: str) -> None:
    assert {step.kind for step in steps(text)} <= {StepKind.COUNT, StepKind.BOUND}


@pytest.mark.parametrize(
    "text", [LOOK_ALIKES["a report"], LOOK_ALIKES["a user's role"], "SELECT 1", "COMMIT", "SET a.b = 1"]
)
def test_most_statements_mean_nothing_to_a_queue(text: str) -> None:
    assert steps(text) == ()


def test_a_part_that_is_put_in_may_be_the_lock_of_a_claim() -> None:
    picked = f"WITH next AS (SELECT id FROM jobs WHERE status = 'queued' ORDER BY id LIMIT 5 {hole(0)})"
    (claim,) = steps(f"{picked} UPDATE jobs SET status = 'running' WHERE id IN (SELECT id FROM next) RETURNING id")
    assert claim.locked == "perhaps"


@pytest.mark.parametrize(
    ("text", "fence"),
    [
        ("UPDATE jobs SET status = 'done', version = version + 1 WHERE id = %s AND version = %s", "version"),
        ("UPDATE jobs SET status = 'done', version = version + 1 WHERE id = %s", ""),
        ("UPDATE jobs SET status = 'done' WHERE id = %s AND priority = %s", ""),
    ],
)
def test_a_number_that_every_change_raises_is_a_fence(text: str, fence: str) -> None:
    assert steps(text)[0].fence == fence


def test_a_job_that_somebody_wants_done_anew_has_its_attempts_set_back() -> None:
    anew, later = (
        f"UPDATE jobs SET status = 'queued', last_error = NULL, attempts = {count} WHERE id = %s"
        for count in ("0", "attempts + 1")
    )
    assert steps(anew)[0].resets
    assert not any(step.resets for step in steps(later))
