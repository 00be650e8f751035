"""What kind of entry point a function is: how the framework that calls it has prepared its connections."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from auditor.program.signals import OF_CONNECTIONS, OF_TASKS
from auditor.python import nodes

if TYPE_CHECKING:
    from auditor.program.code import ClassInfo, FunctionInfo
    from auditor.timeline.walking.objects import Objects


class Entry(enum.Enum):
    """Who calls a function that nothing in the program is seen to call."""

    COMMAND = "management command"
    TASK = "task"  #: run by a worker process, one after the other
    MIDDLEWARE = "middleware"
    VIEW = "view"
    SCRIPT = "script"
    CONNECTED = "listener to connections that were just opened"
    WRITTEN = "listener to rows that were just written"
    OTHER = "whoever uses it"


_TASKS = frozenset({"shared_task", "task", "db_task", "periodic_task", "db_periodic_task", "actor", "job"})
_TASK_METHODS = {
    "Task": frozenset({"run", "__call__", "before_start", "after_return", "on_success", "on_failure", "on_retry"}),
    "Middleware": frozenset({"before_process_message", "after_process_message", "after_skip_message"}),
}
_COMMANDS = frozenset({"BaseCommand", "AppCommand", "LabelCommand"})
#: What Django calls of a middleware; all of them run outside the transaction of a view.
_MIDDLEWARE_METHODS = frozenset(
    {"__call__", "process_request", "process_view", "process_response", "process_exception", "__acall__"}
)
#: What Django, and the REST framework on top of it, call of a view with the request, and of what a view asks.
_VIEW_METHODS = frozenset(
    {"get", "post", "put", "patch", "delete", "head", "options", "dispatch", "setup"}
    | {"initial", "initialize_request", "authenticate", "has_permission", "has_object_permission", "finalize_response"}
    | {"list", "create", "retrieve", "update", "partial_update", "destroy"}
)


#: What a factory of middleware is given.
_DJANGO, _PYRAMID = ["get_response"], ["handler", "registry"]


def is_task(info: FunctionInfo) -> bool:
    """Whether a worker process runs the function, by its decorator."""
    return bool(info.decorator_names & _TASKS)


def entry_of(info: FunctionInfo, objects: Objects) -> Entry:
    """What calls the function when nothing of the program does."""
    name, owner = info.node.name, info.owner
    signals = objects.walker.program.listeners.get(info, frozenset())
    if is_task(info) or signals & OF_TASKS:
        return Entry.TASK
    if signals & OF_CONNECTIONS:
        return Entry.CONNECTED
    parameters = [parameter.name for parameter in info.node.parameters]
    if owner is None:
        if makes_middleware(info):
            return Entry.MIDDLEWARE
        return Entry.VIEW if parameters[:1] == ["request"] else Entry.OTHER
    bases = {base.rpartition(".")[2] for base in objects.library_names(owner)}
    if bases & _COMMANDS:
        return Entry.COMMAND  # be it handle() or what that leads to: the process is the command's own
    if any(name in methods and base in bases for base, methods in _TASK_METHODS.items()):
        return Entry.TASK
    if name in _MIDDLEWARE_METHODS and (_is_middleware(owner) or "MiddlewareMixin" in bases):
        return Entry.MIDDLEWARE
    if name in _VIEW_METHODS and parameters[1:2] == ["request"]:
        return Entry.VIEW
    return Entry.OTHER


def makes_middleware(info: FunctionInfo) -> bool:
    """Whether a function is given what comes after it, and returns what is called with each request."""
    return info.owner is None and [one.name for one in info.node.parameters] in (_DJANGO, _PYRAMID)


def _is_middleware(owner: ClassInfo) -> bool:
    made = owner.members.get("__init__")
    given = [parameter.name for parameter in made.parameters] if isinstance(made, nodes.Function) else []
    return owner.node.name.endswith("Middleware") or "get_response" in given
