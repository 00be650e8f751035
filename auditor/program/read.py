"""Which files matter: those with a rule's trigger in them, and those that use what these define, for some calls around."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.files import Role, SourceFile
from auditor.program.code import FunctionInfo, ModuleInfo, descend
from auditor.program.program import Program
from auditor.python import nodes
from auditor.search import mentions, search
from auditor.sql.meaning import Kind, hole
from auditor.timeline.values import UNKNOWN, Origin, Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from auditor.config import Config
    from auditor.files import Inventory
    from auditor.report.progress import Progress

#: So many calls around a statement that matters are looked for in other files.
ROUNDS = 6
#: Names that say nothing about what they name: a file that only has one of these in common uses something else.
_COMMON = frozenset(
    {
        "run", "main", "get", "set", "put", "add", "pop", "execute", "process", "start", "stop", "close", "open", "save",
        "update", "delete", "create", "read", "write", "send", "init", "setup", "connect", "connection", "commit",
        "rollback", "cursor", "query", "queries", "handle", "handler", "call", "name", "value", "values", "data", "config",
        "settings", "test", "tests", "utils", "base", "model", "models", "Meta", "Config", "Base", "self", "next", "wrapper",
        "inner", "decorator", "apply", "load", "list", "filter", "count", "first", "last", "text", "result", "register",
        "reset", "check", "fetch", "fetchone", "fetchall", "job", "jobs", "task", "tasks", "event", "events", "state",
    }
)  # fmt: skip

_DEFINES = (b"create policy", b"row level security", b"function", b"bypassrls", b"create role", b"create table")
_DEFINITIONS = frozenset(
    {
        Kind.CREATE_POLICY,
        Kind.ALTER_POLICY,
        Kind.ALTER_TABLE,
        Kind.CREATE_TABLE,
        Kind.CREATE_FUNCTION,
        Kind.CREATE_ROLE,
        Kind.ALTER_ROLE,
        Kind.GRANT,
    }
)


def read_program(
    inventory: Inventory, triggers: Sequence[bytes], config: Config, jobs: int | None, progress: Progress
) -> Program:
    """Read what matters of the files found. `triggers` are the rules' own, `jobs` the processes that search."""
    program = Program(inventory, config)
    files = [file for file in inventory.files if file.role is not Role.TEST or config.include_tests]
    hits = search(files, triggers, jobs=jobs)
    wanted = [file for file in files if file in hits]
    left = [file for file in files if file not in hits and file.language == "python"]
    for number, file in enumerate(wanted):
        progress("reading", number, len(wanted))
        _load(program, file)
    names = _names_that_matter(program.modules, triggers)
    _load_users(program, left, names, jobs)
    for module in program.modules:
        _take_definitions(program, module)
    return program


def _load(program: Program, file: SourceFile) -> ModuleInfo | None:
    if file.language == "sql":
        program.load_sql(file)
        return None
    module = program.load(file)
    if module is not None and module not in program.modules:
        program.modules.append(module)
    return module


# Who uses what matters


def _names_that_matter(modules: Iterable[ModuleInfo], triggers: Sequence[bytes]) -> set[str]:
    """The names of the functions, classes and constants in which a trigger stands."""
    import re

    patterns = [re.compile(trigger) for trigger in triggers]
    names: set[str] = set()
    for module in modules:
        folded = module.data.lower()
        offsets = {match.start() for pattern in patterns for match in pattern.finditer(folded)}
        lines = {folded.count(b"\n", 0, offset) + 1 for offset in offsets}
        names.update(_names_at(module, lines))
    return names - _COMMON


def _names_at(module: ModuleInfo, lines: set[int]) -> Iterable[str]:
    for function in module.functions():
        first, _, last, _ = function.node.span
        if any(first <= line <= last for line in lines):
            yield from _names_of(function)
    for name, bound in module.bound.items():
        if any(part.span[0] <= line <= part.span[2] for part in bound for line in lines):
            yield name


def _names_of(function: FunctionInfo) -> Iterable[str]:
    if not function.node.name.startswith("__"):
        yield function.node.name
    if function.owner is not None:
        yield function.owner.node.name


def _load_users(program: Program, left: list[SourceFile], names: set[str], jobs: int | None) -> None:
    """Read the files that mention a name that matters, then those that mention what uses it, and so on."""
    searched: set[str] = set()
    for _ in range(ROUNDS):
        fresh = sorted(name for name in names - searched if len(name) > 3)
        if not fresh or not left:
            return
        searched.update(fresh)
        hits = mentions(left, [name.encode() for name in fresh], jobs=jobs)
        found = [file for file in left if file in hits]
        left = [file for file in left if file not in hits]
        names = set()
        for file in found:
            module = _load(program, file)
            if module is not None:
                names.update(_users_in(module, searched))
        names -= _COMMON


def _users_in(module: ModuleInfo, names: set[str]) -> Iterable[str]:
    """The functions and classes of a module in which one of the names is used."""
    for function in module.functions():
        for part in descend(function.node):
            used = part.id if isinstance(part, nodes.Name) else part.name if isinstance(part, nodes.Attribute) else None
            if used in names:
                yield from _names_of(function)
                break


# Definitions in strings


def _take_definitions(program: Program, module: ModuleInfo) -> None:
    """Tables, policies and functions that a module defines in its strings, wherever it sends them."""
    folded = module.data.lower()
    if not any(word in folded for word in _DEFINES):
        return
    for part in descend(module.facts.module):
        if isinstance(part, nodes.Text):
            text = _text_of(part, module)
            if not any(word.decode() in text.value.lower() for word in _DEFINES):
                continue
            for statement in program.read_sql(text.value):
                if statement.kind in _DEFINITIONS and statement.parsed:
                    program.catalogue.add(
                        statement,
                        lambda span, text=text, part=part: program.place_in(text, span) or module.place(part.span),  # type: ignore[misc]
                    )


def _text_of(node: nodes.Text, module: ModuleInfo) -> Text:
    """A string as it is written, its holes left open."""
    parts: list[str] = []
    origins: list[Origin] = []
    holes = 0
    length = 0
    for index, piece in enumerate(node.pieces):
        written = piece if isinstance(piece, str) else hole(holes)
        if isinstance(piece, str):
            origins.append(Origin(length, length + len(piece), module.path, node.span, index, 0))
        else:
            holes += 1
        parts.append(written)
        length += len(written)
    return Text("".join(parts), (UNKNOWN,) * holes, tuple(origins))
