"""The vocabulary of job queues: what columns, tables and states are called. Names are matched by their words."""

from __future__ import annotations

import re
from functools import lru_cache

from auditor.sql.tokens import word_set

_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


@lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """The words of a name, in lower case: locked_until and lockedUntil are the same."""
    return tuple(word.lower() for word in _WORD.findall(name))


def _any(*names: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(name.split("_")) for text in names for name in text.split())


# Columns: a name matches when it ends in one of these.

_ATTEMPTS = _any(
    "attempt attempts attempt_count attempts_count attempt_number attempts_made attempt_no num_attempts n_attempts",
    "tries try_count num_tries retries retry_count num_retries retry retry_number times_tried",
    "failures failure_count fail_count failed_count num_failures error_count errors_count",
    "deliveries delivery_count receive_count read_ct read_count dequeue_count run_count execution_count",
)
#: Columns that count down.
_LEFT = _any("attempts_left tries_left retries_left remaining_attempts remaining_tries remaining_retries")
_STATUS = _any("status state phase")
_UNTIL = _any(
    "locked_until lock_until lease_until leased_until claimed_until reserved_until invisible_until hidden_until until",
    "lease_expires_at lock_expires_at claim_expires_at lease_expires lock_expires lease_expiry lock_expiry expires_at",
    "lease_expiration lock_expiration lease_deadline lock_timeout lease_timeout timeout_at deadline deadline_at",
    "visible_at visible_after visibility_timeout vt lease_end lease_ends_at",
)
_TOKEN = _any(
    "locked_by lock_by leased_by claimed_by reserved_by attempted_by picked_by taken_by acquired_by owned_by held_by",
    "lock_token lease_token claim_token fencing_token fence_token run_token lock_id lease_id claim_id lock_key",
    "worker_id worker_name worker owner owner_id executor executor_id processor processor_id consumer consumer_id",
    "worker_rid worker_uuid runner runner_id receipt receipt_id receipt_handle fence nonce",
)
_STARTED = _any(
    "started_at started start_time start_at locked_at claimed_at leased_at picked_at acquired_at reserved_at taken_at",
    "attempted_at last_attempt last_attempt_at last_attempted_at processing_at processing_started dequeued_at",
)
_HEARTBEAT = _any(
    "heartbeat heartbeat_at last_heartbeat heartbeats last_seen last_seen_at last_ping pinged_at alive_at"
)
_RUN_AT = _any(
    "run_at next_run_at next_run run_after scheduled_at scheduled_for scheduled_time schedule_at available_at",
    "available_after next_attempt_at next_attempt next_retry_at next_try_at retry_at retry_after not_before due_at",
    "execute_at execute_after process_after process_at publish_after deliver_at deliver_after send_at start_after",
    "execution_time delay_until delayed_until visible_at visible_after vt eta remind_at notify_at publish_at post_at",
    "trigger_at fire_at scheduled_date send_after deliver_on send_on scheduled_on scheduled_datetime",
)
_VERSION = _any("version lock_version row_version revision generation epoch")
_FINISHED = _any(
    "finished_at finished completed_at done_at ended_at processed_at processed succeeded_at published_at sent_at",
    "delivered_at dispatched_at acked_at acknowledged_at consumed_at",
)
_ERROR = _any("last_error error error_message errors failed_at failure_reason traceback exception")
#: What names one job.
_IDS = _any("id uuid pk ctid job_id task_id message_id msg_id event_id item_id row_id outbox_id")
_JOB_IDS = _any(
    "job_id task_id message_id msg_id event_id item_id outbox_id job task run_id queue_id entry_id job_uuid"
)
_MAXIMUM = frozenset(("max", "maximum", "limit", "allowed"))
_NOT_COUNTS = frozenset(("max", "maximum", "limit", "at", "id", "by", "after", "delay", "policy", "backoff"))


#: Behind the name of a time, how it is kept: expires_at_ms, locked_until_utc.
_UNITS = frozenset(("ms", "us", "ns", "s", "sec", "secs", "seconds", "millis", "epoch", "unix", "ts", "utc"))


def _ends(name: str, endings: frozenset[tuple[str, ...]]) -> bool:
    split = words(name)
    split = split[:-1] if len(split) > 1 and split[-1] in _UNITS else split
    return any(split[-length:] in endings for length in range(1, min(len(split), 4) + 1))


def is_attempts(name: str) -> bool:
    counts = _ends(name, _ATTEMPTS) or is_left(name)
    return counts and not _NOT_COUNTS & set(words(name)) and not _names_a_turn(words(name))


def _names_a_turn(split: tuple[str, ...]) -> bool:
    """last_attempt, next_retry: when one attempt was or will be, and not how many there were."""
    return split[-2:-1] in (("last",), ("next",), ("first",)) and split[-1] in ("attempt", "retry", "try")


def is_left(name: str) -> bool:
    return _ends(name, _LEFT)


def is_maximum(name: str) -> bool:
    """max_attempts, retry_limit: what an attempts column is held against."""
    split = set(words(name))
    return bool(split & _MAXIMUM)


def is_status(name: str) -> bool:
    return _ends(name, _STATUS)


def is_moment(name: str) -> bool:
    """Whether a column holds a time, going by the end of its name: updated_at, last_seen, modified_on."""
    split = words(name)
    return len(split) > 1 and (split[-1] in ("at", "on", "time", "ts", "date") or split[0] == "last")


_PAST = word_set("last created updated modified inserted added accessed used seen touched")


def is_past(name: str) -> bool:
    """Whether a column says when something was done with a row; what has been left alone for long is cleared away."""
    return is_moment(name) and bool(_PAST & set(words(name))) and not is_run_at(name)


def is_until(name: str) -> bool:
    return _ends(name, _UNTIL)


def is_token(name: str) -> bool:
    return _ends(name, _TOKEN)


def is_nonce(name: str) -> bool:
    """A token that is new with each write, whatever is written: it proves that nobody else wrote in between."""
    return words(name)[-1:] == ("nonce",)


def is_bare_token(name: str) -> bool:
    """A token of which the name does not say what it is for: in the conditions beside an id it tells who may go on."""
    return words(name) == ("token",)


def is_started(name: str) -> bool:
    return _ends(name, _STARTED)


def is_version(name: str) -> bool:
    return _ends(name, _VERSION)


def is_heartbeat(name: str) -> bool:
    return _ends(name, _HEARTBEAT)


#: What is said of a job that is left for later.
_PUT_OFF = word_set("snooze snoozed sleep sleeping postpone postponed defer deferred delay delayed backoff wait")
#: What the time of a next turn ends in, whatever that turn is called.
_TURNS = word_set("at on run time date due ts")


def is_run_at(name: str) -> bool:
    split = words(name)
    if len(split) > 1 and ("after" in (split[0], split[-1]) or (split[-1] == "until" and _PUT_OFF & set(split))):
        return True  # after_time, ready_after, snoozed_until: not before then
    return _ends(name, _RUN_AT) or (is_next(name) and len(split) > 1 and split[-1] in _TURNS)


def is_next(name: str) -> bool:
    """next_run, next_sync_at: it is said of what has its turn again and again."""
    return words(name)[:1] == ("next",)


def is_finished(name: str) -> bool:
    return _ends(name, _FINISHED)


def is_sent(name: str) -> bool:
    """A time at which something has gone out, or was worked off; the end of a contract is no such thing."""
    return is_finished(name) and not {"ended", "finished", "completed", "done"} & set(words(name))


def is_error(name: str) -> bool:
    return _ends(name, _ERROR)


def is_job_id(name: str) -> bool:
    """A reference to a job from another table."""
    return _ends(name, _JOB_IDS)


def is_id(name: str, table: str) -> bool:
    """What names one row of the table: run_id and agent_run_id are ids of agent_runs, email_id of email_queue."""
    split = words(name)
    if split in _IDS:
        return True
    if split[-1:] not in (("id",), ("uuid",)) or len(split) < 2:
        return False
    rows = (*words(table)[:-1], *_singular(words(table)[-1:]))
    rows = rows[:-1] if rows[-1:] in _HOLDERS else rows
    return rows[-len(split) + 1 :] == split[:-1]


#: What a table of waiting things is called after them.
_HOLDERS = (("queue",), ("outbox",), ("inbox",), ("backlog",))


def is_mailbox(table: str) -> bool:
    """email_queue, outbox_events: its rows are there to be sent or worked off, and for nothing else."""
    return any((word,) in _HOLDERS for word in words(table))


def is_mail(table: str) -> bool:
    """mails, notify_emailmessage: that its rows are sent is all there is to do with them. Mappers join the words."""
    last = words(table)[-1:]
    return any(word.endswith(_MAILS) for word in (*last, *_singular(last)))


_MAILS = ("mail", "message", "notification", "letter", "sms")


def _singular(last: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        f"{word[:-3]}y" if word.endswith("ies") else word[:-2] if word.endswith(_ES) else word.removesuffix("s")
        for word in last
    )


#: Endings of plurals that take an "es".
_ES = ("sses", "shes", "ches", "xes", "zes")


# Tables

_QUEUES = word_set(
    """
    job jobs task tasks queue queues outbox inbox message messages event events work works workitem item items run runs
    execution executions delivery deliveries notification notifications webhook webhooks email emails mailbox letter
    letters request requests import imports export exports todo todos backlog command commands step steps
    """
)
_PEOPLE = word_set(
    """
    user users account accounts login logins otp otps code codes password passwords session sessions auth customer
    customers member members person people profile profiles credential credentials verification verifications
    challenge challenges coupon coupons invitation invitations
    """
)
_LOGS = word_set("run runs execution executions attempt attempts history log logs audit")


#: The same at the end of a name whose words a mapper has joined: app_importjob, shop_webhookdelivery.
_JOINED = (
    *("job", "jobs", "task", "tasks", "queue", "outbox", "inbox", "message", "messages", "event", "events", "item"),
    *("items", "delivery", "deliveries", "notification", "notifications", "webhook", "webhooks", "email", "emails"),
    *("request", "requests", "import", "export", "execution", "executions", "command", "commands"),
)


def is_queue(table: str) -> bool:
    split = words(table)
    return bool(_QUEUES & set(split)) or bool(split and split[-1].endswith(_JOINED))


_OF_A_JOB = word_set("status state phase process processing claim lease lock worker publish dispatch send")


def tells_of_part(column: str, table: str) -> bool:
    """Whether a column of states is about one thing that is done for a row, as embedding_status of documents is."""
    said = set(words(column)) - set(words(table)) - _OF_A_JOB
    return bool(said) and not said & _QUEUES and not is_queue(table)


_SCHEDULES = word_set(
    """
    schedule schedules scheduler cron crons crontab recurring recurrence recurrences periodic timer timers trigger
    triggers reminder reminders monitor monitors check checks feed feeds subscription subscriptions plan plans beat
    """
)


def is_schedule(table: str) -> bool:
    """Whether the rows of a table have their turn again and again, going by its name."""
    return bool(_SCHEDULES & set(words(table))) and not is_mailbox(table)


_OF_PEOPLE = ("otp", "password")


def is_people(table: str) -> bool:
    """Tables whose counters and locks are about people: OTP codes, logins."""
    split = words(table)
    # Mappers write the words of a class together: otpchallenge, passwordreset.
    people = bool(_PEOPLE.intersection(split)) or any(word.startswith(_OF_PEOPLE) for word in split)
    return people and not is_queue(table)


def is_run_log(table: str) -> bool:
    split = words(table)
    return len(split) > 1 and split[-1] in _LOGS


# States

_STATES = {
    "queued": """queued pending ready waiting new available scheduled todo enqueued created open retry retryable
        retrying deferred delayed sleeping postponed snoozed idle unprocessed free not_started unclaimed outstanding
        unsent undelivered unpublished""",
    "running": """running processing in_progress inprogress started executing claimed locked leased working picked
        acquired doing busy reserved in_flight inflight dispatched picked_up progress in_process ongoing underway
        sending delivering publishing dispatching relaying forwarding emitting submitting handling consuming""",
    "active": "active assigned consumed",
    "done": """done completed complete succeeded success successful finished processed published sent delivered ok
        acked acknowledged""",
    "failed": "failed error errored failure fail",
    "dead": """dead dead_letter deadletter dead_lettered buried discarded abandoned exhausted poisoned poison dlq
        permanently_failed failed_permanently gave_up crashed lost""",
}
#: The states of jobs that somebody has.
HELD = frozenset({"running", "active"})
_STATE_OF = {"_".join(words(word)): state for state, names in _STATES.items() for word in names.split()}


def state_of(value: str) -> str:
    """queued, running, active (running, if something else says so), done, failed or dead; else nothing."""
    return _STATE_OF.get("_".join(words(value)), "")


def state_called(constant: str) -> str:
    """The state that a constant stands for by its name: RUNNING, STATUS_RUNNING; nothing where that is no state."""
    split = words(constant) if constant.isupper() else ()
    name = "_".join(split[1:] if split and is_status(split[0]) else split)
    return name if state_of(name) else ""


#: Columns that are true or false, by what they say of a job when they are true, and when they are false.
_FLAGS = {
    ("queued", "running"): "in_queue queued enqueued",
    ("running", "queued"): "processing in_progress claimed leased picked picked_up in_flight",
    ("done", "queued"): """processed completed done finished handled consumed sent published delivered dispatched
        acknowledged fired notified""",
}
_FLAG_OF = {words(name): states for states, names in _FLAGS.items() for name in names.split()}


def is_flag(name: str) -> bool:
    """A column of truth values that tells the state of a job: is_completed, in_progress."""
    return bool(flagged(name, True))


def tells_sent(column: str) -> bool:
    """A column of truth values that says whether something has gone out: sent, is_delivered."""
    return words(column)[-1:] in (("sent",), ("delivered",), ("dispatched",)) and flagged(column, True) == "done"


def flagged(column: str, value: bool) -> str:
    """The state that a column of truth values tells: in_queue = FALSE, is_processing = TRUE; else nothing."""
    split = words(column)
    states = _FLAG_OF.get(split[1:] if split[:1] in (("is",), ("was",)) else split)
    return "" if states is None else states[0] if value else states[1]


_KINDS = word_set(
    """
    queue kind type name channel topic backend worker status state phase priority tenant org organization workspace
    account shard partition group category handler function module app source destination direction provider env
    environment lang version enabled active deleted
    """
)


def is_of_queue(column: str) -> bool:
    """A column that tells which jobs are taken, and none of them by name: the queue, their kind, whose they are."""
    return bool(_KINDS & set(words(column)))


def names_queue(column: str) -> bool:
    """queue, queue_name: what one table keeps several queues apart by."""
    return words(column)[:1] == ("queue",)


def is_worked_off(table: str) -> bool:
    """Whether a table is called after what is taken from it one by one: jobs, tasks, a queue, an outbox."""
    return is_mailbox(table) or bool({"job", "jobs", "task", "tasks", "queues"} & set(words(table)))


def is_key(column: str) -> bool:
    """order_id, run_uuid: what a row of another table is known by."""
    return words(column)[-1:] in (("id",), ("uuid",), ("key",), ("pk",))


def tells_of_queue(column: str) -> bool:
    """in_queue, is_queued: whatever the table is called, its rows wait in a queue."""
    return flagged(column, True) == "queued"


def usual(value: str) -> int:
    """How usual a word is for its state: the smaller, the more."""
    names = _STATES.get(state_of(value), "").split()
    return next((at for at, name in enumerate(names) if words(name) == words(value)), len(names))
