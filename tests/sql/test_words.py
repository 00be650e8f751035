"""What names of columns and tables tell."""

from __future__ import annotations

import pytest

from auditor.sql import words


@pytest.mark.parametrize(
    ("column", "table", "is_id"),
    [
        ("id", "jobs", True),
        ("job_id", "jobs", True),
        ("delivery_id", "deliveries", True),
        ("match_id", "matches", True),
        ("process_id", "processes", True),
        ("order_item_id", "order_items", True),
        ("tenant_id", "deliveries", False),
        ("deliverie_id", "deliveries", False),
    ],
)
def test_what_names_one_row_of_a_table(column: str, table: str, is_id: bool) -> None:
    assert words.is_id(column, table) is is_id


@pytest.mark.parametrize(
    ("column", "is_until"),
    [
        ("lease_expires_ms", True),
        ("locked_until_utc", True),
        ("expiresAtEpoch", True),
        ("weight_ms", False),
        ("ms", False),
    ],
)
def test_which_times_are_limits_however_they_are_kept(column: str, is_until: bool) -> None:
    assert words.is_until(column) is is_until


@pytest.mark.parametrize(
    ("constant", "state"),
    [
        ("PROGRESS", "running"),
        ("STATUS_IN_PROGRESS", "running"),
        ("IN_PROCESS", "running"),
        ("SENDING", "running"),
        ("NOT_STARTED", "queued"),
        ("PROGRESS_BAR", ""),
        ("STARTED_BY_HAND", ""),
    ],
)
def test_which_state_a_constant_is_called_after(constant: str, state: str) -> None:
    assert words.state_of(words.state_called(constant)) == state


@pytest.mark.parametrize(
    ("column", "is_sent"),
    [
        ("published_at", True),
        ("event_dispatched_at", True),
        ("ended_at", False),
        ("completed_at", False),
        ("due_at", False),
    ],
)
def test_which_times_tell_that_something_went_out(column: str, is_sent: bool) -> None:
    assert words.is_sent(column) is is_sent


@pytest.mark.parametrize(
    ("column", "is_run_at"),
    [
        ("next_billing_date", True),
        ("next_sync_at", True),
        ("next", False),
        ("next_page", False),
        ("next_of_kin", False),
        ("paid_at", False),
    ],
)
def test_which_times_tell_when_something_has_its_turn(column: str, is_run_at: bool) -> None:
    assert words.is_run_at(column) is is_run_at


@pytest.mark.parametrize(
    ("column", "names"), [("queue", True), ("queue_name", True), ("in_queue", False), ("name", False)]
)
def test_which_columns_keep_queues_apart(column: str, names: bool) -> None:
    assert words.names_queue(column) is names


@pytest.mark.parametrize(
    ("table", "is_mail"),
    [
        ("mails", True),
        ("notify_emailmessage", True),
        ("sms", True),
        ("push_notifications", True),
        ("mail_templates", False),
        ("message_threads", False),
        ("invoices", False),
    ],
)
def test_which_tables_hold_what_is_there_to_be_sent(table: str, is_mail: bool) -> None:
    assert words.is_mail(table) is is_mail


@pytest.mark.parametrize(
    ("column", "counts"),
    [
        ("attempts", True),
        ("failed_attempt", True),
        ("last_attempt_number", True),
        ("last_attempt", False),
        ("next_retry", False),
        ("max_attempts", False),
    ],
)
def test_which_columns_count_attempts(column: str, counts: bool) -> None:
    assert words.is_attempts(column) is counts


@pytest.mark.parametrize(
    ("table", "queue"),
    [
        ("import_jobs", True),
        ("shop_importjob", True),
        ("hooks_webhookdelivery", True),
        ("outboxitem", True),
        ("taskforce_members", False),
        ("shop_customer", False),
    ],
)
def test_which_tables_are_called_after_what_waits(table: str, queue: bool) -> None:
    assert words.is_queue(table) is queue
