"""What calls into the standard library and the drivers' helpers come to; everything else is not followed."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import Thing
from auditor.program.catalogue import UNNAMED
from auditor.timeline.computing import files, strings
from auditor.timeline.computing.texts import join_texts, text_of
from auditor.timeline.leaving.outside import dotted, is_of_table
from auditor.timeline.model.rendered import rendered
from auditor.timeline.model.state import Flow
from auditor.timeline.model.values import (
    NONE,
    TRUE,
    UNKNOWN,
    Asked,
    Bound,
    Class,
    Clause,
    Connection,
    Cursor,
    External,
    Function,
    Instance,
    Items,
    Literal,
    Made,
    Mapping,
    Pending,
    Pool,
    Query,
    Quoted,
    Row,
    Text,
    Unknown,
    Value,
    either,
    from_row,
    options_of,
)
from auditor.timeline.model.varying import OF_CONTEXT
from auditor.timeline.walking import by_path
from auditor.timeline.walking.told_apart import is_of_driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from auditor.timeline.model.invocation import Invocation
    from auditor.timeline.model.state import State
    from auditor.timeline.walking.evaluate import Results
    from auditor.timeline.walking.walker import Walker

_RUNS_COROUTINE = frozenset(
    {"run", "run_until_complete", "wait_for", "shield", "run_coroutine_threadsafe", "timeout_at", "ensure_awaited"}
)
_RUNS_FUNCTION = frozenset({"to_thread", "run_sync", "start", "run_in_threadpool"})
_SPAWNS = frozenset({"create_task", "ensure_future", "start_soon", "submit", "apply_async", "call_soon", "call_later"})
_STARTS = frozenset(
    {"threading.Thread", "threading.Timer", "multiprocessing.Process", "multiprocessing.context.Process"}
)
_ENDS_PROCESS = frozenset({"os._exit", "os.abort", "os.execv"})
_EXITS = frozenset({"sys.exit", "builtins.exit", "builtins.quit"})
#: Functions that make a statement of a string.
_TEXTS = (
    "sqlalchemy.text",
    "sqlalchemy.sql.text",
    "sqlalchemy.sql.expression.text",
    "sqlmodel.text",
    "sqlalchemy.DDL",
    "sqlalchemy.schema.DDL",
)
_SAME = frozenset(
    {
        "typing.cast",
        "copy.copy",
        "copy.deepcopy",
        "builtins.iter",
        "builtins.list",
        "builtins.tuple",
        "builtins.set",
        "builtins.frozenset",
        "builtins.sorted",
        "builtins.reversed",
        "builtins.aiter",
        "asgiref.sync.sync_to_async",
        "asgiref.sync.async_to_sync",
        "types.MappingProxyType",
        "contextlib.aclosing",
    }
)
#: Decorators and factories of the standard library that give back the function they are given.
_TRANSPARENT = frozenset({"functools.wraps", "functools.lru_cache", "functools.cache", "functools.update_wrapper"})
_STANDARD = frozenset(sys.stdlib_module_names) | {
    "builtins",
    "structlog",
    "loguru",
    "opentelemetry",
    "prometheus_client",
}


class Library:
    """Models library calls on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._known: dict[str, Callable[[Invocation], Results]] = {
            "functools.partial": self._partial,
            "functools.partialmethod": self._partial,
            "asyncio.gather": self._gather,
            "textwrap.dedent": self._dedent,
            "inspect.cleandoc": self._dedent,
            "builtins.str": self._str,
            "builtins.dict": self._dict,
            "builtins.getattr": self._getattr,
            "builtins.isinstance": self._isinstance,
            "builtins.hasattr": self._hasattr,
            "builtins.setattr": self._setattr,
            "builtins.next": self._next,
            "builtins.anext": self._next,
            "builtins.enumerate": self._enumerate,
            "builtins.zip": self._zip,
            "builtins.len": self._len,
            "psycopg.sql.SQL": self._sql,
            **dict.fromkeys(_TEXTS, self._statement),
            "sqlalchemy.event.listen": self._listen,
            **dict.fromkeys(by_path.FINDERS, self._by_path),
            "psycopg2.sql.SQL": self._sql,
            "psycopg.sql.Composed": self._composed,
            "psycopg2.sql.Composed": self._composed,
        }
        for package in ("psycopg", "psycopg2"):
            self._known[f"{package}.sql.Identifier"] = self._identifier
            self._known[f"{package}.sql.Literal"] = self._literal
            self._known[f"{package}.sql.Placeholder"] = self._placeholder

    def _of_driver(self, name: str, call: Invocation) -> Results | None:
        built = self.walker.mapper.function(name, call)
        if built is not None:
            return [(call.state, built)]
        made = drivers.made_by(name)
        return self.walker.database.connecting.make(made[0], made[1], call) if made is not None else None

    @staticmethod
    def _statement(call: Invocation) -> Results:
        options = options_of(call.argument(0, "text", "statement"))
        made: list[Value] = [Clause(one, whole=True) if isinstance(one, Text) else one for one in options]
        return [(call.state, either(made))]

    def _listen(self, call: Invocation) -> Results:
        target, event, listener = call.argument(0, "target"), call.argument(1, "identifier"), call.argument(2, "fn")
        self.walker.database.sessions.listeners.listen(target, event, listener)
        return [(call.state, NONE)]

    def call(self, name: str, call: Invocation) -> Results:
        """A call of a library's callable, by its dotted name."""
        self.walker.after_writes.connect(External(name), call)
        call = call.at(self.walker.scout.meet(External(name), call))
        made = self.walker.upgrades.call(name, call) or self._of_driver(name, call)
        if made is not None:
            return made
        held = self.walker.database.held.call(name, call) or self._kept(name, call)
        if held is not None:
            return held
        for driver in drivers.DRIVERS:
            if name in driver.helpers:
                return self.walker.database.helper(driver.helpers[name], call)
        known = self._known.get(name)
        if known is not None:
            return known(call)
        if name in _SAME:
            return self._itself(call)
        if name in _ENDS_PROCESS:
            return []
        if name in _EXITS:
            raised = self.walker.raised("raise", External("builtins.SystemExit"), call.span, call.frame)
            call.flow.raises.append((call.state, raised))
            return []
        if name in _STARTS:
            self._start(call)
            return [(call.state, Made(name))]
        ran = self._runs(name.rpartition(".")[2], call) if _may_run(name) else None
        if ran is not None:
            return ran
        found = files.call(name, call, self.walker.program)
        if found is not None:
            return [(call.state, found)]
        return self._made(name, call)

    def _kept(self, name: str, call: Invocation) -> Results | None:
        """`g.pop("conn", None)`: what was kept there before."""
        owner, _, method = name.rpartition(".")
        kept = self.walker.scratch.method(External(owner), method, call.positional, call.state)
        return None if kept is None else [(call.state, kept)]

    def _itself(self, call: Invocation) -> Results:
        """What is made of a value is that value again, with its rows where a query has none yet."""
        last = call.positional[-1] if call.positional else UNKNOWN
        if isinstance(last, Asked):
            return self.walker.records.send(last, call, many=True)
        return self.walker.models.rows(last, call) if isinstance(last, Query) else [(call.state, last)]

    def method(self, callee: Bound, call: Invocation) -> Results:
        """A method of an object of a library, or of something unknown."""
        self.walker.after_writes.connect(callee, call)
        call = call.at(self.walker.scout.meet(callee, call))
        ran = self._runs(callee.name, call)
        if ran is not None:
            return ran
        built = self.walker.mapper.of_table(callee.receiver, callee.name, call)
        if built is not None:
            return [(call.state, built)]
        found = files.method(callee.receiver, callee.name, call, self.walker.program)
        if found is not None:
            return [(call.state, found)]
        if strings.doubles_quotes(callee.name, call.positional):
            return [(call.state, Quoted(callee.receiver, identifier=False))]
        if isinstance(callee.receiver, Made):
            variable = self._context_variable(callee.receiver, callee.name, call)
            if variable is not None:
                return variable
        results = self.walker.unseen.opaque(callee, call)
        row = from_row(callee.receiver)
        name = dotted(callee)
        if name is not None and is_of_table(name):
            made = Made(name, row=row or any(from_row(value) for value in call.everything))
            return [(state, made) for state, _ in results]
        statement = rendered(callee.name, call)
        if statement is not None:
            return [(state, statement) for state, _ in results]
        return [(state, Unknown(row=True) if row else value) for state, value in results]

    def attribute(self, receiver: Made, name: str, state: State) -> Value:
        """An attribute of an object of a library: one that was set on it, a path's parts, else a method."""
        if receiver.key:
            kept = state.get(receiver.key, name) or self.walker.names.base_attribute(receiver.key, name)
            if kept is not None:
                return kept
            if receiver.name == "application.state":
                kept = self.walker.scratch.declared(f"state.{name}")
                if kept is not None:
                    return kept
            elif name in ("state", "ctx"):
                return self.application_state()
            if receiver.name == "flask_sqlalchemy.SQLAlchemy":
                return self._of_application(receiver, name)
        part = files.attribute(receiver, name) or self.walker.mapper.attribute(receiver, name)
        return part if part is not None else Bound(receiver, name)

    def _of_application(self, receiver: Made, name: str) -> Value:
        """`db.session`, `db.engine`, and what such an object gives of SQLAlchemy itself."""
        driver = drivers.by_name("sqlalchemy")
        if name == "Model":
            return Made("flask_sqlalchemy.Model", key=receiver.key)
        if name in ("session", "engine") and driver is not None:
            thing = Thing.NULL_POOL if self._keeps_none(receiver) else Thing.POOL
            return self.walker.database.sessions.of_application(driver, receiver.key, name, thing)
        return External(f"sqlalchemy.orm.{name}" if name in ("relationship", "Session") else f"sqlalchemy.{name}")

    def _keeps_none(self, extension: Made) -> bool:
        """Whether the engine of an application is asked to keep no connections, in the code or its configuration."""
        options = dict(extension.keywords).get("engine_options")
        pool = options.get(Text("poolclass")) if isinstance(options, Mapping) else None
        named = isinstance(pool, External) and pool.name.rpartition(".")[2] == "NullPool"
        return named or self.walker.program.configures_null_pool

    def application_state(self) -> Value:
        """`app.state`, and `request.app.state`: where a web application keeps what it opens when it starts."""
        return Made("application.state", key=self.walker.keys.of("application state"))

    # Calls that run what they are given

    def _runs(self, name: str, call: Invocation) -> Results | None:
        """Calls that run a coroutine or function: now, or beside what is walked."""
        first = call.argument(0)
        runnable = isinstance(first, (Function, Pending, Bound, Instance))
        if name in _SPAWNS and runnable:
            self.walker.coroutines.spawn(first, call.passing(*call.positional[1:], named=call.named))
            return [(call.state, Made("task"))]
        if name in _RUNS_COROUTINE and isinstance(first, Pending):
            return self.walker.coroutines.awaited(first, call)
        if name == "run" and isinstance(first, Function):
            # anyio.run and trio.run take the function and its arguments.
            return self._run_now(first, call.passing(*call.positional[1:]))
        if name == "run_in_executor" and len(call.positional) > 1:
            return self._run_now(call.positional[1], call.passing(*call.positional[2:]))
        if name in _RUNS_FUNCTION and isinstance(first, Function):
            return self._run_now(first, call.passing(*call.positional[1:], named=call.named))
        if name == "map" and isinstance(first, Function) and len(call.positional) > 1:
            for element in self.walker.elements(call.positional[1])[:4]:
                self.walker.coroutines.spawn(first, call.passing(element))
            return [(call.state, UNKNOWN)]
        return None

    def _run_now(self, function: Value, call: Invocation) -> Results:
        return [
            result
            for after, value in self.walker.calls.apply(function, call)
            for result in self.walker.coroutines.awaited(value, call.at(after))
        ]

    def _start(self, call: Invocation) -> None:
        target = call.argument(1, "target", "function")
        arguments = call.argument(3, "args")
        named = call.argument(4, "kwargs")
        passed = arguments.items if isinstance(arguments, Items) else ()
        keywords = (
            tuple((key.value, value) for key, value in named.pairs if isinstance(key, Text))
            if isinstance(named, Mapping)
            else ()
        )
        self.walker.coroutines.spawn(target, call.passing(*passed, named=keywords))

    def _gather(self, call: Invocation) -> Results:
        ways: list[tuple[State, tuple[Value, ...]]] = [(call.state, ())]
        for value in call.positional:
            ways = [
                (after, (*got, result))
                for before, got in ways
                for after, result in self.walker.coroutines.awaited(value, call.at(before))
            ]
        return [(after, Items("list", got)) for after, got in ways]

    # What is not followed

    def _made(self, name: str, call: Invocation) -> Results:
        key = self.walker.keys.of("made", call.frame.key, call.span)
        row = any(from_row(value) for value in call.everything)
        made = Made(name, call.positional, call.named, row, key)
        for value in call.everything:
            if isinstance(value, Function) and value.info.is_manager:
                self._stands_around(value, made, call)
        if name.partition(".")[0] in _STANDARD or name in _TRANSPARENT:
            return [(call.state, made)]
        value = rendered(name.rpartition(".")[2], call) or made
        return [(state, value) for state, _ in self.walker.unseen.opaque(External(name), call)]

    def _stands_around(self, manager: Function, made: Made, call: Invocation) -> None:
        """An application is made with what stands around its life: what that opens is there for every request."""

        def on_yield(state: State, value: Value, flow: Flow) -> list[State]:
            # What it yields is found in the state of each request.
            for key, held in value.pairs if isinstance(value, Mapping) else ():
                if isinstance(key, Text):
                    state = state.bind(self.walker.scratch.key, f"state.{key.value}", held)
            self.walker.names.keep(state)
            return [state]

        apart = call._replace(positional=(made,), named=(), flow=Flow())
        with self.walker.as_root(f"start {manager.info.dotted}", lasting=True):
            self.walker.calls.run(manager, apart, on_yield)

    def _context_variable(self, receiver: Made, name: str, call: Invocation) -> Results | None:
        if receiver.name != "contextvars.ContextVar" or not receiver.key:
            return None
        if name == "set":
            return [(call.state.bind(receiver.key, "value", call.argument(0)), UNKNOWN)]
        if name == "get":
            held = call.state.get(receiver.key, "value")
            self.walker.database.used += 1  # a function that only hands it on gives another thing on another path
            return [(call.state, Made(OF_CONTEXT) if held in (None, UNKNOWN) else held)]
        return None

    # Builtins and small helpers

    def _partial(self, call: Invocation) -> Results:
        first = call.argument(0)
        if not isinstance(first, Function):
            return [(call.state, first)]
        arguments = (*first.arguments, *call.positional[1:])
        return [(call.state, replace(first, arguments=arguments, keywords=(*first.keywords, *call.named)))]

    def _dedent(self, call: Invocation) -> Results:
        first = call.argument(0)
        return [(call.state, strings.dedent(first) if isinstance(first, Text) else first)]

    def _str(self, call: Invocation) -> Results:
        first = call.argument(0)
        if isinstance(first, (Text, Literal)):
            return [(call.state, text_of(first))]
        return [(call.state, first if first == UNKNOWN else Text("\ue0000\ue001", (first,)))]

    def _by_path(self, call: Invocation) -> Results:
        return [(call.state, by_path.found(call, self.walker))]

    def _dict(self, call: Invocation) -> Results:
        first = call.argument(0, default=Mapping(()))
        if isinstance(first, Row) and not first.many and not call.named:
            return [(call.state, first)]  # a row's columns under their names
        if not isinstance(first, Mapping) and from_row(first):
            return [(call.state, Unknown(row=True))]
        pairs = first.pairs if isinstance(first, Mapping) else ()
        named = tuple((Text(name), value) for name, value in call.named)
        return [(call.state, Mapping((*pairs, *named), not isinstance(first, Mapping) or first.open))]

    def _getattr(self, call: Invocation) -> Results:
        name = call.argument(1)
        if not isinstance(name, Text) or name.holes:
            return [(call.state, UNKNOWN)]
        kept = self.walker.scratch.asked(call.argument(0), name.value, call.positional[2:], call.state)
        if kept is not None:
            return [(call.state, kept)]
        ways = self.walker.objects.attribute(call.argument(0), name.value, call.state, call.frame, call.flow, call.span)
        return [(state, by_path.default(value, call)) for state, value in ways]

    def _setattr(self, call: Invocation) -> Results:
        target, value, ways = call.argument(0), call.argument(2), []
        for name in options_of(call.argument(1)):
            if isinstance(name, Text) and not name.holes:
                ways += self.walker.objects.set_attribute(
                    target, name.value, value, call.state, call.frame, call.flow, call.span
                )
            else:
                mapper = self.walker.mapper
                ways.append(mapper.changed(target, UNNAMED, value, call.state, call.frame, call.span))
        return [(way, NONE) for way in ways]

    def _isinstance(self, call: Invocation) -> Results:
        value, cls = call.argument(0), call.argument(1)
        if isinstance(value, Instance) and isinstance(cls, Class):
            return [(call.state, Literal(cls.info in self.walker.objects.lineage(value.info)))]
        if isinstance(value, Text) and isinstance(cls, External):
            return [(call.state, Literal(cls.name == "builtins.str"))]
        return [(call.state, is_of_driver(value, cls, self.walker))]

    def _hasattr(self, call: Invocation) -> Results:
        value, name = call.argument(0), call.argument(1)
        if not isinstance(name, Text) or name.holes:
            return [(call.state, UNKNOWN)]
        if isinstance(value, (Connection, Cursor, Pool)) and name.value in ("__enter__", "__exit__", "cursor"):
            return [(call.state, TRUE)]
        if isinstance(value, Instance) and self.walker.objects.class_member(value, name.value) is not None:
            return [(call.state, TRUE)]
        return [(call.state, UNKNOWN)]

    def _next(self, call: Invocation) -> Results:
        """`next(generator())` runs up to its first yield: its value is what counts, what follows does not happen."""
        first = call.argument(0)
        if not isinstance(first, Pending):
            return [(call.state, Unknown(row=from_row(first)))]
        reached: Results = []

        def on_yield(state: State, value: Value, flow: Flow) -> list[State]:
            reached.append((state, value))
            return []

        self.walker.coroutines.pending(first, call, on_yield)
        return reached or [(call.state, UNKNOWN)]

    def _enumerate(self, call: Invocation) -> Results:
        first = call.argument(0)
        elements = self.walker.elements(first)
        known = isinstance(first, Items) and not first.open
        pairs = tuple(Items("tuple", (UNKNOWN, element)) for element in elements)
        return [(call.state, Items("list", pairs, open=not known))]

    def _zip(self, call: Invocation) -> Results:
        columns = [self.walker.elements(value) for value in call.positional]
        known = all(isinstance(value, Items) and not value.open for value in call.positional)
        rows = tuple(Items("tuple", row) for row in zip(*columns, strict=False))
        return [(call.state, Items("list", rows, open=not known))]

    def _len(self, call: Invocation) -> Results:
        first = call.argument(0)
        if isinstance(first, Items) and not first.open:
            return [(call.state, Literal(len(first.items)))]
        return [(call.state, Made("builtins.len"))]

    # psycopg's sql module

    def _sql(self, call: Invocation) -> Results:
        texts: list[Value] = [replace(text_of(option), composed=True) for option in options_of(call.argument(0))]
        return [(call.state, either(texts))]

    def _identifier(self, call: Invocation) -> Results:
        names = call.positional[0] if len(call.positional) == 1 else Items("tuple", call.positional)
        return [(call.state, Quoted(names, identifier=True))]

    def _literal(self, call: Invocation) -> Results:
        return [(call.state, Quoted(call.argument(0), identifier=False))]

    def _placeholder(self, call: Invocation) -> Results:
        name = call.argument(0, "name", default=NONE)
        text = f"%({name.value})s" if isinstance(name, Text) and name.value else "%s"
        return [(call.state, Text(text, composed=True))]

    def _composed(self, call: Invocation) -> Results:
        parts = call.argument(0)
        if not isinstance(parts, Items):
            return [(call.state, UNKNOWN)]
        return [(call.state, replace(join_texts([text_of(part) for part in parts.items]), composed=True))]


def _may_run(name: str) -> bool:
    return name.partition(".")[0] in ("asyncio", "anyio", "trio", "concurrent", "starlette", "fastapi", "uvloop")
