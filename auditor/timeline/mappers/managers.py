"""What stands before a query of Django's ORM, or Tortoise's: managers, the project's classes of queries, and models.

Facts: the documentation's page "Managers", and `from_queryset` and `as_manager` in `django/db/models/manager.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.drivers import django, tortoise
from auditor.program.tree import descend
from auditor.python import nodes
from auditor.timeline.model.values import Class, External, Literal, Query, Text, Value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from auditor.drivers import Driver
    from auditor.program.code import ClassInfo, ModuleInfo
    from auditor.timeline.walking.walker import Walker

#: Names under which a model has a manager, whatever makes it.
NAMES = frozenset({"objects", "_default_manager", "_base_manager"})
_QUERY_CLASSES = ("Manager", "QuerySet")
#: Classes of queries that are made from one another, so many steps at most.
_DEEPEST = 6


class Managers:
    """Finds them, on behalf of a walk."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._models: dict[ClassInfo, bool] = {}
        self._kinds: dict[ClassInfo, tuple[ClassInfo, ...]] = {}
        self._concrete: dict[ClassInfo, ClassInfo] = {}
        self._of_kind: dict[ClassInfo, ClassInfo | None] = {}

    # Models

    def is_model(self, info: ClassInfo) -> bool:
        known = self._models.get(info)
        if known is None:
            names = self.walker.objects.library_names(info)
            known = any(name.endswith("Model") and ".models" in name for name in names)
            known = known or bool(names & tortoise.DRIVER.models)
            self._models[info] = known
        return known

    def table(self, info: ClassInfo) -> str:
        """The table of a model: its Meta.db_table, else the name of its app and its own."""
        if self.driver(info) is tortoise.DRIVER:
            named = self._meta(info, "table")
            return named.value if isinstance(named, Text) else info.node.name.lower()
        said = self._meta(info, "db_table")
        if isinstance(said, Text):
            return said.value
        label = self._meta(info, "app_label")
        app = label.value if isinstance(label, Text) else _app_of(info.module)
        return f"{app}_{info.node.name.lower()}"

    def driver(self, info: ClassInfo) -> Driver:
        """The driver that the statements of a model go through."""
        names = self.walker.objects.library_names(info)
        return tortoise.DRIVER if names & tortoise.DRIVER.models else django.DRIVER

    def _meta(self, info: ClassInfo, name: str) -> Value | None:
        for cls in self.walker.objects.lineage(info):
            meta = self.walker.objects.meta(cls)
            if meta is None:
                continue
            value = self.walker.objects.class_member(meta, name)
            if isinstance(value, Literal) or (isinstance(value, Text) and not value.holes):
                return value
            if name != "app_label":
                return None
        return None

    def _is_abstract(self, info: ClassInfo) -> bool:
        return "Meta" in info.members and self._meta(info, "abstract") == Literal(True)

    def concrete(self, info: ClassInfo) -> ClassInfo:
        """The model that has a table of its own where an abstract one has none: the first that is derived from it."""
        known = self._concrete.get(info)
        if known is None:
            known = info
            if self.is_model(info) and self._is_abstract(info):
                heirs = (cls for cls in self._derived(info) if info in self.walker.objects.lineage(cls))
                known = next((heir for heir in heirs if not self._is_abstract(heir)), info)
            self._concrete[info] = known
        return known

    def _derived(self, info: ClassInfo) -> list[ClassInfo]:
        """The classes that may be derived from one, told by names: to look closer is to load their modules."""
        names, found = {info.node.name}, []
        waiting = list(self.walker.program.classes())
        for _ in range(_DEEPEST):
            more = [cls for cls in waiting if cls.base_names & names]
            if not more:
                break
            found.extend(more)
            names = {cls.node.name for cls in more}
            waiting = [cls for cls in waiting if cls not in more]
        return found

    def may_be_of(self, info: ClassInfo, tables: Collection[str]) -> bool:
        """Whether a class may stand for one of these tables, by its name and by what is written in it."""
        name = info.node.name.lower()
        if any(table.endswith(name) for table in tables):
            return True
        named = (
            part.pieces[0] for part in descend(info.node.body) if isinstance(part, nodes.Text) and len(part.pieces) == 1
        )
        return any(text in tables for text in named)

    # Managers

    def begins(self, info: ClassInfo, name: str) -> Query | None:
        """The query that a manager begins with: `objects = Jobs.as_manager()`, `JobManager()`, `Manager()`."""
        for cls in self.walker.objects.lineage(info):
            member = cls.members.get(name)
            if isinstance(member, nodes.Assign) and member.value is not None:
                kinds, plain = self._made_from(member.value, cls.module)
                known = bool(kinds) or plain or name in NAMES
                return Query(info, kinds) if known else None
        return Query(info) if name in NAMES else None

    def _made_from(
        self, expression: nodes.Expression, module: ModuleInfo, depth: int = 0
    ) -> tuple[tuple[ClassInfo, ...], bool]:
        """The project's classes of queries that an expression makes one from, and whether Django's own are in it."""
        objects = self.walker.objects
        frame = self.walker.names.module_frame(module)
        kinds: list[ClassInfo] = []
        plain = False
        for part in descend(expression):
            if not isinstance(part, (nodes.Name, nodes.Attribute)):
                continue
            value = objects.constant(part, frame)
            if isinstance(value, Class):
                kinds.extend(self._kinds_of(value.info, depth + 1))
            elif isinstance(value, External):
                plain = plain or value.name.endswith(_QUERY_CLASSES)
            elif isinstance(part, nodes.Name) and depth < _DEEPEST:
                # `JobManager = Manager.from_queryset(Jobs)`
                for bound in module.bound.get(part.id, ()):
                    if isinstance(bound, nodes.Assign) and bound.value is not None and bound.value is not expression:
                        more, base = self._made_from(bound.value, module, depth + 1)
                        kinds.extend(more)
                        plain = plain or base
        return tuple(dict.fromkeys(kinds)), plain

    def _kinds_of(self, info: ClassInfo, depth: int = 0) -> tuple[ClassInfo, ...]:
        """A class of queries with those that its bases are made from; nothing for any other class."""
        known = self._kinds.get(info)
        if known is None:
            self._kinds[info] = ()
            made: list[ClassInfo] = []
            plain = any(name.endswith(_QUERY_CLASSES) for name in self.walker.objects.library_names(info))
            for cls in self.walker.objects.lineage(info):
                for base in cls.node.bases if depth < _DEEPEST else ():
                    more, below = self._made_from(base, cls.module, depth + 1)
                    made.extend(one for one in more if one is not info)
                    plain = plain or below
            known = self._kinds[info] = (info, *dict.fromkeys(made)) if plain or made else ()
        return known

    def makes_queries(self, info: ClassInfo) -> bool:
        return bool(self._kinds_of(info))

    def query(self, info: ClassInfo, model: Value) -> Query | None:
        """`Jobs(self.model, using=self._db)`: a query of the project's own class, made by hand."""
        if not isinstance(model, Class) or not self.is_model(model.info):
            return None
        kinds = self._kinds_of(info)
        return Query(model.info, kinds) if kinds else None

    # Methods that nothing is seen to call

    def stand_in(self, info: ClassInfo) -> Value | None:
        """What a method that nobody is seen to call is called on: a query of the model whose manager the class is.

        Of an abstract model it is an object of the model that has the table. None for any other class.
        """
        if self.makes_queries(info):
            model = self._user(info)
            return self._begun_with(model, info) if model is not None else None
        if self.is_model(info):
            concrete = self.concrete(info)
            return self.walker.types.instance(concrete) if concrete is not info else None
        return None

    def _begun_with(self, model: ClassInfo, info: ClassInfo) -> Query:
        for name in self._manager_names(model):
            begun = self.begins(model, name)
            if begun is not None and info in begun.kinds:
                return begun
        return Query(model, self._kinds_of(info))

    def _user(self, kind: ClassInfo) -> ClassInfo | None:
        """The first model that has a manager of a class of queries."""
        if kind not in self._of_kind:
            self._of_kind[kind] = None
            named = {kind.node.name, *(cls.node.name for cls in self._derived(kind))}
            for info in self.walker.program.classes():
                if self._may_use(info, named) and self.is_model(info) and kind in self.kinds_for(info):
                    self._of_kind[kind] = self.concrete(info)
                    break
        return self._of_kind[kind]

    def _may_use(self, info: ClassInfo, named: set[str]) -> bool:
        """Whether a class may have such a manager, by the names in it; `objects` may be of a class without a name."""
        for name, member in info.members.items():
            if isinstance(member, nodes.Assign) and isinstance(member.value, nodes.Call):
                inside = {getattr(part, "id", getattr(part, "name", "")) for part in descend(member.value)}
                if name in NAMES or inside & named:
                    return True
        return False

    def kinds_for(self, model: ClassInfo) -> Iterator[ClassInfo]:
        """The project's classes that make the queries of a model."""
        for name in self._manager_names(model):
            begun = self.begins(model, name)
            yield from begun.kinds if begun is not None else ()

    def _manager_names(self, info: ClassInfo) -> Iterator[str]:
        for cls in self.walker.objects.lineage(info):
            for name, member in cls.members.items():
                if isinstance(member, nodes.Assign) and isinstance(member.value, nodes.Call):
                    yield name


def _app_of(module: ModuleInfo) -> str:
    """The label of the app that a module belongs to: the folder around its models."""
    parts = module.name.split(".")
    if "models" in parts[1:]:
        return parts[parts.index("models", 1) - 1]
    if len(parts) > 1:
        return parts[-2]
    folders = module.path.replace("\\", "/").split("/")[:-1]
    return folders[-1] if folders else parts[0]
