"""Where a walk begins: scripts, and functions that nothing in the program is seen to call."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.findings import Place
from auditor.frozen import dataclass
from auditor.program.catalogue import UNNAMED
from auditor.program.migrations import only_takes_back
from auditor.program.revisions import is_revision
from auditor.python import nodes
from auditor.sql.queue import StepKind
from auditor.timeline.jobs.holds import taken_over
from auditor.timeline.jobs.offered import is_offered, is_relayed
from auditor.timeline.model import connection as change
from auditor.timeline.model.connection import Life, Status
from auditor.timeline.model.entries import Entry, entry_of, is_task
from auditor.timeline.model.events import Handover, JobEnded, Ran
from auditor.timeline.model.invocation import Invocation
from auditor.timeline.model.rights import is_for_tenant
from auditor.timeline.model.state import Flow, Frame, State, TooMuchError, Trace
from auditor.timeline.model.values import UNKNOWN, Class, External, Function, Key, Value, options_of
from auditor.timeline.walking.afterwards import Afterwards
from auditor.timeline.walking.cycles import Cycles
from auditor.timeline.walking.for_nobody import set_for_nobody
from auditor.timeline.walking.handed_out import HandedOut
from auditor.timeline.walking.provided import Provided
from auditor.timeline.walking.sql_functions import SqlFunctions
from auditor.timeline.walking.walker import BUDGET

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from auditor.program.code import ClassInfo, FunctionInfo, ModuleInfo
    from auditor.program.program import Program
    from auditor.progress import Progress
    from auditor.timeline.model.connection import ConnectionState
    from auditor.timeline.walking.walker import Walker

    Body = Callable[[State, Flow], list[State]]
    #: Functions that an entry point returns to whoever called it, with what their variables are then.
    Returned = dict[FunctionInfo, tuple[Function, State]]


@dataclass(frozen=True)
class Root:
    """An entry point that was walked: its ways out, each with how it ends and what led there."""

    name: str
    place: Place
    ways: tuple[tuple[str, Trace | None], ...]
    #: It has more paths than were followed.
    given_up: bool = False


class Roots:
    """Walks every entry point of a program."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self.program: Program = walker.program
        self.walked: list[Root] = []
        self._begun: set[FunctionInfo] = set()
        self._afterwards = Afterwards(walker)
        self._cycles = Cycles(walker)
        self._provided = Provided(walker)
        self._handed_out = HandedOut(walker)
        self._sql_functions = SqlFunctions(walker)

    def walk(self, progress: Progress) -> list[Root]:
        """Walk all of them: scripts first, then what nothing names, then what was not reached from those.

        Before anything else revisions are run: what they leave is what the program works on.
        """
        self.walker.upgrades.run()
        if not self.program.relevance.driven and self.program.config.default_driver is None:
            self._sql_functions.call()
            return []
        modules = [module for module in self.program.modules if not module.test or self.program.config.include_tests]
        modules = [module for module in modules if not is_revision(module)]
        for module in modules:
            if not self._is_alive(module):
                continue
            self._guarded(module.name, Place(module.path, 1), lambda module=module: self._load(module))  # type: ignore[misc]
        for module in modules:
            for script in _scripts(module):
                self._guarded(
                    module.name,
                    module.place(script.span),
                    lambda m=module, s=script: self._script(m, s),  # type: ignore[misc]
                    Entry.SCRIPT,
                )
        functions = list(self._functions(modules))
        for number, function in enumerate(functions):
            progress("walking", number, len(functions))
            self._unless_seen(function)
        for function in list(self.walker.names.handed):
            self._unless_seen(function)
        self._walk_listeners()
        self._walk_after_writes()
        self._sql_functions.call()
        self._walk_changes_of_jobs(modules)
        self._sql_functions.call()
        self._walk_tasks_of_tenants(modules)
        if self._claims_idly():
            for function in functions:
                if self._is_offered(function):
                    self._entry(function)
        return self.walked

    def _unless_seen(self, function: FunctionInfo) -> None:
        """Walk a function, unless it was walked, or cannot tell anything."""
        if self._is_unseen(function):
            self._entry(function)

    def _is_unseen(self, function: FunctionInfo) -> bool:
        """Whether a function was not walked so far, and can tell something."""
        seen = function in self.walker.calls.entered or function in self._begun
        return not seen and self._may_tell(function)

    def _walk_listeners(self) -> None:
        """Walk what listens to engines and sessions, on one of them that does nothing else."""
        for target, listener in self.walker.database.sessions.listeners.untold():
            if listener.info in self.program.telling:
                name, place = listener.info.dotted, listener.info.place
                self._guarded(name, place, lambda t=target, f=listener: self._listened(t, f))  # type: ignore[misc]

    def _listened(self, target: Key | None, listener: Function) -> list[tuple[str, State]]:
        info, start = listener.info, self.walker.names.start()
        frame = self.walker.names.module_frame(info.module)
        call = Invocation((), (), start, frame, Flow(), info.node.name_span)
        return [("end", end) for end in self.walker.database.sessions.listeners.come_by(target, call)]

    def _walk_after_writes(self) -> None:
        """Walk what is told of rows that were just written, in the transaction that wrote them."""
        for listener, of_django in list(self.walker.after_writes.listeners()):
            info = listener.info
            if info in self.program.telling:
                self._guarded(info.dotted, info.place, partial(self._told, listener, of_django), Entry.WRITTEN)

    def _told(self, listener: Function, of_django: bool) -> list[tuple[str, State]]:
        return [("end", end) for end in self.walker.after_writes.tell(listener, of_django)]

    def _walk_changes_of_jobs(self, modules: list[ModuleInfo]) -> None:
        """Walk what finishes, prolongs or brings back the jobs that were seen to be claimed."""
        claimed: dict[str, frozenset[str]] = {}
        for event in self.walker.events:
            if not isinstance(event, Ran):
                continue
            for step in event.steps:
                told = is_offered(step, event.symbol) or is_relayed(step, step.table, *event.symbol.split("."))
                if (told or step.kind is StepKind.CLAIM) and step.table:
                    claimed[step.table] = claimed.get(step.table, frozenset()) | {event.call.path}
        for lock in taken_over(self.walker.events):
            claimed[lock.table] = claimed.get(lock.table, frozenset()) | {lock.path}
        if not claimed:
            return
        from auditor.program.job_tables import Changing

        models = self._models_of(claimed.keys())
        changing = Changing(self.program, claimed, models)
        for function in self._left(modules):
            # An object of a model finds its connection by itself.
            given = self.walker.calls.parameters.by_use.is_given(function, models)
            if not (given or function.owner in models or self._has_connection(function)):
                continue
            if given or function in changing or self.walker.records.is_named(claimed, function):
                self._entry(function)

    def _left(self, modules: list[ModuleInfo]) -> Iterator[FunctionInfo]:
        """The functions of these modules and of all others but tests, each that was not walked until then."""
        known = set(modules)
        modules = [*modules, *(module for module in self.program.modules if module not in known and not module.test)]
        for function in list(self._functions(modules)):
            if function not in self.walker.calls.entered and function not in self._begun:
                yield function

    def _walk_tasks_of_tenants(self, modules: list[ModuleInfo]) -> None:
        """Walk the tasks that change tables which others change for a tenant, under a policy that asks for one."""
        changed: dict[str, frozenset[str]] = {}
        for event in self.walker.events:
            if isinstance(event, Ran) and is_for_tenant(self.program, event.before):
                for table in filter(self.program.catalogue.holds_tenants, event.tables):
                    changed[table] = changed.get(table, frozenset()) | {event.call.path}
        if not changed:
            return
        from auditor.program.job_tables import Changing

        changing = Changing(self.program, changed, self._models_of(changed.keys()))
        for function in self._left(modules):
            if is_task(function) and self._has_connection(function) and function in changing:
                self._entry(function)

    def _models_of(self, tables: Collection[str]) -> frozenset[ClassInfo]:
        """The classes that stand for tables, those that they are derived from, and those that make their queries."""
        found: set[ClassInfo] = set()
        for info in self.program.classes():
            if self.walker.models.managers.may_be_of(info, tables):
                found.update(self._stands_for(info, tables))
        return frozenset(found)

    def _stands_for(self, info: ClassInfo, tables: Collection[str]) -> list[ClassInfo]:
        """The class with those around it, where it stands for one of the tables."""
        try:
            with self.walker.within(BUDGET):
                return list(self._around_model(info, tables))
        except (TooMuchError, RecursionError):
            return []  # what it takes to load what it is derived from is too much

    def _around_model(self, info: ClassInfo, tables: Collection[str]) -> Iterator[ClassInfo]:
        managers, mapper = self.walker.models.managers, self.walker.mapper
        of_django = managers.is_model(info)
        if (managers.table(info) if of_django else mapper.table_of(Class(info))) in tables:
            yield from self.walker.objects.lineage(info)
            yield from managers.kinds_for(info) if of_django else ()

    def _claims_idly(self) -> bool:
        """Whether there is a claim with whose jobs nothing is seen to be done: that is left to who uses the program."""
        ends = [event for event in self.walker.events if isinstance(event, JobEnded)]
        worked = {claim.place for end in ends if end.worked for claim in end.claims}
        return any(claim.place not in worked for end in ends for claim in end.claims)

    def _is_offered(self, function: FunctionInfo) -> bool:
        """Whether it is a context manager for others to use, of which only uses inside the program were walked."""
        public = function.is_manager and not function.node.name.startswith("_")
        return public and function in self.walker.calls.entered and self._may_tell(function)

    def _load(self, module: ModuleInfo) -> list[tuple[str, State]]:
        names = self.walker.names
        names.load(module)
        return self._finish(
            *names.loaded(module), Place(module.path, 1), "", names.module_frame(module), None, once=False
        )

    def _functions(self, modules: list[ModuleInfo]) -> Iterator[FunctionInfo]:
        """Functions that nothing names come first: those that are named may be reached from them.

        Last come those whose names say that only others of their module call them, as what these have opened.
        """
        named = {name for module in modules for name in module.words.names}
        functions = [function for module in modules for function in module.functions() if not function.nested]
        yield from (function for function in functions if function.node.name not in named)
        called = [function for function in functions if function.node.name in named]
        yield from sorted(called, key=lambda function: _is_own(function.node.name))
        # What is nested and was neither called nor handed out where it is defined is not reachable.

    def _is_alive(self, module: ModuleInfo) -> bool:
        """Whether anything in a module has to do with a database and a rule: others are loaded when they are needed."""
        return module in self.program.sources or any(self._may_tell(function) for function in module.functions())

    def _may_tell(self, function: FunctionInfo) -> bool:
        """Whether a walk from here can come by a connection and by what a rule looks for."""
        return self._has_connection(function) and function in self.program.telling

    def _has_connection(self, function: FunctionInfo) -> bool:
        if only_takes_back(function):
            return False
        known = function in self.program.sources or self.program.config.default_driver is not None
        return known and function in self.program.relevance

    def _guarded(
        self, name: str, place: Place, run: Callable[[], list[tuple[str, State]]], entry: Entry = Entry.OTHER
    ) -> None:
        """Walk one entry point: too many paths, or code nested too deeply, end it and nothing else."""
        self.walker.begin(entry)
        given_up = False
        ways: list[tuple[str, State]] = []
        with self.walker.as_root(name):
            try:
                ways = run()
            except (TooMuchError, RecursionError):
                given_up = True
        traced = tuple((how, state.trace) for how, state in ways)
        if traced or given_up:
            self.walked.append(Root(name, place, traced, given_up))

    # One entry point

    def _entry(self, function: FunctionInfo) -> None:
        try:
            entry = entry_of(function, self.walker.objects)
        except (TooMuchError, RecursionError):
            # The modules that its class comes from are too much to load within what the last entry point has left.
            entry = Entry.OTHER
        returned: Returned = {}
        self._guarded(function.dotted, function.place, lambda: self._function(function, returned), entry)
        while returned:
            info, (inner, state) = returned.popitem()
            if self._is_unseen(info):
                self._guarded(
                    info.dotted,
                    info.place,
                    lambda f=inner, s=state: self._run(f, f.info, s, returned),  # type: ignore[misc]
                )
        for work in self._cycles.work(function):
            if work not in self._begun:
                self._entry(work)

    def _script(self, module: ModuleInfo, script: nodes.If) -> list[tuple[str, State]]:
        frame = self.walker.names.module_frame(module)
        flow = Flow()
        ends = self.walker.block(script.body, [self.walker.names.start()], frame, flow)
        return self._finish(ends, flow, module.place(script.span), "", frame, None, once=True)

    def _function(self, info: FunctionInfo, returned: Returned) -> list[tuple[str, State]]:
        if info.nested:
            return self._run(*self._handed(info), returned)
        called = self._as_called(info, self.walker.names.module_frame(info.module))
        return self._run(called, info, None, returned)

    def _handed(self, info: FunctionInfo) -> tuple[Function, FunctionInfo, State]:
        """A function that was given to a framework inside another one, and what it sees there."""
        function, start = self.walker.names.start_of(info, self.walker.names.start())
        return function, info, start

    def _run(
        self, called: Function, info: FunctionInfo, start: State | None, returned: Returned
    ) -> list[tuple[str, State]]:
        """Walk a function that nobody is seen to call; what it returns for them to call is told in `returned`."""
        walker = self.walker
        self._begun.add(info)
        module = walker.names.module_frame(info.module)
        frame = walker.calls.frame_of(called, module, info.node.name_span)
        flow = Flow()
        wrapped = called.info is not info and info.owner is not None and not info.is_static
        me = walker.calls.parameters.receiver(info) if wrapped else None
        values = walker.calls.parameters.of_root(called.info, frame, me)
        if walker.entry is Entry.CONNECTED and "connection" in values:
            values["connection"] = walker.database.held.value(External("django.db.connection"))
        start = (start or walker.names.start()).bind_all(frame.key, values)

        def body(state: State, out: Flow) -> list[State]:
            if info.is_entrance:
                return self._entered(next(iter(values.values()), UNKNOWN), info, state, frame, out)
            return walker.calls.body(called.info, state, frame, out)

        ends = [
            end
            for begin in self._cycles.before(info, frame, start)
            for end in self._provided.supplied(info, values, frame, body, begin, flow)
        ]
        ends = self._cycles.after(info, frame, ends, flow)
        ends = self._afterwards.after(info, values, frame, ends, flow)
        for state, value in flow.returns:
            inner = (option for option in options_of(value) if isinstance(option, Function) and option.info.nested)
            returned.update((function.info, (function, state)) for function in inner)
        return self._finish(ends, flow, info.place, info.qualname, frame, info.node.name_span, self._ends_process(info))

    def _entered(self, manager: Value, info: FunctionInfo, state: State, frame: Frame, flow: Flow) -> list[State]:
        """A block around code that is not seen, which an object opens and closes."""
        span, unseen = info.node.name_span, self.walker.unseen

        def used(at: State, given: Value, out: Flow) -> list[State]:
            return unseen.handed_out(at, given, frame, out, span)

        return self.walker.blocks.run(manager, used, state, frame.outside, flow, span)

    def _ends_process(self, info: FunctionInfo) -> bool:
        """Whether the process is over when the function is."""
        return info.node.name == "main" or self.walker.entry is Entry.COMMAND

    def _as_called(self, info: FunctionInfo, module: Frame) -> Function:
        """What is called by the function's name: itself, or what a decorator of the project has put around it."""
        own = Function(info, module.key)
        if not info.node.decorators:
            return own
        if info.owner is not None:
            value = self.walker.objects.class_member(Class(info.owner), info.node.name)
        else:
            value = self.walker.names.member(info.module, info.node.name)
        return value if isinstance(value, Function) and value.info.nested else own

    # The end

    def _finish(
        self,
        ends: list[State],
        flow: Flow,
        place: Place,
        symbol: str,
        frame: Frame,
        span: nodes.Span | None,
        once: bool,
    ) -> list[tuple[str, State]]:
        if not once and span is not None:
            self._handed_out.told(flow, frame, span)
        ways = [("end", state) for state in [*ends, *(state for state, _ in flow.returns)]]
        ways += [("raise", state) for state, _ in flow.raises]
        finished = []
        for how, state in ways:
            if once or how == "raise":
                state = self._abandoned(state, place, frame, once)
            if state.job.claims:
                state = self.walker.database.endings.job_ends(state, place, symbol)
            if how == "end" and not once:
                event = set_for_nobody(self.program, state, place, symbol)
                state = self.walker.see(event, state) if event is not None else state
            if not once and span is not None:
                state = self.walker.database.sessions.abandoned(state, frame, span)
            if not once:
                state = self._handed_on(state, place, symbol)
                state = self.walker.database.pointing.left(how, state, place, symbol)
            finished.append((how, state))
        return finished

    def _abandoned(self, state: State, place: Place, frame: Frame, once: bool) -> State:
        """Connections that end with the process, or that an exception leaves to nobody: what is open is rolled back."""
        for key, connection in state.connections.items():
            own = connection.life is Life.JOB and connection.root == self.walker.root
            if connection.in_transaction and (own or (once and connection.life is not Life.GIVEN)):
                state = self.walker.database.endings.end(
                    key, state, "rollback", "the end of its connection", place, frame
                )
        return state

    def _handed_on(self, state: State, place: Place, symbol: str) -> State:
        """Connections that outlive the entry point are found by its next call as this one leaves them."""
        for key, connection in state.connections.items():
            kept = connection.life is not Life.POOL and connection.root != self.walker.root
            kept = kept and not self.walker.database.held.ends_with_entry(key)
            if not kept or connection.status is Status.CLOSED:
                continue
            given = connection.life is Life.GIVEN
            lent = given and self._is_of_engine(key, connection)
            if lent and _is_pending(connection):
                # Who passed the session goes on in its transaction, and commits what was done for it.
                connection, _ = change.commit(connection, place)
            left = [setting for setting in connection.settings if setting.kept.is_value]
            if self.walker.entry is Entry.CONNECTED:
                # What is the same for every connection is no tenant of one of them.
                left = [setting for setting in left if UNNAMED in setting.kept.value]
            if left:
                kind = "session" if lent else "caller" if given else "kept"
                event = Handover(place, key, kind, connection, connection, place, None, symbol, connection.sure)
                state = self.walker.see(event, state)
        return state

    def _is_of_engine(self, key: Key, connection: ConnectionState) -> bool:
        """Whether a connection has been taken out of a pool by whoever passed it: a session, or one of an engine."""
        driver = drivers.by_name(connection.driver)
        return self.walker.database.sessions.is_session(key) or (driver is not None and driver.own_transactions)


def _is_own(name: str) -> bool:
    """Whether a name is one that its module or class keeps for itself; what Python itself calls is none."""
    return name.startswith("_") and not name.endswith("__")


def _is_pending(connection: ConnectionState) -> bool:
    """Whether a value waits to be kept for the session."""
    return any(setting.pending is not None and setting.pending.is_value for setting in connection.settings)


def _scripts(module: ModuleInfo) -> Iterator[nodes.If]:
    """The blocks `if __name__ == "__main__":` of a module."""
    for part in module.facts.module.body:
        if isinstance(part, nodes.If) and isinstance(part.test, nodes.Compare):
            left = part.test.left
            if isinstance(left, nodes.Name) and left.id == "__name__":
                yield part
