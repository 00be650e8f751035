"""What differs from job to job, or from request to request, wherever in the program it is asked for."""

from __future__ import annotations

from auditor.timeline.model.values import Bound, Either, External, Items, Made, Mapping, Text, Value

#: What a context variable gives that was set for the job in hand.
OF_CONTEXT = "contextvars.ContextVar.get"
#: What belongs to whoever asks: a thread, a task, a request.
_OF_TASK = (OF_CONTEXT, "threading.local", "asgiref.local.Local", "werkzeug.local.Local", "flask.g", "flask.request")


def of_task(value: Value) -> bool:
    """Whether a value is computed from what only the job in hand, or its request, can have put there."""
    if isinstance(value, (Made, External)):
        given = (*value.arguments, *(item for _, item in value.keywords)) if isinstance(value, Made) else ()
        return _names(value.name) or any(of_task(item) for item in given)
    if isinstance(value, Bound):
        return of_task(value.receiver)
    if isinstance(value, Text):
        return any(of_task(hole) for hole in value.holes)
    if isinstance(value, Either):
        return any(of_task(option) for option in value.options)
    if isinstance(value, Items):
        return any(of_task(item) for item in value.items)
    return isinstance(value, Mapping) and any(of_task(item) for _, item in value.pairs)


def _names(name: str) -> bool:
    return any(name == known or name.startswith(f"{known}.") for known in _OF_TASK)
