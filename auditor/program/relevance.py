"""Which functions can have to do with a database at all, and which can come to a place that a rule looks for.

The first are walked when they are called, the second are where walks begin.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers import alembic
from auditor.drivers.model import Act
from auditor.program.code import FunctionInfo
from auditor.program.kept import ITEMS, STATES
from auditor.program.per_module import once_per_module
from auditor.program.reach import Reach
from auditor.program.tree import descend, words_of
from auditor.program.wanted import Wanted, is_any_in
from auditor.python import nodes
from auditor.triggers import (
    ASKED,
    ASKING,
    COUNT_COLUMNS,
    DONE_COLUMNS,
    DUE_COLUMNS,
    FLAG_COLUMNS,
    HANDING_OVER,
    PARAMETER_TRIGGERS,
    POLICY_TRIGGERS,
    ROLE_TRIGGERS,
    SETTING_TRIGGERS,
    WAITING_STATES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from auditor.program.code import ModuleInfo
    from auditor.program.tree import Words
    from auditor.program.wanted import Patterns

#: Names under which nothing but a connection or a cursor is passed around where a driver is used.
CONNECTION_NAMES = frozenset({"conn", "connection", "db_conn", "pg_conn", "dbconn", "pgconn", "aconn"})
#: Names of sessions, in modules that use a driver which has them.
SESSION_NAMES = frozenset({"session", "db_session", "async_session", "sess", "dbsession"})
#: Names of what makes sessions, in the same modules.
FACTORY_NAMES = frozenset(
    {
        *("sessionmaker", "session_maker", "async_sessionmaker", "async_session_maker"),
        *("session_factory", "async_session_factory", "sessionlocal", "asyncsessionlocal"),
    }
)
CURSOR_NAMES = frozenset({"cur", "cursor", "curs", "acur"})
#: Names of pools, in modules that use a driver which has them.
POOL_NAMES = frozenset(
    {"pool", "db_pool", "pg_pool", "dbpool", "pgpool", "conn_pool", "connection_pool", "asyncpg_pool", "database_pool"}
)
#: Names of variables and attributes that hold nothing but a connection or a pool in the same modules.
_HELD = frozenset(prefix + name for name in CONNECTION_NAMES | POOL_NAMES for prefix in ("", "_"))
NAMES = CONNECTION_NAMES | CURSOR_NAMES | SESSION_NAMES | FACTORY_NAMES | POOL_NAMES

#: What stands in every function that asks an ORM for rows, or gives it some to keep.
ORM_WORDS = frozenset(
    {"objects", "select_for_update", "save", "filter", "bulk_update", "update_fields", "raw", "where"}
)

#: Methods that many other things have too: they count only in modules that import a driver.
_BY_HAND = frozenset({"__enter__", "__aenter__", "__exit__", "__aexit__"})
_AMBIGUOUS = _BY_HAND | {
    *("close", "copy", "reset", "stream", "connection", "check_connection", "cancel", "begin", "connect", "remove"),
    *("detach", "invalidate", "all", "first", "one", "columns", "unique", "freeze", "configure", "exec", "tuples"),
    *("dispose", "mappings", "partitions", "scalar", "scalars", "aclose"),
    *("fetch", "prepare", "terminate", "acquire", "release"),
}
_WORDS = (
    frozenset(name for driver in drivers.DRIVERS for (_, name), act in driver.methods.items() if act is not Act.NOTHING)
    | {"autocommit", "isolation_level", "prepare_threshold", "enter_context", "enter_async_context"}
    | ORM_WORDS
    | _BY_HAND
    | alembic.NAMES
)
_PLAIN_WORDS = _WORDS - _AMBIGUOUS
#: Methods and functions that read a whole file, which may hold SQL.
_READS = frozenset({"read_text", "read_bytes", "get_data"})

_SQL = re.compile(
    r"\s*(?:--[^\n]*\n\s*)*(?:select|insert|update|delete|with|set|reset|begin|commit|rollback|savepoint|release|discard|"
    r"deallocate|call|do|merge|lock|listen|notify|start|truncate|create|alter|grant)\b",
    re.IGNORECASE,
)


class Relevance:
    """The functions that may touch a database: they use a driver's words, hold SQL, or call what they are given."""

    def __init__(self) -> None:
        self._reach = Reach()
        self._waiting: list[FunctionInfo] = []
        #: Some module imports a driver: without one nothing that is walked could reach a database.
        self.driven = False

    def __contains__(self, function: FunctionInfo) -> bool:
        return function in self._reach

    def add(self, module: ModuleInfo) -> None:
        """Take in a module that was read."""
        local = frozenset(_names_of_drivers(module))
        if not self.driven and (local or _imports_models(module)):
            self.driven = True
            self._reach.spread(self._waiting)
        self._reach.add(module, self._direct(module, local), sorted(_made_of(module, local)))

    def _direct(self, module: ModuleInfo, local: frozenset[str]) -> Iterator[FunctionInfo]:
        statements = statements_of(module)
        for function in module.functions():
            names = function.words.names
            if names & local or names & statements or (local and names & _WORDS) or _is_direct(function):
                yield function
            elif names & _PLAIN_WORDS:
                # Its connection comes from elsewhere: that there is a driver may only be seen later.
                if self.driven:
                    yield function
                else:
                    self._waiting.append(function)


def _made_of(module: ModuleInfo, local: frozenset[str]) -> Iterator[str]:
    """The names at the top of a module for what it makes with a driver: a pool, an engine, a factory of sessions."""
    for name, bound in module.bound.items():
        for part in bound:
            made = part.value if isinstance(part, nodes.Assign) else None
            if isinstance(made, (nodes.Call, nodes.Await)) and _mentions(made, local):
                yield name


def statements_of(module: ModuleInfo) -> frozenset[str]:
    """The names at the top of a module under which it keeps SQL."""
    return frozenset(
        name
        for name, bound in module.bound.items()
        for part in bound
        if isinstance(part, nodes.Assign) and isinstance(part.value, nodes.Text) and _begins_sql(part.value)
    )


def _begins_sql(text: nodes.Text) -> bool:
    first = text.pieces[0] if text.pieces else ""
    return isinstance(first, str) and is_sql(first)


@once_per_module
def drivers_of(module: ModuleInfo) -> frozenset[str]:
    """The names of the drivers that a module imports; of the one it speaks to, being given its connections."""
    imported = (drivers.imported(part.loads, part.attribute) for part in module.imports)
    found = frozenset(driver.name for driver in imported if driver is not None)
    spoken = drivers.spoken(module.words.names) if not found else None
    return found if spoken is None else frozenset({spoken.name})


def _names_of_drivers(module: ModuleInfo) -> Iterator[str]:
    """The local names of what a module imports from drivers; the name of the one that it speaks to."""
    found = [part.name for part in module.imports if drivers.imported(part.loads, part.attribute) is not None]
    yield from found or drivers_of(module)


def _imports_models(module: ModuleInfo) -> bool:
    """Whether it imports something of a driver's package, be it no connection, or runs migrations on one."""
    return any(
        drivers.holding(part.loads) is not None or part.loads.partition(".")[0] == alembic.PACKAGE
        for part in module.imports
    )


def _is_direct(function: FunctionInfo) -> bool:
    """Whether the function itself makes what is sent to a database, or calls what it is given."""
    words = function.words
    given = {parameter.name for parameter in function.node.parameters}
    called = words.called if function.nested else words.called & (given | words.chosen)
    if words.calls_item or called or words.names & _READS:
        return True
    return any(
        isinstance(piece, str) and is_sql(piece)
        for text in words.texts
        for piece in (*text.pieces[:1], *text.pieces[-1:])
    )


def is_sql(text: str) -> bool:
    """Whether a text looks like SQL, or like the name of a file of it."""
    return text.endswith(".sql") or (" " in text.strip() and _SQL.match(text) is not None)


#: Where a request or a job finds what its application keeps for it, and how it takes a connection out of that.
_KEPT = STATES | ITEMS - {"request"} | {"g"}
_TAKES = frozenset({"connection", "acquire", "begin", "connect"})


class Sources:
    """The functions that can get a connection: they use what a driver makes, or are given it by name or type."""

    def __init__(self) -> None:
        self._reach = Reach(objects=True)
        self._modules: set[ModuleInfo] = set()

    def __contains__(self, asked: FunctionInfo | ModuleInfo) -> bool:
        """Whether a function can, or the top level of a module does."""
        return asked in self._reach if isinstance(asked, FunctionInfo) else asked in self._modules

    def add(self, module: ModuleInfo) -> None:
        """Take in a module that was read."""
        if drivers.holding(module.name) is not None:
            return
        local = frozenset(_names_of_drivers(module))
        direct = [
            function
            for function in module.functions()
            if _gets_connection(function, local) or _asks_application(function)
        ]
        # One method that has a connection keeps it for the others.
        owners = {function.owner for function in direct if function.owner is not None}
        owners.update(
            cls for cls in module.classes() if _mentions(cls.fields, local) or _mentions(cls.node.bases, local)
        )
        direct.extend(function for function in module.functions() if function.owner in owners)
        constants = [
            name
            for name, bound in module.bound.items()
            if any(isinstance(p, nodes.Assign) and _mentions(p, local) for p in bound)
        ]
        if constants:
            self._modules.add(module)
        # A model of a driver's own mapper is sent statements through.
        constants.extend(
            cls.node.name
            for cls in module.classes()
            if _mentions(cls.fields, local) or _mentions(cls.node.bases, local)
        )
        self._reach.add(module, direct, constants)


def _gets_connection(function: FunctionInfo, local: frozenset[str]) -> bool:
    parameters = function.node.parameters
    named = bool(local) and any(parameter.name.lstrip("_").lower() in NAMES for parameter in parameters)
    if "objects" in function.words.names or "select_for_update" in function.words.names:
        return True
    named = named or (bool(local) and not function.words.names.isdisjoint(_HELD))
    return named or not function.words.names.isdisjoint(local) or not function.named_in_parameters.isdisjoint(local)


def _asks_application(function: FunctionInfo) -> bool:
    """Whether it may take what a web application or a worker keeps: `request.app.state.pool`, `ctx["pool"]`."""
    names = function.words.names
    return not names.isdisjoint(_KEPT) and not names.isdisjoint(_PLAIN_WORDS | _TAKES)


def _mentions(node: object, names: frozenset[str]) -> bool:
    return bool(names) and any(isinstance(part, nodes.Name) and part.id in names for part in descend(node))


#: So many calls around what a rule looks for, a walk begins at the latest.
DEPTH = 6


class Telling:
    """The functions that can come to something that a rule looks for, told by the rules' own triggers.

    `is_tenant` tells of a setting's name whether it may hold a tenant. That others are set or read tells nothing, but
    for a parameter in SET where drivers leave that to the server: see `binds_on_server`.
    """

    def __init__(self, triggers: Iterable[bytes], is_tenant: Callable[[str], bool]) -> None:
        self.reach = Reach(DEPTH)
        self.binds_on_server = True
        self._is_tenant = is_tenant
        triggers = tuple(triggers)
        self._of_settings = Wanted(trigger for trigger in triggers if trigger in _OF_SETTINGS)
        self._others = Wanted(trigger for trigger in triggers if trigger not in _OF_SETTINGS)

    def look_for(self, functions: Iterable[str]) -> None:
        """Look for calls of these SQL functions too, in the modules that are taken in from now on."""
        names = "|".join(re.escape(name) for name in sorted(functions))
        if names:
            self._others.add(rf'\b(?:{names})(?:\s*\(|"$)'.encode())

    def look_for_files(self) -> None:
        """Look for names of SQL files too: what matters stands in some of them."""
        self._others.add(_FILES)

    def __contains__(self, function: FunctionInfo) -> bool:
        return function in self.reach

    def add(self, module: ModuleInfo) -> None:
        """Take in a module; comments and documentation in it do not count, nor do a driver's own sources."""
        if drivers.holding(module.name) is not None:
            return
        functions = []
        if self._tells(module.words):
            functions = [function for function in module.functions() if self._tells(function.words)]
        constants = {*self._constants(module.facts.module.body), *_configured_by(functions, module)}
        self.reach.add(module, functions, sorted(constants))

    def _constants(self, body: tuple[nodes.Node, ...]) -> Iterator[str]:
        """The names of the values, at the top of a module or in a class, in which a trigger stands."""
        for part in body:
            if isinstance(part, nodes.Class):
                yield from self._constants(part.body)
            elif isinstance(part, nodes.Assign) and self._tells(words_of((part,))[0]):
                yield from (target.id for target in part.targets if isinstance(target, nodes.Name))
            elif isinstance(part, (nodes.If, nodes.Try)):
                yield from self._constants((*part.body, *part.orelse))

    def _tells(self, words: Words) -> bool:
        told = list(_told(words))
        together = "\n".join(told)
        of_settings, others = self._of_settings.within(together), self._others.within(together)
        return bool(of_settings or others) and any(self._stands_in(word, of_settings, others) for word in told)

    def _stands_in(self, word: str, of_settings: Patterns, others: Patterns) -> bool:
        """Whether a trigger stands in a word, once the settings that tell nothing are taken out of it."""
        if is_any_in(others, word):
            return True
        if not is_any_in(of_settings, word):
            return False
        left = _SETTINGS.sub(self._without, word)
        return is_any_in(of_settings, left) or is_any_in(others, left)

    def _without(self, found: re.Match[str]) -> str:
        name, value = found["set"] or found["named"] or "", found["value"] or ""
        matters = name in SESSION_SETTINGS or ("." in name and self._is_tenant(name))
        bound = value.startswith(("%", "$", ":")) and self.binds_on_server
        return found[0] if matters or bound else "…"


#: How the name of a SQL file ends, wherever it is put together.
_FILES = rb"\.sql\b"

#: What a pool or an engine calls when it opens a connection.
_AT_CONNECT = frozenset({"connect", "first_connect"})


def _configured_by(functions: list[FunctionInfo], module: ModuleInfo) -> Iterator[str]:
    """The names of pools and engines, at the top of a module, whose new connections go through one of the functions."""
    told = {function.node.name for function in functions}
    for function in functions:
        for decorator in function.node.decorators:
            yield from _listened_to(decorator, 0)
    for part in module.facts.module.body if told else ():
        if isinstance(part, nodes.Assign) and isinstance(part.value, nodes.Call):
            given = {value.id for _, value in part.value.keywords if isinstance(value, nodes.Name)}
            if given & told:
                yield from (target.id for target in part.targets if isinstance(target, nodes.Name))
        elif isinstance(part, nodes.Do) and words_of((part,))[0].names & told:
            yield from _listened_to(part.value, 1)


def _listened_to(call: nodes.Expression, more: int) -> Iterator[str]:
    """The first argument of `listens_for(engine, "connect")`, or of `listen(engine, "connect", function)`."""
    if isinstance(call, nodes.Call) and len(call.arguments) == 2 + more:
        target, event = call.arguments[:2]
        if isinstance(event, nodes.Text) and event.pieces in {(name,) for name in _AT_CONNECT}:
            target = target.value if isinstance(target, nodes.Attribute) else target
            yield from (target.id,) if isinstance(target, nodes.Name) else ()


#: The triggers that look for settings: those that tell nothing are taken out before these count.
_OF_SETTINGS = frozenset({*SETTING_TRIGGERS, *PARAMETER_TRIGGERS, *ROLE_TRIGGERS, *POLICY_TRIGGERS})

#: Settings without a dot whose scope matters.
SESSION_SETTINGS = frozenset({"role", "session_authorization", "search_path"})

#: A setting that is set or read by its name, whatever its value; and what of SET is about transactions.
_SETTINGS = re.compile(
    r"\bset\s+(?:local\s+|session\s+)?(?P<set>[a-z_][\w.]*)\s*(?:=|\bto\b)\s*(?P<value>\S?\S?)"
    r"|\b(?:set_config|current_setting)\s*\(\s*'(?P<named>[a-z_][\w.]*)'"
    r"|\bset\s+(?:local\s+|session\s+)?(?:characteristics|transaction)\b"
)


#: Words that a piece of a statement begins with, beside those that a whole one does.
_PIECES = frozenset(
    {
        "for", "skip", "where", "and", "or", "not", "from", "order", "using", "limit", "returning", "local",
        "session", "role", "set_config", "current_setting", "nullif", "coalesce", "exists", "case", "when", "join",
        "on", "to", "drop", "comment",
    }
)  # fmt: skip


def _is_prose(text: str) -> bool:
    """Whether a text is several words that no SQL begins with: a message that only mentions SQL."""
    first = _FIRST.match(text)
    return first is not None and first[1] not in _PIECES and _SQL.match(text) is None


_FIRST = re.compile(r"\s*([a-z_]+)[,.:]?\s+[a-z']+\s")


def _told(words: Words) -> Iterator[str]:
    """What a trigger may stand in: strings with marks for their holes, names, keywords of calls."""
    for node in words.texts:
        text = "".join(piece if isinstance(piece, str) else "{}" for piece in node.pieces).lower()
        if _is_prose(text):
            continue
        if text.lstrip().startswith("update"):
            # What UPDATE sets are columns; what else it says still counts.
            text = text.replace("set ", " ")
        yield f'"{text}"' if len(text) < 40 else text
    yield from (name.lower() for name in words.names)
    if "func" in words.names:
        # A function of SQL, as an attribute of SQLAlchemy's func.
        yield from (f"{name.lower()}(" for name in words.names)
    yield from (f".{name}(" for name in words.names & _HANDING_OVER)
    yield from ("dramatiq.actor",) if {"dramatiq", "actor"} <= words.names else ()
    if not words.names.isdisjoint(_ASKING):
        asked = {name.lower() for name in words.names} & _ASKED
        yield from (f"{library}.{name}(" for library in words.names & _ASKING for name in asked)
    yield from (f"{name.lower()}=" for name in words.keywords)
    yield from (pair.lower() for pair in words.equal)
    if not words.names.isdisjoint(_ASKS):
        yield from _asked_for(words)


_HANDING_OVER, _ASKING, _ASKED = frozenset(HANDING_OVER), frozenset(ASKING), frozenset(ASKED)
#: What stands in every function that asks an ORM for rows.
_ASKS = frozenset({"select", "query", "filter", "filter_by", "where"})


def _asked_for(words: Words) -> Iterator[str]:
    """The conditions that an ORM's words may come to, as they would stand in SQL."""
    if not {"status", "state"}.isdisjoint({*words.names, *words.keywords}):
        texts = (node.pieces[0] for node in words.texts if len(node.pieces) == 1)
        last = {str(part).lower().rpartition("_")[2] for part in (*texts, *words.names)}
        yield from (f"status = '{state}'" for state in WAITING_STATES if state in last)
        # Jobs that failed and are tried again: which of them, a comparison tells.
        columns = COUNT_COLUMNS if "failed" in last else ()
        yield from (f"{column.decode()} < 1" for column in columns if column.decode() in words.names)
    # Jobs that are put off, and what has its next turn.
    yield from (f"{name} < 1" for name in words.names if name.encode() in DUE_COLUMNS or name.startswith("next_"))
    if not {"is_", "null"}.isdisjoint(words.names):
        yield from (f"{column} is null" for column in DONE_COLUMNS if column in words.names)
    yield from (f"{column} = false" for column in FLAG_COLUMNS if {column, f"is_{column}"} & words.names)
