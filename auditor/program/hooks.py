"""What a web framework or a task queue calls before and after each request or job, and what it calls for it.

Facts: Flask's pages "Application Structure and Lifecycle" and "Blueprints"; Quart, Sanic ("Middleware"), Litestar
("Life Cycle Hooks"), Bottle ("hook"), arq (`WorkerSettings`), Celery and Huey ("Signals") likewise.
Names are told apart, not what they are called on: of a hook only what it does to a connection matters.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from dataclasses import field
from typing import TYPE_CHECKING

from auditor.frozen import dataclass
from auditor.program.routers import receivers
from auditor.program.tree import descend, last_name, literal
from auditor.python import nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from auditor.program.code import FunctionInfo, ModuleInfo


class Cycle(enum.Enum):
    """What comes again and again."""

    REQUEST = "request"
    JOB = "job"


class Turn(enum.Enum):
    """When a function is called in a cycle."""

    BEFORE = "before"
    WORK = "work"
    AFTER = "after"


_HOOKS: dict[str, tuple[Cycle, Turn]] = {
    **dict.fromkeys(("before_request", "before_app_request", "on_request"), (Cycle.REQUEST, Turn.BEFORE)),
    **dict.fromkeys(("after_request", "after_app_request", "on_response"), (Cycle.REQUEST, Turn.AFTER)),
    **dict.fromkeys(
        ("teardown_request", "teardown_app_request", "teardown_appcontext", "after_response"),
        (Cycle.REQUEST, Turn.AFTER),
    ),
    **dict.fromkeys(("on_job_start", "task_prerun", "pre_execute"), (Cycle.JOB, Turn.BEFORE)),
    **dict.fromkeys(("on_job_end", "after_job_end", "task_postrun", "post_execute"), (Cycle.JOB, Turn.AFTER)),
}
#: Methods of middleware and of tasks, each by the name of a parameter that only such have.
_METHOD_HOOKS: dict[str, tuple[str, Cycle, Turn]] = {
    "pre_execute": ("message", Cycle.JOB, Turn.BEFORE),
    "post_execute": ("message", Cycle.JOB, Turn.AFTER),
    "before_process_message": ("message", Cycle.JOB, Turn.BEFORE),
    "after_process_message": ("message", Cycle.JOB, Turn.AFTER),
    "process_resource": ("resp", Cycle.REQUEST, Turn.BEFORE),
    "process_request": ("resp", Cycle.REQUEST, Turn.BEFORE),
    "process_response": ("resp", Cycle.REQUEST, Turn.AFTER),
}
#: Decorators and registrations that take the name of the hook as a text.
_BY_TEXT = frozenset({"middleware", "hook", "register_middleware", "add_hook"})
_TEXTS = {"request": "on_request", "response": "on_response"}
_ROUTES = frozenset({"route", "get", "post", "put", "patch", "delete", "websocket"})
_TASKS = frozenset({"shared_task", "task", "db_task", "periodic_task", "db_periodic_task", "actor", "job"})
#: Classes whose methods are called for a request.
_VIEWS = frozenset({"MethodView", "View", "Resource", "HTTPEndpoint", "HTTPMethodView", "RequestHandler"})
_METHODS = frozenset({"get", "post", "put", "patch", "delete"})
#: In a file that registers anything one of these words is seen.
_WORDS = frozenset(_HOOKS) | _BY_TEXT
#: Under these names a worker is told what it runs.
_FUNCTIONS = "functions"


@dataclass
class Hooks:
    """The functions that a framework calls, by the cycle and when in it."""

    _found: dict[tuple[Cycle, Turn], list[FunctionInfo]] = field(default_factory=lambda: defaultdict(list))
    turns: dict[FunctionInfo, tuple[Cycle, Turn]] = field(default_factory=dict)

    def add(self, function: FunctionInfo, cycle: Cycle, turn: Turn) -> None:
        if function not in self.turns:
            self.turns[function] = cycle, turn
            self._found[cycle, turn].append(function)

    def is_called_for(self, hook: FunctionInfo, work: FunctionInfo) -> bool:
        """Whether a hook is called for that work: a blueprint's own only for its own routes."""
        blueprint = _blueprint_of(hook)
        return not blueprint or blueprint in receivers(work)

    def of(self, cycle: Cycle, turn: Turn) -> list[FunctionInfo]:
        return self._found.get((cycle, turn), [])


def hooks_in(modules: Iterable[ModuleInfo]) -> Hooks:
    """The hooks of the modules; and, of cycles that have any, the functions that do the work."""
    modules = tuple(modules)
    found = Hooks()
    for module in modules:
        for function in module.functions():
            known = _METHOD_HOOKS.get(function.node.name) if function.owner is not None else None
            if known is not None and known[0] in {one.name for one in function.node.parameters}:
                found.add(function, *known[1:])
        if module.words.names.isdisjoint(_WORDS) and module.words.keywords.isdisjoint(_WORDS):
            continue
        for function in module.functions():
            for name in _names_of(function.node.decorators):
                found.add(function, *_HOOKS[name])
        for registered, name in _registered(module):
            meant = _meant(registered, module, modules)
            if meant is not None:
                found.add(meant, *_HOOKS[name])
    if found.turns:
        for function, cycle in _working(modules):
            found.add(function, cycle, Turn.WORK)
    return found


def _blueprint_of(hook: FunctionInfo) -> str:
    """The blueprint whose requests alone a hook is called for; empty where it is the application's."""
    for decorator in hook.node.decorators:
        if isinstance(decorator, nodes.Attribute) and "_app_" not in decorator.name:
            name = last_name(decorator.value)
            for bound in hook.module.bound.get(name, ()):
                made = bound.value if isinstance(bound, nodes.Assign) else None
                if isinstance(made, nodes.Call) and last_name(made.function) == "Blueprint":
                    return name
    return ""


def _names_of(decorators: tuple[nodes.Expression, ...]) -> Iterator[str]:
    """`@app.before_request`, `@task_prerun.connect`, `@huey.pre_execute()`, `@app.middleware("request")`."""
    for decorator in decorators:
        call = decorator if isinstance(decorator, nodes.Call) else None
        target = call.function if call is not None else decorator
        name = last_name(target)
        if name == "connect" and isinstance(target, nodes.Attribute):
            name = last_name(target.value)
        elif name in _BY_TEXT and call is not None:
            name = next(_texts(call), "")
        if name in _HOOKS:
            yield name


def _texts(call: nodes.Call) -> Iterator[str]:
    for argument in call.arguments:
        text = literal(argument) or ""
        yield _TEXTS.get(text, text)


def _registered(module: ModuleInfo) -> Iterator[tuple[str, str]]:
    """The name of a function, and of the hook it is registered for: `app.before_request(load)`, `on_job_start=load`."""
    for part in descend(module.facts.module.body):
        if isinstance(part, nodes.Call):
            yield from _by_call(part)
            for keyword, value in part.keywords:
                if keyword in _HOOKS:
                    yield last_name(value), keyword
        elif isinstance(part, nodes.Class):
            # arq: class WorkerSettings: on_job_start = load
            for inner in part.body:
                names = [one.id for one in inner.targets if isinstance(one, nodes.Name)] if _assigns(inner) else []  # type: ignore[union-attr]
                for name in names:
                    if name in _HOOKS:
                        yield last_name(inner.value), name  # type: ignore[union-attr]


def _assigns(part: nodes.Node) -> bool:
    return isinstance(part, nodes.Assign) and part.value is not None


def _by_call(call: nodes.Call) -> Iterator[tuple[str, str]]:
    function = call.function
    if not call.arguments or not isinstance(function, nodes.Attribute):
        return
    name = last_name(function.value) if function.name == "connect" else function.name
    if name in _BY_TEXT:
        name = next(_texts(call), "")
    if name in _HOOKS:
        yield from ((last_name(given), name) for given in call.arguments if not isinstance(given, nodes.Text))


def _meant(name: str, module: ModuleInfo, modules: tuple[ModuleInfo, ...]) -> FunctionInfo | None:
    """The function of that name: of the module itself, else the only one."""
    for one in module.functions():
        if one.node.name == name:
            return one
    others = [one for other in modules for one in other.functions() if one.node.name == name and not one.nested]
    return others[0] if len(others) == 1 else None


def _working(modules: tuple[ModuleInfo, ...]) -> Iterator[tuple[FunctionInfo, Cycle]]:
    """Views and tasks."""
    for module in modules:
        for function in module.functions():
            if function.decorator_names & _TASKS:
                yield function, Cycle.JOB
            elif _is_view(function):
                yield function, Cycle.REQUEST
        for name in _listed(module):
            meant = _meant(name, module, modules)
            if meant is not None:
                yield meant, Cycle.JOB


def _is_view(function: FunctionInfo) -> bool:
    if function.owner is not None:
        if function.node.name in _METHODS:
            return bool(function.owner.base_names & _VIEWS)
        return function.node.name.startswith("on_") and "resp" in {one.name for one in function.node.parameters}
    return any(
        isinstance(decorator, nodes.Call) and last_name(decorator.function) in _ROUTES
        for decorator in function.node.decorators
    )


def _listed(module: ModuleInfo) -> Iterator[str]:
    """`functions = [settle, func(archive)]` of a worker, in its class or its call."""
    if _FUNCTIONS not in module.words.names and _FUNCTIONS not in module.words.keywords:
        return
    for part in descend(module.facts.module.body):
        listed: nodes.Expression | None = None
        if isinstance(part, nodes.Assign) and any(last_name(target) == _FUNCTIONS for target in part.targets):
            listed = part.value
        elif isinstance(part, nodes.Call):
            listed = next((value for keyword, value in part.keywords if keyword == _FUNCTIONS), None)
        if isinstance(listed, nodes.Items):
            for item in listed.items:
                given = item.arguments[0] if isinstance(item, nodes.Call) and item.arguments else item
                yield last_name(given)
