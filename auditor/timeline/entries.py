"""What kind of entry point a function is: how the framework that calls it has prepared its connections."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from auditor.program.code import FunctionInfo
    from auditor.timeline.objects import Objects


class Entry(enum.Enum):
    """Who calls a function that nothing in the program is seen to call."""

    COMMAND = "management command"
    TASK = "task"  #: run by a worker process, one after the other
    MIDDLEWARE = "middleware"
    VIEW = "view"
    SCRIPT = "script"
    OTHER = "whoever uses it"


_TASKS = frozenset({"shared_task", "task", "db_task", "periodic_task", "db_periodic_task", "actor", "job"})
_COMMANDS = frozenset({"BaseCommand", "AppCommand", "LabelCommand"})
_COMMAND_METHODS = frozenset({"handle", "handle_label", "handle_app_config"})
#: What Django calls of a middleware; all of them run outside the transaction of a view.
_MIDDLEWARE_METHODS = frozenset(
    {"__call__", "process_request", "process_view", "process_response", "process_exception", "__acall__"}
)
_VIEW_METHODS = frozenset({"get", "post", "put", "patch", "delete", "head", "options", "dispatch"})


def entry_of(info: FunctionInfo, objects: Objects) -> Entry:
    """What calls the function when nothing of the program does."""
    name, owner = info.node.name, info.owner
    if info.decorator_names & _TASKS:
        return Entry.TASK
    parameters = [parameter.name for parameter in info.node.parameters]
    if owner is None:
        return Entry.VIEW if parameters[:1] == ["request"] else Entry.OTHER
    bases = {base.rpartition(".")[2] for base in objects.library_names(owner)}
    if name in _COMMAND_METHODS and bases & _COMMANDS:
        return Entry.COMMAND
    if name == "run" and "Task" in bases:
        return Entry.TASK
    if name in _MIDDLEWARE_METHODS and ("MiddlewareMixin" in bases or owner.node.name.endswith("Middleware")):
        return Entry.MIDDLEWARE
    if name in _VIEW_METHODS and parameters[1:2] == ["request"]:
        return Entry.VIEW
    return Entry.OTHER
