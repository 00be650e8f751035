"""Who listens to the signals of Django, Celery and Huey: told by decorators and by `signal.connect(function)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.program.tree import descend, last_name
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.program.code import FunctionInfo, ModuleInfo

#: Told before, during and after each task.
OF_TASKS = frozenset(
    {"task_prerun", "task_postrun", "task_success", "task_failure", "task_retry", "task_received"}
    | {"pre_execute", "post_execute"}
)
#: Told once a task is over, and once a request is.
AFTER_TASK = frozenset({"task_postrun", "post_execute"})
AFTER_REQUEST = frozenset({"request_finished"})
#: Told of a connection that has just been opened.
OF_CONNECTIONS = frozenset({"connection_created"})
#: Told of a row that was deleted, before the transaction is committed in which Django deletes it and what hangs on it.
OF_DELETIONS = frozenset({"post_delete"})
_KNOWN = OF_TASKS | AFTER_REQUEST | OF_CONNECTIONS | OF_DELETIONS


def listeners_in(modules: Iterable[ModuleInfo]) -> dict[FunctionInfo, frozenset[str]]:
    """The functions that listen to one of these signals, with the signals."""
    found: dict[FunctionInfo, frozenset[str]] = {}
    connected: dict[str, frozenset[str]] = {}
    modules = tuple(modules)
    for module in modules:
        if module.words.names.isdisjoint(_KNOWN):
            continue
        for function in module.functions():
            signals = frozenset(_decorating(function))
            if signals:
                found[function] = signals
        for name, signal in _connecting(module):
            connected[name] = connected.get(name, frozenset()) | {signal}
    for module in modules if connected else ():
        for function in module.functions():
            signals = connected.get(function.node.name, frozenset())
            if signals and not function.nested:
                found[function] = found.get(function, frozenset()) | signals
    return found


def _decorating(function: FunctionInfo) -> Iterator[str]:
    """`@task_prerun.connect`, `@receiver(connection_created)`, `@huey.signal(…)`."""
    for decorator in function.node.decorators:
        call = decorator if isinstance(decorator, nodes.Call) else None
        target = call.function if call is not None else decorator
        if isinstance(target, nodes.Attribute) and target.name == "connect":
            yield from {last_name(target.value)} & _KNOWN
        elif call is not None and last_name(target) == "receiver":
            named = {last_name(part) for argument in call.arguments for part in descend(argument)}
            yield from sorted(named & _KNOWN)
        else:
            yield from {last_name(target)} & {"pre_execute", "post_execute"}


def _connecting(module: ModuleInfo) -> Iterator[tuple[str, str]]:
    """`signal.connect(function)`: the name of the function, and the signal."""
    for part in descend(module.facts.module.body):
        if isinstance(part, nodes.Call) and isinstance(part.function, nodes.Attribute) and part.arguments:
            signal = last_name(part.function.value)
            if part.function.name == "connect" and signal in _KNOWN:
                yield last_name(part.arguments[0]), signal
