"""A sqlglot tree lowered to facts: its queries, the tables they read and write, what they call and set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from auditor.sql.dialect import lock_of, span_of
from auditor.sql.everyday import EVERYDAY
from auditor.sql.facts import Facts
from auditor.sql.meaning import (
    Assignment,
    Call,
    Comparison,
    Kind,
    Query,
    SettingChange,
    SettingRead,
    Table,
    Term,
    TermKind,
)
from auditor.sql.nodes import QUERIES, Nodes, children, function_name, row_of, text_of, walk
from auditor.sql.shapes import (
    assigned_column,
    cte_names,
    flat,
    from_of,
    inserted_columns,
    is_star,
    projections,
    role_of,
    schema_of,
    span_with_schema,
    with_of,
)
from auditor.sql.tails import ends_openly
from auditor.sql.terms import bare, parameter, sets_one, setting_change, setting_read
from auditor.sql.tokens import Lex, Token, is_bare_hole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def facts_of(tree: exp.Expression, tokens: Sequence[Token], text: str) -> Facts:
    """The facts of a whole statement; `(1)` is one too, which sqlglot takes for an expression."""
    reader = _Reader(tokens, text)
    if isinstance(tree, (*QUERIES, exp.Insert, exp.Update, exp.Delete, exp.Merge)):
        reader.query(tree, "top", -1, frozenset())
    else:
        reader.expressions((tree,), -1, frozenset())
    facts = reader.facts()
    if not any(is_bare_hole(token) for token in tokens):
        return facts
    return facts._replace(queries=tuple(_with_tail(query, tokens) for query in facts.queries))


def _with_tail(query: Query, tokens: Sequence[Token]) -> Query:
    if query.verb is not Kind.SELECT:
        return query
    return query._replace(open_tail=ends_openly([token for token in tokens if token.start >= query.span.start]))


class _Draft(NamedTuple):
    """What the parts of a query have come to so far."""

    tables: list[Table]
    conditions: list[Comparison]
    cases: list[Comparison]
    assignments: list[Assignment]


class _Reader:
    def __init__(self, tokens: Sequence[Token], text: str) -> None:
        parameters = {token.start: parameter(token) for token in tokens if token.lex is Lex.PARAMETER}
        self.nodes = Nodes(tokens, parameters, text)
        self.queries: list[Query] = []
        self.reads: list[Table] = []
        self.writes: list[Table] = []
        self.settings: list[SettingChange] = []
        self.setting_reads: list[SettingRead] = []
        self.calls: list[Call] = []

    def facts(self) -> Facts:
        queries = tuple(self.queries)
        lists = (self.reads, self.writes, self.settings, self.setting_reads, self.calls)
        reads, writes, settings, setting_reads, calls = (tuple(dict.fromkeys(found)) for found in lists)
        return Facts(queries, reads, writes, settings, setting_reads, calls)  # type: ignore[arg-type]

    # Queries

    def query(self, node: Any, role: str, parent: int, known: frozenset[str], *, fixed: bool = False) -> int:
        """Read a query and what hangs under it; give its index. `known` are the CTEs it may name."""
        shell: list[exp.Expression] = []
        while isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Table):
            shell.append(node)
            node = node.this
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, shell, role, parent, known, fixed)
        index = len(self.queries)
        self.queries.append(
            Query(Kind.SELECT, self.nodes.select_span(node), role=role, parent=parent, materialized=fixed)
        )
        known = self._ctes([*shell, node], index, known)
        read = _VERBS.get(type(node))
        if read is None:
            self.sources((node,), index, known, _Draft([], [], [], []))
            return index
        query = read(self, node, index, known)
        for outer in shell:
            query = self._modified(query, outer, index, known)
        self.queries[index] = query
        return index

    def _set_operation(
        self, node: Any, shell: list[exp.Expression], role: str, parent: int, known: frozenset[str], fixed: bool
    ) -> int:
        """UNION and its like: the first branch stands for the whole, the others hang under it."""
        branches, modifiers = [], [*shell]
        while isinstance(node, exp.SetOperation):
            modifiers.append(node)
            branches.append(node.args.get("expression"))
            node = node.this
        inside = known.union(*(cte_names(one) for one in modifiers))
        first = self.query(node, role, parent, inside, fixed=fixed)
        for branch in reversed(branches):
            self.query(branch, "union", first, inside)
        self._ctes(modifiers, first, known)
        known = inside
        for outer in modifiers:
            self.queries[first] = self._modified(self.queries[first], outer, first, known)
        return first

    def _ctes(self, nodes: Iterable[Any], parent: int, known: frozenset[str]) -> frozenset[str]:
        """Read the WITH of a query; a CTE sees those before it, and itself and all others only when RECURSIVE."""
        for node in nodes:
            with_ = with_of(node)
            if with_ is None:
                continue
            names = cte_names(node)
            if with_.args.get("recursive"):
                known |= set(names)
            for name, cte in zip(names, with_.expressions, strict=True):
                self.query(cte.this, "cte", parent, known, fixed=bool(cte.args.get("materialized")))
                known |= {name}
        return known

    def _modified(self, query: Query, node: exp.Expression, index: int, known: frozenset[str]) -> Query:
        """The query with LIMIT, ORDER BY and the locks that stand at `node`."""
        order = node.args.get("order")
        limit = node.args.get("limit")
        rest = [order, limit, *(node.args.get(name) for name in ("offset", "group", "windows", "distinct", "qualify"))]
        self.expressions(flat(rest), index, known)
        locks = node.args.get("locks") or ()
        return query._replace(
            limit=self._limit(limit) or query.limit,
            ordered=query.ordered or order is not None,
            lock=lock_of(locks[0]) if locks else query.lock,
        )

    def _limit(self, node: Any) -> Term | None:
        if not isinstance(node, exp.Expression):
            return None
        amount = node.args.get("expression") or node.args.get("count")
        term = self.nodes.term(amount)
        return None if term.kind is TermKind.NULL or (term.kind, term.text) == (TermKind.COLUMN, "all") else term

    def select(self, node: exp.Expression, index: int, known: frozenset[str]) -> Query:
        draft = _Draft([], [], [], [])
        source = from_of(node)
        joins = [*(node.args.get("joins") or ()), *(node.args.get("laterals") or ())]
        self.sources([*([source.this] if source else []), *joins], index, known, draft)
        self._values(node.expressions, index, known, draft)
        self._where(node, index, known, draft)
        target = draft.tables[0] if draft.tables else None
        return self._modified(self._made(Kind.SELECT, index, target, draft), node, index, known)

    def values(self, node: exp.Expression, index: int, known: frozenset[str]) -> Query:
        self.expressions(node.expressions, index, known)
        return self._modified(self._made(Kind.VALUES, index, None, _Draft([], [], [], [])), node, index, known)

    def insert(self, node: exp.Expression, index: int, known: frozenset[str]) -> Query:
        draft = _Draft([], [], [], [])
        schema = node.this
        columns = inserted_columns(schema)
        target = self._target(schema.this if isinstance(schema, exp.Schema) else schema)
        source = node.args.get("expression")
        if isinstance(source, exp.Values):
            rows = source.expressions
            self._values(rows, index, known, draft)
            self._pair(columns, row_of(rows[0]) if rows else [], draft)
        elif isinstance(source, exp.Expression):
            self.query(source, "other", index, known)
            self._pair(columns, projections(source), draft)
        conflict = node.args.get("conflict")
        if isinstance(conflict, exp.Expression):
            self._assign(conflict.expressions, index, known, draft)
            self._condition(conflict.args.get("where"), index, known, draft)
        return self._made(Kind.INSERT, index, target, draft, self._returning(node, index, known))

    def update(self, node: exp.Expression, index: int, known: frozenset[str]) -> Query:
        draft = _Draft([], [], [], [])
        target = self._target(node.this)
        source = from_of(node)
        self.sources([*(node.this.args.get("joins") or ()), *([source.this] if source else [])], index, known, draft)
        self._assign(node.expressions, index, known, draft)
        self._where(node, index, known, draft)
        query = self._made(Kind.UPDATE, index, target, draft, self._returning(node, index, known))
        return self._modified(query, node, index, known)

    def delete(self, node: exp.Expression, index: int, known: frozenset[str]) -> Query:
        draft = _Draft([], [], [], [])
        target = self._target(node.this)
        self.sources(flat([node.args.get("using")]), index, known, draft)
        self._where(node, index, known, draft)
        return self._made(Kind.DELETE, index, target, draft, self._returning(node, index, known))

    def merge(self, node: exp.Expression, index: int, known: frozenset[str]) -> Query:
        draft = _Draft([], [], [], [])
        target = self._target(node.this)
        self.sources(flat([node.args.get("using")]), index, known, draft)
        self._condition(node.args.get("on"), index, known, draft)
        whens = node.args.get("whens")
        for when in whens.expressions if whens is not None else ():
            condition = when.args.get("condition")
            if condition is not None:
                draft.cases.extend(self.nodes.conditions(condition))
                self.expressions((condition,), index, known)
            action = when.args.get("then")
            if isinstance(action, exp.Update):
                self._assign(action.expressions, index, known, draft)
            elif isinstance(action, exp.Insert):
                values = row_of(action.args.get("expression"))
                self._values(values, index, known, draft)
                self._pair(row_of(action.this), values, draft)
        return self._made(Kind.MERGE, index, target, draft, self._returning(node, index, known))

    def _made(
        self, verb: Kind, index: int, target: Table | None, draft: _Draft, returning: tuple[str, ...] = ()
    ) -> Query:
        return self.queries[index]._replace(
            verb=verb,
            target=target,
            tables=tuple(draft.tables),
            assignments=tuple(draft.assignments),
            conditions=tuple(draft.conditions),
            cases=tuple(draft.cases),
            returning=returning,
        )

    # Parts of queries

    def _target(self, node: Any) -> Table | None:
        if not isinstance(node, exp.Table):
            return None
        table = self.nodes.table(node)
        self.writes.append(table)
        return table

    def sources(self, nodes: Iterable[Any], index: int, known: frozenset[str], draft: _Draft) -> None:
        """What stands in FROM, JOIN and USING: tables, functions, subqueries."""
        pending: list[Any] = list(reversed([node for node in nodes if isinstance(node, exp.Expression)]))
        while pending:
            node = pending.pop()
            pending.extend(reversed([*(node.args.get("joins") or ()), *(node.args.get("laterals") or ())]))
            if isinstance(node, exp.Join):
                self._condition(node.args.get("on"), index, known, draft)
                pending.append(node.this)
            elif isinstance(node, exp.Subquery) and isinstance(node.this, (exp.Table, exp.Subquery)):
                pending.append(node.this)  # brackets around a join
            elif isinstance(node, exp.Lateral) and isinstance(node.this, QUERIES):
                pending.append(node.this)
            elif isinstance(node, QUERIES):
                self.query(node, "from", index, known)
            elif isinstance(node, exp.Table):
                pending.extend(reversed(node.args.get("rows_from") or ()))
                self._source(node, index, known, draft)
            else:
                self.expressions(children(node), index, known)

    def _source(self, node: exp.Table, index: int, known: frozenset[str], draft: _Draft) -> None:
        if not isinstance(node.this, exp.Identifier):
            schema = node.args.get("db")
            self.expressions((node.this,), index, known, schema=text_of(schema))
            return
        table = self.nodes.table(node)
        if not table.schema and table.name in known:
            return
        draft.tables.append(table)
        self.reads.append(table)

    def _where(self, node: exp.Expression, index: int, known: frozenset[str], draft: _Draft) -> None:
        for name in ("where", "having"):
            self._condition(node.args.get(name), index, known, draft)

    def _condition(self, node: Any, index: int, known: frozenset[str], draft: _Draft) -> None:
        if not isinstance(node, exp.Expression):
            return
        root = node.this if isinstance(node, (exp.Where, exp.Having)) else node
        draft.conditions.extend(self.nodes.conditions(root))
        for case in walk(root):
            if isinstance(case, exp.Case):
                draft.cases.extend(self.nodes.cases(case))
        self.expressions((root,), index, known)

    def _values(self, nodes: Sequence[Any], index: int, known: frozenset[str], draft: _Draft) -> None:
        for node in nodes:
            draft.cases.extend(self.nodes.cases(node))
        self.expressions(nodes, index, known)

    def _assign(self, nodes: Sequence[Any], index: int, known: frozenset[str], draft: _Draft) -> None:
        for node in nodes:
            if not isinstance(node, exp.EQ):
                term = self.nodes.term(node)
                if term.kind is TermKind.HOLE:
                    draft.assignments.append(Assignment("", term, term.span))
                continue
            left, right, span = node.this, node.args.get("expression"), span_of(node)
            columns = row_of(left)
            values: list[Any] = row_of(right) if columns else [right]
            if columns and len(values) != len(columns):
                values = [right] * len(columns)
            for column, value in zip(columns or [left], values, strict=False):
                draft.assignments.append(Assignment(assigned_column(column), self.nodes.term(value), span))
            self._values((right,), index, known, draft)

    def _pair(self, columns: Sequence[Any], values: Sequence[Any], draft: _Draft) -> None:
        """The columns of an INSERT with what is put into them."""
        for column, value in zip(columns, values, strict=False):
            if is_star(value):
                return
            draft.assignments.append(Assignment(text_of(column), self.nodes.term(value), span_of(column)))

    def _returning(self, node: exp.Expression, index: int, known: frozenset[str]) -> tuple[str, ...]:
        returning = node.args.get("returning")
        if not isinstance(returning, exp.Expression):
            return ()
        self.expressions(returning.expressions, index, known)
        return tuple(self._returned(one) for one in returning.expressions)

    def _returned(self, node: exp.Expression) -> str:
        """The column that is given back, under whatever name; of an expression its alias."""
        inner = node.this if isinstance(node, exp.Alias) else node
        if is_star(inner):
            return "*"
        term = bare(self.nodes.term(inner))
        if term.kind is TermKind.COLUMN:
            return term.text
        return text_of(node.args.get("alias")) if isinstance(node, exp.Alias) else ""

    # Expressions

    def expressions(self, roots: Iterable[Any], index: int, known: frozenset[str], *, schema: str = "") -> None:
        """Calls, settings and subqueries in expressions."""
        for root in roots:
            for node in walk(root):
                if isinstance(node, QUERIES):
                    self.query(node, role_of(node), index, known)
                elif isinstance(node, exp.Anonymous):
                    self._call(node, schema or schema_of(node))

    def _call(self, node: exp.Anonymous, schema: str) -> None:
        name, span = function_name(node), span_with_schema(node)
        arguments = tuple(self.nodes.term(argument) for argument in node.expressions)
        plain = schema in ("", "pg_catalog")
        if plain and name == "set_config" and sets_one(arguments):
            self.settings.append(setting_change(arguments, span))
        elif plain and name == "current_setting":
            self.setting_reads.append(setting_read(arguments, span))
        elif not plain or name not in EVERYDAY:
            self.calls.append(Call(name, schema, arguments, span))


_VERBS: dict[type[Any], Any] = {
    exp.Select: _Reader.select,
    exp.Values: _Reader.values,
    exp.Insert: _Reader.insert,
    exp.Update: _Reader.update,
    exp.Delete: _Reader.delete,
    exp.Merge: _Reader.merge,
}
