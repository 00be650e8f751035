"""Which files matter: those with a rule's trigger in them, and those that use what these define, some calls around."""

from __future__ import annotations

import gc
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from auditor import drivers
from auditor.drivers.model import Binding
from auditor.files import Role, SourceFile, read
from auditor.program.autocommit import hands_out_autocommit
from auditor.program.clauses import READS, are_put_in, clause
from auditor.program.composed import compositions
from auditor.program.entities import PACKAGE, entities
from auditor.program.migrations import taken_back
from auditor.program.origins import Origin
from auditor.program.program import Program
from auditor.program.reach import words_imported
from auditor.program.relevance import drivers_of, statements_of
from auditor.program.settings_files import TRIGGERS as SETTINGS
from auditor.search import mentions, search
from auditor.sql.meaning import Kind, hole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from auditor.config import Config
    from auditor.drivers.model import Driver
    from auditor.files import Inventory
    from auditor.findings import Place
    from auditor.program.catalogue import Locator
    from auditor.program.code import ClassInfo, ModuleInfo
    from auditor.progress import Progress
    from auditor.python import nodes

#: So many calls around a statement that matters are looked for in other files.
ROUNDS = 6
#: What every file says that makes connections in autocommit, or switches to it: not that it is off, nor that it is what
#: somebody else says, nor what sentences say of it.
_SWITCH = (
    rb"(?<!autocommit=)(?:(?<=['\"_.])autocommit|autocommit(?=\w*['\"]?\s*[=:()\]]))"
    rb"(?!['\"]?(?:\s*:\s*bool)?\s*[=:]\s*(?:false|autocommit)\b)"
)
_DEFINES = (
    b"create policy",
    b"drop policy",
    b"row level security",
    b"function",
    b"bypassrls",
    b"create role",
    b"create table",
    b"create user",
    b"alter role",
    b"owner to",
    b"grant ",
)
_DEFINING = tuple(word.decode() for word in _DEFINES)
#: What begins a policy, which may be put together from many parts.
_POLICY = "create policy"
#: What else is read where tables are under policies of tenants: other tables, and whom row security does not bind.
_BESIDE_POLICIES = (
    rb"create\s+(?:unlogged\s+)?table",
    rb"create\s+(?:role|user|group)\s",
    rb"alter\s+(?:role|user)\s",
    rb"bypassrls",
    rb"owner\s+to\s",
    rb"grant\s[^\n]{1,200}\sto\s",
    rb"create\s[^\n]{0,60}authorization",
)
_DEFINITIONS = frozenset(
    {
        Kind.CREATE_POLICY,
        Kind.ALTER_POLICY,
        Kind.DROP_POLICY,
        Kind.ALTER_TABLE,
        Kind.CREATE_TABLE,
        Kind.CREATE_FUNCTION,
        Kind.CREATE_ROLE,
        Kind.ALTER_ROLE,
        Kind.GRANT,
    }
)


@contextmanager
def _collector(on: bool) -> Iterator[None]:
    """The garbage collector off, or on again inside of that.

    What files are read into is kept to the end and has no cycles: a collector that goes through all of it again and
    again takes two thirds of the time. sqlglot's trees have cycles, and are thrown away.
    """
    before = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        yield
    finally:
        (gc.enable if before else gc.disable)()


def read_program(
    inventory: Inventory, triggers: Sequence[bytes], config: Config, jobs: int | None, progress: Progress
) -> Program:
    """Read what matters of the files found. `triggers` are the rules' own, `jobs` the processes that search."""
    with _collector(on=False):
        program = _read(Program(inventory, config, triggers), triggers, jobs, progress)
        # Else all of it would be gone through as the collector is turned on again. A walk gives it back at its end.
        gc.freeze()
        return program


def _read(program: Program, triggers: Sequence[bytes], jobs: int | None, progress: Progress) -> Program:
    inventory, config = program.inventory, program.config
    files = [file for file in inventory.files if file.role is not Role.TEST or config.include_tests]
    packages = [(re.escape(package).encode(), driver) for driver in drivers.DRIVERS for package in driver.packages]
    found = search(files, [*triggers, *(name for name, _ in packages), _SWITCH, *SETTINGS], jobs=jobs)
    # A file that cannot be read is found with nothing in it: whoever loads it learns why.
    hits = {file for file, numbers in found.items() if not numbers or min(numbers) < len(triggers)}
    switch = len(triggers) + len(packages)
    named = {
        file: [packages[number - len(triggers)] for number in sorted(numbers) if len(triggers) <= number < switch]
        for file, numbers in found.items()
    }
    imported = {file: tuple(_imported(file, packages)) for file, packages in named.items() if packages}
    used = {driver.name: driver for found_in in imported.values() for driver in found_in}
    hits |= {file for file, found_in in imported.items() if any(driver.kept_in_modules for driver in found_in)}
    default = drivers.by_name(config.default_driver or "")
    driven = bool(used) or default is not None
    program.telling.binds_on_server = any(
        driver.binding is Binding.SERVER for driver in (*used.values(), default) if driver is not None
    )
    program.settings_files = [file for file, numbers in found.items() if any(number > switch for number in numbers)]
    wanted = [file for file in files if file in hits]
    for number, file in enumerate(wanted):
        progress("reading", number, len(wanted))
        _load(program, file)
    makers = _makers(program, [file for file, found_in in imported.items() if found_in and file not in hits])
    for file in makers:
        _load(program, file)
    hits.update(makers)
    # A library that is given its connections imports no driver.
    spoken = [] if driven else _spoken(program)
    if not driven and not spoken:
        users = _users_of_statements(program, [file for file in files if file not in hits], jobs)
        hits.update(users)
        spoken = _spoken(program)
    driven = driven or bool(spoken)
    program.telling.binds_on_server |= any(driver.binding is Binding.SERVER for driver in spoken)
    left = _load_beside_policies(program, [file for file in files if file not in hits], jobs)
    if driven:
        left = _load_callers(program, left, jobs)
        left = _load_loaders(program, left, jobs)
    for module in program.modules:
        program.telling.add(module)
    if driven:
        _load_users(program, [file for file in left if file.language == "python"], jobs)
    for file in (file for file, numbers in found.items() if switch in numbers):
        program.autocommit_of |= _in_autocommit(program, file)
    if are_put_in(program.catalogue):
        for module in program.modules:
            _take_clauses(program, module)
    return program


def _in_autocommit(program: Program, file: SourceFile) -> frozenset[str]:
    """The drivers whose connections a file may put in autocommit for others; "" stands for any, where none is told."""
    module = program.module_at(file.path) or (program.glimpse(file) if file.language == "python" else None)
    if module is None:
        return frozenset({""})
    return (drivers_of(module) or frozenset({""})) if hands_out_autocommit(module) else frozenset()


def _spoken(program: Program) -> list[Driver]:
    """The drivers that the modules speak to."""
    names = {name for module in program.modules for name in drivers_of(module)}
    return [driver for driver in map(drivers.by_name, sorted(names)) if driver is not None]


def _users_of_statements(program: Program, left: list[SourceFile], jobs: int | None) -> list[SourceFile]:
    """Read the files that send what others keep under names: they may speak to a driver where those only hold SQL."""
    names = sorted({name for module in program.modules for name in statements_of(module)})
    files = list(
        mentions([file for file in left if file.language == "python"], [name.encode() for name in names], jobs=jobs)
    )
    for file in files:
        _load(program, file)
    return files


def _imported(file: SourceFile, packages: Iterable[tuple[bytes, Driver]]) -> Iterator[Driver]:
    """Those of the drivers whose packages a file names that it imports, and does not only speak of."""
    data = read(file)
    if isinstance(data, bytes):
        for package, driver in packages:
            if re.search(rb"^[ \t]*(?:from|import)\b[^\n#]*\b%b\b" % package, data, re.MULTILINE):
                yield driver


def _load(program: Program, file: SourceFile) -> None:
    if file.language == "sql":
        with _collector(on=True):
            program.load_sql(file)
        return
    module = program.load(file)
    if module is not None and module not in program.modules:
        program.modules.append(module)
        _take_definitions(program, module)


def _makers(program: Program, files: list[SourceFile]) -> list[SourceFile]:
    """Those of files that import a driver which what was read imports: they may make its connections, and no more."""
    words = {word for module in program.modules for word in words_imported(module)}
    return [file for file in files if words.intersection(program.name_of(file).split(".")[-2:])]


def _load_beside_policies(program: Program, left: list[SourceFile], jobs: int | None) -> list[SourceFile]:
    """Read the rest of a schema that keeps tenants apart, which holds nothing else that a rule looks for."""
    if not any(program.catalogue.holds_tenants(table) for table in tuple(program.catalogue.tables)):
        return left
    found = search(left, _BESIDE_POLICIES, jobs=jobs)
    for file in found:
        _load(program, file)
    return [file for file in left if file not in found]


def _load_callers(program: Program, left: list[SourceFile], jobs: int | None) -> list[SourceFile]:
    """Read the files that call a SQL function that matters, which may be all that tells of it; the files then left."""
    named: set[str] = set()
    for _ in range(ROUNDS):
        fresh = sorted(program.functions_that_matter() - named)
        if not fresh:
            break
        named.update(fresh)
        found = mentions(left, [name.encode() for name in fresh], jobs=jobs)
        for file in found:
            _load(program, file)
        left = [file for file in left if file not in found]
    program.telling.look_for(named)
    return left


#: Statements that a SQL file holds to be sent, and not to build a schema.
_SENT = frozenset({Kind.SELECT, Kind.INSERT, Kind.UPDATE, Kind.DELETE, Kind.SET})


def _load_loaders(program: Program, left: list[SourceFile], jobs: int | None) -> list[SourceFile]:
    """Read the files that load SQL files, where such files hold what a queue is worked by; the files then left."""
    sent = (one.statement for one in program.catalogue.located if one.statement.kind in _SENT)
    if not any(program.queue_steps(statement) for statement in sent):
        return left
    found = search([file for file in left if file.language == "python"], [rb"\.sql\b"], jobs=jobs)
    for file in found:
        _load(program, file)
    program.telling.look_for_files()
    return [file for file in left if file not in found]


def _load_users(program: Program, left: list[SourceFile], jobs: int | None) -> None:
    """Read the files that mention a name that matters, then those that mention what uses it, and so on."""
    searched: dict[str, frozenset[str]] = {}
    filling: set[ClassInfo] = set()
    for _ in range(ROUNDS):
        fresh_owners = program.telling.reach.owners - filling
        filling |= fresh_owners
        _load_interfaces(program, fresh_owners)
        # A name is looked for again where a class that inherits it has been read since.
        fresh = {name: home for name, home in program.telling.reach.names.items() if home != searched.get(name)}
        if not fresh or not left:
            return
        searched.update(fresh)
        words = sorted(fresh.keys() | {word for home in fresh.values() for word in home})
        hits = mentions(left, [word.encode() for word in words], jobs=jobs)
        found = []
        for file, numbers in hits.items():
            mentioned = {words[number] for number in numbers}
            if any(name in mentioned and (not home or home & mentioned) for name, home in fresh.items()):
                found.append(file)
        known = len(program.modules)
        for file in found:
            _load(program, file)
        for module in program.modules[known:]:
            program.telling.add(module)
        taken = set(found)
        left = [file for file in left if file not in taken]


def _load_interfaces(program: Program, owners: Iterable[ClassInfo]) -> None:
    """Read the interfaces that classes which matter fill in: who is written against those means these, too."""
    for owner in sorted(owners, key=lambda owner: (owner.module.path, owner.qualname)):
        for imported in owner.module.imports:
            if imported.name not in owner.base_names or imported.attribute is None:
                continue
            module = program.module(owner.module.absolute(imported), owner.module.file)
            if module is not None and module not in program.modules and module.leaves_open(imported.attribute):
                program.modules.append(module)
                program.telling.add(module)


# Definitions in strings


def _take_definitions(program: Program, module: ModuleInfo) -> None:
    """Tables, policies and functions that a module defines in its strings, wherever it sends them."""
    folded = module.data.lower()
    if PACKAGE.encode() in folded:
        _take_entities(program, module)
    if not any(word in folded for word in _DEFINES):
        return
    back = frozenset(taken_back(module))
    for part in module.words.texts:
        text, origins = _text_of(part, module)
        lowered = text.lower()
        if any(word in lowered for word in _DEFINING) and _POLICY not in lowered:
            _take_text(program, text, origins, module.place(part.span), back)
    if _POLICY.encode() in folded:
        for place, text, origins in compositions(module, _POLICY):
            _take_text(program, text, origins, module.place(place), back)


def _take_entities(program: Program, module: ModuleInfo) -> None:
    """Policies and functions that a module gives alembic_utils."""
    for head, definition in entities(module):
        text, origins = _text_of(definition, module)
        far = len(head)
        moved = tuple(one._replace(start=one.start + far, end=one.end + far) for one in origins)
        _take_text(program, head + text, moved, module.place(definition.span), frozenset())


def _take_clauses(program: Program, module: ModuleInfo) -> None:
    """The conditions that a module keeps for policies which others make."""
    if READS.encode() not in module.data:
        return
    for part in module.words.texts:
        text, origins = _text_of(part, module)
        if READS in text and _POLICY not in text.lower():
            fact = clause(text, _locator(program, origins, module.place(part.span)))
            if fact is not None:
                program.catalogue.clauses.append(fact)


def _take_text(
    program: Program, text: str, origins: tuple[Origin, ...], place: Place, back: frozenset[nodes.Span]
) -> None:
    if any(origin.span in back for origin in origins):
        return
    for statement in program.read_sql(text):
        if (statement.kind in _DEFINITIONS and statement.parsed) or statement.dropped_functions:
            program.catalogue.add(statement, _locator(program, origins, place))


def _locator(program: Program, origins: tuple[Origin, ...], otherwise: Place) -> Locator:
    return lambda span: program.place_in(origins, span) or otherwise


def _text_of(node: nodes.Text, module: ModuleInfo) -> tuple[str, tuple[Origin, ...]]:
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
    return "".join(parts), tuple(origins)
