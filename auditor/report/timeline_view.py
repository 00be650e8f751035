"""What the audit understood of the code: for each entry point its connections, transactions, statements and tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.timeline.model.events import (
    Began,
    Ended,
    Event,
    Handover,
    JobEnded,
    Opened,
    Ran,
    Reached,
    Repeated,
    Worked,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TextIO

    from auditor.findings import Place
    from auditor.timeline import Timeline
    from auditor.timeline.model.connection import ConnectionState, Mark
    from auditor.timeline.model.state import Trace
    from auditor.timeline.walking.roots import Root

_WIDTH = 60


def show(timeline: Timeline, function: str | None, stream: TextIO) -> None:
    """Write the timeline of every entry point, or of those whose name ends in `function`."""
    shown = 0
    reported = {file.path for file in timeline.program.inventory.files if file.role.value != "context"}
    for root in timeline.roots:
        if root.place.path not in reported or (function is not None and not _is_named(root.name, function)):
            continue
        lines = list(_lines_of(root))
        if not lines:
            continue
        shown += 1
        print(f"{_at(root.place)}  {root.name}", file=stream)
        for line in lines:
            print(f"  {line}".rstrip(), file=stream)
        print(file=stream)
    if not shown:
        what = f"no entry point named {function} runs" if function is not None else "nothing here runs"
        print(f"{what} statements that the audit follows", file=stream)


def _is_named(name: str, function: str) -> bool:
    return name == function or name.endswith(f".{function}")


def _lines_of(root: Root) -> Iterator[str]:
    """The way through an entry point that sees most, then what its failures undo."""
    ends = [trace for how, trace in root.ways if how == "end" and trace is not None]
    failures = [trace for how, trace in root.ways if how == "raise" and trace is not None]
    if root.given_up:
        yield "has more paths than are followed: nothing is said of it"
        return
    longest = max(ends or failures, key=lambda trace: trace.length, default=None)
    if longest is None:
        return
    numbers: dict[int, int] = {}
    begun: set[int] = set()
    for event in _events(longest):
        yield from _line(event, numbers, begun)
    undone = dict.fromkeys(line for trace in [*ends, *failures] for line in _undone(_events(trace)))
    yield from undone


def _events(trace: Trace) -> list[Event]:
    events: list[Event] = []
    step: Trace | None = trace
    while step is not None:
        events.append(step.event)
        step = step.before
    return events[::-1]


def _line(event: Event, numbers: dict[int, int], begun: set[int]) -> Iterator[str]:
    """What one event looks like. `begun` are the connections in a transaction that the driver has begun."""
    if isinstance(event, (Opened, Began, Ended, Ran, Handover)):
        number = numbers.setdefault(event.connection, len(numbers) + 1)
    if isinstance(event, Opened):
        how = "borrowed from its pool" if event.after.pool is not None else "opened"
        yield f"connection {number}  {_at(event.place)}  {how}: {_facts(event.after)}"
    elif isinstance(event, Began):
        yield f"  {number} │ {_at(event.place)}  {'savepoint' if event.savepoint else 'begin'}"
    elif isinstance(event, Ran):
        if event.before.begun == event.place and event.connection not in begun:
            begun.add(event.connection)
            yield f"  {number} │ {_at(event.place)}  begin, by the driver"
        yield f"  {number} │ {_at(event.place)}  {_short(event.text)}  {_as(event)}".rstrip()
    elif isinstance(event, Ended):
        begun.discard(event.connection)
        yield f"  {number} │ {_at(event.place)}  {event.how}, by {event.by}"
    elif isinstance(event, Handover):
        yield f"  {number} │ {_at(event.place)}  handed on: {_settings(event.after) or 'no tenant'}"
    elif isinstance(event, Worked):
        yield f"    │ {_at(event.place)}  work: {event.what}"
    elif isinstance(event, Repeated):
        yield f"    │ {_at(event.place)}  reaches {event.reach.what} for the job, with no key of it"
    elif isinstance(event, Reached):
        yield f"    │ {_at(event.at)}  waits for {event.reach.what}, with rows or a snapshot held"
    elif isinstance(event, JobEnded):
        kept = ", ".join(sorted({mark.deed.value for mark in event.kept})) or "nothing"
        yield f"    │ {_at(event.place)}  the job ends; for good: {kept}"


def _undone(events: Iterable[Event]) -> Iterator[str]:
    """What rollbacks on a way take away."""
    for event in events:
        if isinstance(event, Ended) and event.how in ("rollback", "rollback to") and event.after.undone:
            what = ", ".join(f"{mark.deed.value} ({_at(mark.place)})" for mark in _in_order(event.after.undone))
            cause = f"if {_at(event.before.aborted_at)} fails: " if event.before.aborted_at is not None else ""
            yield f"{cause}{event.how} at {_at(event.place)}, by {event.by}, undoes {what}"


def _in_order(marks: tuple[Mark, ...]) -> list[Mark]:
    return sorted(marks, key=lambda mark: (mark.place.path, mark.place.line))


def _facts(connection: ConnectionState) -> str:
    """Driver, autocommit and how sure it all is."""
    words = [connection.driver, f"autocommit {connection.autocommit.value}"]
    if connection.prepares_after is not None:
        words.append(f"prepares after {connection.prepares_after}")
    return ", ".join(words)


def _as(event: Ran) -> str:
    """As whom a statement runs, and in which transaction status when that is not plainly open."""
    words = []
    tenant = _settings(event.before)
    if tenant:
        words.append(f"as {tenant}")
    if event.before.status.value == "idle":
        words.append("autocommit")
    elif event.before.status.value != "open":
        words.append(event.before.status.value)
    if event.before.savepoints:
        words.append(f"savepoint {len(event.before.savepoints)}")
    return f"[{'; '.join(words)}]" if words else ""


def _settings(connection: ConnectionState) -> str:
    held = [(setting.name, setting.current) for setting in connection.settings]
    return ", ".join(
        f"{name} = {value.value}{' (local)' if value.local else ' (session)'}" for name, value in held if value.is_value
    )


def _short(text: str) -> str:
    line = " ".join(text.replace("\ue000", "{").replace("\ue001", "}").split())
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


def _at(place: Place) -> str:
    return f"{place.path}:{place.line}"
