"""What reaches outside of the process, or keeps it waiting, by the names of libraries and by what things are called.

A library's value is known by how it is come by: `requests.Session()`, a parameter annotated `httpx.AsyncClient`, and
what such a value gives when it is asked (`boto3.client("sqs")`, `nc.jetstream()`). Its dotted name is that of what
made it and then of each attribute: `pika.BlockingConnection.channel.basic_publish`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from auditor.findings import Confidence
from auditor.timeline.leaving.services import CLOUD, HTTP, JOB, LIBRARIES, MAIL, QUEUE, RECEIVER, names
from auditor.timeline.mappers.expressions import FIELD
from auditor.timeline.model.values import (
    Bound,
    External,
    Field,
    Function,
    Items,
    Literal,
    Made,
    Mapping,
    Text,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


class Outside(NamedTuple):
    """A call that leaves the process: what it reaches, and whether doing it twice is worse than doing it once."""

    what: str
    repeats: bool = False
    sure: Confidence = Confidence.HIGH
    hands_over: bool = False  #: a task that its workers are to run


_CALLS = {name: library for library in LIBRARIES for name in library.calls}
_MAKERS = {name: library for library in LIBRARIES for name in library.makers}
#: The packages of the table: what a call of theirs returns is known by its name.
_PACKAGES = frozenset(name.partition(".")[0] for name in _MAKERS)
#: Methods that nothing else is called by: what they are called on need not be known.
_TELLING = {
    **dict.fromkeys(("xadd", "basic_publish", "send_and_wait", "send_task"), QUEUE),
    **dict.fromkeys(("chat_postMessage",), CLOUD),
}
#: What sends one of Celery's tasks to its workers.
SENDING = names("delay apply_async")
#: What a task's decorator gives it that sends it to the workers, by the decorator's last name.
_SENDS = {
    "task": SENDING,
    "shared_task": SENDING,
    "actor": names("send send_with_options"),
}
#: Calls that are felt twice when they are made twice: what puts a thing in its place, or takes it away, is none.
_REPEATS = names(
    """
    post patch send_mail send_mass_mail mail_admins mail_managers sendmail send_message send_email send_raw_email
    send_bulk_email send publish xadd lpush rpush basic_publish produce send_and_wait send_messages enqueue enqueue_call
    enqueue_in enqueue_at enqueue_job send_task send_json send_string send_multipart send_message_batch invoke
    start_execution put_events put_record put_records start_job_run run_task submit_job create capture pay refund
    send_invoice invite chat_postMessage files_upload_v2 delay apply_async send_with_options
    """
)
#: Libraries whose calls cost something, and change nothing.
_ANSWERS_ONLY = names("openai anthropic google mistralai cohere litellm")


@cache
def outside(name: str) -> Outside | None:
    """What a library's callable of that dotted name reaches; None when it stays inside, or is not known."""
    library = _CALLS.get(name)
    if library is None:
        maker, method = _maker_of(name), name.rpartition(".")[2]
        asks = maker is not None and method in _MAKERS[maker].methods and not _is_of_answer(name, maker)
        library = _MAKERS[maker] if maker is not None and asks else None
        if maker is None:
            return _by_its_looks(name)
    if library is None:
        return None
    package, method = name.partition(".")[0], name.rpartition(".")[2]
    return Outside(
        library.what, repeats=method in _REPEATS and not (library.what == CLOUD and package in _ANSWERS_ONLY)
    )


def _is_of_answer(name: str, maker: str) -> bool:
    """Whether something is asked of what an HTTP client gave: `http.post(…).json().get("id")` asks a dict."""
    return _MAKERS[maker].what == HTTP and name.count(".") > maker.count(".") + 1


#: Words that the classes of clients end with, and what such a client does that changes something elsewhere.
_CLIENTS = ("Client", "Api", "API", "Producer", "Publisher", "Mailer", "Notifier", "WebhookSender")
_REMOTE = names("send post publish deliver produce upload notify push charge invoke dispatch")
_ASKS = names("get fetch list create")
_NO_CLIENTS = ("Test", "Mock", "Fake", "Dummy", "Stub", "Cache", "Memory", "Memcache", "Redis")


def _by_its_looks(name: str) -> Outside | None:
    """The same for a client of a library that no table names: its class says that it is one, and its method, what of.

    A class whose name tells of an API asks it whatever its method is, as long as that names a thing asked for.
    """
    path = name.split(".")
    made = next((part for part in path[1:-1] if part[:1].isupper()), "")
    if len(path) < 3 or not made.endswith(_CLIENTS) or any(word in made for word in _NO_CLIENTS):
        return None
    words = splits(path[-1])
    sends = bool(words) and words[0] in _REMOTE
    asks = len(words) > 1 and words[0] in _ASKS and made.lower().endswith(("apiclient", "api"))
    return Outside(CLOUD, repeats=sends, sure=Confidence.MEDIUM) if sends or asks else None


def outside_method(callee: Bound) -> Outside | None:
    """The same for a method of something that is not known by a name, where the method's name alone tells."""
    if isinstance(callee.receiver, Function):
        sent = any(callee.name in _SENDS.get(name, ()) for name in callee.receiver.info.decorator_names)
        return Outside(QUEUE, repeats=True, hands_over=True) if sent else None
    return Outside(_TELLING[callee.name], repeats=True) if callee.name in _TELLING else None


#: What letters are called that send themselves, and the packages that such letters are of.
_LETTERS = names("mail email letter message msg")
_POSTS = ("django.core.mail", "smtplib", "aiosmtplib", "flask_mail", "flask_mailman", "redmail", "emails")


def is_a_letter(name: str, called: str, loads: Iterable[str]) -> Outside | None:
    """Whether `letter.send()` sends a mail, in a module that loads what mails are sent with."""
    words = splits(called)
    if name != "send" or not words or words[-1] not in _LETTERS:
        return None
    posts = any(one == package or one.startswith(f"{package}.") for one in loads for package in _POSTS)
    return Outside(MAIL, repeats=True, sure=Confidence.MEDIUM) if posts else None


#: Backends of mail that send nothing anywhere, by their modules.
_LOCAL = ("backends.console", "backends.locmem", "backends.filebased", "backends.dummy")


def stays_here(callee: Value) -> bool:
    """Whether what is called is of something that was told to reach nobody: a mail backend that only prints."""
    made = callee
    while isinstance(made, Bound):
        made = made.receiver
    if not isinstance(made, Made):
        return False
    told = (made.argument(0, "backend"), made.argument(5, "connection"))
    inner = [one for one in told if isinstance(one, Made)]
    texts = (one.value for one in told if isinstance(one, Text))
    return any(local in text for text in texts for local in _LOCAL) or any(map(stays_here, inner))


#: What hands a job on, where a program is given what does it: a callback, or an object of a protocol.
_HANDS_ON = names("publish send deliver produce transmit push post")
_CALLED_SO = names(
    """
    publish publisher send sender deliver deliverer delivery produce producer transport courier mailer smtp broker
    client channel exchange gateway webhook notifier backend topic sink connection conn socket websocket queue mq amqp
    kafka rabbit rabbitmq stomp mqtt nats sqs sns pubsub
    """
)
#: Those stay inside of the process as often as not.
_INSIDE = names("bus signal signals hub emitter observer observers mediator events loop generator")


def hands_on(name: str, called: str) -> Outside | None:
    """Whether a call of `name` on what the program calls `called` sends on the job that it is given.

    What it is called on is not known: only what both are called tells, and of a job only.
    """
    words, owner = splits(name), splits(called)
    sends = bool(words) and words[0] in _HANDS_ON and (not owner or not _CALLED_SO.isdisjoint(owner))
    sends = sends or (not called and bool(words) and words[0] in _CALLED_SO and words[-1] in _CALLBACKS | {words[0]})
    if not sends or not _INSIDE.isdisjoint((*words, *owner)):
        return None
    return Outside(RECEIVER, repeats=True, sure=Confidence.MEDIUM)


#: What waits for something, for as long as it is allowed to take.
_WAITS = frozenset({"asyncio.wait_for", "asyncio.tasks.wait_for"})


def waits_for_job(name: str, awaited: Value) -> Outside | None:
    """Whether a call waits, with a limit of its own, for something unseen that was begun with the job in hand."""
    unseen = isinstance(awaited, Unknown) and awaited.row
    return Outside(JOB, repeats=True, sure=Confidence.MEDIUM) if unseen and name in _WAITS else None


_CALLBACKS = names("fn func function callback cb hook handler")


def says_itself_a_stand_in(name: str) -> bool:
    """Whether a class tells by its name that it only stands in for one that does the work."""
    return any(word in name for word in (*_NO_CLIENTS, "Null", "Noop", "NoOp"))


def splits(name: str) -> tuple[str, ...]:
    """The words of a name, however they are joined."""
    spaced = "".join(f"_{letter}" if letter.isupper() else letter for letter in name)
    return tuple(word for word in spaced.lower().split("_") if word)


def _maker_of(name: str) -> str | None:
    """The maker of the table that a dotted name begins with."""
    parts = name.split(".")
    names = (".".join(parts[:length]) for length in range(len(parts) - 1, 0, -1))
    return next((found for found in names if found in _MAKERS), None)


def dotted(value: Value) -> str | None:
    """The dotted name of a library's callable, of what it made, or of an attribute of that."""
    if isinstance(value, (External, Made)):
        return value.name
    if isinstance(value, Bound):
        receiver = dotted(value.receiver)
        return f"{receiver}.{value.name}" if receiver is not None else None
    return None


def is_client(name: str) -> bool:
    """Whether a class of that dotted name is one whose values are followed by it."""
    return name in _MAKERS


def is_of_table(name: str) -> bool:
    """Whether what a callable of that dotted name returns is worth knowing by it."""
    return name.partition(".")[0] in _PACKAGES


def is_idle(name: str, first: Value) -> bool:
    """Whether a sleep only lets others run: `await asyncio.sleep(0)`."""
    return name.endswith(".sleep") and isinstance(first, Literal) and first.value in (0, 0.0)


def is_keyed(values: tuple[Value, ...], named: tuple[tuple[str, Value], ...]) -> bool:
    """Whether among the arguments of a call stands a key by which a repetition is known as one, or may stand one."""
    hidden = any(name in _HIDING and not isinstance(value, (Mapping, Literal)) for name, value in named)
    return hidden or any(_is_key(name) for name, _ in named) or any(_holds_key(value, 3) for value in values)


#: What holds keys, where it is not written out at the call; and other arguments, by whatever names.
_HIDING = names("headers properties attributes extra_headers ** options")
_KEYS = (
    "msgid",
    "messageid",
    "requestid",
    "eventid",
    "jobid",
    "taskid",
    "externalid",
    "deliveryid",
    "outboxid",
    "uuid",
)


def _is_key(word: str) -> bool:
    folded = word.lower().replace("-", "").replace("_", "")
    one = folded.removesuffix("s")
    return "idempot" in folded or "dedup" in folded or one in ("nonce", "reference") or one.endswith(_KEYS)


def _holds_key(value: Value, deep: int) -> bool:
    if isinstance(value, Text):
        return False
    if isinstance(value, Mapping) and value.open and not value.pairs:
        return True
    pairs = value.pairs if isinstance(value, Mapping) else ()
    if any(isinstance(key, Text) and _is_key(key.value) for key, _ in pairs):
        return True
    inner = value.items if isinstance(value, Items) else tuple(item for _, item in pairs)
    made = (*value.arguments, *(item for _, item in value.keywords)) if isinstance(value, Made) else ()
    return deep > 0 and any(_holds_key(item, deep - 1) for item in (*inner, *made))


def tells_row(values: tuple[Value, ...], deep: int = 3) -> bool:
    """Whether among the arguments of a call is something of a row: a column of an object that stands for it."""
    return any(_is_of_row(value, deep) for value in values)


def _is_of_row(value: Value, deep: int) -> bool:
    if isinstance(value, Field) or (isinstance(value, Made) and value.name == FIELD):
        return True
    inner: tuple[Value, ...] = ()
    if isinstance(value, Items):
        inner = value.items
    elif isinstance(value, Mapping):
        inner = tuple(item for _, item in value.pairs)
    elif isinstance(value, Made):
        inner = value.arguments
    return deep > 0 and tells_row(inner, deep - 1)
