"""The same facts twice: as PostgreSQL's own grammar sees a statement (through pglast), and as we do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pglast import ast, parse_sql
from pglast.parser import ParseError

from auditor.sql.everyday import EVERYDAY
from auditor.sql.meaning import Change, Kind, Statement, Term, TermKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Name = tuple[str, str]  # schema and name
Setting = tuple[str, str, str]  # change, name, local


class Facts(NamedTuple):
    """What must be equal."""

    kind: str
    reads: frozenset[Name]
    writes: frozenset[Name]
    settings: frozenset[Setting]
    setting_reads: frozenset[tuple[str, bool]]
    calls: frozenset[Name]
    locks: tuple[tuple[str, bool, bool], ...]
    assigned: tuple[str, ...]
    attached: frozenset[Setting]  #: settings of a function, a role or a database
    transaction: tuple[str, bool, bool, str]  #: isolation, read only, chain, savepoint or statement


def differences(ours: Facts, theirs: Facts) -> list[str]:
    pairs = zip(Facts._fields, ours, theirs, strict=True)
    return [f"{name}: ours {mine!r}, PostgreSQL's {his!r}" for name, mine, his in pairs if mine != his]


# PostgreSQL's


def parse(text: str) -> list[ast.RawStmt] | None:
    """PostgreSQL's statements, or None where it takes the text for an error."""
    try:
        return list(parse_sql(text))
    except (ParseError, UnicodeError, ValueError, RecursionError):
        return None


def facts_of_tree(node: Any) -> Facts:
    visitor = _Visitor()
    kind = _kind(node)
    visitor.statement(node)
    return Facts(
        kind.value,
        frozenset(visitor.reads),
        frozenset(visitor.writes),
        frozenset(visitor.settings),
        frozenset(visitor.setting_reads),
        frozenset(visitor.calls),
        tuple(sorted(visitor.locks)),
        tuple(sorted(visitor.assigned)),
        frozenset(visitor.attached),
        _transaction(node),
    )


_KINDS: dict[str, Kind] = {
    "CallStmt": Kind.CALL,
    "ClosePortalStmt": Kind.CLOSE,
    "CopyStmt": Kind.COPY,
    "CreatePolicyStmt": Kind.CREATE_POLICY,
    "AlterPolicyStmt": Kind.ALTER_POLICY,
    "CreateRoleStmt": Kind.CREATE_ROLE,
    "AlterRoleStmt": Kind.ALTER_ROLE,
    "AlterRoleSetStmt": Kind.ALTER_ROLE,
    "AlterDatabaseStmt": Kind.ALTER_DATABASE,
    "AlterDatabaseSetStmt": Kind.ALTER_DATABASE,
    "AlterDatabaseRefreshCollStmt": Kind.ALTER_DATABASE,
    "CreateFunctionStmt": Kind.CREATE_FUNCTION,
    "CreateForeignTableStmt": Kind.CREATE_TABLE,
    "CreateStmt": Kind.CREATE_TABLE,
    "CreateTrigStmt": Kind.CREATE_TRIGGER,
    "IndexStmt": Kind.CREATE_INDEX,
    "ViewStmt": Kind.CREATE_VIEW,
    "DeallocateStmt": Kind.DEALLOCATE,
    "DeclareCursorStmt": Kind.DECLARE,
    "DeleteStmt": Kind.DELETE,
    "DiscardStmt": Kind.DISCARD,
    "DoStmt": Kind.DO,
    "ExecuteStmt": Kind.EXECUTE,
    "ExplainStmt": Kind.EXPLAIN,
    "FetchStmt": Kind.FETCH,
    "InsertStmt": Kind.INSERT,
    "ListenStmt": Kind.LISTEN,
    "LockStmt": Kind.LOCK,
    "MergeStmt": Kind.MERGE,
    "NotifyStmt": Kind.NOTIFY,
    "PrepareStmt": Kind.PREPARE,
    "TruncateStmt": Kind.TRUNCATE,
    "UnlistenStmt": Kind.UNLISTEN,
    "UpdateStmt": Kind.UPDATE,
    "VariableShowStmt": Kind.SHOW,
    "CommentStmt": Kind.DDL,
    "SecLabelStmt": Kind.DDL,
    "RuleStmt": Kind.DDL,
    "DefineStmt": Kind.DDL,
    "ReassignOwnedStmt": Kind.DDL,
    "ImportForeignSchemaStmt": Kind.DDL,
    "CompositeTypeStmt": Kind.DDL,
    "AlterSystemStmt": Kind.OTHER,
    "AlterTableMoveAllStmt": Kind.ALTER_TABLE,
    "AlterSeqStmt": Kind.ALTER_TABLE,
}
_RELATIONS = ("TABLE", "VIEW", "INDEX", "SEQUENCE", "MATVIEW", "FOREIGN_TABLE")
_ALTERED = {
    **{f"OBJECT_{name}": Kind.ALTER_TABLE for name in _RELATIONS},
    "OBJECT_POLICY": Kind.ALTER_POLICY,
    "OBJECT_ROLE": Kind.ALTER_ROLE,
    "OBJECT_DATABASE": Kind.ALTER_DATABASE,
}
_TRANSACTIONS = {
    "BEGIN": Kind.BEGIN,
    "START": Kind.BEGIN,
    "COMMIT": Kind.COMMIT,
    "ROLLBACK": Kind.ROLLBACK,
    "SAVEPOINT": Kind.SAVEPOINT,
    "RELEASE": Kind.RELEASE,
    "ROLLBACK_TO": Kind.ROLLBACK_TO,
    "PREPARE": Kind.PREPARE_TRANSACTION,
}


def _kind(node: Any) -> Kind:
    name = type(node).__name__
    if name in _KINDS:
        return _KINDS[name]
    if name == "SelectStmt":
        first = node
        while first.larg is not None:
            first = first.larg
        return Kind.VALUES if first.valuesLists else Kind.SELECT
    if name == "TransactionStmt":
        return _TRANSACTIONS.get(node.kind.name.removeprefix("TRANS_STMT_"), Kind.OTHER)
    if name == "VariableSetStmt":
        if node.kind.name == "VAR_SET_MULTI":
            return Kind.SET_TRANSACTION
        return Kind.RESET if node.kind.name in ("VAR_RESET", "VAR_RESET_ALL") else Kind.SET
    if name == "CreateTableAsStmt":
        return Kind.CREATE_VIEW if node.objtype.name == "OBJECT_MATVIEW" else Kind.CREATE_TABLE
    if name in ("GrantStmt", "GrantRoleStmt"):
        return Kind.GRANT if node.is_grant else Kind.REVOKE
    if name == "VacuumStmt":
        return Kind.VACUUM if node.is_vacuumcmd else Kind.OTHER
    if name == "DropStmt":
        return Kind.DROP_POLICY if node.removeType.name == "OBJECT_POLICY" else Kind.DDL
    return _altered(node, name)


def _altered(node: Any, name: str) -> Kind:
    types = [getattr(node, field, None) for field in ("objtype", "renameType", "objectType", "relationType")]
    if name in ("AlterTableStmt", "RenameStmt", "AlterOwnerStmt", "AlterObjectSchemaStmt", "AlterObjectDependsStmt"):
        if any(kind is not None and kind.name == "OBJECT_TABCONSTRAINT" for kind in types):
            return Kind.ALTER_TABLE
        part = any(kind is not None and kind.name in ("OBJECT_COLUMN", "OBJECT_ATTRIBUTE") for kind in types)
        for kind in types[3:] if part else types[:3]:
            if kind is not None:
                return _ALTERED.get(kind.name, Kind.DDL)
    return Kind.DDL if name.startswith(("Create", "Alter", "Drop", "Createdb", "Dropdb")) else Kind.OTHER


def _transaction(node: Any) -> tuple[str, bool, bool, str]:
    name = type(node).__name__
    if name == "VariableSetStmt" and node.kind.name == "VAR_SET_MULTI":
        return (*_modes(node.args), False, "")
    if name == "TransactionStmt" and _kind(node) is not Kind.OTHER:
        return (*_modes(node.options), bool(node.chain), node.savepoint_name or node.gid or "")
    if name in ("PrepareStmt", "ExecuteStmt", "DeallocateStmt"):
        return "", False, False, node.name or "all"
    if name in ("DeclareCursorStmt", "ClosePortalStmt", "FetchStmt"):
        return "", False, False, node.portalname or "all"
    if name in ("ListenStmt", "UnlistenStmt", "NotifyStmt"):
        return "", False, False, node.conditionname or "*"
    if name == "DiscardStmt":
        return "", False, False, node.target.name.removeprefix("DISCARD_").lower()
    return "", False, False, ""


def _modes(options: Any) -> tuple[str, bool]:
    isolation, read_only = "", False
    for option in options or ():
        name = getattr(option, "defname", "")
        if name == "transaction_isolation":
            isolation = option.arg.val.sval
        if name == "transaction_read_only":
            read_only = bool(option.arg.val.ival)
    return isolation, read_only


class _Visitor:
    def __init__(self) -> None:
        self.reads: list[Name] = []
        self.writes: list[Name] = []
        self.settings: list[Setting] = []
        self.setting_reads: list[tuple[str, bool]] = []
        self.calls: list[Name] = []
        self.locks: list[tuple[str, bool, bool]] = []
        self.assigned: list[str] = []
        self.attached: list[Setting] = []

    def statement(self, node: Any) -> None:
        name = type(node).__name__
        visit = _VISITORS.get(name)
        if visit is not None:
            visit(self, node)
        elif name in ("SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt"):
            self.query(node, frozenset())

    def explain(self, node: Any) -> None:
        runs = False
        for option in node.options or ():
            if option.defname == "analyze":
                value = option.arg
                shown = getattr(value, "sval", None) or str(getattr(value, "ival", getattr(value, "boolval", True)))
                runs = shown.lower() not in ("off", "false", "0")
        if runs:
            self.statement(node.query)

    def inner_query(self, node: Any) -> None:
        self.statement(node.query)

    def create_table_as(self, node: Any) -> None:
        if type(node.query).__name__ != "ExecuteStmt":
            self.statement(node.query)

    def create_table(self, node: Any) -> None:
        """What defaults and checks read is no reading of rows now."""
        inner = _Visitor()
        inner.walk(node.tableElts, frozenset())
        self.settings += inner.settings
        self.setting_reads += inner.setting_reads

    def copy(self, node: Any) -> None:
        if node.query is not None:
            self.statement(node.query)
        else:
            (self.writes if node.is_from else self.reads).append(_range(node.relation))

    def truncate(self, node: Any) -> None:
        self.writes += [_range(relation) for relation in node.relations]

    def lock(self, node: Any) -> None:
        self.reads += [_range(relation) for relation in node.relations]

    def refresh(self, node: Any) -> None:
        self.writes.append(_range(node.relation))

    def call(self, node: Any) -> None:
        call = node.funccall
        self.calls.append((call.funcname[-2].sval if len(call.funcname) > 1 else "", call.funcname[-1].sval))
        self.walk(call.args, frozenset())

    def execute(self, node: Any) -> None:
        self.walk(node.params, frozenset())
        self.calls.clear()

    def set(self, node: Any) -> None:
        if node.kind.name != "VAR_SET_MULTI":
            self.settings.append(_setting(node))

    def show(self, node: Any) -> None:
        if node.name != "all":
            self.setting_reads.append((node.name.lower(), False))

    def discard(self, node: Any) -> None:
        if node.target.name == "DISCARD_ALL":
            names = ("session_authorization", "role")
            self.settings += [("reset", name, "false") for name in names] + [("reset all", "", "false")]

    def attach(self, node: Any) -> None:
        self.attached.append(_setting(node.setstmt))

    def function(self, node: Any) -> None:
        for option in getattr(node, "options", None) or getattr(node, "actions", None) or ():
            if option.defname == "set":
                change, name, _ = _setting(option.arg)
                self.attached.append((change, name, "true" if change == "set" else "false"))

    def trigger(self, node: Any) -> None:
        self._call(node.funcname, ())

    # Queries

    def query(self, node: Any, known: frozenset[str]) -> None:
        known = self._ctes(node, known)
        name = type(node).__name__
        if name == "SelectStmt":
            self.walk_fields(node, known, skip=("withClause", "intoClause", "lockingClause"))
            self.locks += [_lock(lock) for lock in (node.lockingClause or ())[:1]]
            return
        self.writes.append(_range(node.relation))
        if name == "MergeStmt":
            self._merge(node, known)
        elif name == "InsertStmt":
            self._insert(node, known)
        elif name == "UpdateStmt":
            self.assigned += [target.name for target in node.targetList or ()]
            self.walk_fields(node, known, skip=("withClause", "relation"))
        else:
            self.walk_fields(node, known, skip=("withClause", "relation"))

    def _insert(self, node: Any, known: frozenset[str]) -> None:
        self.assigned += [column.name for column in node.cols or ()][: _width(node.selectStmt)]
        if node.onConflictClause is not None:
            self.assigned += [target.name for target in node.onConflictClause.targetList or ()]
        self.walk_fields(node, known, skip=("withClause", "relation", "cols"))

    def _merge(self, node: Any, known: frozenset[str]) -> None:
        for clause in node.mergeWhenClauses or ():
            names = [target.name for target in clause.targetList or ()]
            self.assigned += names[: len(clause.values)] if clause.values else names
        self.walk_fields(node, known, skip=("withClause", "relation"))

    def _ctes(self, node: Any, known: frozenset[str]) -> frozenset[str]:
        clause = node.withClause
        if clause is None:
            return known
        if clause.recursive:
            known |= {cte.ctename for cte in clause.ctes}
        for cte in clause.ctes:
            self.query(cte.ctequery, known)
            known |= {cte.ctename}
        return known

    def walk_fields(self, node: Any, known: frozenset[str], *, skip: tuple[str, ...] = ()) -> None:
        for field in node:
            if field not in skip:
                self.walk(getattr(node, field), known)

    def walk(self, found: Any, known: frozenset[str]) -> None:
        node: Any = found
        if isinstance(node, tuple):
            for one in node:
                self.walk(one, known)
        elif isinstance(found, ast.Node):
            name = type(node).__name__
            if name in ("SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt"):
                self.query(node, known)
            elif name == "RangeVar":
                if node.schemaname or node.relname not in known:
                    self.reads.append(_range(node))
            elif name == "FuncCall":
                # What SQL writes without naming a function, such as OVERLAPS, the grammar makes a call of its own.
                if node.funcformat.name != "COERCE_SQL_SYNTAX" and node.funcname[-1].sval not in _UNNAMED:
                    self._call(node.funcname, node.args or ())
                self.walk_fields(node, known)
            else:
                self.walk_fields(node, known)

    def _call(self, names: Any, arguments: Any) -> None:
        parts = [part.sval for part in names]
        schema, name = (parts[-2] if len(parts) > 1 else ""), parts[-1]
        plain = schema in ("", "pg_catalog")
        if plain and name == "set_config" and len(arguments) == 3:
            self.settings.append(("set", _constant(arguments[0]).lower(), _constant(arguments[2])))
        elif plain and name == "current_setting":
            missing = len(arguments) > 1 and _constant(arguments[1]) != "false"
            self.setting_reads.append((_constant(arguments[0]).lower(), missing))
        elif not plain or name not in EVERYDAY:
            self.calls.append((schema, name))


_VISITORS: dict[str, Callable[[_Visitor, Any], None]] = {
    "AlterDatabaseSetStmt": _Visitor.attach,
    "AlterFunctionStmt": _Visitor.function,
    "AlterRoleSetStmt": _Visitor.attach,
    "AlterSystemStmt": _Visitor.attach,
    "CallStmt": _Visitor.call,
    "CopyStmt": _Visitor.copy,
    "CreateFunctionStmt": _Visitor.function,
    "CreateStmt": _Visitor.create_table,
    "CreateTableAsStmt": _Visitor.create_table_as,
    "CreateTrigStmt": _Visitor.trigger,
    "DeclareCursorStmt": _Visitor.inner_query,
    "DiscardStmt": _Visitor.discard,
    "ExecuteStmt": _Visitor.execute,
    "ExplainStmt": _Visitor.explain,
    "LockStmt": _Visitor.lock,
    "PrepareStmt": _Visitor.inner_query,
    "RefreshMatViewStmt": _Visitor.refresh,
    "TruncateStmt": _Visitor.truncate,
    "VariableSetStmt": _Visitor.set,
    "VariableShowStmt": _Visitor.show,
    "ViewStmt": _Visitor.inner_query,
}
#: What the grammar calls for LIKE … ESCAPE and SIMILAR TO.
_UNNAMED = ("like_escape", "similar_to_escape")


def _width(select: Any) -> int:
    """How many columns an INSERT's source is seen to give: those before a star, of its first row or branch."""
    if select is None:
        return 0
    while select.larg is not None:
        select = select.larg
    if select.valuesLists:
        return len(select.valuesLists[0])
    targets = [type(getattr(target.val, "fields", (0,))[-1]).__name__ for target in select.targetList or ()]
    return targets.index("A_Star") if "A_Star" in targets else len(targets)


def _range(node: Any) -> Name:
    return node.schemaname or "", node.relname


_STRENGTHS = {
    "LCS_FORUPDATE": "update",
    "LCS_FORNOKEYUPDATE": "no key update",
    "LCS_FORSHARE": "share",
    "LCS_FORKEYSHARE": "key share",
}


def _lock(node: Any) -> tuple[str, bool, bool]:
    wait = node.waitPolicy.name
    return _STRENGTHS[node.strength.name], wait == "LockWaitSkip", wait == "LockWaitError"


def _setting(node: Any) -> Setting:
    kind = node.kind.name
    local = "true" if node.is_local else "false"
    if kind == "VAR_RESET_ALL":
        return "reset all", "", local
    change = "reset" if kind in ("VAR_RESET", "VAR_SET_DEFAULT") else "set"
    name: str = node.name
    return change, name.lower(), local


def _constant(node: Any) -> str:
    """A constant as text, through casts; nothing for anything else."""
    while type(node).__name__ == "TypeCast":
        node = node.arg
    value = getattr(node, "val", None)
    if type(node).__name__ != "A_Const" or value is None:
        return ""
    if type(value).__name__ == "Boolean":
        return "true" if value.boolval else "false"
    text = str(getattr(value, "sval", getattr(value, "ival", "")))
    return "true" if text == "t" else "false" if text == "f" else text


# Ours


def facts_of_statement(statement: Statement) -> Facts:
    every = list(_with_bodies(statement))
    queries = [query for one in every for query in one.queries]
    function, role = statement.function, statement.role
    attached = [*(function.settings if function else ()), *(role.settings if role else ())]
    return Facts(
        statement.kind.value,
        frozenset((table.schema, table.name) for one in every for table in one.reads),
        frozenset((table.schema, table.name) for one in every for table in one.writes),
        frozenset(_change(change) for one in every for change in one.settings),
        frozenset((_text(read.name), read.missing_ok) for one in every for read in one.setting_reads),
        frozenset((call.schema, call.name) for one in every for call in one.calls),
        tuple(sorted((lock.strength, lock.skip_locked, lock.nowait) for query in queries if (lock := query.lock))),
        tuple(sorted(assignment.column for query in queries for assignment in query.assignments)),
        frozenset(_change(change) for change in attached),
        (statement.isolation, statement.read_only, statement.chain, _name(statement)),
    )


_NAMED = {
    Kind.SAVEPOINT,
    Kind.RELEASE,
    Kind.ROLLBACK_TO,
    Kind.PREPARE_TRANSACTION,
    Kind.PREPARE,
    Kind.EXECUTE,
    Kind.DEALLOCATE,
    Kind.DECLARE,
    Kind.CLOSE,
    Kind.FETCH,
    Kind.LISTEN,
    Kind.UNLISTEN,
    Kind.NOTIFY,
    Kind.DISCARD,
}


def _name(statement: Statement) -> str:
    return statement.name if statement.kind in _NAMED else ""


def _with_bodies(statement: Statement) -> Iterator[Statement]:
    yield statement
    for inner in statement.body:
        yield from _with_bodies(inner)


def _change(change: Any) -> Setting:
    kind = "set" if change.change is Change.SET else change.change.value
    return kind, _text(change.name), _text(change.local)


def _text(term: Term) -> str:
    if term.kind in (TermKind.TRUE, TermKind.FALSE):
        return str(term.kind.value)
    return term.text if term.kind is TermKind.LITERAL else ""
