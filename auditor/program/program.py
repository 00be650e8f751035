"""A program: its modules and SQL files, read when they are needed, and what they say about the database."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from auditor import drivers
from auditor.directives import parse_directive
from auditor.drivers.model import Binding
from auditor.files import Role, Skipped, SourceFile, read
from auditor.findings import Place
from auditor.lines import decode
from auditor.program.catalogue import Catalogue, names_tenant
from auditor.program.code import ClassInfo, FunctionInfo, ModuleInfo
from auditor.program.engines import is_for_another
from auditor.program.holders import HolderChecks
from auditor.program.hooks import Hooks, hooks_in
from auditor.program.kept import Kept, kept_by
from auditor.program.modules import ModuleIndex
from auditor.program.pooler import Pooler, find_pooler
from auditor.program.relevance import Relevance, Sources, Telling, drivers_of
from auditor.program.routers import Routers
from auditor.program.settings_files import UNSEEN, DatabaseSettings, read_settings
from auditor.program.signals import listeners_in
from auditor.program.tree import descend
from auditor.program.versions import Version, Versions
from auditor.python import nodes
from auditor.python.locate import locate
from auditor.python.read import Unread as UnreadPython
from auditor.python.read import read_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from auditor.config import Config
    from auditor.directives import Directive
    from auditor.drivers import Driver
    from auditor.files import Inventory
    from auditor.program.origins import Origin
    from auditor.python.nodes import PythonFacts
    from auditor.sql.meaning import Function, Span, Statement
    from auditor.sql.queue import Step


#: Settings of PostgreSQL that limit how long something takes; the first two end a transaction that stands still.
LIMITS = ("idle_in_transaction_session_timeout", "transaction_timeout", "statement_timeout", "lock_timeout")

#: So many names of functions are looked for through the whole tree; where more files define one, it says too little.
MOST_SOUGHT = 12
MOST_DEFINING = 40


class Unread(NamedTuple):
    """A file that could not be read or parsed: what it holds was not audited."""

    path: str
    line: int
    column: int
    reason: str


class Defaults(NamedTuple):
    """What a driver does when nobody says otherwise: its own ways, as the configuration changes them."""

    autocommit: bool
    prepares_after: int | None


class SqlFile(NamedTuple):
    """A SQL file: `starts` are the offsets at which its lines begin."""

    path: str
    text: str
    starts: tuple[int, ...]

    def place(self, span: Span) -> Place:
        line, column = self._position(span.start)
        end_line, end_column = self._position(max(span.end, span.start))
        return Place(self.path, line, column, end_line, end_column)

    def _position(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1


class Program:
    """All that is known of the audited code. Files are read once, when they are first asked for."""

    def __init__(self, inventory: Inventory, config: Config, triggers: Sequence[bytes] = ()) -> None:
        self.inventory = inventory
        self.config = config
        self.catalogue = Catalogue(config.tenant_settings)
        self.unread: list[Unread] = []
        self.directives: list[Directive] = []
        self.skipped: list[Skipped] = list(inventory.skipped)
        #: The modules that were read because something in them matters, in the order of their paths.
        self.modules: list[ModuleInfo] = []
        self.relevance = Relevance()
        self.sources = Sources()
        self.telling = Telling(triggers, lambda name: self.catalogue.is_tenant(name) is not None)
        self._by_file: dict[str, ModuleInfo | None] = {}
        self._by_path: dict[str, ModuleInfo] = {}
        self._sql: dict[str, SqlFile | None] = {}
        #: The drivers whose connections may be in autocommit where they come from elsewhere, since some file puts such
        #: in it; "" stands for any.
        self.autocommit_of: frozenset[str] = frozenset()
        #: Files with Django's settings, read when what they say is first asked for.
        self.settings_files: list[SourceFile] = []
        self._steps: dict[int, tuple[Statement, tuple[Step, ...]]] = {}
        self._bodies: dict[int, tuple[Function, tuple[Statement, ...]]] = {}
        self._places: dict[tuple[object, ...], Place] = {}
        self._sought: set[str] = set()
        self._meanings: dict[str, tuple[Statement, ...]] = {}

    # Python

    @cached_property
    def _index(self) -> ModuleIndex:
        return ModuleIndex(self.inventory.files)

    def module(self, name: str, importer: str) -> ModuleInfo | None:
        """The module that an import of `name` in the file `importer` means; None when it is not of the project."""
        file = self._index.find(name, importer)
        return self.load(file) if file is not None else None

    def name_of(self, file: SourceFile) -> str:
        """The dotted name by which a Python file is imported."""
        return self._index.name_of(file)

    def module_at(self, path: str) -> ModuleInfo | None:
        """The module at a path as it is shown, if it has been read."""
        return self._by_path.get(path)

    def has_read(self, file: SourceFile) -> bool:
        """Whether a file has been read, or could not be."""
        return file.file in self._by_file or file.file in self._sql

    def load(self, file: SourceFile) -> ModuleInfo | None:
        """Read a Python file; None when it cannot be, which is kept as `unread`."""
        if file.file in self._by_file:
            return self._by_file[file.file]
        self._by_file[file.file] = None
        data = read(file)
        if isinstance(data, Skipped):
            self._not_read(file, 1, 1, data.reason)
            return None
        facts = read_python(data)
        if isinstance(facts, UnreadPython):
            self._not_read(file, facts.line, facts.column, facts.reason)
            return None
        module = self._made(file, facts, data)
        for comment in facts.comments:
            directive = parse_directive(
                comment.text, file.path, comment.line, comment.column + 1, comment.own_line, facts.statements
            )
            if directive is not None:
                self.directives.append(directive)
        self._by_file[file.file] = self._by_path[file.path] = module
        self.relevance.add(module)
        self.sources.add(module)
        return module

    def glimpse(self, file: SourceFile) -> ModuleInfo | None:
        """A Python file looked at for one answer, and no part of the program; None where it cannot be read."""
        data = read(file)
        if isinstance(data, Skipped):
            return None
        facts = read_python(data)
        return None if isinstance(facts, UnreadPython) else self._made(file, facts, data)

    def _made(self, file: SourceFile, facts: PythonFacts, data: bytes) -> ModuleInfo:
        package = file.file.endswith("/__init__.py")
        reported, test = file.role is Role.REPORTED, file.role is Role.TEST
        return ModuleInfo(self._index.name_of(file), file.path, file.file, facts, data, package, reported, test)

    def symbol_at(self, place: Place) -> str:
        """The qualified name of the function or class that a place stands in; empty at the top of a file."""
        module = self._by_path.get(place.path)
        return module.symbol_at(place.line) if module is not None else ""

    def function_at(self, place: Place) -> FunctionInfo | None:
        """The innermost function that a place stands in."""
        module = self._by_path.get(place.path)
        return module.function_at(place.line) if module is not None else None

    def is_in_finally(self, place: Place) -> bool:
        """Whether a place stands in the `finally` of its function."""
        function = self.function_at(place)
        tried = (part for part in descend(function.node) if isinstance(part, nodes.Try)) if function is not None else ()
        return any(part.span[0] <= place.line <= part.span[2] for one in tried for part in one.final)

    def is_for_another_database(self, place: Place) -> bool:
        """Whether what stands there is run on another database than PostgreSQL, by the names around it."""
        return is_for_another(place.path, self.symbol_at(place))

    def speaks_of_tenants(self, place: Place) -> bool:
        """Whether the function that a place stands in, or the place's own line, has a name for a tenant in it."""
        module = self._by_path.get(place.path)
        if module is None or not 0 < place.line <= len(module.lines):
            return False
        told = {module.lines[place.line - 1].decode("utf-8", "replace"), module.symbol_at(place.line)}
        function = module.function_at(place.line)
        if function is not None:
            told.update(function.words.names, (parameter.name for parameter in function.node.parameters))
        return names_tenant(" ".join(told))

    def _not_read(self, file: SourceFile, line: int, column: int, reason: str) -> None:
        self.unread.append(Unread(file.path, line, column, reason))
        self.skipped.append(Skipped(file.path, reason))

    def classes(self) -> Iterator[ClassInfo]:
        """The classes of the modules that matter."""
        for module in self.modules:
            yield from module.classes()

    def all_classes(self) -> Iterator[ClassInfo]:
        """The classes of all modules that were read, those that others import among them."""
        for module in self._read:
            yield from module.classes()

    def read_definitions(self, name: str) -> None:
        """Read the modules in which functions of that name are defined, unless that has been asked too often."""
        if name in self._sought or len(self._sought) >= MOST_SOUGHT:
            return
        from auditor.search import search

        self._sought.add(name)
        left = [one for one in self.inventory.files if one.language == "python" and not self.has_read(one)]
        left = [one for one in left if one.role is not Role.TEST or self.config.include_tests]
        found = search(left, [rb"def\s+" + name.encode() + rb"\s*\("], fold=False)
        if len(found) <= MOST_DEFINING:
            for file in found:
                self.load(file)

    @cached_property
    def listeners(self) -> dict[FunctionInfo, frozenset[str]]:
        """The functions that listen to signals of a framework, with the signals."""
        return listeners_in(self.modules)

    @cached_property
    def hooks(self) -> Hooks:
        """The functions that a framework calls before and after each request or job."""
        return hooks_in(self._read)

    @cached_property
    def routers(self) -> Routers:
        """The dependencies that are called around functions which do not name them."""
        return Routers(self._read)

    @cached_property
    def kept(self) -> Kept:
        """What functions keep in an application, or in the context of a worker, by its name."""
        return kept_by(self._read)

    @cached_property
    def configures_null_pool(self) -> bool:
        """Whether a configuration of Flask-SQLAlchemy asks for a pool that keeps no connections."""
        for module in self._read:
            if "NullPool" in module.words.names:
                texts = {piece for text in module.words.texts for piece in text.pieces}
                if "SQLALCHEMY_ENGINE_OPTIONS" in module.words.names | texts:
                    return True
        return False

    @property
    def _read(self) -> list[ModuleInfo]:
        """All modules that were read so far, those that others import among them, but no tests."""
        read = (module for _, module in sorted(self._by_path.items()))
        return [module for module in read if not module.test or self.config.include_tests]

    # SQL

    def read_sql(self, text: str) -> tuple[Statement, ...]:
        """The statements of a text, read once however often it is run."""
        known = self._meanings.get(text)
        if known is None:
            from auditor.sql.read import read_sql

            known = self._meanings[text] = read_sql(text)
        return self.catalogue.keys.told_to(known)

    def queue_steps(self, statement: Statement) -> tuple[Step, ...]:
        """What a statement means to a queue, told once however often it is run."""
        known = self._steps.get(id(statement))
        if known is None:
            from auditor.sql.queue import queue_steps

            # The statement is kept beside its steps, so that its id stays its own.
            known = self._steps[id(statement)] = (statement, queue_steps(statement))
        return known[1]

    def body_of(self, function: Function) -> tuple[Statement, ...]:
        """The statements of a SQL function, its parameters being values, made once however often it is called."""
        known = self._bodies.get(id(function))
        if known is None:
            from auditor.sql.parameters import body_of

            known = self._bodies[id(function)] = (function, body_of(function))
        return self.catalogue.keys.told_to(known[1])

    def functions_that_matter(self) -> frozenset[str]:
        """The names of SQL functions that change settings or do something to a queue, themselves or through others."""
        found: set[str] = set()
        size = -1
        while size < len(found):
            size = len(found)
            for name, known in self.catalogue.functions.items():
                statements = (statement for one in known for statement in self.body_of(one.function))
                if len(name) > 3 and name not in found and any(self._matters(each, found) for each in statements):
                    found.add(name)
        return frozenset(found)

    def _matters(self, statement: Statement, functions: set[str]) -> bool:
        called = any(call.name.lower() in functions for call in statement.calls)
        return called or bool(statement.settings or self.queue_steps(statement))

    def load_sql(self, file: SourceFile) -> SqlFile | None:
        """Read a SQL file and take in what it defines."""
        if file.file in self._sql:
            return self._sql[file.file]
        self._sql[file.file] = None
        data = read(file)
        if isinstance(data, Skipped):
            self._not_read(file, 1, 1, data.reason)
            return None
        if b"\0" in data:
            self._not_read(file, 1, 1, "contains NUL bytes, so it is no SQL script")
            return None
        text = decode(data)
        starts = [0]
        while (newline := text.find("\n", starts[-1])) >= 0:
            starts.append(newline + 1)
        found = self._sql[file.file] = SqlFile(file.path, text, tuple(starts))
        for statement in self.read_sql(text):
            self.catalogue.add(statement, found.place)
        self.take_comments(text, found.place)
        return found

    def take_comments(self, text: str, locate: Callable[[Span], Place | None]) -> None:
        """Take in the comments of SQL that speak to the audit: of a file, or of a string that reaches a driver."""
        if "tenant-audit" not in text:
            return
        from auditor.sql.script import comments

        places = [place for statement in self.read_sql(text) if (place := locate(statement.span)) is not None]
        spans = [(place.line, place.end_line) for place in places if place.end_line > place.line]
        for comment in comments(text):
            place = locate(comment.span)
            if place is None:
                continue
            directive = parse_directive(comment.text, place.path, place.line, place.column, comment.own_line, spans)
            if directive is not None and directive not in self.directives:
                self.directives.append(directive)

    @cached_property
    def _sql_files(self) -> dict[str, SourceFile]:
        return {file.file: file for file in self.inventory.files if file.language == "sql"}

    def sql_text(self, file: str) -> tuple[str, str] | None:
        """The path and text of the SQL file of that absolute name."""
        source = self._sql_files.get(file)
        found = self.load_sql(source) if source is not None else None
        return (found.path, found.text) if found is not None else None

    def sql_files_under(self, folder: str, deep: bool) -> list[str]:
        """The SQL files in a folder, by absolute name."""
        start = folder.rstrip("/") + "/"
        return [file for file in self._sql_files if file.startswith(start) and (deep or "/" not in file[len(start) :])]

    # Places

    def place_in(self, origins: Iterable[Origin], span: Span) -> Place | None:
        """Where a stretch of a text of those origins stands in the files; None where it was not written in one."""
        for origin in origins:
            if origin.start <= span.start < max(origin.end, origin.start + 1):
                break
        else:
            return None
        offset = span.start - origin.start + origin.skip
        if origin.span is None:
            length = max(min(span.end, origin.end) - span.start, 0)
            file = next(
                (known for known in self._sql.values() if known is not None and known.path == origin.path), None
            )
            return file.place(span._replace(start=offset, end=offset + length)) if file is not None else None
        module = self._by_path.get(origin.path)
        if module is None:
            return None
        if origin.piece < 0:
            return module.place(origin.span)
        last = _last_of(origins, origin, span.end)
        stop = max(min(span.end, last.end), span.start) - last.start + last.skip
        known = (origin.path, origin.span, origin.piece, offset, last.piece, stop)
        place = self._places.get(known)
        if place is None:
            start = locate(module.text, origin.span, origin.piece, offset)
            end = locate(module.text, origin.span, last.piece, stop, end=True)
            place = self._places[known] = Place(origin.path, *start, *end)
        return place

    # Drivers

    def defaults_of(self, driver: Driver) -> Defaults:
        """How the driver's connections are when their making does not say."""
        said = self.config.drivers.get(driver.name)
        if said is None:
            return Defaults(driver.autocommit, driver.prepares_after)
        threshold = said.prepare_threshold
        prepares = driver.prepares_after if threshold is None else None if isinstance(threshold, str) else threshold
        autocommit = driver.autocommit if said.autocommit is None else said.autocommit
        return Defaults(bool(autocommit), prepares)

    @cached_property
    def _database_settings(self) -> dict[str, DatabaseSettings]:
        modules = (self.load(file) for file in self.settings_files)
        return read_settings(module for module in modules if module is not None)

    @cached_property
    def _versions(self) -> Versions:
        return Versions(self.inventory.beside)

    def version_of(self, driver: str, module: str) -> Version | None:
        """The version of a driver that a module, by the path that is shown, runs with: configured, or locked."""
        said = self.config.drivers.get(driver)
        if said is not None and said.version is not None:
            return Version(said.version, self.config.file or "the configuration")
        known = self.module_at(module)
        return self._versions.of(driver, known.file) if known is not None else None

    def is_before(self, driver: Driver, module: ModuleInfo, version: tuple[int, ...]) -> bool:
        """Whether the project has a module run with a driver that is older than that version."""
        said = self.config.drivers.get(driver.name)
        if said is not None and said.version is not None:
            return Version(said.version, "").numbers < version
        names = driver.distributions or (driver.name,)
        return any(self._versions.is_below(name, module.file, version) for name in names)

    @cached_property
    def binds_on_server(self) -> bool:
        """Whether a connection whose driver is not told leaves the parameters of a statement to the server."""
        seen = filter(None, map(drivers.by_name, self._imported))
        return self._versions.bind_on_server and all(driver.binding is not Binding.CLIENT for driver in seen)

    def uses(self, package: str) -> bool:
        """Whether the program imports a package, or its project requires the distribution of that name."""
        loaded = (part.loads.partition(".")[0] for module in self.modules for part in module.imports)
        return package in loaded or package.replace("_", "-") in self._versions.required

    @cached_property
    def holder_checks(self) -> HolderChecks:
        """The functions that ask whether a job is still their worker's."""
        return HolderChecks(self.modules)

    @cached_property
    def pooler(self) -> Pooler | None:
        """The pooler that stands before the database and gives connections to others after each transaction."""
        return find_pooler(self.config.pool_mode, self.inventory.beside)

    @cached_property
    def limits(self) -> frozenset[str]:
        """The server's settings that limit how long something takes, of those that any source speaks of."""
        from auditor.search import search

        found = search(self.inventory.files, [name.encode() for name in LIMITS])
        return frozenset(LIMITS[number] for numbers in found.values() for number in numbers)

    def database_settings(self, alias: str) -> DatabaseSettings:
        """What Django's settings say of a database; nothing where none are seen that name it."""
        return self._database_settings.get(alias, UNSEEN)

    def likely_driver(self, module: ModuleInfo) -> Driver | None:
        """The driver that SQL in this module goes through when nothing else tells: the only one that is imported."""
        return self.driver_in(module) or _only(self._imported)

    @cached_property
    def _imported(self) -> frozenset[str]:
        """The drivers that any module which matters imports."""
        return frozenset(driver for known in self.modules for driver in drivers_of(known))

    def driver_in(self, module: ModuleInfo) -> Driver | None:
        """The driver that a module itself uses, or that the configuration names."""
        return drivers.by_name(self.config.default_driver or "") or _only(drivers_of(module))


def _last_of(origins: Iterable[Origin], first: Origin, end: int) -> Origin:
    """The stretch of the same string, behind holes that are filled in, up to which one that ends there goes."""
    same = (one for one in origins if one.path == first.path and one.span == first.span and one.start < end)
    return max((one for one in same if one[4:] > first[4:]), key=lambda one: one.start, default=first)


def _only(found: frozenset[str] | set[str]) -> Driver | None:
    return drivers.by_name(next(iter(found))) if len(found) == 1 else None
