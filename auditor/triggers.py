"""What files are searched for before any is parsed: bytes that stand in every file a kind of rule can speak of."""

from __future__ import annotations

#: What stands in every file that sets a custom setting: set_config(), SET LOCAL, SET app.tenant, f"SET {name} = …"; or
#: takes it away again.
SETTING_TRIGGERS = (
    rb"set_config",
    rb"set\s+local\s",
    rb"set\s+session\s",
    rb"set\s+[\"{%][^\n]{0,60}(?:=|\bto\b)",
    rb"set\s+[a-z_]\w*\.[\"\w{%]+\s*(?:=|\bto\b)",
    rb"reset\s+(?:all\b|[a-z_]\w*\.\w)",
    rb"discard\s+all\b",
)
#: What stands in every file that gives connections a custom setting as they are opened.
CONNECT_TRIGGERS = (
    rb"server_settings",
    rb"-c [a-z_]\w*\.[\w.]+=",
    rb"-c%20[a-z_]\w*\.[\w.]+(?:=|%3d)",
    rb"alter\s+(?:role|user|database)\s[^\n]{0,120}\sset\s",
)
#: What stands in every file that gives SET, of whatever setting, a parameter.
PARAMETER_TRIGGERS = (
    rb"set\s+local\s",
    rb"set\s+session\s",
    rb"set\s+[\w.\"{}]+\s*(?:=|\bto\b)\s*(?:%|\$1|:\w|\{)",
)
#: What stands in every file that takes on another role, or another user's session.
ROLE_TRIGGERS = (rb"set\s+(?:session\s+)?role", rb"set\s+session\s+authorization", rb"set_config")
#: What stands in every file that makes a pool with callbacks.
POOL_TRIGGERS = (rb"connectionpool", rb"create_pool")
#: Columns that tell from when on a job may be taken.
DUE_COLUMNS = (
    *(b"next_attempt_at", b"next_retry_at", b"retry_at", b"retry_after", b"run_at", b"run_after", b"available_at"),
    *(b"available_after", b"scheduled_at", b"scheduled_for", b"due_at", b"execute_at", b"process_after", b"visible_at"),
    *(b"not_before", b"visible_after", b"scheduled_time", b"send_at", b"execute_after", b"deliver_at", b"start_after"),
    *(b"remind_at", b"notify_at", b"publish_at", b"post_at", b"trigger_at", b"fire_at", b"send_after", b"send_on"),
)
#: What stands in every file that claims jobs from a table.
CLAIM_TRIGGERS = (
    rb"skip\s+locked",
    rb"for_update",
    rb"lock_rows",
    rb"for\s+(?:no\s+key\s+)?update",
    rb"locked_(?:until|by|at)",
    rb"lease_?(?:until|expires|token|owner|id)",
    rb"claimed_(?:by|at|until)",
    # Locks with a time limit, which are taken over once that is up.
    *(column + rb"(?:__lte?\b|\)?\s*<=?\s)" for column in (b"expires_at", b"lock_expires", b"lock_expiry")),
    # Jobs that are due: taking one may be putting it off.
    *(column + rb"(?:__lte?\b|\)?\s*<=?\s)" for column in DUE_COLUMNS),
    rb"next_\w+(?:__lte?\b|\)?\s*<=?\s)",
    rb"eta__lte?\b",
    rb"\.eta\s*<=?\s",
)
#: Columns that count how often a job was tried: what asks for those below a maximum tries them again.
COUNT_COLUMNS = (b"attempts", b"attempt_count", b"retries", b"retry_count", b"tries", b"failures", b"attempts_made")
#: States in which a job waits to be taken.
WAITING_STATES = ("pending", "queued", "ready", "waiting", "new", "scheduled", "available", "enqueued", "todo")
#: Columns that are empty while something waits to be done.
DONE_COLUMNS = ("processed_at", "published_at", "finished_at", "delivered_at", "dispatched_at", "sent_at")
#: Columns of truth values that are false while something waits to be done, or is not under way.
FLAG_COLUMNS = (
    *("processed", "published", "delivered", "dispatched", "sent", "in_progress", "processing", "fired", "notified"),
)
_STATES = "|".join(WAITING_STATES).encode()
_FLAGS = b"(?:" + "|".join(FLAG_COLUMNS).encode() + rb")\b"
#: What stands in every file that looks for jobs which wait, in SQL or in an ORM's words, whatever it locks.
WAITING_TRIGGERS = (
    rb"stat(?:us|e)\s*={1,2}\s*[\w.{\"']*(?:" + _STATES + rb")",
    rb"stat(?:us|e)\.in_\(",
    # WHERE status = %s, to whatever it is bound
    rb"where\s+(?:\w+\.)?stat(?:us|e)\s*=\s*(?:%|\$\d|:\w)",
    rb"and\s+(?:\w+\.)?stat(?:us|e)\s*=\s*(?:%|\$\d|:\w)",
    rb"limit\s+1\b",
    *(column + rb"(?:__lte?\b|\)?\s*<)" for column in COUNT_COLUMNS),
    *(column.encode() + rb"(?:\s*={1,2}\s*|\s+is\s+|\.is_\(\s*)(?:not\s+true|false)\b" for column in FLAG_COLUMNS),
    # not_(Event.published)
    rb"not_\(\s*[\w.]*" + _FLAGS,
    *(column.encode() + rb"(?:\s+is\s+null|\.is_\(|\s*==\s*none)" for column in DONE_COLUMNS),
)
_WAITING = rb"""(?:__in|__exact)?\s*={1,2}\s*[\[({]?\s*(?:['"]|\w[\w.]*[._])?(?:pending|queued|ready|waiting|new)\b"""
#: What stands in every file that asks a mapper for them: `status="pending"`, `Job.status == Status.PENDING`.
WAITING_CALL_TRIGGERS = (
    rb"status" + _WAITING,
    rb"state" + _WAITING,
    rb"processed(?:_at__isnull\s*=\s*true|\s*=\s*false)",
    rb"published(?:_at__isnull\s*=\s*true|\s*=\s*false)",
    rb"dispatched(?:_at__isnull\s*=\s*true|\s*=\s*false)",
    rb"delivered(?:_at__isnull\s*=\s*true|\s*=\s*false)",
    rb"sent(?:_at__isnull\s*=\s*true|\s*=\s*false)",
)
#: What stands in every file that writes row security policies, or the functions that they call.
POLICY_TRIGGERS = (
    rb"create\s+policy",
    rb"alter\s+policy",
    rb"drop\s+policy",
    rb"row\s+level\s+security",
    rb"current_setting",
)
#: Methods that hand a task to its workers, or a message to a broker; and libraries whose functions ask somebody else.
HANDING_OVER = ("delay", "apply_async", "send_task", "basic_publish", "send_messages")
ASKING = ("requests", "httpx", "aiohttp", "boto3", "stripe")
#: What a library is asked for, by a function of its own or by what it makes.
ASKED = ("get", "post", "put", "patch", "delete", "request", "session", "client", "asyncclient", "clientsession")
_ASKED = "|".join(ASKED).encode()
#: What stands in every file that calls what is outside of the process, but for programs and sleeps.
SENDING_TRIGGERS = (
    *(rb"\.%b\(" % method.encode() for method in HANDING_OVER),
    *(library.encode() + rb"\.(?:" + _ASKED + rb")\(" for library in ASKING),
    rb"dramatiq\.actor",
    rb"send_mail",
    rb"send_mass_mail",
    rb"mail_admins",
    rb"mail_managers",
    rb"emailmessage",
    rb"emailmultialternatives",
    rb"smtplib\.smtp",
    rb"urlopen",
)
