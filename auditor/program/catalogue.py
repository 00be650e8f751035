"""What the program's SQL says about the database: functions, tables, policies, roles, tenant settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from auditor.findings import Confidence
from auditor.frozen import dataclass
from auditor.program.keys import Keys
from auditor.sql.meaning import (
    Function,
    Kind,
    Policy,
    RoleFacts,
    RowSecurity,
    SettingRead,
    Span,
    Statement,
    Table,
    TableShape,
    TermKind,
)

if TYPE_CHECKING:
    from auditor.findings import Place

Locator = Callable[[Span], "Place"]

#: What stands for a name that is only known at run time; behind it may stand what the program calls it.
UNNAMED = "…"
#: Words in the name of a custom setting that say it names a tenant.
TENANT_WORDS = frozenset(
    [
        "tenant",
        "tenants",
        "tenantid",
        "org",
        "orgs",
        "orgid",
        "organization",
        "organisation",
        "account",
        "accountid",
        "workspace",
        "company",
        "customer",
        "customerid",
        "client",
        "user",
        "userid",
        "uid",
        "school",
        "site",
        "shop",
        "store",
        "team",
        "member",
        "owner",
        "principal",
        "claims",
    ]
)

#: What settings are called beside that, which say on whose behalf a session works.
_ON_BEHALF = frozenset(
    {
        *("claim", "actor", "subject", "viewer", "business", "clinic", "practice", "merchant", "agency", "vendor"),
        *("seller", "partner", "brand", "project", "namespace", "subscriber", "empresa"),
    }
)


def is_unnamed(name: str) -> bool:
    """Whether nothing is known of a name; of `…_jobs`, which a prefix is put before, its end is."""
    return name.startswith(UNNAMED) and not name.startswith(f"{UNNAMED}_")


@dataclass(frozen=True)
class Located:
    """A statement with the way from its offsets to a file."""

    statement: Statement
    locate: Locator

    @property
    def place(self) -> Place:
        return self.locate(self.statement.span)

    def place_of(self, table: Table) -> Place:
        """Where a table stands in the statement; the statement, where the name is put in from elsewhere."""
        place, named = self.place, self.locate(table.span)
        return named if place.holds(named) else place


#: Folders of migrations.
_STEPS = frozenset({"migrations", "migration", "versions", "migrate"})


@dataclass(frozen=True)
class SqlFunction:
    function: Function
    locate: Locator
    path: str

    @property
    def place(self) -> Place:
        return self.locate(self.function.body_span)

    @property
    def calls(self) -> Iterator[str]:
        """The names of the functions that it calls, in lower case."""
        return (call.name.lower() for statement in self.function.body for call in statement.calls)

    @property
    def is_step(self) -> bool:
        """Whether it stands among migrations, which tell how a schema came about, and not what is kept as a whole."""
        return not _STEPS.isdisjoint(self.path.split("/")[:-1])


@dataclass(frozen=True)
class PolicyFact:
    policy: Policy
    locate: Locator
    span: Span
    kind: Kind = Kind.CREATE_POLICY

    @property
    def place(self) -> Place:
        return self.locate(self.span)


@dataclass
class TableFacts:
    """What is said of one table, by its bare name."""

    name: str
    columns: dict[str, str] = field(default_factory=dict)
    enabled: list[Place] = field(default_factory=list)
    disabled: list[Place] = field(default_factory=list)
    forced: list[Place] = field(default_factory=list)
    policies: list[PolicyFact] = field(default_factory=list)
    dropped: list[PolicyFact] = field(default_factory=list)
    owner: str = ""
    #: Where anything is said of it.
    told: list[Place] = field(default_factory=list)


class Catalogue:
    """Filled statement by statement; the order of files does not matter, since migrations may come in any."""

    def __init__(self, tenant_settings: tuple[str, ...] = ()) -> None:
        self.functions: dict[str, list[SqlFunction]] = {}
        self.tables: dict[str, TableFacts] = {}
        self.roles: dict[str, list[RoleFacts]] = {}
        self.keys = Keys()
        self.located: list[Located] = []
        #: Conditions of policies that are kept apart from them.
        self.clauses: list[PolicyFact] = []
        #: Where functions are dropped, by their names.
        self.drops: dict[str, list[Place]] = {}
        #: The names of functions that revisions, run in their order, have dropped in the end.
        self.gone: set[str] = set()
        self._configured = frozenset(name.lower() for name in tenant_settings)
        self._seen: set[tuple[str, int, int, str]] = set()
        #: The settings that policies read, as long as nothing else is told.
        self._settings_read: frozenset[str] | None = None

    def add(self, statement: Statement, locate: Locator) -> None:
        """Take in a statement; one that was taken in before, at the same place, is not counted again."""
        place = locate(statement.span)
        key = (place.path, place.line, place.column, statement.text)
        if key in self._seen:
            return
        self._seen.add(key)
        self.located.append(Located(statement, locate))
        self._take(statement, locate)

    def _take(self, statement: Statement, locate: Locator) -> None:
        self._settings_read = None
        place = locate(statement.span)
        if statement.function is not None and statement.function.name:
            known = self.functions.setdefault(statement.function.name.lower(), [])
            known.append(SqlFunction(statement.function, locate, place.path))
        for name in statement.dropped_functions:
            self.drops.setdefault(name.lower(), []).append(place)
        if statement.policy is not None:
            fact = PolicyFact(statement.policy, locate, statement.span, statement.kind)
            self._take_policy(fact)
            self.table(statement.policy.table.name).told.append(place)
        for change in statement.row_security:
            self._take_row_security(change, Located(statement, locate).place_of(change.table))
            self.table(change.table.name).told.append(place)
        if statement.shape is not None:
            self._take_shape(statement.shape, place)
        if statement.role is not None:
            self.roles.setdefault(statement.role.name, []).append(statement.role)
        for inner in (*(statement.function.body if statement.function else ()), *statement.body):
            if inner.policy or inner.row_security or inner.shape or inner.role:
                self.add(inner, locate)

    def _take_policy(self, fact: PolicyFact) -> None:
        facts = self.table(fact.policy.table.name)
        (facts.dropped if fact.kind is Kind.DROP_POLICY else facts.policies).append(fact)

    def _take_row_security(self, change: RowSecurity, place: Place) -> None:
        facts = self.table(change.table.name)
        places = {"enable": facts.enabled, "disable": facts.disabled, "force": facts.forced}.get(change.action)
        if places is not None:
            places.append(place)

    def _take_shape(self, shape: TableShape, place: Place) -> None:
        facts = self.table(shape.table.name)
        facts.told.append(place)
        facts.columns.update((column.name, column.type) for column in shape.columns)
        self.keys.add(shape.table.name, (column.name for column in shape.columns if column.unique))
        facts.owner = shape.owner or facts.owner

    def take_over(self, other: Catalogue, outdated: Callable[[Place], bool]) -> None:
        """Take in what another tells, which knows better of places that are `outdated` here."""
        self._settings_read = None
        self.keys.take_over(other.keys)
        self.located = [one for one in self.located if not outdated(one.place)]
        for facts in self.tables.values():
            facts.policies = [fact for fact in facts.policies if not outdated(fact.place)]
            facts.dropped = [fact for fact in facts.dropped if not outdated(fact.place)]
            for places in (facts.enabled, facts.disabled, facts.forced, facts.told):
                places[:] = [place for place in places if not outdated(place)]
        self.tables = {name: facts for name, facts in self.tables.items() if facts.told}
        self.located.extend(other.located)
        for name, told in other.tables.items():
            facts = self.table(name)
            facts.columns.update(told.columns)
            facts.owner = told.owner or facts.owner
            facts.told.extend(told.told)
            facts.policies.extend(told.policies)
            facts.enabled.extend(told.enabled)
            facts.forced.extend(told.forced)
        for function, known in other.functions.items():
            self.functions.setdefault(function, []).extend(known)
        self.gone.update(other.drops)
        for role, told_of in other.roles.items():
            self.roles.setdefault(role, []).extend(told_of)

    def table(self, name: str) -> TableFacts:
        """What is known of a table, by its bare name; made empty when nothing was."""
        return self.tables.setdefault(name, TableFacts(name))

    def function(self, name: str) -> SqlFunction | None:
        """The function of that bare name; of several the last, of the schema kept as a whole if there is one."""
        known = self.functions.get(name.lower(), ())
        whole = [one for one in known if not one.is_step]
        return next(reversed(whole or known), None)

    def defined(self) -> Iterator[tuple[str, SqlFunction]]:
        """Each function by its bare name in lower case, as `function()` tells of it."""
        for name in self.functions:
            found = self.function(name)
            if found is not None:
                yield name, found

    def policies(self) -> Iterator[PolicyFact]:
        for facts in self.tables.values():
            yield from facts.policies

    def returned_expressions(self) -> dict[str, str]:
        """By function name, the expression that it returns, for those that are but a name for one."""
        return {
            name: known[-1].function.returns for name, known in self.functions.items() if known[-1].function.returns
        }

    @property
    def any_policies(self) -> bool:
        """Whether any policy of the program is seen at all."""
        return any(facts.policies for facts in self.tables.values())

    def holds_tenants(self, table: str) -> bool:
        """Whether a table is under a policy that needs a tenant."""
        facts = self.tables.get(table)
        return facts is not None and any(self.reads_tenant(fact.policy) for fact in facts.policies)

    # Which settings name a tenant

    def is_tenant(self, name: str) -> Confidence | None:
        """How sure it is that the setting of that name holds a tenant; None: it does not."""
        name = name.lower()
        if name in self._configured or (name in self.policy_settings() and "." in name):
            return Confidence.HIGH
        return Confidence.MEDIUM if "." in name and _sounds_like_tenant(name) else None

    def policy_settings(self) -> frozenset[str]:
        """The settings that policies read, through functions too."""
        if self._settings_read is None:
            self._settings_read = frozenset(name for fact in self.policies() for name in self._needed_by(fact.policy))
        return self._settings_read

    def _needed_by(self, policy: Policy) -> set[str]:
        names = set(_names(policy.reads))
        for call in policy.calls:
            names |= self._read_by(call.name, frozenset())
        return names

    def reads_tenant(self, policy: Policy) -> tuple[str, ...]:
        """The tenant settings that a policy needs, in the order of their names.

        A setting whose name is filled in later is one of them: policies read hardly any other.
        """
        found = sorted(name for name in self._needed_by(policy) if self.is_tenant(name) is not None)
        filled_in = any(read.name.kind is TermKind.HOLE or read.name.holes for read in policy.reads)
        return (*found, UNNAMED) if filled_in else tuple(found)

    def _read_by(self, function: str, above: frozenset[str]) -> set[str]:
        if function in above:
            return set()
        names: set[str] = set()
        for known in self.functions.get(function.lower(), ()):
            for statement in known.function.body:
                names.update(_names(statement.setting_reads))
                for call in statement.calls:
                    names |= self._read_by(call.name, above | {function})
        return names


def _names(reads: tuple[SettingRead, ...]) -> set[str]:
    return {read.name.text.lower() for read in reads if read.name.kind is TermKind.LITERAL and not read.name.holes}


#: Words that name a tenant wherever they stand; others do so only in the name of a setting.
_TENANTS = frozenset(
    {
        *("tenant", "tenants", "tenantid", "org", "orgid", "organization", "organisation", "customer", "customerid"),
        *("company", "workspace", "account"),
    }
)
_WORDS = re.compile(r"[a-z]+|[A-Z][a-z]*")


def names_tenant(text: str) -> bool:
    """Whether a text, of code or of a name, has a word for a tenant in it."""
    return any(word.lower() in _TENANTS for word in _WORDS.findall(text))


def _sounds_like_tenant(name: str) -> bool:
    words = name.replace(".", "_").replace("-", "_").split("_")
    # What is named after row security is there for policies to read.
    return not (TENANT_WORDS | _ON_BEHALF).isdisjoint(words) or "rls" in words
